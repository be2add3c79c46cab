"""A start beside an agent that no record of this machine knows would make a second one."""

from __future__ import annotations

from loopctl.model.plan import Plan
from loopctl.testing import FakeWorld
from tests.unit.playbooks import ending, running


def held(plan: Plan) -> list[str]:
    assert plan.actions == ()
    return [item.reason for item in plan.held]


def panes(made: FakeWorld) -> int:
    return sum(1 for server in made.servers.all for _ in server.each())


def test_a_live_pane_that_is_marked_for_the_item_holds_its_start() -> None:
    made = FakeWorld()
    made.item("demo/app#1", labels=("loop",))
    agent = made.session("demo/app#1")
    made.registry.records.clear()
    assert agent.pane
    (reason,) = held(made.plan(running()))
    assert reason.startswith(f"pane {agent.pane.pane_id} at {made.socket} is marked for this item")
    assert "loopctl sessions rebuild" in reason


def test_a_dead_pane_or_one_of_another_item_holds_nothing() -> None:
    made = FakeWorld()
    made.item("demo/app#1", labels=("loop",))
    made.session("demo/app#1", "exited")
    made.session("demo/app#11")
    garbled = made.session("demo/app#2")
    assert garbled.session
    garbled.session.ref = "no ref"
    made.registry.records.clear()
    assert [action.verb for action in made.plan(running()).actions] == ["start"]


def test_a_pane_that_came_after_the_plan_holds_its_apply() -> None:
    made = FakeWorld()
    made.item("demo/app#1", labels=("loop",))
    made.registry.prove_writable()
    plan = made.plan(running())
    made.session("demo/app#1")
    made.registry.records.clear()
    outcome = made.apply(plan)
    assert (len(outcome.held), outcome.results, panes(made)) == (1, (), 1)


def test_a_machine_that_has_another_name_now_starts_nothing_twice() -> None:
    made = FakeWorld(machine="old-name")
    made.item("demo/app#1", labels=("loop",))
    made.item("demo/app#2", "closed")
    made.session("demo/app#1")
    made.session("demo/app#2")
    made.session("demo/app#9", machine="elsewhere", socket="/elsewhere")
    made.name = "new-name"
    plan = made.plan(running())
    (reason,) = held(plan)
    assert "registered under the machine name old-name and is here: set state.machine: old-name" in reason
    assert plan.notes == (
        "2 sessions were registered under the machine name old-name and are here: set state.machine: old-name",
        "1 session of other machines are out of scope (elsewhere)",
    )
    assert made.plan(ending()).notes == plan.notes


def test_a_session_of_another_machine_is_never_ended_nor_lost_here() -> None:
    made = FakeWorld()
    made.keep_alive()
    made.item("demo/app#1", "closed")
    made.item("demo/app#2", "closed")
    here, there = made.session("demo/app#1"), made.session("demo/app#2", machine="elsewhere")
    plan = made.plan(ending())
    assert [action.guard.record_id for action in plan.actions] == [here.id]
    made.apply(plan)
    assert {effect.owner for effect in made.machine.effects} == {here.id}
    assert made.record(there).status == "active"


def test_a_record_of_a_machine_whose_panes_are_not_here_holds_nothing() -> None:
    made = FakeWorld()
    made.item("demo/app#1", labels=("loop",))
    made.session("demo/app#1", machine="elsewhere", socket="/elsewhere")
    assert [action.verb for action in made.plan(running()).actions] == ["start"]
