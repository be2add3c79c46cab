"""Which processes belong to one session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from loopctl.model.processes import ProcessId, ProcessInfo, ProcessTable, pane_key

#: Spared whatever the config says: what ends with these is the work of others.
ALWAYS_SPARED = (
    "tmux",
    "tmux:*",
    "screen",
    "SCREEN",
    "zellij",
    "sshd",
    "sshd:*",
    "sshd-*",
    "systemd",
    "(sd-pam)",
    "dbus-daemon",
    "dbus-broker*",
)

# A script shows as one of these; its own name is then the second word.
_INTERPRETERS = ("python*", "node", "nodejs", "bun", "deno", "ruby", "perl", "sh", "bash", "dash", "zsh", "ksh", "java")


@dataclass(frozen=True, slots=True)
class Others:
    """What belongs to the sessions in the registry: their ids, and the pane_keys of their panes."""

    ids: frozenset[str] = frozenset()
    panes: frozenset[tuple[str, str]] = frozenset()


NOBODYS = Others()


@dataclass(frozen=True, slots=True)
class TreeRoot:
    """What ties processes to one session.

    `pane` is the live process that tmux shows in the pane (None when it is dead or gone), `mark` the session's id,
    `tmux` the pane_key of that pane, `server` the pid of the tmux server that answers, and `known` those already found before.
    `here` says that this server is the one that the pane was on: on the next one, the same words name somebody else's pane.
    `leader` is the process that the pane had, whose process session outlives it; `others` are the ids of the sessions in the
    registry, and `panes` the pane_keys of these.
    """

    mark: str
    pane: ProcessId | None = None
    tmux: tuple[str, str] = ("", "")
    server: int = 0
    known: frozenset[ProcessId] = frozenset()
    leader: ProcessId | None = None
    others: frozenset[str] = frozenset()
    panes: frozenset[tuple[str, str]] = frozenset()
    here: bool = True

    def is_inside(self, process: ProcessInfo) -> bool:
        """Whether its TMUX and TMUX_PANE are this pane's."""
        return self.here and bool(process.pane[1]) and pane_key(*process.pane) == self.tmux

    def is_other(self, process: ProcessInfo) -> bool:
        """Whether its environment says that it is another session's: by the mark, or by the pane. A mark that is nobody's id
        says nothing."""
        key = pane_key(*process.pane)
        in_theirs = bool(process.pane[1]) and key != self.tmux and key in self.panes
        return in_theirs or (process.mark != self.mark and process.mark in self.others)

    def is_elsewhere(self, process: ProcessInfo) -> bool:
        """Whether it runs below another tmux server, which has the mark only because it was once started from here."""
        server = pane_key(*process.pane)[0]
        if not process.pane[0]:
            return False
        if self.tmux[0]:
            return server != self.tmux[0]
        return bool(self.server) and not server.endswith(f",{self.server}")


@dataclass(frozen=True, slots=True)
class Tree:
    """The live processes of one session: the harness (the pane's process and its foreground group), the
    rest, and what is spared because others share it. `includes_self` says that loopctl itself runs in it; `keepers` are
    those that a contained agent runs under, which end by themselves when nothing is left below them."""

    harness: tuple[ProcessInfo, ...] = ()
    rest: tuple[ProcessInfo, ...] = ()
    spared: tuple[ProcessInfo, ...] = ()
    includes_self: bool = False
    keepers: tuple[ProcessInfo, ...] = ()

    @property
    def members(self) -> tuple[ProcessInfo, ...]:
        """All that a close would end, but for the keepers."""
        return self.harness + self.rest


def tree_of(table: ProcessTable, root: TreeRoot, spare: Sequence[str]) -> Tree:
    """Find the live processes of one session in a table.

    Members are the pane's process, its session and process group, every process that carries the session's mark
    or the pane's TMUX and TMUX_PANE, and all their descendants. Outside of the pane's session, what says to be another
    session's is not ours; where it says both, it is spared. Left out: pid 1 and below, the tmux server, and, with all below them, what `spare` names
    and what has nothing but the mark and runs below another tmux server.
    """
    pane = table.get(root.pane.pid) if root.pane and table.alive(root.pane) else None
    # It is the same before and after the pane's process has ended.
    sid = pane.sid if pane else _left_session(table, root)
    found, spared = _descend(table, _seeds(table, root, pane), root, sid, spare)
    row = table.processes.__getitem__
    keepers = {pid for pid in found if row(pid).is_keeper}
    agents = {pid for pid in found if pane and pid in {pane.id.pid, *(row(keeper).kept for keeper in keepers)}}
    groups = ({row(pid).pgid for pid in agents} | {pane.foreground}) - {0, -1} if pane else set()
    harness = {pid for pid in found if pane and row(pid).pgid in groups and row(pid).sid == pane.sid}
    harness = (harness | agents) - keepers
    return Tree(
        tuple(row(pid) for pid in sorted(harness)),
        tuple(row(pid) for pid in sorted(found - harness - keepers)),
        tuple(row(pid) for pid in sorted(spared)),
        bool(found & table.own),
        tuple(row(pid) for pid in sorted(keepers)),
    )


