"""Processes, and all that were seen in one look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: How the two processes above a contained agent are named; the keeper has its agent's number behind it.
_KEEPER = "keeper:"

#: What runs a line that it is given.
SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "nu", "pwsh", "su", "login")

#: Every process that is started for a session carries its id in a variable of this name.
MARK = "LOOPCTL_SESSION"


@dataclass(frozen=True, slots=True, order=True)
class ProcessId:
    """A process that cannot be mistaken for a later one with the same number.

    `start` is opaque and names the start of the process (and the boot); equal only for the same process.
    """

    pid: int
    start: str

    def __str__(self) -> str:
        return str(self.pid)

    def began_after(self, other: ProcessId) -> bool | None:
        """Whether a process that lives began after another one; None where their starts do not tell. No clock has a part in it."""
        (boot, _, mine), (then, _, theirs) = self.start.rpartition(":"), other.start.rpartition(":")
        try:
            numbers = float(mine), float(theirs)
        except ValueError:
            return None
        if bool(boot) != bool(then):
            return None
        return boot != then or numbers[0] > numbers[1]


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One row of the process table. `mark` is its LOOPCTL_SESSION, `pane` its (TMUX, TMUX_PANE) environment,
    `started_at` its start in seconds since the epoch, as far as the clock was right then (None: not known), `service` the
    service of systemd that it runs in ("": none, or nobody asked)."""

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
    started_at: float | None = None
    service: str = ""

    @property
    def label(self) -> str:
        """`name (pid)`: the program only, since arguments may hold secrets."""
        return f"{self.name} ({self.id.pid})"

    @property
    def is_keeper(self) -> bool:
        """Whether it stands between tmux and a contained agent. Any process can take such a name: it gains some time."""
        return self.name.startswith(_KEEPER)

    @property
    def kept(self) -> int:
        """The pid of the agent whose keeper it is: what loses its parent below it becomes its child. 0 for all others."""
        number = self.name.removeprefix(_KEEPER)
        return int(number) if self.is_keeper and number.isdecimal() else 0


def pane_key(tmux: str, pane: str) -> tuple[str, str]:
    """Reduce TMUX (`socket,server pid[,session]`) and TMUX_PANE to what names one pane however the socket was spelt."""
    path, server, *_ = (*tmux.split(","), "", "")
    return f"{path.rpartition('/')[2]},{server}", pane


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """All processes seen in one look, and those of them that must never be signalled (self and ancestors).

    `partial` says that the machine hides some processes from this user.
    """

    processes: Mapping[int, ProcessInfo]
    own: frozenset[int] = frozenset()
    children: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    marked: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    in_pane: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    in_session: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    partial: bool = False

    @classmethod
    def of(cls, rows: Iterable[ProcessInfo], own: Iterable[int] = (), *, partial: bool = False) -> ProcessTable:
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
            partial,
        )

    def get(self, pid: int) -> ProcessInfo | None:
        """The live process with this number, if there is one."""
        return self.processes.get(pid)

    def alive(self, process: ProcessId) -> bool:
        """Whether exactly this process was alive at the look."""
        row = self.processes.get(process.pid)
        return row is not None and row.id == process


def is_shell(name: str) -> bool:
    """Whether a program of this name runs what it is given; a login shell's name begins with a minus."""
    return name.removeprefix("-") in SHELLS
