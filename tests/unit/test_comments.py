"""One comment on the item when a state is reached: planned, posted once, kept true, and never in the way of an ending."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from loopctl.errors import DocumentError, Problem, StateError
from loopctl.executor.limits import excess
from loopctl.model.encode import plan_from_dict, plan_to_dict
from loopctl.model.items import CLOSED, MERGED, OPEN
from loopctl.model.plan import CHANGED, CLOSE, COMMENT, FAILED, REAP, STALE, START, Outcome, Plan
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
from loopctl.model.secrets import forget, learn
from loopctl.model.sessions import EXITED, GONE, PAUSED, RETAINED, RUNNING, UNDEAD
from loopctl.model.talk import mark_of
from loopctl.planner.comments import MAX_COMMENT
from loopctl.testing import RAISE, UNKNOWN, Crash, FakeWorld, SimRecord
from tests.unit.controller.desk import INTERVAL, Desk

REF = "demo/app#1"
ITEM = WorkItemRef.parse(REF, "items")
HOUR = 3600.0


@dataclass
class Says:
    """A template made of Python."""

    say: Callable[[Mapping[str, object]], str]
    source: str = "says"
    names: frozenset[str] = frozenset()

    def __call__(self, facts: Mapping[str, object]) -> object:
        return self.say(facts)


def fixed(text: str) -> Says:
    return Says(lambda _: text, text)


def field_of(thing: str, name: str) -> Says:
    return Says(lambda facts: str(facts[thing][name]), f"{thing}.{name}")  # type: ignore[index]


def rule(session: str, comment: Says | None, *states: str, phase: str = "") -> Rule:
    match = Match(ItemMatch(state=states), SessionMatch((phase,) if phase else ()))
    return Rule(f"to be {session}", Position("p.yml", 1), match, Ensure(session=session, comment=comment))


def book(*rules: Rule, limits: Limits | None = None) -> Playbook:
    return Playbook((Play("play", Position("p.yml"), ("all",), rules, limits or Limits(1000, 1.0)),))


def up(comment: Says | None = None) -> Rule:
    return rule(RUN, comment or fixed("at work"), OPEN)


def over(comment: Says | None = None, session: str = RETAIN) -> Rule:
    return rule(session, comment or fixed("has ended"), CLOSED, MERGED)


BOOK = book(up(), over())


def verbs(plan: Plan) -> list[str]:
    return [action.verb for action in plan.actions]


def texts(world: FakeWorld) -> list[str]:
    return sorted(world.provider.posts.values())


def go(world: FakeWorld, playbook: Playbook = BOOK) -> Outcome:
    """Apply, and see that nothing is left to do."""
    outcome = world.apply(world.plan(playbook))
    assert [r for r in outcome.results if r.status != CHANGED] == []
    again = world.plan(playbook)
    assert (again.actions, again.held) == ((), ())
    return outcome


def open_world() -> FakeWorld:
    world = FakeWorld()
    world.item(REF, labels=["loop"])
    return world


def ended_world(phase: str = RUNNING) -> tuple[FakeWorld, SimRecord]:
    world = FakeWorld()
    world.item(REF, CLOSED)
    return world, world.session(REF, phase)


# --- the life of a session --------------------------------------------------------------------------------------------


def test_a_session_says_that_it_runs_and_that_it_has_ended_and_no_more() -> None:
    world = open_world()
    plan = world.plan(BOOK)
    assert verbs(plan) == [START, COMMENT]
    assert (plan.actions[1].before.phase, plan.actions[1].after.phase) == ("absent", "running")
    go(world)
    assert texts(world) == ["at work"]

    world.item(REF, CLOSED)
    assert verbs(world.plan(BOOK)) == [CLOSE, COMMENT]
    go(world)
    assert texts(world) == ["at work", "has ended"]

    outcome = go(world, book(over(session=REMOVE)))
    assert [r.action.verb for r in outcome.results] == [REAP]
    assert texts(world) == ["at work", "has ended"]
    assert [(e["key"], e["ref"]) for e in world.journal.of("comment.posted")] == [
        ("running", f"items:{REF}"),
        ("ended", f"items:{REF}"),
    ]


def test_the_next_session_of_an_item_has_comments_of_its_own() -> None:
    world = open_world()
    go(world)
    world.item(REF, CLOSED)
    go(world)
    world.item(REF, labels=["loop"])
    assert sorted(verbs(world.plan(BOOK))) == [COMMENT, START]
    go(world)
    world.item(REF, CLOSED)
    go(world)
    assert texts(world) == ["at work", "at work", "has ended", "has ended"]


def test_the_session_that_takes_an_ended_ones_place_keeps_its_comment() -> None:
    world = open_world()
    first = world.session(REF, EXITED)
    world.registry.edit(first.id, status="closed")
    key = mark_of(first.id, "running")
    world.provider.posts[ITEM, key] = "at work"
    world.session(REF, resumes=first.id)
    go(world, book(up(fixed("still at work"))))
    assert world.provider.posts == {(ITEM, key): "still at work"}


def test_what_is_said_of_a_running_session_is_kept_true() -> None:
    world = open_world()
    playbook = book(up(field_of("item", "title")))
    go(world, playbook)
    world.item(REF, labels=["loop"], title="Another title")
    assert verbs(world.plan(playbook)) == [COMMENT]
    go(world, playbook)
    assert texts(world) == ["Another title"]


def test_what_was_said_of_an_ending_stays_as_it_was_said() -> None:
    world, _ = ended_world()
    go(world, book(over()))
    assert verbs(world.plan(book(over(fixed("other words"))))) == []


def test_a_paused_session_says_so() -> None:
    world = open_world()
    go(world)
    playbook = book(rule(PAUSE, fixed("at rest"), OPEN), up())
    assert [action.after.comment for action in world.plan(playbook).actions] == ["", "at rest"]
    go(world, playbook)
    assert texts(world) == ["at rest", "at work"]


def test_a_session_that_rests_is_not_said_to_run() -> None:
    world = open_world()
    world.session(REF, PAUSED)
    assert world.plan(BOOK).actions == ()


def test_a_running_session_that_nobody_spoke_of_is_spoken_of() -> None:
    world = open_world()
    world.session(REF)
    assert verbs(world.plan(BOOK)) == [COMMENT]
    go(world)


@pytest.mark.parametrize("phase", [RETAINED, GONE, UNDEAD])
def test_a_new_rule_says_nothing_of_what_ended_before(phase: str) -> None:
    world, _ = ended_world(phase)
    for session in (RETAIN, REMOVE):
        assert COMMENT not in verbs(world.plan(book(over(session=session))))
    world.apply(world.plan(book(over(session=REMOVE))))
    assert texts(world) == []


def test_what_is_there_already_asks_nobody() -> None:
    world, _ = ended_world()
    go(world, book(over()))
    before = world.faults.calls.count("provider.get")
    world.plan(book(over()))
    assert world.faults.calls.count("provider.get") == before


def test_rules_that_want_different_states_each_have_their_comment() -> None:
    world = open_world()
    world.session(REF)
    playbook = book(up(), rule(PAUSE, fixed("at rest"), OPEN))
    assert [a.after.comment for a in world.plan(playbook).actions if a.verb == COMMENT] == ["at rest"]
    two = book(over(), over(fixed("other words"), REMOVE))
    world.item(REF, CLOSED)
    assert [held.reason for held in world.plan(two).held] == [
        'rules disagree on ensure.comment: p.yml:1 "to be gone" and p.yml:1 "to be retained"'
    ]


# --- what it may say --------------------------------------------------------------------------------------------------


def test_it_knows_no_path_no_id_no_machine_and_no_time_that_it_changes_itself() -> None:
    seen: list[Mapping[str, object]] = []
    world = open_world()
    go(world, book(up(Says(lambda facts: str(len(seen.append(facts) or "x"))))))  # type: ignore[func-returns-value]
    record = next(iter(world.registry.records.values()))
    told = repr(seen)
    for secret in (record.id, record.cwd, world.name, record.pane_id, "updated_at"):
        assert secret not in told
    assert seen[0].keys() == {"item", "session"}
    assert seen[0]["session"] == {"state": "running", "name": record.name, "harness": "claude", "reason": ""}


def test_the_facts_are_those_of_the_state_that_is_reached() -> None:
    world, _ = ended_world()
    go(world, book(over(field_of("session", "reason"))))
    assert texts(world) == ["issue-closed"]


def test_secrets_are_masked_and_the_length_is_bounded() -> None:
    learn({"GH_TOKEN": "hunter22hunter22"})
    try:
        world = open_world()
        go(world, book(up(fixed("it is hunter22hunter22 " + "x" * 70_000))))
    finally:
        forget()
    (text,) = texts(world)
    assert text.startswith("it is *** x")
    assert (len(text), text[-5:]) == (MAX_COMMENT, "(cut)")


def test_no_text_is_no_comment() -> None:
    world = open_world()
    assert verbs(world.plan(book(up(fixed(" \n"))))) == [START]


def test_the_default_is_what_the_config_says() -> None:
    policy = Policy(spawn_workdir="/srv", templates={"comment_running": fixed("hello"), "comment_ended": fixed("bye")})
    world = FakeWorld(policy=policy)
    world.item(REF, labels=["loop"])
    playbook = book(up(fixed("default")), over(fixed("default")))
    go(world, playbook)
    world.item(REF, CLOSED)
    go(world, playbook)
    assert texts(world) == ["bye", "hello"]


def test_a_template_that_fails_holds_its_comment_alone() -> None:
    def fail(_: Mapping[str, object]) -> str:
        raise DocumentError([Problem("p.yml", 3, 1, "template: 'cwd' is undefined")])

    world, agent = ended_world()
    plan = world.plan(book(over(Says(fail))))
    assert verbs(plan) == [CLOSE]
    assert [h.reason for h in plan.held] == ["its comment cannot be written: template: 'cwd' is undefined"]
    world.apply(plan)
    assert world.phase(agent) == RETAINED


def test_a_provider_that_takes_no_comments_is_named_once_and_nothing_is_planned() -> None:
    world = open_world()
    world.item("demo/app#2", labels=["loop"])
    world.provider.silence = "work items in a file take no comments"
    plan = world.plan(BOOK)
    assert verbs(plan) == [START, START]
    assert plan.notes == ("work items in a file take no comments: none is planned",)
    go(world)
    assert texts(world) == []


def test_a_comment_survives_a_saved_plan() -> None:
    world = open_world()
    plan = world.plan(BOOK)
    assert plan_from_dict(plan_to_dict(plan)) == plan
    world.apply(plan_from_dict(plan_to_dict(plan)))
    assert texts(world) == ["at work"]


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_comment_beside_its_ending_is_one_change_with_it_and_one_alone_is_a_change() -> None:
    world = FakeWorld()
    for n in range(3):
        world.item(f"demo/app#{n + 1}", labels=["loop"])
    playbook = book(up(), limits=Limits(3, 1.0))
    plan = world.plan(playbook)
    assert (len(plan.actions), excess(plan)) == (6, "")
    world.apply(plan)
    again = world.plan(book(up(fixed("other words")), limits=Limits(2, 1.0)))
    assert excess(again) == '3 changes, max_changes of "play" is 2'
    assert excess(again, 3) == ""


# --- when it goes wrong -----------------------------------------------------------------------------------------------


def status(outcome: Outcome) -> dict[str, str]:
    return {result.action.verb: result.status for result in outcome.results}


def test_a_comment_that_is_never_given_up_waits_no_longer_than_an_hour() -> None:
    world, agent = ended_world()
    world.policy = replace(world.policy, max_retries=1000)
    world.provider.locked[ITEM] = "GitHub: issue is locked"
    for _ in range(30):
        world.apply(world.plan(BOOK))
        assert "tried again after" in world.plan(BOOK).held[0].reason
        world.machine.advance(HOUR)
    assert world.ledger.read().deliveries[agent.id][-1].attempts == 30


@pytest.mark.parametrize("locked", [False, True])
def test_a_comment_that_fails_undoes_nothing_and_is_tried_again_and_then_given_up(locked: bool) -> None:
    world, agent = ended_world()
    if locked:
        world.provider.locked[ITEM] = "GitHub: issue is locked"
    else:
        world.faults.fail("provider", "comment", nth=0, kind=UNKNOWN, reason="GitHub: Bad Gateway")
    assert status(world.apply(world.plan(BOOK))) == {CLOSE: CHANGED, COMMENT: FAILED}
    assert world.phase(agent) == RETAINED
    reason = "GitHub: issue is locked" if locked else "GitHub: Bad Gateway"
    (event,) = world.journal.of("comment.failed")
    assert (event["key"], event["reason"]) == ("ended", reason)

    (held,) = world.plan(BOOK).held
    assert held.reason == f"its comment could not be posted ({reason}): tried again after 12:01:00 UTC"
    for _ in range(world.policy.max_retries):
        world.machine.advance(HOUR)
        plan = world.plan(BOOK)
        assert verbs(plan) == [COMMENT]
        assert status(world.apply(plan)) == {COMMENT: FAILED}
    world.machine.advance(24 * HOUR)
    plan = world.plan(BOOK)
    assert plan.actions == ()
    assert [h.reason for h in plan.held] == [
        f"given up: its comment could not be posted ({reason}); `loopctl sessions retry items:{REF}` lets it be tried again"
    ]

    world.faults.clear()
    world.provider.locked.clear()
    world.ledger.arm(ITEM)
    go(world)
    assert texts(world) == ["has ended"]


def test_a_comment_whose_ending_failed_is_not_made_and_comes_with_the_ending() -> None:
    world, agent = ended_world()
    world.faults.fail("transcripts", "save", kind=RAISE)
    outcome = world.apply(world.plan(BOOK))
    assert status(outcome) == {CLOSE: FAILED, COMMENT: STALE}
    assert (world.phase(agent), texts(world)) == (RUNNING, [])
    assert verbs(world.plan(BOOK)) == [CLOSE, COMMENT]
    go(world)
    assert texts(world) == ["has ended"]


def test_a_session_that_moved_is_not_spoken_of() -> None:
    world = open_world()
    agent = world.session(REF)
    plan = world.plan(BOOK)
    world.registry.edit(agent.id, name="another")
    assert status(world.apply(plan)) == {COMMENT: STALE}
    assert texts(world) == []


def test_a_comment_without_the_start_that_it_tells_of_is_not_made() -> None:
    world, _ = ended_world(RETAINED)
    world.item(REF, labels=["loop"])
    plan = world.plan(BOOK)
    alone = replace(plan, actions=tuple(action for action in plan.actions if action.verb == COMMENT))
    assert status(world.apply(alone)) == {COMMENT: STALE}
    assert texts(world) == []


def test_a_controller_that_may_not_start_says_nothing_of_a_start() -> None:
    world, _ = ended_world(RETAINED)
    desk = Desk(world, BOOK)
    desk.at(INTERVAL * 1.4, lambda: world.item(REF, labels=["loop"]))
    desk.at(INTERVAL * 1.5, lambda: desk.hint(REF))
    desk.run(INTERVAL * 1.9)
    assert (texts(world), world.journal.of("action.stale")) == ([], [])
    desk.run(INTERVAL)
    assert texts(world) == ["at work"]


def test_what_became_unknown_is_held_once() -> None:
    world, _ = ended_world()
    plan = world.plan(BOOK)
    world.provider.silent[ITEM] = "GitHub: Bad Gateway"
    outcome = world.apply(plan)
    assert outcome.results == ()
    assert [held.reason for held in outcome.held] == ["GitHub: Bad Gateway"]


def test_an_interrupted_apply_leaves_the_comment_to_the_next() -> None:
    world, agent = ended_world()
    plan = world.plan(BOOK)
    world.interrupt_after = 0
    world.apply(plan)
    world.interrupt_after = None
    assert texts(world) == []
    go(world)
    assert (world.phase(agent), texts(world)) == (RETAINED, ["has ended"])


def test_a_ledger_that_cannot_be_written_stops_it_before_anything_was_done() -> None:
    world, agent = ended_world()
    plan = world.plan(BOOK)
    world.faults.fail("ledger", "claim", kind=RAISE, reason="disk full")
    with pytest.raises(StateError, match="disk full"):
        world.apply(plan)
    assert world.phase(agent) == RUNNING


def test_a_comment_that_cannot_be_written_down_is_made_once() -> None:
    world = open_world()
    world.faults.fail("ledger", "posted", kind=RAISE, reason="disk full")
    assert status(world.apply(world.plan(BOOK))) == {START: CHANGED, COMMENT: FAILED}
    go(world)
    assert texts(world) == ["at work"]


def closing() -> FakeWorld:
    return ended_world()[0]


@pytest.mark.parametrize(
    ("build", "playbook", "text"), [(open_world, book(up()), "at work"), (closing, book(over()), "has ended")]
)
def test_a_crash_at_any_call_leaves_exactly_one_comment(
    build: Callable[[], FakeWorld], playbook: Playbook, text: str
) -> None:
    world = build()
    world.apply(world.plan(playbook))
    total = len(world.faults.calls)
    assert total > 20
    for call in range(1, total + 1):
        world = build()
        world.faults.crash_at(call)
        with suppress(Crash):
            world.apply(world.plan(playbook))
        world.faults.clear()
        for _ in range(3):
            world.apply(world.plan(playbook))
        assert texts(world) == [text], call
        assert world.plan(playbook).actions == (), call
