"""Processes, and which of them belong to one session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, order=True)
class ProcessId:
    """A process that cannot be mistaken for a later one with the same number.

    `start` is opaque and names the start of the process (and the boot); equal only for the same process.
    """

    pid: int
    start: str

    def __str__(self) -> str:
        return str(self.pid)


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One row of the process table. `mark` is its LOOPCTL_SESSION, `pane` its (TMUX, TMUX_PANE) environment."""

    id: ProcessId
    ppid: int
    pgid: int
    sid: int
    foreground: int
    uid: int
    name: str
    argv: tuple[str, ...] = ()
    mark: str = ""
    pane: tuple[str, str] = ("", "")
    ended: bool = False

    @property
    def label(self) -> str:
        """`name (pid)`: the program only, since arguments may hold secrets."""
        return f"{self.name} ({self.id.pid})"


def pane_key(tmux: str, pane: str) -> tuple[str, str]:
    """Reduce TMUX (`socket,server pid[,session]`) and TMUX_PANE to what names one pane however the socket was spelt."""
    path, server, *_ = (*tmux.split(","), "", "")
    return f"{path.rpartition('/')[2]},{server}", pane


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """All processes seen in one look, and those of them that must never be signalled (self and ancestors)."""

    processes: Mapping[int, ProcessInfo]
    own: frozenset[int] = frozenset()
    children: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    marked: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    in_pane: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    in_session: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[ProcessInfo], own: Iterable[int] = ()) -> ProcessTable:
        """Index the rows; zombies are left out, since they have ended."""
        alive = {row.id.pid: row for row in rows if not row.ended}
        children: dict[int, list[int]] = {}
        marked: dict[str, list[int]] = {}
        in_pane: dict[tuple[str, str], list[int]] = {}
        in_session: dict[int, list[int]] = {}
        for pid, row in alive.items():
            children.setdefault(row.ppid, []).append(pid)
            in_session.setdefault(row.sid, []).append(pid)
            if row.mark:
                marked.setdefault(row.mark, []).append(pid)
            if row.pane[1]:
                in_pane.setdefault(pane_key(*row.pane), []).append(pid)
        return cls(
            alive,
            frozenset(own),
            {k: tuple(v) for k, v in children.items()},
            {k: tuple(v) for k, v in marked.items()},
            {k: tuple(v) for k, v in in_pane.items()},
            {k: tuple(v) for k, v in in_session.items()},
        )

    def get(self, pid: int) -> ProcessInfo | None:
        """The live process with this number, if there is one."""
        return self.processes.get(pid)

    def alive(self, process: ProcessId) -> bool:
        """Whether exactly this process was alive at the look."""
        row = self.processes.get(process.pid)
        return row is not None and row.id == process


@dataclass(frozen=True, slots=True)
class TreeRoot:
    """What ties processes to one session.

    `pane` is the live process that tmux shows in the pane (None when it is dead or gone), `mark` the session's id,
    `tmux` the pane_key of that pane, `server` the tmux server's pid, and `known` those already found before.
    """

    mark: str
    pane: ProcessId | None = None
    tmux: tuple[str, str] = ("", "")
    server: int = 0
    known: frozenset[ProcessId] = frozenset()


@dataclass(frozen=True, slots=True)
class Tree:
    """The live processes of one session: the harness (the pane's process and its foreground group), the
    rest, and what is spared because others share it. `includes_self` says that loopctl itself runs in it."""

    harness: tuple[ProcessInfo, ...] = ()
    rest: tuple[ProcessInfo, ...] = ()
    spared: tuple[ProcessInfo, ...] = ()
    includes_self: bool = False

    @property
    def members(self) -> tuple[ProcessInfo, ...]:
        """All that a close would end."""
        return self.harness + self.rest


def tree_of(table: ProcessTable, root: TreeRoot, spare: Sequence[str]) -> Tree:
    """Find the live processes of one session in a table.

    Members are the pane's process, its session and process group, every process that carries the session's mark
    or the pane's TMUX and TMUX_PANE, and all their descendants. Descendants that carry another session's
    mark are that session's. Left out: pid 1 and below, the tmux server, and what `spare` names (with all below it).
    """
    pane = table.get(root.pane.pid) if root.pane and table.alive(root.pane) else None
    found, spared = _descend(table, _seeds(table, root, pane), root, pane, spare)
    groups = {pane.pgid, pane.foreground} - {0, -1} if pane else set()
    row = table.processes.__getitem__
    harness = {pid for pid in found if pane and row(pid).pgid in groups and row(pid).sid == pane.sid}
    if pane and pane.id.pid in found:
        harness.add(pane.id.pid)
    return Tree(
        tuple(row(pid) for pid in sorted(harness)),
        tuple(row(pid) for pid in sorted(found - harness)),
        tuple(row(pid) for pid in sorted(spared)),
        bool(found & table.own),
    )


def _seeds(table: ProcessTable, root: TreeRoot, pane: ProcessInfo | None) -> set[int]:
    seeds = set(table.marked.get(root.mark, ())) if root.mark else set()
    seeds.update(process.pid for process in root.known if table.alive(process))
    seeds.update(pid for pid in table.in_pane.get(root.tmux, ()) if table.processes[pid].mark in {"", root.mark})
    if pane:
        seeds.add(pane.id.pid)
        if pane.sid == pane.id.pid:
            seeds.update(table.in_session.get(pane.sid, ()))
    return seeds


def _descend(
    table: ProcessTable, seeds: Iterable[int], root: TreeRoot, pane: ProcessInfo | None, spare: Sequence[str]
) -> tuple[set[int], set[int]]:
    reachable = _closure(table, seeds, root.server, root.mark)
    # Only what left the pane's session can be a server of others; what runs below one is its own business, even where
    # it carries our mark.
    spared = {
        pid
        for pid in reachable
        if (pane is None or table.processes[pid].sid != pane.sid) and is_spared(table.processes[pid], spare)
    }
    return reachable - _closure(table, spared, root.server, ""), spared


def _closure(table: ProcessTable, seeds: Iterable[int], server: int, mark: str) -> set[int]:
    seen: set[int] = set()
    queue = list(seeds)
    while queue:
        pid = queue.pop()
        row = table.processes.get(pid)
        foreign = row is not None and mark and row.mark and row.mark != mark
        if row is None or pid <= 1 or pid in seen or pid == server or foreign:
            continue
        seen.add(pid)
        queue.extend(table.children.get(pid, ()))
    return seen


def is_spared(process: ProcessInfo, patterns: Sequence[str]) -> bool:
    """Whether a pattern names this process: a program glob, then globs that each must match some argument."""
    for pattern in patterns:
        program, *wanted = pattern.split()
        words = (process.name, process.argv[0].rpartition("/")[2] if process.argv else process.name)
        # A script shows as its interpreter; its own name is then the second word.
        script = process.argv[1].rpartition("/")[2] if len(process.argv) > 1 else ""
        named = any(fnmatchcase(word, program) for word in (*words, script) if word)
        if named and all(any(fnmatchcase(arg, want) for arg in process.argv[1:]) for want in wanted):
            return True
    return False
