"""Which processes an ending takes with it, and what it says of the others, on the fakes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopctl.executor.close_processes import Ending
from loopctl.model.facts import Known
from loopctl.model.plan import CHANGED
from loopctl.model.processes import ProcessId, ProcessInfo, ProcessTable
from loopctl.model.trees import TreeRoot
from loopctl.testing import DAEMON, STUBBORN, FakeWorld, SimRecord
from tests.unit.playbooks import ending


def one() -> tuple[FakeWorld, SimRecord]:
    world = FakeWorld()
    world.item("demo/app#1", "closed")
    return world, world.session("demo/app#1")


def row(pid: int, ppid: int, name: str, *, sid: int = 100) -> ProcessInfo:
    return ProcessInfo(ProcessId(pid, f"s{pid}"), ppid, pid, sid, 100, 1000, name)


AGENT = row(100, 50, "claude")


def test_a_child_of_the_panes_session_is_not_spared_when_the_agent_has_ended() -> None:
    podman = row(101, 100, "podman")
    going = Ending(TreeRoot("m", AGENT.id, leader=AGENT.id), 5.0)
    going.rescan(ProcessTable.of((AGENT, podman)), ("podman",))
    going.rescan(ProcessTable.of((replace(podman, ppid=1),)), ("podman",))
    assert [process.id.pid for process in going.survivors] == [101]


def test_what_was_spared_is_named_when_its_parent_has_ended_and_not_when_it_has_ended_itself() -> None:
    podman = row(101, 100, "podman", sid=101)
    going = Ending(TreeRoot("m", AGENT.id, leader=AGENT.id), 5.0)
    going.rescan(ProcessTable.of((AGENT, podman)), ("podman",))
    going.rescan(ProcessTable.of((replace(podman, ppid=1),)), ("podman",))
    assert [process.label for process in going.spared] == ["podman (101)"]
    going.rescan(ProcessTable.of(()), ("podman",))
    assert going.spared == ()


def test_a_child_whose_mark_is_nobodys_ends_and_one_of_another_session_does_not() -> None:
    world, agent = one()
    other = world.session("demo/app#2")
    made_up, theirs = (world.child(agent, DAEMON, habit=STUBBORN) for _ in range(2))
    made_up.row = replace(made_up.row, mark="x")
    theirs.row = replace(theirs.row, mark=other.id)
    outcome = world.apply(world.plan(ending()))
    assert outcome.results[0].status == CHANGED
    assert (world.machine.alive(made_up.id), world.machine.alive(theirs.id)) == (False, True)


def test_the_plan_counts_a_child_whose_mark_is_nobodys() -> None:
    world, agent = one()
    child = world.child(agent, DAEMON)
    child.row = replace(child.row, mark="x")
    (action,) = world.plan(ending()).actions
    assert child.row.label in action.before.processes


def test_a_machine_that_hides_processes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = one()
    look = world.processes.look

    def partial() -> Known[ProcessTable]:
        fact = look()
        assert isinstance(fact, Known)
        return Known(replace(fact.value, partial=True))

    monkeypatch.setattr(world.processes, "look", partial)
    (result,) = world.apply(world.plan(ending())).results
    assert "not all processes of this machine can be seen (hidepid)" in result.detail
