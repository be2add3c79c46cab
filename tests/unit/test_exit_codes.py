"""What the exit code says: `there are changes`, `it failed`, `it was refused` and `it is not whole` are never the same."""

from __future__ import annotations

import pytest

from loopctl import errors
from loopctl.cli.apply import outcome_exit_code
from loopctl.cli.plan import plan_exit_code
from loopctl.model.plan import CHANGED, FAILED, OK, STALE, Held, Outcome, Result
from loopctl.testing import FakeWorld, Habit
from tests.unit.playbooks import ending
from tests.unit.render.samples import closing, ref, rich_plan

HELD = (Held(ref(22), "GitHub: Bad Gateway (HTTP 502)"),)


def test_each_code_means_one_thing() -> None:
    codes = [value for name, value in vars(errors).items() if name.startswith("EXIT_")]
    assert len(codes) == len(set(codes)) == 8
    classes = (errors.StateError, errors.RefusedError, errors.StaleError, errors.UsageError, errors.DocumentError)
    assert [cls.exit_code for cls in classes] == [1, 3, 4, 64, 65]


@pytest.mark.parametrize(
    ("ended", "silent", "detailed", "code"),
    [
        (False, False, False, 0),
        (False, False, True, 0),
        (True, False, False, 0),
        (True, False, True, 2),
        (False, True, False, 5),
        (True, True, True, 5),  # what was not seen outweighs what was
    ],
)
def test_a_plan(ended: bool, silent: bool, detailed: bool, code: int) -> None:
    world = FakeWorld()
    world.item("demo/app#1", "closed" if ended else "open")
    world.item("demo/app#2", silent="Bad Gateway" if silent else "")
    for number in (1, 2):
        world.session(f"demo/app#{number}")
    assert plan_exit_code(world.plan(ending()), detailed=detailed) == code


@pytest.mark.parametrize(
    ("statuses", "held", "interrupted", "code"),
    [
        ((), (), False, 0),
        ((CHANGED, OK), (), False, 0),
        ((CHANGED,), HELD, False, 5),
        ((CHANGED, STALE), HELD, False, 4),
        ((CHANGED, STALE, FAILED), HELD, False, 1),
        ((CHANGED,), (), True, 1),
    ],
)
def test_an_apply_ends_in_the_worst_that_happened(
    statuses: tuple[str, ...], held: tuple[Held, ...], interrupted: bool, code: int
) -> None:
    outcome = Outcome(tuple(Result(closing(), status) for status in statuses), held, interrupted=interrupted)
    assert outcome_exit_code(FakeWorld().plan(ending()), outcome) == code
    assert outcome_exit_code(rich_plan(), outcome) in {code, 5}


def test_one_that_cannot_be_ended_is_a_failure_beside_one_that_was() -> None:
    world = FakeWorld()
    for number in (1, 2):
        world.item(f"demo/app#{number}", "closed")
    world.session("demo/app#1", habit=Habit(refuses="operation not permitted"))
    world.session("demo/app#2")
    plan = world.plan(ending())
    outcome = world.apply(plan)
    assert [result.status for result in outcome.results] == [FAILED, CHANGED]
    assert outcome_exit_code(plan, outcome) == 1
    (failed,) = world.journal.of("action.failed")
    assert failed["ref"] == "items:demo/app#1"
