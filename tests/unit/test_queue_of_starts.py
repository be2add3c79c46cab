"""How many sessions may run at once, and who waits."""

from __future__ import annotations

from dataclasses import replace

from loopctl.model.plan import CHANGED, FAILED
from loopctl.model.rules import Limits, Playbook
from loopctl.model.sessions import EXITED, PAUSED, RUNNING
from loopctl.run import plan_once
from loopctl.testing import FakeWorld, Habit
from tests.unit.playbooks import ending, running


def world(items: int = 3, most: int = 2) -> FakeWorld:
    made = FakeWorld()
    made.policy = replace(made.policy, max_concurrent_sessions=most)
    for number in range(1, items + 1):
        made.item(f"demo/app#{number}", labels=["loop"])
    return made


def limited(playbook: Playbook, most: int) -> Playbook:
    return replace(playbook, plays=tuple(replace(p, limits=Limits(max_sessions=most)) for p in playbook.plays))


def live(made: FakeWorld) -> int:
    return sum(not pane.dead for server in made.servers.all for _, pane in server.each() if pane.owner)


def test_what_does_not_fit_waits_with_its_place() -> None:
    made = world(items=4)
    plan = made.plan(running())
    assert [str(action.ref) for action in plan.actions] == ["items:demo/app#1", "items:demo/app#2"]
    assert [held.reason for held in plan.held] == [
        "waits for a free place: 1 of 2 in the queue, 2 sessions may run at once",
        "waits for a free place: 2 of 2 in the queue, 2 sessions may run at once",
    ]
    made.apply(plan)
    assert live(made) == 2
    again = made.plan(running())
    assert (again.actions, len(again.held)) == ((), 2)


def test_a_play_may_allow_fewer() -> None:
    plan = world(most=0).plan(limited(running(), 1))
    assert (len(plan.actions), len(plan.held)) == (1, 2)
    plan = world(most=2).plan(limited(running(), 3))
    assert (len(plan.actions), len(plan.held)) == (2, 1)


def test_no_limit_is_no_limit() -> None:
    assert world(most=0).plan(running()).held == ()


def test_a_paused_agent_lives_and_keeps_its_place() -> None:
    made = world(items=2, most=1)
    made.session("demo/app#1", PAUSED)
    assert made.plan(running()).actions == ()


def test_what_cannot_be_seen_keeps_its_place() -> None:
    made = world(items=2, most=1)
    made.session("demo/app#1", RUNNING, socket="/run/other.sock")
    made.servers.ensure("/run/other.sock").hangs = True
    plan = made.plan(running())
    assert [str(action.ref) for action in plan.actions] == []


def test_who_had_a_place_comes_before_who_has_none() -> None:
    made = world(items=3, most=1)
    made.session("demo/app#3", EXITED)
    (action,) = made.plan(running()).actions
    assert str(action.ref) == "items:demo/app#3"


def both() -> Playbook:
    return Playbook((*ending().plays, *running().plays))


def test_an_ending_gives_its_place_away_in_the_same_apply() -> None:
    made = world(items=2, most=1)
    made.item("demo/app#1", "closed")
    made.session("demo/app#1")
    outcome = made.apply(made.plan(both()))
    assert [result.status for result in outcome.results] == [CHANGED, CHANGED]
    assert live(made) == 1
    assert (made.plan(both()).actions, made.plan(both()).held) == ((), ())


def test_an_ending_that_fails_gives_nothing_away() -> None:
    made = world(items=2, most=1)
    made.item("demo/app#1", "closed")
    made.session("demo/app#1", habit=Habit(refuses="operation not permitted"))
    outcome = made.apply(made.plan(both()))
    assert [result.status for result in outcome.results] == [FAILED]
    assert [held.reason for held in outcome.held] == ["waits for a free place"]
    assert live(made) == 1


def test_two_plans_made_side_by_side_do_not_overfill() -> None:
    made = world(items=2, most=1)
    made.registry.prove_writable()
    one, two = (plan_once(running(), made.world, lambda ref, n=n: ref.number == n) for n in (1, 2))
    assert (len(one.actions), len(two.actions)) == (1, 1)
    made.apply(one)
    outcome = made.apply(two)
    assert [held.reason for held in outcome.held] == ["waits for a free place"]
    assert live(made) == 1
