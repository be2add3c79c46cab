"""Random worlds and random playbooks. A description is a value, so that the same world can be built again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from loopctl.model.items import CLOSED, FORBIDDEN, ISSUE, MERGED, MISSING, MOVED, OPEN, PULL_REQUEST
from loopctl.model.processes import ProcessId
from loopctl.model.rules import (
    DISCARDED,
    KEPT,
    PAUSE,
    REMOVE,
    RETAIN,
    RUN,
    Ensure,
    ItemMatch,
    Limits,
    Match,
    Play,
    Playbook,
    Policy,
    Position,
    Rule,
    SessionMatch,
)
from loopctl.model.sessions import (
    EXITED,
    GONE,
    IMPORTED,
    LOST,
    PAUSED,
    REGISTERED,
    RETAINED,
    RUNNING,
    STARTED,
    UNDEAD,
    ServerId,
)
from loopctl.testing import FORKS, IGNORES, KINDS_OF_CHILDREN, FakeWorld, Habit, SimRecord
from loopctl.testing.world import SOCKET

OTHER_SOCKET = "/run/user/somebody/default"
PHASES = (RUNNING, PAUSED, EXITED, LOST, UNDEAD, RETAINED, GONE)

HABITS = (
    Habit(),
    Habit(),
    Habit(after=1.0),
    Habit(after=4.0, zombie=True),
    Habit(on_term=IGNORES),
    Habit(on_term=FORKS),
    Habit(zombie=True),
    Habit(unkillable=True, on_term=IGNORES),
    Habit(refuses="operation not permitted"),
)

#: What somebody may have done to a record or a pane so that they do not fit any more.
DEFECTS = (
    "mark",  # the pane's session carries another mark
    "unmarked",  # or none
    "pid",  # the record's process is not the pane's
    "start",  # the same number, another start time
    "pane",  # the record's pane id is another session's
    "session",  # the record's session id is another's
    "server",  # the record was bound on another server
    "unbound",  # a crash while it was started: the record has no ids
    "renamed",  # harmless: the session has another name now
    "name",  # the record's name is somebody else's session
    "late",  # tmux misses the exit
    "reopens",  # somebody turns the input on again
    "clings",  # the pane is not removed
    "loose",  # remain-on-exit is off
)


@dataclass(frozen=True)
class Child:
    kind: str
    habit: Habit
    cleared: bool
    spared: bool


@dataclass(frozen=True)
class Session:
    phase: str
    habit: Habit
    children: tuple[Child, ...]
    defect: str
    origin: str
    socket: str
    runner: str
    machine: str
    beside: bool
    attached: bool
    grouped: bool


@dataclass(frozen=True)
class Item:
    number: int
    state: str
    kind: str
    labelled: bool
    silence: str
    node: str
    sessions: tuple[Session, ...]


@dataclass(frozen=True)
class Scene:
    items: tuple[Item, ...]
    foreign: int
    foreign_mark: bool
    hanging: bool
    unlinked: bool
    inside: int
    listing_down: bool
    keep: bool
    kill: bool


@dataclass
class Built:
    world: FakeWorld
    records: list[tuple[Item, Session, SimRecord]]


# Each item and rule grows out of one seed: weights are exactly those written here, drawing is fast, and a failing world
# still shrinks to its fewest items and rules. Weighted so that most worlds have something to do.


def _child(chance: Random) -> Child:
    return Child(
        kind=chance.choice(KINDS_OF_CHILDREN),
        habit=chance.choice(HABITS),
        cleared=chance.random() < 0.3,
        spared=chance.random() < 0.2,
    )


def _session(chance: Random) -> Session:
    return Session(
        phase=chance.choice((RUNNING, RUNNING, *PHASES)),
        habit=chance.choice(HABITS),
        children=tuple(_child(chance) for _ in range(chance.choice((0, 0, 1, 2, 3)))),
        defect=chance.choice(DEFECTS) if chance.random() < 0.35 else "",
        origin=chance.choice((STARTED, STARTED, REGISTERED, IMPORTED)),
        socket=chance.choice((SOCKET, SOCKET, OTHER_SOCKET)),
        runner="process" if chance.random() < 0.1 else "tmux",
        machine="laptop" if chance.random() < 0.1 else "",
        beside=chance.random() < 0.2,
        attached=chance.random() < 0.5,
        grouped=chance.random() < 0.15,
    )


def _item(seed: str) -> Item:
    chance = Random(seed)
    return Item(
        number=0,
        state=chance.choice((CLOSED,) * 10 + (MERGED,) * 5 + (OPEN,) * 4 + (MISSING, MOVED, FORBIDDEN)),
        kind=chance.choice((ISSUE, PULL_REQUEST)),
        labelled=chance.random() < 0.7,
        silence=chance.choice(("unknown", "omitted", "outside")) if chance.random() < 0.12 else "",
        node=chance.choice(("",) * 9 + ("same", "same", "other")),
        sessions=tuple(_session(chance) for _ in range(chance.choice((1, 1, 1, 2, 2, 0)))),
    )


def _seeds(largest: int) -> st.SearchStrategy[list[str]]:
    """Some seeds out of many; fewer of them are simpler."""
    numbers = st.lists(st.integers(0, 63), min_size=1, max_size=largest, unique=True)
    return st.tuples(st.integers(0, 2**64 - 1), numbers).map(lambda drawn: [f"{drawn[0]}/{n}" for n in drawn[1]])


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    seeds = draw(_seeds(6))
    items = [_item(seed) for seed in seeds]
    chance = Random(seeds[0])
    return Scene(
        items=tuple(replace(item, number=number) for number, item in enumerate(items, 1)),
        foreign=chance.randrange(3),
        foreign_mark=chance.random() < 0.5,
        hanging=chance.random() < 0.1,
        unlinked=chance.random() < 0.1,
        inside=chance.choice((-1,) * 9 + (0,)),
        listing_down=chance.random() < 0.15,
        keep=chance.random() < 0.5,
        kill=chance.random() < 0.75,
    )


def build(scene: Scene) -> Built:
    policy = Policy(
        keep_session_on_close=scene.keep,
        kill_harness_on_close=scene.kill,
        spawn_workdir="/srv/work",
        spare=("tmux:*", "ssh-agent"),
    )
    world = FakeWorld(policy=policy)
    for _ in range(scene.foreign):
        name = f"somebody-{len(world.machine.processes)}"
        world.foreign(name, mark="abc-foreign" if scene.foreign_mark else "")
        world.machine.spawn("mine-own-business")
    built = Built(world, [])
    for item in scene.items:
        ref = world.item(
            f"demo/app#{item.number}",
            item.state,
            kind=item.kind,
            labels=("loop",) if item.labelled else (),
            node_id=f"node-{item.number}" if item.node else "",
            silent="the provider is silent" if item.silence == "unknown" else "",
        )
        if item.silence == "omitted":
            world.provider.omitted.add(ref)
        if item.silence == "outside":
            world.provider.outside.add(ref)
        for session in _possible(item.sessions):
            built.records.append((item, session, _add(world, str(ref), item, session)))
    for _, session, made in built.records:
        _spoil(world, session, made)
    _world_faults(world, scene, built)
    return built


def _possible(wanted: tuple[Session, ...]) -> tuple[Session, ...]:
    """One open record an item and machine: the older ones of two are closed."""
    first = wanted[:1]
    if len(wanted) > 1 and first[0].phase not in {UNDEAD, RETAINED, GONE}:
        first = (replace(first[0], phase=RETAINED),)
    return (*first, *wanted[1:])


def _add(world: FakeWorld, ref: str, item: Item, session: Session) -> SimRecord:
    made = world.session(
        ref,
        session.phase,
        habit=session.habit,
        socket=session.socket,
        origin=session.origin,
        machine=session.machine,
        runner=session.runner,
        node_id={"": "", "same": f"node-{item.number}", "other": "former-node"}[item.node],
    )
    if made.pane is None or made.session is None:
        return made
    for child in session.children:
        name, argv = ("ssh-agent", ("ssh-agent", "-s")) if child.spared else ("", ())
        process = world.child(made, child.kind, name=name, argv=argv, habit=child.habit, cleared=child.cleared)
        if child.spared and child.kind not in {"child", "nohup"}:
            process.owner = ""  # a server of others: it is spared
    if session.phase in {LOST, GONE}:
        return made
    made.session.attached = int(session.attached)
    if session.beside:
        world.beside(made)
    if session.grouped:
        world.servers.group(session.socket, made.session, f"{made.session.name}-view")
    return made


def _spoil(world: FakeWorld, session: Session, made: SimRecord) -> None:  # noqa: C901 - one defect a case
    if made.session is None or made.pane is None or made.process is None:
        return
    edit: dict[str, Any] = {}
    match session.defect:
        case "mark":
            made.session.mark = "ffffffff-0000"
        case "unmarked":
            made.session.mark = ""
        case "pid":
            edit["pane"] = ProcessId(made.process.pid + 1, made.process.start)
        case "start":
            edit["pane"] = ProcessId(made.process.pid, "sim:0")
        case "pane":
            other = world.servers.split(session.socket, world.keep_alive(session.socket))
            edit["pane_id"] = other.pane_id
        case "session":
            edit["session_id"] = world.keep_alive(session.socket).session_id
        case "server":
            edit["server"] = ServerId(4242, 1)
        case "unbound" if session.origin == STARTED:
            edit |= {"server": None, "session_id": "", "pane_id": "", "pane": None}
        case "renamed":
            made.session.name += "-renamed"
        case "name":
            edit["name"] = world.keep_alive(session.socket).name
        case "loose":
            made.pane.remain_on_exit = "off"
        case "late" | "reopens" | "clings":
            setattr(made.pane, session.defect, True)
    if edit:
        world.registry.edit(made.id, **edit)


def _world_faults(world: FakeWorld, scene: Scene, built: Built) -> None:
    world.provider.listing_down = "the listing was cut" if scene.listing_down else ""
    server = world.servers.at(OTHER_SOCKET)
    if server and scene.hanging:
        server.hangs = True
    if server and scene.unlinked:
        world.servers.unlink(OTHER_SOCKET)
    if 0 <= scene.inside < len(built.records):
        made = built.records[scene.inside][2]
        if made.process and world.machine.alive(made.process):
            world.inside(made)


_CLOSING = (
    *[ItemMatch(state=(CLOSED, MERGED))] * 4,
    ItemMatch(state=(CLOSED,)),
    ItemMatch(state=(MERGED,), kind=(PULL_REQUEST,)),
    ItemMatch(state=(MISSING,)),
    ItemMatch(state=(CLOSED, MERGED), closed_for=10.0),
    ItemMatch(state=(CLOSED, MERGED), repo=("demo/*",)),
    ItemMatch(labels=("loop",), state=(CLOSED,)),
)


def _rule(seed: str, wanted: str = "") -> Rule:
    chance = Random(seed)
    wanted = wanted or chance.choice((RETAIN,) * 6 + (REMOVE,) * 5 + (RUN, RUN, PAUSE))
    ending = wanted not in {RUN, PAUSE}
    states = (OPEN, CLOSED) if wanted == PAUSE and chance.random() < 0.5 else (OPEN,)
    item = chance.choice(_CLOSING) if ending else ItemMatch(state=states, labels=chance.choice(((), ("loop",))))
    phases = ((),) * 8 + ((RUNNING,), (EXITED, LOST), (RETAINED,), (UNDEAD,))
    keep_last = chance.choice((1, 2)) if wanted == REMOVE and chance.random() < 0.3 else None
    phase = (RETAINED,) if keep_last else chance.choice(phases) if ending else ()
    closed_for = chance.choice((None,) * 3 + (0.0, 60.0)) if phase == (RETAINED,) else None
    return Rule(
        "a rule",
        Position("random.yml", 1),
        Match(item, SessionMatch(phase=phase, closed_for=closed_for)),
        Ensure(
            session=wanted,
            kill_harness=chance.choice((None,) * 8 + (True, False)) if ending else None,
            grace=chance.choice((None,) * 6 + (0.0, 2.0)) if ending else None,
            transcript=chance.choice((None,) * 8 + (KEPT, DISCARDED)) if ending else None,
            keep_last=keep_last,
        ),
    )


def _playbook(drawn: list[Rule]) -> Playbook:
    numbered = tuple(
        replace(rule, name=f"rule {n}", position=Position("random.yml", n * 10)) for n, rule in enumerate(drawn, 1)
    )
    play = Play("random", Position("random.yml", 1), ("all",), numbered, Limits(1000, 1.0))
    return Playbook((play,), (("random.yml", "0" * 64),))


playbooks = _seeds(4).map(lambda seeds: _playbook([_rule(seed) for seed in seeds]))
#: Those whose first rule pauses.
pausing_playbooks = _seeds(4).map(
    lambda seeds: _playbook([_rule(seed, "" if n else PAUSE) for n, seed in enumerate(seeds)])
)


def is_known(item: Item, session: Session) -> bool:
    """Whether, in truth, the item of this session is seen as it is, and the session is this machine's."""
    told = item.state in {OPEN, CLOSED, MERGED} and not item.silence and item.node != "other"
    return told and not session.machine


_HARD_HABITS = tuple(habit for habit in HABITS if habit.unkillable or habit.refuses)


def may_end(item: Item, session: Session) -> bool:
    """Whether, in truth, this session's item is known to have ended, or to be open and its agent to have ended, and the
    session is this machine's."""
    ended = item.state in {CLOSED, MERGED, MISSING} or (item.state == OPEN and session.phase in {EXITED, LOST})
    return ended and not item.silence and item.node != "other" and not session.machine


def is_hard(session: Session) -> bool:
    """Whether ending this session may rightly fail."""
    habits = (session.habit, *(child.habit for child in session.children))
    return any(habit in _HARD_HABITS for habit in habits) or session.defect in {"reopens", "clings"}


def leaves_nothing(session: Session) -> bool:
    """Whether each of its processes is found and ended: none has shed all that ties it to the session, or looks shared."""
    shed = any(child.cleared or child.spared for child in session.children)
    return not shed and not session.defect and not is_hard(session)
