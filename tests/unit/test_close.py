"""The order of an ending, and what stops it, on the fakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from loopctl.errors import StateError
from loopctl.executor import close_transcripts
from loopctl.model.facts import Fact
from loopctl.model.plan import CHANGED, FAILED, Outcome, Result
from loopctl.model.rules import REMOVE
from loopctl.model.sessions import SessionRecord
from loopctl.testing import DAEMON, FORKS, NOHUP, RAISE, SETSID, STUBBORN, FakeWorld, Habit, SimRecord
from tests.unit.playbooks import ending


def one(habit: Habit | None = None, **fields: object) -> tuple[FakeWorld, SimRecord]:
    world = FakeWorld()
    world.item("demo/app#1", "closed")
    return world, world.session("demo/app#1", habit=habit or Habit(), **fields)  # type: ignore[arg-type]


def close(world: FakeWorld, **ensure: object) -> Outcome:
    return world.apply(world.plan(ending(**ensure)))  # type: ignore[arg-type]


def only(outcome: Outcome) -> Result:
    (result,) = outcome.results
    return result


def whats(world: FakeWorld) -> list[str]:
    return [effect.what for effect in world.machine.effects]


def test_secured_then_saved_then_signalled_then_recorded() -> None:
    world, agent = one()
    assert only(close(world)).status == CHANGED
    assert whats(world)[:3] == ["secure", "save", "signal"]
    assert whats(world)[-1] == "record"
    assert world.phase(agent) == "retained"
    assert world.record(agent).reason == "issue-closed"


def test_a_pane_is_removed_after_its_processes_have_ended_and_before_the_record_is_closed() -> None:
    world, agent = one()
    assert only(close(world, session=REMOVE)).status == CHANGED
    order = whats(world)
    assert order.index("signal") < order.index("remove") < order.index("record")
    assert world.phase(agent) == "gone"
    assert b"says hello" in world.transcripts.load(world.record(agent))


@pytest.mark.parametrize("port_method", ["terminals.secure", "terminals.capture", "processes.look"])
def test_nothing_is_signalled_while_something_before_it_cannot_be_done(port_method: str) -> None:
    world, agent = one()
    plan = world.plan(ending())
    port, method = port_method.split(".")
    # The table is read once for the fresh look, then for the snapshot.
    world.faults.fail(port, method, nth=2 if method == "look" else 1)
    assert only(world.apply(plan)).status == FAILED
    assert "signal" not in whats(world)
    assert world.record(agent).status == "active"


def test_input_that_is_turned_on_again_stops_the_ending() -> None:
    world, agent = one()
    assert agent.pane
    agent.pane.reopens = True
    assert "did not hold" in only(close(world)).detail
    assert "signal" not in whats(world)


def test_a_program_that_is_put_into_the_pane_meanwhile_stops_the_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    world, agent = one()
    assert agent.pane and agent.process
    pane, server = agent.pane, world.servers.ensure(world.socket).id.pid
    editor = world.machine.spawn("vim", parent=server, pane=(f"{world.socket},{server},0", pane.pane_id))
    save_all = world.transcripts.save_all

    def respawned(texts: Sequence[tuple[SessionRecord, bytes]]) -> Mapping[str, Fact[str]]:
        before, pane.pid = pane.pid, editor.id.pid
        world.machine.end(before)
        return save_all(texts)

    plan = world.plan(ending())
    monkeypatch.setattr(world.transcripts, "save_all", respawned)
    assert "another process runs in" in only(world.apply(plan)).detail
    assert world.machine.alive(editor.id)
    assert world.record(agent).status == "active"


def test_a_transcript_that_cannot_be_saved_stops_the_ending_and_leaves_the_agent_its_input() -> None:
    world, agent = one()
    world.faults.fail("transcripts", "save", kind=RAISE, reason="disk full")
    assert "disk full" in only(close(world)).detail
    assert "signal" not in whats(world)
    assert agent.pane
    assert not agent.pane.input_off


@pytest.mark.parametrize("port", ["registry", "transcripts"])
def test_where_nothing_can_be_written_nothing_is_touched(port: str) -> None:
    world, _ = one()
    plan = world.plan(ending())
    world.faults.fail(port, "prove_writable", kind=RAISE, reason="read-only file system")
    with pytest.raises(StateError, match="read-only"):
        world.apply(plan)
    assert whats(world) == []


def test_survivors_are_named_and_the_record_stays_open() -> None:
    world, agent = one(Habit(on_term="ignores", unkillable=True))
    result = only(close(world))
    assert result.status == FAILED
    assert f"still alive: claude ({agent.process})" in result.detail
    assert world.record(agent).status == "active"


def test_a_refused_signal_is_said() -> None:
    world, _ = one(Habit(refuses="operation not permitted"))
    assert "operation not permitted" in only(close(world)).detail


def test_without_grace_nobody_waits() -> None:
    world, _ = one(STUBBORN)
    assert "SIGKILL" in only(close(world, grace=0.0)).detail
    assert [e.detail for e in world.machine.effects if e.what == "signal"] == ["SIGKILL"]
    assert world.machine.time < 0.5


@pytest.mark.parametrize("habit", [Habit(zombie=True), Habit(on_term="ignores", zombie=True)])
def test_one_that_nobody_collects_has_ended_and_is_not_waited_for(habit: Habit) -> None:
    world, _ = one(habit)
    assert only(close(world, grace=5.0)).status == CHANGED
    assert [e.detail for e in world.machine.effects if e.what == "signal"].count("SIGKILL") == (
        habit.on_term == "ignores"
    )
    assert world.machine.time < (6.0 if habit.on_term == "ignores" else 1.0)


def test_fifty_stubborn_agents_take_one_grace() -> None:
    world = FakeWorld()
    for n in range(1, 51):
        world.item(f"demo/app#{n}", "closed")
        world.session(f"demo/app#{n}", habit=STUBBORN)
    outcome = close(world, grace=5.0)
    assert {r.status for r in outcome.results} == {CHANGED}
    assert 5.0 <= world.machine.time < 7.0


@pytest.mark.parametrize("kind", [NOHUP, SETSID, DAEMON])
def test_what_left_the_agent_is_ended_too(kind: str) -> None:
    world, agent = one()
    child = world.child(agent, kind, habit=STUBBORN)
    assert only(close(world)).status == CHANGED
    assert not world.machine.alive(child.id)


def test_what_is_born_while_it_ends_is_found() -> None:
    world, agent = one(Habit(on_term=FORKS))
    assert only(close(world)).status == CHANGED
    assert [p for p in world.machine.processes.values() if p.owner == agent.id] == []


def test_an_exit_that_tmux_missed_is_no_failure() -> None:
    world, agent = one()
    assert agent.pane
    agent.pane.late = True
    assert only(close(world)).status == CHANGED
    assert world.phase(agent) == "retained"


def test_servers_of_others_are_spared_and_named() -> None:
    world, agent = one()
    shared = world.child(agent, DAEMON, name="ssh-agent")
    result = only(close(world))
    assert (result.status, world.machine.alive(shared.id)) == (CHANGED, True)
    assert f"spared ssh-agent ({shared.id.pid})" in result.detail


def test_from_inside_the_session_nothing_is_done() -> None:
    world, agent = one()
    world.inside(agent)
    plan = world.plan(ending())
    assert plan.actions == ()
    assert "inside this session" in plan.held[0].reason


def test_an_interrupt_before_the_first_signal_ends_nobody() -> None:
    world, agent = one()
    world.interrupt_after = 0
    outcome = close(world)
    assert outcome.interrupted
    assert "signal" not in whats(world)
    assert world.record(agent).status == "active"


def test_closing_one_item_touches_no_other() -> None:
    world, _ = one()
    other = world.session("demo/app#15")
    world.item("demo/app#15")
    close(world)
    assert {effect.owner for effect in world.machine.effects} == {next(iter(world.registry.records))}
    assert world.phase(other) == "running"


def test_many_transcripts_are_saved_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their texts are never all in memory."""
    monkeypatch.setattr(close_transcripts, "_GROUP_BYTES", 1)
    world = FakeWorld()
    made = []
    for number in range(1, 4):
        world.item(f"demo/app#{number}", "closed")
        made.append(world.session(f"demo/app#{number}"))
    world.apply(world.plan(ending()))
    assert all(b"says hello" in world.transcripts.load(world.record(one)) for one in made)
    assert world.faults.calls.count("terminals.capture") == 6


@pytest.mark.parametrize("by_config", [False, True])
def test_an_undead_session_that_nobody_is_to_end_is_left_as_it_is(*, by_config: bool) -> None:
    world = FakeWorld()
    world.policy = replace(world.policy, kill_harness_on_close=not by_config)
    world.item("demo/app#1", "closed")
    made = world.session("demo/app#1", "undead")
    assert made.pane
    made.pane.input_off, made.pane.remain_on_exit = True, "on"
    assert world.plan(ending(kill_harness=None if by_config else False)).actions == ()
    assert [action.verb for action in world.plan(ending(kill_harness=True)).actions] == ["close"]
