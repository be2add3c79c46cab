"""An agent that ended by itself: resumed, started anew, waited for, given up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from loopctl.model.facts import Fact, Unknown
from loopctl.model.plan import CHANGED, FAILED, RESUME, START, Action, Plan
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import (
    AGENT_EXITED,
    CLOSED_STATUS,
    EXITED,
    GONE,
    IMPORTED,
    LOST,
    PANE_LOST,
    RESUME_FAILED,
    RETAINED,
    RUNNING,
    SessionRecord,
)
from loopctl.ports import Started, StartSpec
from loopctl.run import apply_plan
from loopctl.testing import Crash, FakeWorld, SimRecord
from tests.unit.playbooks import running

ITEM = WorkItemRef.parse("demo/app#1", "items")


def world(phase: str = EXITED, **fields: object) -> tuple[FakeWorld, SimRecord]:
    made = FakeWorld()
    made.item("demo/app#1", labels=["loop"])
    return made, made.session("demo/app#1", phase, **fields)  # type: ignore[arg-type]


def only(plan: Plan) -> Action:
    assert plan.held == ()
    (action,) = plan.actions
    return action


def records(made: FakeWorld) -> list[SessionRecord]:
    return sorted(made.registry.records.values(), key=lambda record: str(record.created_at))


def live(made: FakeWorld) -> list[str]:
    return [pane.owner for server in made.servers.all for _, pane in server.each() if not pane.dead and pane.owner]


@pytest.mark.parametrize(("phase", "reason"), [(EXITED, AGENT_EXITED), (LOST, PANE_LOST)])
def test_the_conversation_is_taken_up_in_a_fresh_pane(phase: str, reason: str) -> None:
    made, old = world(phase)
    plan = made.plan(running())
    action = only(plan)
    assert (action.verb, action.after.conversation) == (RESUME, "conversation-of-1")
    (result,) = made.apply(plan).results
    assert result.status == CHANGED
    before, after = records(made)
    assert (before.status, before.reason, after.resumes) == (CLOSED_STATUS, reason, old.id)
    assert after.harness_session_id == before.harness_session_id
    assert live(made) == [after.id]
    assert made.phase(old) == GONE
    assert (made.plan(running()).actions, made.plan(running()).held) == ((), ())


def test_what_the_old_pane_showed_is_kept() -> None:
    made, old = world()
    made.apply(made.plan(running()))
    assert b"says hello" in made.transcripts.load(made.record(old))


def test_a_pane_that_somebody_else_made_stays_where_it_is() -> None:
    made, old = world(origin=IMPORTED)
    made.apply(made.plan(running()))
    assert made.phase(old) == RETAINED


def test_a_harness_that_cannot_resume_begins_anew_and_says_so() -> None:
    made, _ = world(harness="codex")
    made.policy = replace(made.policy, default_harness="codex")
    action = only(made.plan(running()))
    assert (action.verb, action.after.conversation) == (START, "")
    assert "begins anew: it cannot take up a conversation" in action.why
    made.apply(made.plan(running()))
    assert made.plan(running()).actions == ()
    assert len(live(made)) == 1


def test_resuming_can_be_turned_off() -> None:
    made, _ = world()
    made.policy = replace(made.policy, resume_on_respawn=False)
    assert only(made.plan(running())).verb == START


def test_an_agent_that_does_not_stay_gets_one_fresh_start() -> None:
    made, _ = world()
    made.servers.brief.add("claude")
    plan = made.plan(running())
    (result,) = made.apply(plan).results
    assert (result.status, "could not be taken up" in result.detail) == (FAILED, True)
    reasons = [record.reason for record in records(made)]
    assert reasons[:2] == [AGENT_EXITED, RESUME_FAILED]
    assert len(made.journal.of("session.resume_failed")) == 1
    assert records(made)[2].harness_session_id != records(made)[1].harness_session_id


def test_an_agent_that_dies_while_it_is_watched_gets_one_too() -> None:
    made, _ = world()

    def dies(seconds: float) -> None:
        made.machine.advance(seconds)
        for record in records(made)[1:2]:
            if record.pane and made.machine.alive(record.pane):
                made.machine.end(record.pane.pid)

    (result,) = apply_plan(made.plan(running()), replace(made.world, pause=dies)).results
    assert (result.status, "could not be taken up" in result.detail) == (CHANGED, True)
    assert [record.reason for record in records(made)] == [AGENT_EXITED, RESUME_FAILED, ""]
    assert live(made) == [records(made)[2].id]
    assert made.plan(running()).actions == ()


def fails(made: FakeWorld, times: int) -> None:
    """The agent ends at once, so often, and is given all the time in the world in between."""
    made.servers.brief.add("codex")
    for _ in range(times):
        plan = made.plan(running())
        if plan.held:
            made.machine.advance(301)
            plan = made.plan(running())
        made.apply(plan)


def failing() -> FakeWorld:
    made, _ = world(harness="codex", up_for=1)
    made.policy = replace(made.policy, default_harness="codex")
    return made


def test_what_fails_again_and_again_waits_longer_and_is_given_up() -> None:
    made = failing()
    fails(made, 1)
    assert "tried again in" in made.plan(running()).held[0].reason
    made.machine.advance(21)
    assert made.plan(running()).held == ()
    fails(made, 2)
    (held,) = made.plan(running()).held
    assert "given up" in held.reason
    assert "loopctl sessions retry items:demo/app#1" in held.reason
    made.machine.advance(86_400)
    assert "given up" in made.plan(running()).held[0].reason


def test_one_that_is_never_given_up_waits_no_longer_than_five_minutes() -> None:
    made = failing()
    made.policy = replace(made.policy, max_retries=1000)
    fails(made, 45)
    assert "46 times in a row" in (reason := made.plan(running()).held[0].reason)
    assert reason.endswith("tried again in 300 s")


def test_somebody_who_asks_gets_it_tried_again() -> None:
    made = failing()
    fails(made, 3)
    made.ledger.arm(ITEM)
    assert only(made.plan(running())).verb == START


def test_news_on_the_item_lets_it_be_tried_again() -> None:
    made = failing()
    fails(made, 3)
    made.machine.advance(600)
    item = made.provider.items[ITEM]
    made.provider.items[ITEM] = replace(item, updated_at=made.now())
    assert only(made.plan(running())).verb == START


def test_an_agents_own_last_comment_is_no_news() -> None:
    made = failing()
    fails(made, 3)
    made.provider.items[ITEM] = replace(made.provider.items[ITEM], updated_at=made.now() + timedelta(seconds=20))
    assert "given up" in made.plan(running()).held[0].reason


def test_an_agent_that_worked_long_is_started_at_once_however_often() -> None:
    made, _ = world(up_for=3600)
    for _ in range(6):
        assert made.apply(made.plan(running())).results[0].status == CHANGED
        made.machine.advance(3600)
        (now,) = [record for record in records(made) if record.status != CLOSED_STATUS]
        assert now.pane is not None
        made.machine.end(now.pane.pid)
    assert only(made.plan(running())).verb == RESUME


def test_while_the_item_cannot_be_seen_nothing_is_started() -> None:
    made, _ = world()
    made.item("demo/app#1", labels=["loop"], silent="no answer")
    assert made.plan(running()).actions == ()


def test_a_paused_session_is_not_started_again() -> None:
    made, old = world(RUNNING)
    made.registry.edit(old.id, status="paused")
    assert old.process is not None
    made.machine.end(old.process.pid)
    assert made.plan(running()).actions == ()


@pytest.mark.parametrize("call", range(1, 60))
def test_a_crash_anywhere_leaves_one_agent_in_the_end(call: int) -> None:
    made, old = world()
    plan = made.plan(running())
    made.faults.crash_at(call)
    try:
        made.apply(plan)
    except Crash:
        made.registry.holder = ""
    made.faults.clear()
    for _ in range(3):
        made.machine.advance(301)
        made.apply(made.plan(running()))
    assert (made.plan(running()).actions, made.plan(running()).held) == ((), ())
    assert len(live(made)) == 1
    assert sum(record.status != CLOSED_STATUS for record in records(made)) == 1
    assert b"says hello" in made.transcripts.load(made.record(old))


def test_the_next_agent_knows_what_the_last_one_was_told() -> None:
    made, old = world()
    made.ledger.claim(old.id, "c1")
    made.ledger.settle(old.id, "c1", "delivered")
    made.ledger.set_cursor(old.id, made.now())
    made.apply(made.plan(running()))
    talk = made.ledger.read()
    new = records(made)[1].id
    assert [delivery.id for delivery in talk.deliveries[new]] == ["c1"]
    assert talk.cursors[new] == talk.cursors[old.id]


def test_a_pane_that_comes_late_is_not_taken_for_a_conversation_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = world()
    really = made.terminals.start

    def late(socket: str, specs: Sequence[StartSpec]) -> Mapping[str, Fact[Started]]:
        made.machine.later(0.1, lambda: really(socket, specs) and None)
        return {spec.id: Unknown("tmux did not answer in time") for spec in specs}

    monkeypatch.setattr(made.terminals, "start", late)
    (result,) = made.apply(made.plan(running())).results
    assert (result.status, result.detail) == (FAILED, "tmux did not answer in time")
    monkeypatch.setattr(made.terminals, "start", really)
    made.machine.advance(1)
    made.apply(made.plan(running()))
    before, after = records(made)
    assert (after.status, after.resumes) == ("active", before.id)
    assert live(made) == [after.id]
    assert (made.plan(running()).actions, made.plan(running()).held) == ((), ())
