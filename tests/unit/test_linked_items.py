"""Whose session it is: an issue and the pull requests that deliver it (S24), on a simulated world."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopctl import run
from loopctl.model.facts import Known, Unknown
from loopctl.model.items import ISSUE, PULL_REQUEST, WorkItem
from loopctl.model.plan import CLOSE, START, Plan
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import (
    LINKED_OWN,
    RETAIN,
    RUN,
    Ensure,
    ItemMatch,
    Limits,
    Match,
    Play,
    Playbook,
    Position,
    Rule,
)
from loopctl.observe import discover, observe
from loopctl.testing import FakeWorld
from tests.worlds import one_rule

OPEN_RUNS = one_rule(Ensure(session=RUN), item=ItemMatch(state=("open",)))


def both() -> Playbook:
    """Open items run, closed and merged ones end."""
    rules = tuple(
        Rule(name, Position("b.yml", line), Match(item=ItemMatch(state=states)), Ensure(session=wanted))
        for line, (name, states, wanted) in enumerate(
            [("open", ("open",), RUN), ("ended", ("closed", "merged"), RETAIN)], start=3
        )
    )
    return Playbook((Play("both", Position("b.yml", 1), ("all",), rules, Limits(1000, 1.0)),))


def ref(text: str) -> WorkItemRef:
    return WorkItemRef.parse(text, "items")


def item(world: FakeWorld, text: str, **fields: object) -> None:
    """Change an item of the world."""
    own = ref(text)
    world.provider.items[own] = replace(world.provider.items[own], **fields)  # type: ignore[arg-type]


def pull(world: FakeWorld, text: str, state: str = "open", **fields: object) -> None:
    world.item(text, state, kind=PULL_REQUEST, labels=["loop"])
    item(world, text, **fields)


def verbs(plan: Plan) -> list[tuple[str, str]]:
    return [(action.verb, str(action.ref)) for action in plan.actions]


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.mark.parametrize("state", ["open", "closed", "merged"])
def test_an_issues_session_stays_while_the_issue_is_open(world: FakeWorld, state: str) -> None:
    world.item("o/r#5", labels=["loop"])
    world.session("o/r#5")
    pull(world, "o/r#6", state, links=(ref("o/r#5"),))
    assert verbs(world.plan(both())) == []


def test_a_close_ends_only_the_session_of_what_closed(world: FakeWorld) -> None:
    world.item("o/r#5", labels=["loop"])
    pull(world, "o/r#6", "merged", links=(ref("o/r#5"),))
    mine, other = world.session("o/r#5"), world.session("o/r#6")
    outcome = world.apply(world.plan(both()))
    assert [str(result.action.ref) for result in outcome.results] == ["items:o/r#6"]
    assert (world.phase(mine), world.phase(other)) == ("running", "retained")
    assert world.record(other).reason == "pr-merged"


def test_a_closed_issue_waits_for_its_open_pull_requests(world: FakeWorld) -> None:
    """Issue 5 is closed, pull request 6 merged, 7 open: the plan names the one that keeps the session."""
    world.item("o/r#5", "closed")
    session = world.session("o/r#5")
    pull(world, "o/r#6", "merged", links=(ref("o/r#5"),))
    pull(world, "o/r#7", links=(ref("o/r#5"),))
    item(world, "o/r#5", open_links=(ref("o/r#7"),))
    plan = world.plan(one_rule())
    assert verbs(plan) == []
    assert plan.held == ()
    (note,) = plan.notes
    assert "items:o/r#5 is closed, but its pull request items:o/r#7 is open: its session stays" in note
    item(world, "o/r#5", open_links=())
    world.apply(world.plan(one_rule()))
    assert world.phase(session) == "retained"


def test_a_policy_lets_the_issue_alone_decide() -> None:
    world = FakeWorld()
    world.policy = replace(world.policy, linked_items=LINKED_OWN)
    world.item("o/r#5", "closed")
    world.session("o/r#5")
    item(world, "o/r#5", open_links=(ref("o/r#7"),))
    assert verbs(world.plan(one_rule())) == [(CLOSE, "items:o/r#5")]


def test_what_has_ended_once_is_ended_whatever_opens_later(world: FakeWorld) -> None:
    world.item("o/r#5", "closed")
    world.session("o/r#5", "undead")
    item(world, "o/r#5", open_links=(ref("o/r#7"),))
    assert verbs(world.plan(one_rule())) == [(CLOSE, "items:o/r#5")]


def test_a_pull_request_is_the_work_of_its_issues_session(world: FakeWorld) -> None:
    world.item("o/r#5", labels=["loop"])
    session = world.session("o/r#5")
    pull(world, "o/r#6", links=(ref("o/r#5"),))
    assert verbs(world.plan(OPEN_RUNS)) == []
    # Nor while the issue cannot be seen: whose work it is, is known.
    world.item("o/r#5", labels=["loop"], silent="HTTP 502")
    assert verbs(world.plan(OPEN_RUNS)) == []
    world.registry.edit(session.id, status="closed")
    world.item("o/r#5", "closed")
    assert (START, "items:o/r#6") in verbs(world.plan(OPEN_RUNS))


def test_the_issue_gets_the_session_and_not_its_pull_request(world: FakeWorld) -> None:
    """A linked issue counts as listed, without the label."""
    world.item("o/r#5")
    pull(world, "o/r#4", links=(ref("o/r#5"),))
    assert verbs(world.plan(OPEN_RUNS)) == [(START, "items:o/r#5")]


def test_a_limit_hides_no_session(world: FakeWorld) -> None:
    world.item("o/r#5", labels=["loop"])
    world.session("o/r#5")
    pull(world, "o/r#6", links=(ref("o/r#5"),))
    assert verbs(run.plan_once(OPEN_RUNS, world.world, lambda one: one == ref("o/r#6"))) == []


def test_while_the_issue_cannot_be_seen_its_pull_request_waits(world: FakeWorld) -> None:
    world.item("o/r#5", silent="HTTP 502")
    pull(world, "o/r#6", links=(ref("o/r#5"),))
    plan = world.plan(OPEN_RUNS)
    assert verbs(plan) == []
    assert [(str(held.ref), held.reason) for held in plan.held] == [("items:o/r#5", "HTTP 502")]


def test_a_pull_request_without_a_link_is_its_own_work(world: FakeWorld) -> None:
    pull(world, "o/r#6")
    assert verbs(world.plan(OPEN_RUNS)) == [(START, "items:o/r#6")]


def test_a_hint_that_is_an_issue_is_a_link(world: FakeWorld) -> None:
    world.item("o/r#5")
    pull(world, "o/r#6", hints=(ref("o/r#5"),))
    assert verbs(world.plan(OPEN_RUNS)) == [(START, "items:o/r#5")]
    world.session("o/r#5")
    assert verbs(world.plan(OPEN_RUNS)) == []


@pytest.mark.parametrize("what", ["nothing", "a pull request", "not ours", "itself listed as a pull request"])
def test_a_name_alone_invents_no_item(world: FakeWorld, what: str) -> None:
    if what == "a pull request":
        world.item("o/r#5", kind=PULL_REQUEST)
    if what == "not ours":
        world.item("o/r#5")
        world.provider.outside.add(ref("o/r#5"))
    pull(world, "o/r#6", hints=(ref("o/r#5"),))
    if what == "itself listed as a pull request":
        pull(world, "o/r#5")
    plan = world.plan(OPEN_RUNS)
    assert (START, "items:o/r#6") in verbs(plan)
    assert (START, "items:o/r#5") not in verbs(plan) or what.startswith("itself")
    assert (plan.held, plan.outside, plan.problems) == ((), (), ())


def test_a_hint_that_cannot_be_read_holds_the_pull_request(world: FakeWorld) -> None:
    world.item("o/r#5", silent="HTTP 502")
    pull(world, "o/r#6", hints=(ref("o/r#5"),))
    plan = world.plan(OPEN_RUNS)
    assert verbs(plan) == []
    assert [(str(held.ref), held.reason) for held in plan.held] == [
        ("items:o/r#6", "it names items:o/r#5, which could not be read: HTTP 502")
    ]


def test_a_linked_item_counts_as_listed(world: FakeWorld) -> None:
    world.item("o/r#5")
    world.session("o/r#5")
    world.item("o/r#8")
    world.session("o/r#8")
    pull(world, "o/r#6", links=(ref("o/r#5"),))
    seen = {str(subject.ref): subject.listed for subject in discover(world.world, observe(world.world)).subjects}
    assert seen == {"items:o/r#5": True, "items:o/r#6": True, "items:o/r#8": False}


def test_another_item_under_the_same_number_is_not_ours(world: FakeWorld) -> None:
    """Neither when it is asked about nor when it is listed."""
    world.item("o/r#5", labels=["loop"], node_id="I_new")
    world.session("o/r#5", "exited", node_id="I_old")
    plan = world.plan(OPEN_RUNS)
    assert verbs(plan) == []
    assert [held.reason for held in plan.held] == ["another item has this number now (its node id differs)"]
    world.item("o/r#5", "closed", node_id="I_new")
    assert [held.reason for held in world.plan(one_rule()).held] == [plan.held[0].reason]


def test_an_item_that_is_listed_at_its_new_address_keeps_its_session(world: FakeWorld) -> None:
    """The repository was renamed, and the config names the new name: no second agent."""
    world.session("o/old#5", node_id="I_5")
    world.item("o/new#5", labels=["loop"], node_id="I_5")
    world.provider.outside.add(ref("o/old#5"))
    plan = world.plan(both())
    assert verbs(plan) == []
    assert plan.held == ()


def test_an_item_that_moved_here_waits_for_its_session(world: FakeWorld) -> None:
    session = world.session("o/old#5")
    world.provider.items[ref("o/old#5")] = WorkItem(ref("o/old#5"), ISSUE, "moved", moved_to="items:o/r#6")
    world.item("o/r#6", labels=["loop"])
    plan = world.plan(both())
    assert verbs(plan) == []
    reasons = {str(held.ref): held.reason for held in plan.held}
    assert reasons["items:o/old#5"].startswith("the item has moved to items:o/r#6: `loopctl sessions move")
    assert reasons["items:o/r#6"].startswith("items:o/old#5 moved here and has a session")
    assert world.phase(session) == "running"


def test_a_provider_that_answers_no_closure_question_is_never_reconciled(world: FakeWorld) -> None:
    world.item("o/r#5", labels=["loop"])
    world.provider.outside.add(ref("o/r#6"))
    world.item("o/r#6", "closed")
    session = world.session("o/r#6")
    plan = world.plan(both())
    assert verbs(plan) == [(START, "items:o/r#5")]
    assert plan.outside == (ref("o/r#6"),)
    assert world.phase(session) == "running"


def test_the_node_id_is_remembered_at_the_first_change(world: FakeWorld) -> None:
    world.item("o/r#5", labels=["loop"], node_id="I_5")
    world.apply(world.plan(OPEN_RUNS))
    (record,) = world.registry.all()
    assert record.node_id == "I_5"
    world.item("o/r#6", "closed", node_id="I_6")
    taken = world.session("o/r#6", origin="registered")
    world.apply(world.plan(one_rule()))
    assert world.record(taken).node_id == "I_6"


def test_planning_writes_nothing(world: FakeWorld) -> None:
    world.item("o/r#5", node_id="I_5")
    taken = world.session("o/r#5", origin="registered")
    before = world.snapshot()
    world.plan(both())
    assert world.snapshot() == before
    assert world.record(taken).node_id == ""


def test_what_is_unknown_of_a_hint_does_not_concern_a_session_that_runs(world: FakeWorld) -> None:
    world.item("o/r#5", silent="HTTP 502")
    pull(world, "o/r#6", hints=(ref("o/r#5"),))
    world.session("o/r#6")
    (subject,) = discover(world.world, observe(world.world)).subjects
    assert isinstance(subject.item, Known)
    assert not isinstance(subject.item, Unknown)
