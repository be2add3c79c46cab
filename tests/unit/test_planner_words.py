"""What a plan says, and the doubts that it holds something for, where few other tests pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from loopctl.model.facts import Known, Unknown
from loopctl.model.items import CLOSED, ISSUE, MERGED, MISSING, OPEN, PULL_REQUEST, WorkItem
from loopctl.model.observed import Observation, Subject
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import RETAIN, RUN, Ensure, ItemMatch, Match, Position, Rule, SessionMatch
from loopctl.model.sessions import DEAD, LIVE, Pane, SessionRecord, SessionView, Sighting
from loopctl.planner.match import Verdict, matches
from loopctl.planner.words import exit_of, reason_of
from loopctl.testing import SETSID, FakeWorld
from tests.unit.playbooks import ending, running
from tests.unit.test_lifecycle import book

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
REF = WorkItemRef.parse("github:octo/app#15")


@pytest.mark.parametrize(
    ("kind", "state", "reason"),
    [
        (ISSUE, CLOSED, "issue-closed"),
        (PULL_REQUEST, CLOSED, "pr-closed"),
        (PULL_REQUEST, MERGED, "pr-merged"),
        (ISSUE, MISSING, "item-missing"),
        (ISSUE, OPEN, "requested"),
    ],
)
def test_why_a_record_is_closed(kind: str, state: str, reason: str) -> None:
    assert reason_of(WorkItem(REF, kind, state)) == reason
    assert reason_of(None) == "requested"


@pytest.mark.parametrize(
    ("state", "status", "signal", "words"),
    [
        (LIVE, None, None, ""),
        (DEAD, None, None, ""),
        (DEAD, 0, None, "ended with status 0"),
        (DEAD, 3, None, "ended with status 3"),
        (DEAD, None, 9, "was ended by signal 9"),
    ],
)
def test_how_an_agent_ended(state: str, status: int | None, signal: int | None, words: str) -> None:
    pane = Pane("$1", "@1", "%1", 7, state == DEAD, "loop", exit_status=status, exit_signal=signal)
    record = SessionRecord("a-1", REF, "desk", "claude")
    assert exit_of(Subject(REF, Unknown("-"), SessionView(record, Known(Sighting(state, None, pane))))) == words
    assert exit_of(Subject(REF, Unknown("-"))) == ""


def session(match: SessionMatch, view: SessionView | None) -> Verdict:
    rule = Rule("r", Position("p", 1), Match(ItemMatch(), match), Ensure())
    return matches(rule, Subject(REF, Unknown("not asked"), view), Observation("desk", "r", NOW))


def test_what_is_asked_of_a_session() -> None:
    born = NOW - timedelta(hours=1)
    record = SessionRecord("a-1", REF, "desk", "claude", created_at=born)
    watched = SessionView(record, Known(Sighting(LIVE, None, Pane("$1", "@1", "%1", 7, False, "loop", attached=1))))
    unseen = SessionView(record, Unknown("tmux did not answer"))
    assert session(SessionMatch(harness=("claude",)), watched) is True
    assert session(SessionMatch(harness=("codex",)), watched) is False
    assert session(SessionMatch(harness=("claude",)), None) is False
    assert session(SessionMatch(attached=True), watched) is True
    assert session(SessionMatch(attached=False), watched) is False
    assert session(SessionMatch(attached=False), None) is True
    assert session(SessionMatch(attached=False), unseen) == Unknown("tmux did not answer")
    assert session(SessionMatch(older_than=3600), watched) is True
    assert session(SessionMatch(older_than=3601), watched) is False
    assert session(SessionMatch(older_than=0), None) is False


def test_a_deleted_item_is_said_to_be_deleted() -> None:
    rule = Rule("r", Position("p", 1), Match(ItemMatch(state=(CLOSED,))), Ensure())
    deleted = Known(WorkItem(REF, ISSUE, MISSING, "deleted"))
    assert matches(rule, Subject(REF, deleted), Observation("desk", "r", NOW)) == Unknown("the item was deleted")


def test_rules_that_want_a_session_to_run_and_to_end_hold_it() -> None:
    world = FakeWorld()
    world.item("demo/app#1", CLOSED)
    world.session("demo/app#1")
    plan = world.plan(
        book(
            (ItemMatch(state=(CLOSED,)), SessionMatch(), Ensure(session=RUN)),
            (ItemMatch(state=(CLOSED,)), SessionMatch(), Ensure(session=RETAIN)),
        )
    )
    assert plan.actions == ()
    assert [held.reason for held in plan.held] == [
        'rules disagree on ensure.session: p.yml:2 "rule 2" and p.yml:1 "rule 1"'
    ]


def test_an_agent_that_ended_is_not_replaced_from_inside_its_session() -> None:
    world = FakeWorld()
    world.item("demo/app#1", labels=["loop"])
    agent = world.session("demo/app#1", "exited")
    shell = world.child(agent, SETSID)
    own = world.machine.processes[world.machine.own]
    own.row = replace(own.row, ppid=shell.id.pid)
    plan = world.plan(running())
    assert plan.actions == ()
    assert [held.reason for held in plan.held] == ["loopctl itself runs inside this session: run it from elsewhere"]


def test_why_a_conversation_is_not_taken_up() -> None:
    world = FakeWorld()
    world.item("demo/app#1", labels=["loop"])
    world.session("demo/app#1", "exited", harness="codex")
    (action,) = world.plan(running()).actions
    assert action.why.endswith("claude begins anew: the conversation was with codex")


def test_a_running_agent_that_nobody_can_type_to_is_named_where_no_rule_is_about_it() -> None:
    world = FakeWorld()
    world.item("demo/app#1")
    agent = world.session("demo/app#1")
    assert agent.pane
    agent.pane.input_off = True
    (note,) = world.plan(ending()).notes
    assert f"pane {agent.pane.pane_id} takes no input, a close was cut off" in note


@pytest.mark.parametrize(
    ("hosts", "notes"),
    [((), []), (("web*",), ["no play is for this machine (desk)"]), (("web*", "desk"), [])],
)
def test_plays_for_other_machines_only_are_said(hosts: tuple[str, ...], notes: list[str]) -> None:
    playbook = ending()
    plays = tuple(replace(playbook.plays[0], hosts=(host,)) for host in hosts)
    assert list(FakeWorld().plan(replace(playbook, plays=plays)).notes) == notes
