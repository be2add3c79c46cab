"""What is done while a fault strikes: small worlds, each with one thing to do, how to tell that it is done, and what holds then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from loopctl import run
from loopctl.errors import StateError
from loopctl.executor.move import move
from loopctl.executor.pause import pause, resume
from loopctl.executor.rebuild import restore, survey
from loopctl.executor.take_over import TakeOver, take_over
from loopctl.model.items import CLOSED, MERGED, OPEN, WorkItem
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import (
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
    ACTIVE,
    CLOSED_STATUS,
    EXITED,
    GONE,
    LOST,
    PAUSED_STATUS,
    RETAINED,
    RUNNING,
    UNDEAD,
)
from loopctl.model.talk import COMMENTS, Comment
from loopctl.model.workspaces import REMOVED, WORKTREE, Workspace, worktree_path
from loopctl.ports import World
from loopctl.testing import CHILD, DAEMON, FORKS, SETSID, STUBBORN, FakeWorld, Habit, SimRecord

POLICY = Policy(
    spawn_workdir="/srv/work",
    workspace_root="/workspaces",
    resumable=frozenset({"claude"}),
    authorized_users=frozenset({"alice"}),
    spare=("tmux", "tmux: server", "ssh-agent"),
)
ONE, TWO, THREE = "demo/app#1", "demo/app#2", "demo/app#3"
OTHER = "demo/app#9"


@dataclass
class Stage:
    """`act` is what is done, and done again until `quiet` (nothing is left to do); `check` holds then. `bystander` is a session that is
    as it should be. `between` is what the world does after the run with the fault."""

    fake: FakeWorld
    act: Callable[[World], None]
    quiet: Callable[[], bool]
    check: Callable[[], None] = lambda: None
    between: Callable[[], None] = lambda: None
    before: Mapping[WorkItemRef, WorkItem] = field(default_factory=dict)
    bystander: str = ""


@dataclass(frozen=True)
class Words:
    """A template that says the same each time."""

    source: str
    names: frozenset[str] = frozenset()

    def __call__(self, facts: Mapping[str, object]) -> object:
        return self.source


def ref(text: str) -> WorkItemRef:
    return WorkItemRef.parse(text, "items")


def book(*rules: tuple[Match, Ensure]) -> Playbook:
    made = tuple(Rule(f"rule {n}", Position("p.yml", n), match, ensure) for n, (match, ensure) in enumerate(rules, 1))
    return Playbook((Play("play", Position("p.yml", 1), ("all",), made, Limits(1000, 1.0)),), (("p.yml", "0" * 64),))


def opened(**ensure: object) -> tuple[Match, Ensure]:
    return Match(ItemMatch(state=(OPEN,))), Ensure(session=RUN, **ensure)  # type: ignore[arg-type]


def ended(session: str = RETAIN, **ensure: object) -> tuple[Match, Ensure]:
    return Match(ItemMatch(state=(CLOSED, MERGED))), Ensure(session=session, **ensure)  # type: ignore[arg-type]


def a_world() -> tuple[FakeWorld, SimRecord]:
    """Somebody else's session and process, and a session of ours that is as it should be."""
    fake = FakeWorld(policy=POLICY)
    fake.foreign("somebody")
    fake.machine.spawn("mine-own-business")
    fake.item(OTHER, labels=["loop"])
    return fake, fake.session(OTHER, harness="codex")


def staged(fake: FakeWorld, bystander: SimRecord | None, playbook: Playbook, check: Callable[[], None]) -> Stage:
    """A playbook that is applied by the process that made the plan."""

    def act(world: World) -> None:
        asked_at = world.clock()
        run.apply_plan(run.plan_once(playbook, world), world, asked_at=asked_at)

    def quiet() -> bool:
        plan = fake.plan(playbook)
        return not plan.actions and not plan.held

    return Stage(fake, act, quiet, check, bystander=bystander.id if bystander else "")


def phases(fake: FakeWorld, text: str) -> list[str | None]:
    """The phases of an item's sessions, the oldest first."""
    return [fake.phase(SimRecord(r.id, r.ref)) for r in fake.registry.all() if r.ref == ref(text)]


def live(fake: FakeWorld, text: str) -> list[str]:
    """The sessions of an item whose pane is alive."""
    mine = {r.id for r in fake.registry.records.values() if r.ref == ref(text)}
    return [p.owner for s in fake.servers.all for _, p in s.each() if not p.dead and p.owner in mine]


def heard(fake: FakeWorld) -> list[str]:
    return [text for server in fake.servers.all for _, pane in server.each() for text in pane.heard]


