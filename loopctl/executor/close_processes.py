"""End the processes of many sessions together: one shared wait, identity checked at each signal.

The harness's stop signal (SIGTERM, where config names no other) goes to it first, so that it can end its own children
well; when it has ended, or half of the grace is over, SIGTERM to what is left of its tree; SIGKILL to what is left after the grace. Each turn looks at the table again, so that
children born meanwhile are found. The keepers of a contained agent are left until the last: they end by themselves when
nothing is left below them, which is the kernel's word for it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from loopctl.errors import StateError
from loopctl.model.facts import Unknown
from loopctl.model.processes import ProcessId, ProcessInfo, ProcessTable
from loopctl.model.trees import Tree, TreeRoot, tree_of
from loopctl.observe import others_of
from loopctl.ports import World

#: How long a process may take to vanish after SIGKILL before it is named as a survivor.
KILL_WAIT = 5.0
#: How long keepers that are left alone may take to end. Where something that is spared runs below them they never do.
KEEPER_WAIT = 1.0
# Longest sleep between looks at the interrupt flag, and the shortest between looks at the table.
_SLICE = 0.25
_TURN = 0.01

_ASKED = "asked"
_SWEPT = "swept"
_KILLED = "killed"


@dataclass(slots=True)
class Ending:
    """The processes of one session on their way out. `grace` is in seconds, `stop` the signal that the harness is asked with.

    `spared` are those that were spared at any look and are alive still; `partial` says that the machine hides processes;
    `alone` is since when nothing but keepers has been left, `released` that those were killed then.
    """

    root: TreeRoot
    grace: float
    stop: int = signal.SIGTERM
    tree: Tree = field(default_factory=Tree)
    stage: str = ""
    signalled: set[tuple[ProcessId, int]] = field(default_factory=set)
    known: set[ProcessId] = field(default_factory=set)
    harness: set[ProcessId] = field(default_factory=set)
    killed: bool = False
    problems: dict[ProcessId, str] = field(default_factory=dict)
    done: bool = False
    spared: tuple[ProcessInfo, ...] = ()
    partial: bool = False
    keepers: set[ProcessId] = field(default_factory=set)
    alone: float | None = None
    released: bool = False

    @property
    def has_pane_process(self) -> bool:
        """Whether the process that the pane showed is still among the members."""
        return self.root.pane is not None and self.root.pane in self.awaited

    @property
    def survivors(self) -> tuple[ProcessInfo, ...]:
        """Who is left, once done or given up."""
        return self.tree.members or self.tree.keepers

    @property
    def awaited(self) -> set[ProcessId]:
        """Whose end is waited for."""
        return self.known | self.keepers

    def rescan(self, table: ProcessTable, spare: Sequence[str]) -> None:
        """Look for members again, starting from all that were ever found."""
        self.tree = tree_of(table, replace(self.root, known=frozenset(self.awaited)), spare)
        self.known |= {process.id for process in self.tree.members}
        self.keepers = {process.id for process in self.tree.keepers}
        # What was tied to the session by a parent only is not found again when that has ended.
        seen = {process.id: process for process in (*self.spared, *self.tree.spared)}
        self.spared = tuple(seen[id_] for id_ in sorted(seen) if table.alive(id_) and id_ not in self.known)
        self.partial |= table.partial


def snapshot(endings: Sequence[Ending], world: World) -> str:
    """Take the trees of all sessions in one look. Returns why it could not be done, or ""."""
    try:
        others = others_of(world.registry.all())
    except StateError as error:
        return error.message
    table = world.processes.look()
    if isinstance(table, Unknown):
        return table.reason
    for ending in endings:
        ending.root = replace(ending.root, others=others.ids, panes=others.panes)
        ending.rescan(table.value, world.policy.spare)
        ending.harness = {process.id for process in ending.tree.harness}
    return ""


def end_processes(endings: Sequence[Ending], world: World) -> None:
    """Carry all endings, of which a snapshot was just taken, to their end, or to the moment when a signal asks to stop
    (then `done` stays False)."""
    start = world.clock()
    for ending in endings:
        _step(ending, 0.0, world)
    open_ones = [ending for ending in endings if not ending.done]
    while open_ones and not world.interrupted():
        now = world.clock() - start
        due = [ending for ending in open_ones if _is_due(ending, now)]
        if due and not _advance(due, now, world):
            return
        open_ones = [ending for ending in open_ones if not ending.done]
        if open_ones:
            _wait(open_ones, world.clock() - start, world)


def _is_due(ending: Ending, now: float) -> bool:
    if not ending.known or (ending.stage == _ASKED and not ending.harness & ending.known):
        return True
    return now >= _next_time(ending)


def _next_time(ending: Ending) -> float:
    if ending.alone is not None:
        return ending.alone + KEEPER_WAIT + (KILL_WAIT if ending.released else 0.0)
    if ending.stage == _ASKED:
        return ending.grace / 2
    return ending.grace if ending.stage == _SWEPT else ending.grace + KILL_WAIT


def _advance(endings: Iterable[Ending], now: float, world: World) -> bool:
    table = world.processes.look()
    if isinstance(table, Unknown):
        return False
    for ending in endings:
        ending.known = {process for process in ending.known if table.value.alive(process)}
        ending.rescan(table.value, world.policy.spare)
        _step(ending, now, world)
    return True


def _step(ending: Ending, now: float, world: World) -> None:
    if ending.tree.includes_self:
        ending.problems[ProcessId(0, "")] = "loopctl itself runs in this session"
        ending.done = True
    elif not ending.survivors:
        ending.done = True
    elif not ending.tree.members:
        _release(ending, now, world)
    else:
        ending.alone, ending.released = None, False
        if ending.stage == _KILLED and now >= _next_time(ending):
            ending.done = True
        else:
            _signal(ending, now, world)


def _release(ending: Ending, now: float, world: World) -> None:
    """Only keepers are left. They are ended when what is spared keeps them: it goes to init then, as anybody's."""
    if ending.alone is None:
        ending.alone = now
    elif now < _next_time(ending):
        return
    elif ending.released:
        ending.done = True
    else:
        ending.released = True
        _send(ending, ending.keepers, signal.SIGKILL, world)


def _signal(ending: Ending, now: float, world: World) -> None:
    members = {process.id for process in ending.tree.members}
    if now >= ending.grace or ending.stage == _KILLED:
        ending.stage, ending.killed = _KILLED, True
        _send(ending, members, signal.SIGKILL, world)
        return
    first = ending.stage == "" and bool(ending.harness & members)
    if first or (ending.stage == _ASKED and ending.harness & members and now < ending.grace / 2):
        ending.stage = _ASKED
        _send(ending, ending.harness & members, ending.stop, world)
    else:
        ending.stage = _SWEPT
        _send(ending, members, signal.SIGTERM, world)


def _send(ending: Ending, targets: set[ProcessId], signum: int, world: World) -> None:
    new = [target for target in sorted(targets) if (target, signum) not in ending.signalled]
    ending.signalled |= {(target, signum) for target in new}
    ending.problems.update(world.processes.signal(new, signum))


def _wait(endings: Sequence[Ending], now: float, world: World) -> None:
    targets = {process for ending in endings for process in ending.awaited}
    seconds = min(_SLICE, max(0.0, min(_next_time(ending) for ending in endings) - now))
    # Ends come in bursts: a short pause lets one look at the table serve many of them.
    alive = world.processes.wait(targets, seconds)
    if len(alive) < len(targets):
        world.pause(_TURN)
    for ending in endings:
        ending.known &= alive
        ending.keepers &= alive
