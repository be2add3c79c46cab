"""What happens between a plan and its apply, part by part: what it says, and that nothing else was touched."""

from __future__ import annotations

from typing import Any

import pytest

from loopctl.errors import StaleError, StateError
from loopctl.executor.pause import pause
from loopctl.model.plan import CHANGED, FAILED, STALE, Result
from loopctl.model.rules import PAUSE, REMOVE
from loopctl.testing import FakeWorld, SimRecord
from tests.faults.stages import POLICY, book, ended
from tests.faults.stages import opened as opens
from tests.unit.playbooks import ending, running


def closed(phase: str = "running") -> tuple[FakeWorld, SimRecord]:
    world = FakeWorld()
    world.keep_alive()
    world.item("demo/app#1", "closed")
    return world, world.session("demo/app#1", phase)


def opened() -> FakeWorld:
    world = FakeWorld()
    world.item("demo/app#1", labels=("loop",))
    return world


def only(world: FakeWorld, plan: Any) -> Result:
    (result,) = world.apply(plan).results
    return result


def test_a_server_that_cannot_be_seen_any_more_holds_its_session() -> None:
    world, _ = closed()
    plan = world.plan(ending())
    server = world.servers.at(world.socket)
    assert server
    server.hangs = True
    outcome = world.apply(plan)
    assert outcome.results == ()
    assert len(outcome.held) == 1
    assert world.machine.effects == []


def test_a_closed_pane_in_which_somebody_started_something_is_left_alone() -> None:
    world, agent = closed("retained")
    plan = world.plan(ending(session=REMOVE))
    assert agent.pane
    editor = world.machine.spawn("vim", parent=world.servers.ensure(world.socket).id.pid)
    agent.pane.dead, agent.pane.pid = False, editor.id.pid
    result = only(world, plan)
    assert (result.status, result.detail) == (STALE, "the pane is alive again")
    assert world.machine.effects == []


def test_an_item_that_got_a_newer_session_is_not_started_beside_it() -> None:
    world = opened()
    old = world.session("demo/app#1", "exited", up_for=7200)
    plan = world.plan(running())
    world.registry.edit(old.id, status="closed", reason="agent-exited")
    world.session("demo/app#1")
    result = only(world, plan)
    assert result.status == STALE
    assert world.machine.effects == []


def test_a_plan_of_another_machine_is_refused_whole() -> None:
    world, _ = closed()
    plan = world.plan(ending())
    world.name = "laptop"
    with pytest.raises(StaleError, match="made for machine desk, this is laptop"):
        world.apply(plan)
    assert world.machine.effects == []


def test_a_record_that_changes_while_it_is_paused_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    world, agent = closed()
    plan = world.plan(ending(session=PAUSE))
    really = world.registry.replace_all

    def late(records: Any) -> Any:
        world.registry.edit(agent.id)
        return really(records)

    monkeypatch.setattr(world.registry, "replace_all", late)
    result = only(world, plan)
    assert (result.status, result.detail) == (STALE, "its record has changed meanwhile")


def test_a_record_that_keeps_changing_is_not_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    world, agent = closed()
    monkeypatch.setattr(world.registry, "replace", lambda record: None)
    with pytest.raises(StateError, match="keeps changing"):
        pause(world.record(agent), world.world)
    assert world.record(agent).status == "active"


def test_a_harness_that_is_not_there_any_more_is_named_with_those_that_are() -> None:
    world = opened()
    plan = world.plan(running())
    del world.harnesses["claude"]
    result = only(world, plan)
    assert (result.status, result.detail) == (FAILED, "no harness is called 'claude' (known: codex)")
    assert world.machine.effects == []


def test_a_record_that_keeps_changing_during_a_start_leaves_the_pane_to_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = opened()
    plan = world.plan(running())
    monkeypatch.setattr(world.registry, "replace", lambda record: None)
    result = only(world, plan)
    assert (result.status, result.detail.partition(", but ")[2]) == (FAILED, "its record keeps changing")
    monkeypatch.undo()
    assert [view.phase for view in map(world.view, _sessions(world))] == ["running"]


def _sessions(world: FakeWorld) -> list[SimRecord]:
    return [SimRecord(record.id, record.ref) for record in world.registry.records.values()]


def test_an_interrupt_after_the_old_agent_was_cleared_away_starts_none() -> None:
    world = opened()
    old = world.session("demo/app#1", "exited")
    plan = world.plan(running())
    world.interrupt_after = len(world.machine.effects) + 1
    result = only(world, plan)
    assert (result.status, "interrupted" in result.detail) == (FAILED, True)
    world.interrupt_after = None
    assert [r.status for r in world.apply(world.plan(running())).results] == [CHANGED]
    assert [r.resumes for r in world.registry.records.values() if r.status == "active"] == [old.id]


BEFORE = "interrupted before it began"


def test_an_interrupt_between_a_close_and_a_start_starts_nobody() -> None:
    both = book(opens(), ended())
    said = set()
    for effects in range(8):
        world = FakeWorld(policy=POLICY)
        world.item("demo/app#1", "closed")
        made = world.session("demo/app#1")
        world.item("demo/app#2", labels=("loop",))
        plan = world.plan(both)
        world.interrupt_after = effects
        begun = {r.action.ref.number: r for r in world.apply(plan).results}.get(2)
        said.add(begun.detail if begun else "")
        started = begun is not None and begun.status == CHANGED
        assert ({2} <= {r.ref.number for r in world.registry.records.values()}) == started
        world.interrupt_after = None
        world.apply(world.plan(both))
        assert world.phase(made) == "retained"
        assert world.plan(both).actions == ()
    assert BEFORE in said


def test_an_interrupt_anywhere_in_a_resume_leaves_one_agent_or_none() -> None:
    said, left = set(), set()
    for effects in range(8):
        world = opened()
        old = world.session("demo/app#1", "exited")
        plan = world.plan(running())
        world.interrupt_after = effects
        said |= {r.detail for r in world.apply(plan).results}
        left.add((world.record(old).status, len(world.registry.records)))
        world.interrupt_after = None
        world.apply(world.plan(running()))
        assert world.plan(running()).actions == ()
        assert sum(not pane.dead for server in world.servers.all for _, pane in server.each() if pane.owner) == 1
    assert BEFORE in said
    assert left == {("active", 1), ("closed", 1), ("closed", 2)}


def test_no_agent_is_started_while_an_earlier_one_of_the_item_cannot_be_seen() -> None:
    world = opened()
    old = world.session("demo/app#1", "retained", socket="/run/loopctl/other.sock")
    server = world.servers.at("/run/loopctl/other.sock")
    assert server
    server.hangs = True
    plan = world.plan(running())
    assert plan.actions == ()
    (held,) = plan.held
    assert "tmux did not answer" in held.reason
    assert world.record(old).status == "closed"