def runs(fake: FakeWorld, *texts: str) -> None:
    """Each of these has one live session, its open one, to which people can type and whose record knows its pane."""
    for text in texts:
        (record,) = [r for r in fake.registry.all() if r.ref == ref(text) and r.status != CLOSED_STATUS]
        assert live(fake, text) == [record.id], f"{text}: alive are {live(fake, text)}"
        assert fake.phase(SimRecord(record.id, record.ref)) == RUNNING
        assert record.pane_id, f"the record of {text} names no pane"
        assert typed_to(fake, record.id), f"{text} runs, and nobody can type to it"


def typed_to(fake: FakeWorld, owner: str) -> bool:
    return all(not p.input_off for s in fake.servers.all for _, p in s.each() if p.owner == owner and not p.dead)


# --- endings


def three(fake: FakeWorld) -> list[SimRecord]:
    """A polite agent with children of all kinds, a stubborn one, and one that forks away."""
    habits = (Habit(after=1.0), STUBBORN, Habit(on_term=FORKS))
    made = [fake.session(text, habit=habit) for text, habit in zip((ONE, TWO, THREE), habits, strict=True)]
    for kind in (CHILD, SETSID, DAEMON):
        fake.child(made[0], kind)
    for text in (ONE, TWO, THREE):
        fake.item(text)
    return made


def _ending(session: str, phase: str, **ensure: object) -> Stage:
    fake, other = a_world()
    made = three(fake)
    before = dict(fake.provider.items)
    for text in (ONE, TWO, THREE):
        fake.item(text, CLOSED)

    def check() -> None:
        assert [phases(fake, text) for text in (ONE, TWO, THREE)] == [[phase]] * 3
        assert {fake.record(record).reason for record in made} == {"issue-closed"}
        assert all(fake.record(record).transcript for record in made)

    stage = staged(fake, other, book(ended(session, **ensure)), check)
    stage.before = before
    return stage


def close() -> Stage:
    return _ending(RETAIN, RETAINED)


def close_and_remove() -> Stage:
    return _ending(REMOVE, GONE, grace=0.0)


def close_that_nobody_wants_any_more() -> Stage:
    """The items are open again by the time of the next run, which wants them to run."""
    stage = _ending(RETAIN, RETAINED)
    fake = stage.fake
    both = staged(fake, None, book(opened(), ended()), lambda: runs(fake, ONE, TWO, THREE))

    def between() -> None:
        for text in (ONE, TWO, THREE):
            fake.item(text)

    return replace(both, between=between, bystander=stage.bystander)


def end_the_undead() -> Stage:
    fake, other = a_world()
    made = fake.session(ONE, UNDEAD, habit=STUBBORN)
    left = fake.session(TWO, RETAINED)
    fake.child(left, DAEMON)
    for text in (ONE, TWO):
        fake.item(text, CLOSED)

    def check() -> None:
        assert [phases(fake, text) for text in (ONE, TWO)] == [[RETAINED]] * 2
        # Its record was closed before: a crash after its end leaves it as it was.
        assert fake.transcripts.load(fake.record(made))

    return staged(fake, other, book(ended()), check)


def reap() -> Stage:
    fake, other = a_world()
    for text in (ONE, TWO):
        fake.item(text, CLOSED)
        fake.session(text, RETAINED)
    return staged(
        fake,
        other,
        book((Match(session=SessionMatch(phase=(RETAINED,))), Ensure(session=REMOVE))),
        lambda: _are(fake, GONE, ONE, TWO),
    )


def _are(fake: FakeWorld, phase: str, *texts: str) -> None:
    assert {phase} == {found for text in texts for found in phases(fake, text)}


def close_with_its_worktree() -> Stage:
    fake, other = a_world()
    for text in (ONE, TWO):
        fake.item(text, CLOSED)
        path = worktree_path("/workspaces", ref(text))
        fake.session(text, RUNNING if text == ONE else RETAINED, workspace=path, cwd=path)
        work = {"uncommitted": ("a.py",)} if text == TWO else {}
        fake.workspaces.trees[path] = Workspace(path, exists=True, ours=True, branch="loop/1", **work)  # type: ignore[arg-type]

    def check() -> None:
        _are(fake, RETAINED, ONE, TWO)
        assert fake.workspaces.trees == {}
        assert fake.workspaces.saved == [worktree_path("/workspaces", ref(TWO))]

    return staged(fake, other, book(ended(workspace=REMOVED, force=True)), check)


