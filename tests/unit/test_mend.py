"""A close that was cut off, of an item that is to run after all: people can type to its agent again."""

from __future__ import annotations

import pytest

from loopctl.model.facts import Known
from loopctl.model.items import CLOSED
from loopctl.model.plan import CHANGED, FAILED, RECORD, STALE, Result
from loopctl.model.sessions import PAUSED, RUNNING
from loopctl.testing import RAISE, Crash, FakeWorld, SimRecord
from tests.unit.playbooks import ending, running


def cut_off(world: FakeWorld, agent: SimRecord) -> None:
    """A close crashes right before its first signal; then the item is open again."""
    world.item("demo/app#1", CLOSED)
    world.faults.fail("processes", "signal", kind="crash")
    with pytest.raises(Crash):
        world.apply(world.plan(ending()))
    world.item("demo/app#1", labels=["loop"])
    assert agent.pane and agent.pane.input_off
    assert world.phase(agent) == RUNNING


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def agent(world: FakeWorld) -> SimRecord:
    agent = world.session("demo/app#1")
    cut_off(world, agent)
    return agent


def mend(world: FakeWorld) -> Result:
    plan = world.plan(running())
    assert [(a.verb, a.before.input, a.after.input) for a in plan.actions] == [(RECORD, "off", "on")]
    (result,) = world.apply(plan).results
    return result


def test_the_input_is_on_again_and_nothing_else_is_touched(world: FakeWorld, agent: SimRecord) -> None:
    before = len(world.machine.effects)
    assert mend(world).status == CHANGED
    assert agent.pane and not agent.pane.input_off and not agent.pane.own_mark
    assert [(e.what, e.owner) for e in world.machine.effects[before:]] == [("release", agent.id)]
    assert (world.plan(running()).actions, world.plan(running()).held) == ((), ())


def test_a_second_pane_of_the_session_is_too(world: FakeWorld) -> None:
    agent = world.session("demo/app#1")
    beside = world.beside(agent)
    cut_off(world, agent)
    assert beside.input_off
    assert mend(world).status == CHANGED
    assert not beside.input_off


def test_what_a_person_turned_off_stays_off(world: FakeWorld) -> None:
    world.item("demo/app#1", labels=["loop"])
    agent = world.session("demo/app#1")
    assert agent.pane
    agent.pane.input_off = True
    assert world.plan(running()).actions == ()


def test_that_it_did_not_hold_is_said(world: FakeWorld, agent: SimRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.terminals, "release", lambda *_: "no such pane")
    result = mend(world)
    assert (result.status, result.detail) == (FAILED, f"input is still off on {agent.pane.pane_id}: no such pane")  # type: ignore[union-attr]


def test_that_it_cannot_be_told_is_said(world: FakeWorld, agent: SimRecord) -> None:
    plan = world.plan(running())
    world.faults.fail("terminals", "look", 2, reason="silent")
    (result,) = world.apply(plan).results
    assert (result.status, result.detail) == (FAILED, "silent")


def test_a_paused_session_waits_for_its_resume(world: FakeWorld, agent: SimRecord) -> None:
    world.registry.edit(agent.id, status="paused")
    assert world.phase(agent) == PAUSED
    assert world.plan(running()).actions == ()
    world.registry.edit(agent.id, status="active")
    assert mend(world).status == CHANGED


def lost_start(world: FakeWorld) -> None:
    world.item("demo/app#1", labels=["loop"])
    world.faults.fail("terminals", "start")
    world.apply(world.plan(running()))


def test_a_record_that_cannot_be_written_is_said(world: FakeWorld) -> None:
    lost_start(world)
    plan = world.plan(running())
    world.faults.fail("registry", "replace", kind=RAISE, reason="disk full")
    (result,) = world.apply(plan).results
    assert (result.status, result.detail) == (FAILED, "registry.replace: disk full")


def test_a_record_that_somebody_else_writes_first_is_left_to_them(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_start(world)
    plan = world.plan(running())
    monkeypatch.setattr(world.registry, "replace", lambda _: None)
    (result,) = world.apply(plan).results
    assert (result.status, result.detail) == (STALE, "its record has changed meanwhile")


def test_an_agent_whose_start_was_cut_off_goes_on_with_its_conversation_when_its_pane_is_lost(world: FakeWorld) -> None:
    """Unless its record learns of its pane, what comes later looks like a start that never came to one."""
    lost_start(world)
    (record,) = world.registry.all()
    (result,) = world.apply(world.plan(running())).results
    assert result.status == CHANGED
    world.keep_alive()
    view = world.terminals.look(world.socket)
    assert isinstance(view, Known)
    for server in world.servers.all:
        for _, pane in list(server.each()):
            if pane.owner == record.id:
                world.servers.drop(pane)
    (action,) = world.plan(running()).actions
    assert action.after.conversation == record.harness_session_id
