"""What happens to a close when the world changes under it: each part that fails is said, and the record stays open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loopctl.model.plan import CHANGED, FAILED, Result
from loopctl.model.rules import REMOVE, RETAIN
from loopctl.testing import STUBBORN, FakeWorld, SimPane, SimRecord
from loopctl.testing.machine import Habit
from tests.unit.playbooks import ending

Meanwhile = Callable[[object, str, Callable[[], object]], None]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Do something just before the first call of a port's method from now on."""

    def arrange(port: object, method: str, what: Callable[[], object]) -> None:
        really, due = getattr(port, method), [what]

        def call(*args: Any, **words: Any) -> Any:
            if due:
                due.pop()()
            return really(*args, **words)

        monkeypatch.setattr(port, method, call)

    return arrange


def one(**fields: Any) -> tuple[FakeWorld, SimRecord, SimPane]:
    world = FakeWorld()
    world.keep_alive()
    world.item("demo/app#1", "closed")
    agent = world.session("demo/app#1", **fields)
    assert agent.pane
    return world, agent, agent.pane


def apply(world: FakeWorld, before: Callable[[], object] = lambda: None, **ensure: Any) -> Result:
    """Plan the ending, let something happen, apply."""
    plan = world.plan(ending(**ensure))
    before()
    (result,) = world.apply(plan).results
    return result


def test_loopctl_that_came_into_the_session_before_the_close_began() -> None:
    world, agent, _ = one()
    result = apply(world, lambda: world.inside(agent))
    assert (result.status, result.detail) == (FAILED, "refused: loopctl itself runs inside this session")
    assert agent.process
    assert world.machine.alive(agent.process)


def test_loopctl_that_came_into_the_session_during_the_close(meanwhile: Meanwhile) -> None:
    world, agent, pane = one()
    meanwhile(world.transcripts, "save_all", lambda: world.inside(agent))
    assert apply(world).detail == "refused: loopctl itself runs inside this session"
    assert (world.machine.alive(agent.process), pane.input_off) == (True, False)  # type: ignore[arg-type]


def test_loopctl_that_came_into_the_session_after_the_first_signal(meanwhile: Meanwhile) -> None:
    world, agent, _ = one(habit=STUBBORN)
    meanwhile(world.processes, "signal", lambda: world.inside(agent))
    assert "loopctl itself runs in this session" in apply(world, grace=5.0).detail
    assert world.machine.alive(agent.process)  # type: ignore[arg-type]
    assert world.record(agent).status == "active"


def test_an_interrupt_during_the_grace_names_who_is_alive() -> None:
    world, agent, _ = one(habit=STUBBORN)
    world.interrupt_after = 3  # secured, saved, asked
    result = apply(world, grace=60.0)
    assert (result.status, result.detail) == (FAILED, f"interrupted: still alive claude ({agent.process})")
    assert world.machine.time < 1
    assert world.record(agent).status == "active"


def test_a_process_table_that_cannot_be_read_any_more_proves_no_end() -> None:
    world, agent, _ = one(habit=STUBBORN)
    plan = world.plan(ending(grace=5.0))
    # The fresh look, the snapshot, then the first look of the grace.
    world.faults.fail("processes", "look", nth=3)
    (result,) = world.apply(plan).results
    assert (result.status, "still alive" in result.detail) == (FAILED, True)
    assert world.record(agent).status == "active"


def test_a_pane_that_tmux_goes_on_showing_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    world, agent, pane = one()
    pane.late = True
    monkeypatch.setattr(world.terminals, "nudge", lambda *_: None)
    assert apply(world).detail == f"tmux still shows {pane.pane_id} as alive"
    assert world.record(agent).status == "active"


def test_input_that_is_on_again_in_the_end(meanwhile: Meanwhile) -> None:
    world, agent, pane = one()
    meanwhile(world.processes, "signal", lambda: setattr(pane, "input_off", False))
    assert apply(world).detail == "input is on again"
    assert world.record(agent).status == "active"


def test_a_pane_that_vanishes_with_its_agent_is_no_failure(meanwhile: Meanwhile) -> None:
    world, agent, pane = one()
    meanwhile(world.processes, "signal", lambda: world.servers.drop(pane))
    result = apply(world)
    assert (result.status, "its pane vanished meanwhile" in result.detail) == (CHANGED, True)
    assert world.record(agent).status == "closed"