def close_with_a_comment() -> Stage:
    fake, other = a_world()
    for text in (ONE, TWO):
        fake.item(text, CLOSED)
        fake.session(text)

    def check() -> None:
        _are(fake, RETAINED, ONE, TWO)
        assert sorted(fake.provider.posts.values()) == ["has ended"] * 2

    return staged(fake, other, book(ended(comment=Words("has ended"))), check)


# --- beginnings


def start() -> Stage:
    fake, other = a_world()
    for text in (ONE, TWO):
        fake.item(text, labels=["loop"])
    return staged(fake, other, book(opened()), lambda: runs(fake, ONE, TWO))


def start_without_a_registry() -> Stage:
    fake = FakeWorld(policy=POLICY)
    fake.item(ONE, labels=["loop"])
    return staged(fake, None, book(opened()), lambda: runs(fake, ONE))


def start_in_a_worktree() -> Stage:
    fake, other = a_world()
    fake.item(ONE, labels=["loop"])

    def check() -> None:
        runs(fake, ONE)
        (path,) = fake.workspaces.trees
        assert fake.registry.records[live(fake, ONE)[0]].workspace == path

    # Rules are for all: the bystander's folder is its own.
    return staged(fake, other, book(opened(workspace=WORKTREE)), check)


def start_with_a_comment() -> Stage:
    fake, other = a_world()
    fake.item(OTHER, "merged", labels=["loop"])
    fake.item(ONE, labels=["loop"])

    def check() -> None:
        runs(fake, ONE)
        assert set(fake.provider.posts.values()) <= {"at work"}
        assert fake.provider.posts

    return staged(fake, other, book(opened(comment=Words("at work"))), check)


def start_and_tell() -> Stage:
    fake, other = a_world()
    fake.item(ONE, labels=["loop"])

    def check() -> None:
        runs(fake, ONE)
        assert set(fake.ledger.cursors) >= {live(fake, ONE)[0]}

    fake.ledger.cursors[other.id] = fake.now()
    return staged(fake, other, book(opened(deliver=COMMENTS)), check)


def resume_the_exited() -> Stage:
    fake, other = a_world()
    for text in (ONE, TWO):
        fake.item(text, labels=["loop"])
        fake.session(text, EXITED if text == ONE else LOST)
    return staged(fake, other, book(opened()), lambda: runs(fake, ONE, TWO))


def resume_that_fails() -> Stage:
    """Who takes up the conversation ends at once; a fresh start does not."""
    fake, other = a_world()
    fake.item(ONE, labels=["loop"])
    fake.session(ONE, EXITED)
    fake.harnesses["claude"] = Fickle("claude")
    fake.servers.brief = {"claude-that-resumes"}
    return staged(fake, other, book(opened()), lambda: runs(fake, ONE))


class Fickle(type(FakeWorld().harnesses["claude"])):  # type: ignore[misc]
    """A harness whose resumed agents end at once."""

    def resume_argv(self, prompt: str, session_id: str) -> tuple[str, ...]:
        return ("claude-that-resumes", session_id)


def reopen() -> Stage:
    """Beside the pane that is kept."""
    fake, other = a_world()
    fake.item(ONE, CLOSED)
    before = dict(fake.provider.items)
    fake.item(ONE, labels=["loop"])
    fake.session(ONE, RETAINED)

    def check() -> None:
        runs(fake, ONE)
        assert RETAINED in phases(fake, ONE)

    stage = staged(fake, other, book(opened(), ended()), check)
    stage.before = before
    return stage


def reopen_and_reap() -> Stage:
    fake, other = a_world()
    fake.item(ONE, labels=["loop"])
    fake.session(ONE, RETAINED)

    def check() -> None:
        runs(fake, ONE)
        assert GONE in phases(fake, ONE)

    reaps = (Match(session=SessionMatch(phase=(RETAINED,))), Ensure(session=REMOVE))
    return staged(fake, other, book(opened(), reaps), check)


# --- talk


