"""What the limits allow in one interval: no plan, and no edit of a playbook, is a way around them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from loopctl.controller.cycle import Budget
from loopctl.model.plan import (
    CHANGED,
    CLOSE,
    COMMENT,
    DELIVER,
    REAP,
    RESUME,
    START,
    Action,
    Before,
    Outcome,
    Plan,
    Result,
)  # fmt: skip
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Limits
from loopctl.testing import FakeWorld
from tests.unit.playbooks import ending

WORLD = FakeWorld()
WORLD.item("demo/app#1", "closed")
WORLD.session("demo/app#1")
PLAN = WORLD.plan(ending(limits=Limits(10, 0.5)))


def actions(verb: str, numbers: Iterable[int], *, alive: bool = False) -> tuple[Action, ...]:
    """One for each item."""
    (any_,) = PLAN.actions
    before = Before(phase="running", processes=("agent",) if alive else ())
    guard = replace(any_.guard, record_id="")
    return tuple(
        replace(any_, verb=verb, ref=WorkItemRef.parse(f"items:demo/app#{n}"), before=before, guard=guard)
        for n in numbers
    )


def plan(*what: tuple[Action, ...], running: int = 100, play: str = "") -> Plan:
    mine = tuple(replace(action, play=play or action.play) for part in what for action in part)
    return replace(
        PLAN, actions=mine, plays=tuple(replace(s, running=running, name=play or s.name) for s in PLAN.plays)
    )


def after(*what: tuple[Action, ...]) -> Budget:
    """An interval in which this was done."""
    budget = Budget(60.0)
    budget.spend(Outcome(tuple(Result(action, CHANGED) for part in what for action in part)), 0.0)
    return budget


@pytest.mark.parametrize("verb", [DELIVER, COMMENT, CLOSE])
def test_something_else_on_the_same_items_makes_no_room(verb: str) -> None:
    budget = after(actions(START, range(1, 11)))
    again = actions(START, range(11, 21))
    assert "max_changes" in budget.excess(plan(again), 5)
    assert "max_changes" in budget.excess(plan(actions(verb, range(1, 11)), again), 5)
    assert budget.excess(plan(again), 61) == ""


@pytest.mark.parametrize("verb", [DELIVER, COMMENT, REAP])
def test_nor_does_it_for_a_fraction(verb: str) -> None:
    budget = after(actions(CLOSE, range(1, 5), alive=True))
    more = actions(CLOSE, range(5, 8), alive=True)
    refused = '7 of 8 running sessions would end (88%), max_fraction of "the play" is 0.5'
    assert budget.excess(plan(actions(verb, range(1, 4)), more, running=4), 5) == refused


def test_the_same_once_more_is_one_change() -> None:
    budget = after(actions(START, range(1, 11)), actions(COMMENT, range(1, 11)))
    assert budget.excess(plan(actions(RESUME, range(1, 11))), 5) == ""


def test_a_play_by_another_name_has_no_other_budget() -> None:
    budget = after(actions(START, range(1, 11)))
    assert 'max_changes of "another" is 10' in budget.excess(plan(actions(START, [11]), play="another"), 5)


def test_panes_that_are_removed_are_no_sessions_that_ran() -> None:
    budget = after(actions(REAP, range(1, 6)))
    refused = budget.excess(plan(actions(CLOSE, range(6, 10), alive=True), running=4), 5)
    assert "4 of 4 running sessions would end" in refused