def taken_away(world: FakeWorld, agent: SimRecord, pane: SimPane) -> None:
    """Somebody moves it into a session of their own."""
    assert agent.session
    agent.session.panes.remove(pane)
    world.foreign("somebody").panes.append(pane)


def unmarked(world: FakeWorld, agent: SimRecord, pane: SimPane) -> None:
    assert agent.session
    agent.session.mark = ""


def hidden(world: FakeWorld, agent: SimRecord, pane: SimPane) -> None:
    world.servers.unlink(world.socket)


@pytest.mark.parametrize("session", [RETAIN, REMOVE])
@pytest.mark.parametrize("what", [taken_away, unmarked, hidden])
def test_a_pane_that_is_out_of_sight_is_not_gone(
    meanwhile: Meanwhile, what: Callable[[FakeWorld, SimRecord, SimPane], None], session: str
) -> None:
    """Nobody could turn its input off or save what it shows, so its agent is not ended."""
    world, agent, pane = one()
    meanwhile(world.terminals, "secure", lambda: what(world, agent, pane))
    assert apply(world, session=session).status == FAILED
    assert not [effect for effect in world.machine.effects if effect.what in {"signal", "remove"}]
    assert world.machine.alive(agent.process)  # type: ignore[arg-type]
    assert world.record(agent).status == "active"


@pytest.mark.parametrize("what", [taken_away, unmarked, hidden])
def test_a_pane_that_gets_out_of_sight_during_the_close_leaves_its_record_open(
    meanwhile: Meanwhile, what: Callable[[FakeWorld, SimRecord, SimPane], None]
) -> None:
    world, agent, pane = one()
    meanwhile(world.processes, "signal", lambda: what(world, agent, pane))
    assert apply(world).status == FAILED
    assert world.record(agent).status == "active"
    assert b"says hello" in world.transcripts.load(world.record(agent))


def test_a_pane_that_cannot_be_removed_keeps_its_record_open() -> None:
    world, agent, pane = one()
    pane.clings = True
    assert "its pane could not be removed" in apply(world, session=REMOVE).detail
    assert world.record(agent).status == "active"


def test_a_server_that_stops_answering_after_the_signals(meanwhile: Meanwhile) -> None:
    world, agent, _ = one()
    server = world.servers.at(world.socket)
    assert server
    meanwhile(world.processes, "signal", lambda: setattr(server, "hangs", True))
    assert apply(world).status == FAILED
    assert world.record(agent).status == "active"


def test_a_record_that_vanishes_is_said(meanwhile: Meanwhile) -> None:
    world, agent, _ = one()
    meanwhile(world.processes, "signal", lambda: world.registry.records.pop(agent.id))
    assert apply(world).detail == "its record has vanished from the registry"


def test_a_record_that_keeps_changing_is_said_and_one_that_changed_once_is_closed(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile
) -> None:
    world, agent, _ = one()
    meanwhile(world.registry, "replace_all", lambda: world.registry.edit(agent.id, status="paused"))
    assert apply(world).status == CHANGED
    assert world.record(agent).status == "closed"

    world, agent, _ = one()
    really = world.registry.replace_all

    def late(records: Any) -> Any:
        world.registry.edit(agent.id)
        return really(records)

    monkeypatch.setattr(world.registry, "replace_all", late)
    assert apply(world).detail == "its record keeps changing"
    assert world.record(agent).status == "active"


def test_last_words_that_cannot_be_had_are_no_failure() -> None:
    world, agent, _ = one()
    plan = world.plan(ending())
    world.faults.fail("terminals", "capture", nth=2)
    (result,) = world.apply(plan).results
    assert (result.status, "its last words could not be saved" in result.detail) == (CHANGED, True)
    assert world.record(agent).status == "closed"
    assert b"says hello" in world.transcripts.load(world.record(agent))


@pytest.mark.parametrize("habit", [Habit(), STUBBORN])
@pytest.mark.parametrize("nth", range(2, 8))
def test_an_end_that_cannot_be_seen_closes_no_record(habit: Habit, nth: int) -> None:
    """The process table cannot be read from its nth reading on."""
    world, agent, _ = one(habit=habit)
    plan = world.plan(ending(grace=1.0))
    for later in range(nth, nth + 200):
        world.faults.fail("processes", "look", nth=later)
    results = world.apply(plan).results
    closed = world.record(agent).status == "closed"
    assert closed == all(result.status == CHANGED for result in results)
    assert not closed or not world.machine.alive(agent.process)  # type: ignore[arg-type]