def deliver() -> Stage:
    """Three comments to one agent, one to another."""
    fake, other = a_world()
    for text, count in ((ONE, 3), (TWO, 1)):
        fake.item(text, labels=["loop"])
        agent = fake.session(text)
        fake.ledger.cursors[agent.id] = fake.now() - timedelta(minutes=10)
        fake.provider.comments[ref(text)] = [
            Comment(f"{text}/{n}", "alice", f"text {n} of {text}", fake.now() - timedelta(minutes=5 - n))
            for n in range(count)
        ]
    fake.ledger.cursors[other.id] = fake.now()

    def check() -> None:
        runs(fake, ONE, TWO)
        for text, count in ((ONE, 3), (TWO, 1)):
            told = [words for words in heard(fake) if text in words]
            order = [n for words in told for n in range(count) if f"text {n} of {text}" in words]
            assert order == sorted(order)
            # What is not heard is on record as not known to have arrived, or its agent is not there any more.
            lines = {line.id: line.status for line in fake.ledger.deliveries.values()}
            assert set(lines) >= {f"{text}/{n}" for n in range(count)}
            assert set(lines.values()) <= {"delivered", "sending"}

    return staged(fake, other, book(opened(deliver=COMMENTS)), check)


# --- without a playbook


def pause_by_rule() -> Stage:
    fake, other = a_world()
    for text in (ONE, TWO):
        fake.item(text, CLOSED)
        fake.session(text)
    rule = (Match(ItemMatch(state=(CLOSED,))), Ensure(session=PAUSE))

    def check() -> None:
        statuses = {r.status for r in fake.registry.records.values() if r.ref != ref(OTHER)}
        assert statuses == {PAUSED_STATUS}

    return staged(fake, other, book(rule), check)


def _commanded(fake: FakeWorld, other: SimRecord, act: Callable[[World], None], done: Callable[[], bool]) -> Stage:
    return Stage(fake, act, done, bystander=other.id)


def pause_by_hand() -> Stage:
    fake, other = a_world()
    made = fake.session(ONE)

    def act(world: World) -> None:
        pause(next(r for r in world.registry.all() if r.id == made.id), world)

    return _commanded(fake, other, act, lambda: fake.record(made).status == PAUSED_STATUS)


def resume_by_hand() -> Stage:
    fake, other = a_world()
    made = fake.session(ONE, "paused")

    def act(world: World) -> None:
        resume(next(r for r in world.registry.all() if r.id == made.id), world)

    return _commanded(fake, other, act, lambda: fake.record(made).status == ACTIVE)


def move_them() -> Stage:
    fake, other = a_world()
    made = [fake.session(ONE, RETAINED), fake.session(ONE)]

    def act(world: World) -> None:
        problems = [moved.problem for moved in move(ref(ONE), ref(TWO), "", world) if moved.problem]
        if problems:
            raise StateError(problems[0])

    def done() -> bool:
        marks = {record.session.ref for record in made if record.session}
        return marks == {str(ref(TWO))} and {fake.record(record).ref for record in made} == {ref(TWO)}

    return _commanded(fake, other, act, done)


def rebuild() -> Stage:
    fake, other = a_world()
    made = [fake.session(ONE), fake.session(TWO, RETAINED)]
    old = {record.id: fake.record(record) for record in made}
    for record in made:
        del fake.registry.records[record.id]

    def act(world: World) -> None:
        restore(survey(fake.socket, world), world)

    def done() -> bool:
        now = fake.registry.records
        return all(id_ in now and now[id_].pane_id == record.pane_id for id_, record in old.items())

    stage = _commanded(fake, other, act, done)

    def check() -> None:
        assert phases(fake, ONE) in ([RUNNING], [EXITED])
        assert fake.record(made[1]).status == CLOSED_STATUS

    return replace(stage, check=check)


def take_it_over() -> Stage:
    fake, other = a_world()
    theirs = fake.foreign("agent-of-somebody")
    pane = theirs.panes[0]
    # By asking for it, a person says that it is theirs.
    pane.owner = "asked for"
    fake.machine.processes[pane.pid].owner = "asked for"

    def act(world: World) -> None:
        take_over(TakeOver(ref(ONE), "claude", socket=fake.socket, name=theirs.name), world)

    def done() -> bool:
        mine = [r for r in fake.registry.records.values() if r.ref == ref(ONE)]
        return [r.id for r in mine] == [theirs.mark]

    return _commanded(fake, other, act, done)


STAGES: dict[str, Callable[[], Stage]] = {
    make.__name__: make
    for make in (
        close,
        close_and_remove,
        close_that_nobody_wants_any_more,
        end_the_undead,
        reap,
        close_with_its_worktree,
        close_with_a_comment,
        start,
        start_without_a_registry,
        start_in_a_worktree,
        start_with_a_comment,
        start_and_tell,
        resume_the_exited,
        resume_that_fails,
        reopen,
        reopen_and_reap,
        deliver,
        pause_by_rule,
        pause_by_hand,
        resume_by_hand,
        move_them,
        rebuild,
        take_it_over,
    )
}