def _seeds(table: ProcessTable, root: TreeRoot, pane: ProcessInfo | None) -> set[int]:
    seeds = {row.id.pid for row in _tied(table, root) if not _is_away(row, table, root)}
    seeds.update(process.pid for process in root.known if table.alive(process))
    if pane:
        seeds.add(pane.id.pid)
        if pane.sid == pane.id.pid:
            seeds.update(table.in_session.get(pane.sid, ()))
    return seeds


def _tied(table: ProcessTable, root: TreeRoot) -> list[ProcessInfo]:
    """What says by its environment that it belongs to the session."""
    pids = {*(table.marked.get(root.mark, ()) if root.mark else ())}
    if root.here:
        # What is older than the server is left over from another one that had its number.
        server = table.get(root.server)
        inside = (table.processes[pid] for pid in table.in_pane.get(root.tmux, ()))
        pids.update(row.id.pid for row in inside if not (server and server.id.began_after(row.id)))
    return [table.processes[pid] for pid in pids]


def _is_away(row: ProcessInfo, table: ProcessTable, root: TreeRoot) -> bool:
    """Whether it has its environment from the session and is not a part of it: below another tmux server, or a service of
    systemd, which got the environment of whoever imported it into its manager."""
    server = table.get(root.server)
    served = server is not None and row.service not in {"", server.service}
    return served or (row.mark == root.mark and root.is_elsewhere(row))


def _descend(
    table: ProcessTable, seeds: Iterable[int], root: TreeRoot, sid: int, spare: Sequence[str]
) -> tuple[set[int], set[int]]:
    reachable = _closure(table, seeds, root, sid)
    # Only what left the pane's session can be a server of others; what runs below one is its own business, even where
    # it carries our mark.
    shared = {pid for pid in reachable if table.processes[pid].sid != sid and is_spared(table.processes[pid], spare)}
    shared |= _adopted_from_others(table, reachable, root, sid, beside=bool(shared))
    elsewhere = {
        row.id.pid for row in _tied(table, root) if _is_away(row, table, root) or root.is_other(row)
    } - reachable
    left_out = _closure(table, shared | elsewhere, replace(root, others=frozenset(), panes=frozenset()), sid)
    # Of those that are left out below another one, the topmost stands for all.
    named = shared | {pid for pid in elsewhere if table.processes[pid].ppid not in left_out}
    return reachable - left_out, named & left_out


def _left_session(table: ProcessTable, root: TreeRoot) -> int:
    """The process session of a pane whose process has ended; 0 where another process has its number by now."""
    if root.leader is None:
        return 0
    row = table.get(root.leader.pid)
    return root.leader.pid if row is None or row.id == root.leader else 0


def _adopted_from_others(
    table: ProcessTable, reachable: Iterable[int], root: TreeRoot, sid: int, *, beside: bool
) -> set[int]:
    """What came to a keeper from a server of others below it: that has a terminal of its own there, or it may have come from
    there (`beside`) and nothing of its own ties it to this session."""
    keepers = [table.processes[pid] for pid in reachable if table.processes[pid].kept]
    adopted = [
        table.processes[pid]
        for keeper in keepers
        for pid in table.children.get(keeper.id.pid, ())
        if pid != keeper.kept
    ]
    return {row.id.pid for row in adopted if root.is_elsewhere(row) or (beside and not _is_tied(row, root, sid))}


def _is_tied(row: ProcessInfo, root: TreeRoot, sid: int) -> bool:
    return row.mark == root.mark or root.is_inside(row) or row.sid == sid or row.id in root.known


def _closure(table: ProcessTable, seeds: Iterable[int], root: TreeRoot, sid: int) -> set[int]:
    seen: set[int] = set()
    queue = list(seeds)
    while queue:
        pid = queue.pop()
        row = table.processes.get(pid)
        if row is None or pid <= 1 or pid in seen or pid == root.server:
            continue
        if row.sid != sid and root.is_other(row):
            continue
        seen.add(pid)
        queue.extend(table.children.get(pid, ()))
    return seen


def is_spared(process: ProcessInfo, patterns: Sequence[str]) -> bool:
    """Whether it is always spared, or a pattern names it: a program glob, then globs that each must match some argument."""
    names = {process.name, *(word.rpartition("/")[2] for word in process.argv[:1])} - {""}
    if any(fnmatchcase(name, interpreter) for name in names for interpreter in _INTERPRETERS):
        names |= {word.rpartition("/")[2] for word in process.argv[1:2]} - {""}
    # A process that gave itself a title has that one word.
    arguments = process.argv[1:] or process.argv
    for pattern in (*ALWAYS_SPARED, *patterns):
        program, *wanted = pattern.split()
        named = any(fnmatchcase(name, program) for name in names)
        if named and all(any(fnmatchcase(word, want) for word in arguments) for want in wanted):
            return True
    return False
