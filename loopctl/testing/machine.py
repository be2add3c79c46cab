"""A simulated machine: its clock and its processes, with what they do when they are signalled."""

from __future__ import annotations

import heapq
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count

from loopctl.model.processes import ProcessId, ProcessInfo

ENDS = "ends"
IGNORES = "ignores"
FORKS = "forks"

#: loopctl itself and the shell that it was started from.
SHELL_PID = 900
OWN_PID = 1000
USER = 1000
_TICK = 1e-6
#: The wall clock when a simulated world begins.
BEGINNING = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Habit:
    """What a process does with signals.

    `on_term`: ends, ignores, or forks (a child in a session of its own, which ignores SIGTERM, then it ends). `after` is
    how many seconds it takes to end on SIGTERM. `unkillable` outlives SIGKILL (an uninterruptible wait), `refuses` is the
    error that each signal gets (another user's process), `zombie` says that nobody collects it once it has ended.
    """

    on_term: str = ENDS
    after: float = 0.0
    unkillable: bool = False
    refuses: str = ""
    zombie: bool = False


POLITE = Habit()
STUBBORN = Habit(on_term=IGNORES)


@dataclass(slots=True)
class SimProcess:
    """One process. `owner` is the truth that a test may compare with: the record it belongs to, "" for foreign ones."""

    row: ProcessInfo
    habit: Habit = POLITE
    owner: str = ""

    @property
    def id(self) -> ProcessId:
        """Its identity."""
        return self.row.id


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that was changed through a port: `what` (signal, secure, remove, mark, start, save, record), on whom, and
    whose that was in truth (a record's id, "" = foreign)."""

    what: str
    target: str
    owner: str = ""
    detail: str = ""


@dataclass(slots=True)
class Machine:
    """Processes and a clock that only moves when somebody waits. `effects` are all changes made by loopctl, in order."""

    time: float = 0.0
    processes: dict[int, SimProcess] = field(default_factory=dict)
    own: int = OWN_PID
    effects: list[Effect] = field(default_factory=list)
    on_end: list[Callable[[int], None]] = field(default_factory=list)
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _serial: count[int] = field(default_factory=lambda: count(1))
    _pids: count[int] = field(default_factory=lambda: count(2001))

    def __post_init__(self) -> None:
        """Begin with init, a shell and loopctl."""
        for pid, parent, name in ((1, 0, "init"), (SHELL_PID, 1, "bash"), (OWN_PID, SHELL_PID, "loopctl")):
            self.spawn(name, parent=parent, pid=pid, session=pid)

    def spawn(
        self,
        name: str,
        *,
        parent: int = 1,
        argv: Iterable[str] = (),
        session: int = 0,
        group: int = 0,
        mark: str = "",
        pane: tuple[str, str] = ("", ""),
        habit: Habit = POLITE,
        owner: str = "",
        pid: int = 0,
        started_at: float | None = None,
    ) -> SimProcess:
        """Make a process. `session` and `group` 0 mean its own (setsid, setpgid); `pid` may be one that is free again."""
        pid = pid or next(self._pids)
        if pid in self.processes and not self.processes[pid].row.ended:
            msg = f"process {pid} is alive"
            raise ValueError(msg)
        group = group or pid
        row = ProcessInfo(
            id=ProcessId(pid, f"sim:{next(self._serial)}"),
            ppid=parent,
            pgid=group,
            sid=session or pid,
            foreground=session or pid,
            uid=USER,
            name=name,
            argv=tuple(argv) or (name,),
            mark=mark,
            pane=pane,
            started_at=started_at,
        )
        self.processes[pid] = SimProcess(row, habit, owner)
        return self.processes[pid]

    def alive(self, process: ProcessId) -> bool:
        """Whether exactly this process runs (a zombie does not)."""
        found = self.processes.get(process.pid)
        return found is not None and found.id == process and not found.row.ended

    def end(self, pid: int) -> None:
        """The process ends; its children go to the keeper above it or to init, its pane learns of it. A keeper's front ends
        with its agent, and a keeper when it has no child left."""
        process = self.processes.get(pid)
        if process is None or process.row.ended:
            return
        if process.habit.zombie:
            process.row = replace(process.row, ended=True)
        else:
            del self.processes[pid]
        for child in self._children(pid):
            child.row = replace(child.row, ppid=self._reaper(process.row.ppid))
        for told in self.on_end:
            told(pid)
        keeper = self.processes.get(process.row.ppid)
        if keeper and keeper.row.kept == pid:
            self.end(keeper.row.ppid)
        if keeper and keeper.row.kept and not self._children(keeper.id.pid):
            self.end(keeper.id.pid)

    def _children(self, pid: int) -> list[SimProcess]:
        return [child for child in self.processes.values() if child.row.ppid == pid and not child.row.ended]

    def _reaper(self, pid: int) -> int:
        while (above := self.processes.get(pid)) and not above.row.kept:
            pid = above.row.ppid
        return pid if above else 1

    def reuse(self, pid: int, name: str = "stranger") -> SimProcess:
        """The process ends and a foreign one gets its number."""
        self.end(pid)
        return self.spawn(name, pid=pid)

    def signal(self, target: ProcessId, signum: int) -> str:
        """Deliver a signal as the kernel would. Returns an error text, or ""; a process that is gone is no error."""
        if not self.alive(target):
            return ""
        process = self.processes[target.pid]
        self.effects.append(Effect("signal", str(target.pid), process.owner, signal.Signals(signum).name))
        habit = process.habit
        if habit.refuses:
            return habit.refuses
        if signum == signal.SIGKILL:
            if not habit.unkillable:
                self.end(target.pid)
        elif habit.on_term != IGNORES:
            if habit.on_term == FORKS:
                self._fork_away(process)
            self.later(habit.after, lambda: self.end(target.pid) if self.alive(target) else None)
        return ""

    def _fork_away(self, process: SimProcess) -> None:
        row = process.row
        self.spawn(f"{row.name}-child", mark=row.mark, pane=row.pane, habit=STUBBORN, owner=process.owner)
        process.habit = replace(process.habit, on_term=ENDS)

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Let something happen after these seconds; at once for 0."""
        if seconds <= 0:
            what()
        else:
            heapq.heappush(self._events, (self.time + seconds, next(self._serial), what))

    def advance(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, event by event, and stop early where `until` holds."""
        # A wait too short for the clock's precision must not stand still for ever.
        deadline = self.time + (max(seconds, _TICK) if seconds > 0 else 0.0)
        while not until() and self._events and self._events[0][0] <= deadline:
            self.time, _, what = heapq.heappop(self._events)
            what()
        if not until():
            self.time = deadline
