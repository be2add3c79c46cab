"""How much one apply may change (S26)."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopctl.cli.apply import apply
from loopctl.cli.output import Progress
from loopctl.cli.wiring import Setup, Stop
from loopctl.config import load_config
from loopctl.errors import RefusedError
from loopctl.model.rules import Limits
from loopctl.testing import FakeWorld
from tests.unit.playbooks import ending


def plan(running: int, ended: int, limits: Limits):  # type: ignore[no-untyped-def]
    world = FakeWorld()
    for n in range(1, running + 1):
        world.item(f"demo/app#{n}", "closed" if n <= ended else "open")
        world.session(f"demo/app#{n}")
    return world, world.plan(ending(limits=limits))


@pytest.mark.parametrize(
    ("running", "ended", "fraction", "passes"),
    [
        (2, 1, 0.3, True),  # fractions say nothing of small numbers
        (2, 2, 0.3, True),
        (9, 3, 0.3, True),
        (9, 4, 0.3, False),
        (10, 3, 0.3, True),
        (10, 4, 0.3, False),
        (11, 4, 0.3, False),
        (10, 4, 0.4, True),  # exactly the fraction is not over it
        (10, 5, 0.4, False),
        (14, 4, 0.3, True),
    ],
)
def test_a_fraction_counts_from_four_endings_up(running: int, ended: int, fraction: float, passes: bool) -> None:
    world, made = plan(running, ended, Limits(100, fraction))
    assert len(made.actions) == ended
    if passes:
        assert world.apply(made).summary["changed"] == ended
    else:
        with pytest.raises(RefusedError, match="max_fraction"):
            world.apply(made)
        assert world.machine.effects == []


def test_a_count_over_the_limit_is_refused_and_the_way_on_is_named() -> None:
    world, made = plan(3, 3, Limits(2, 1.0))
    with pytest.raises(RefusedError) as refused:
        world.apply(made)
    assert "--max-changes 3" in refused.value.hint
    assert world.apply(made, 3).summary["changed"] == 3


def test_an_explicit_count_is_a_limit_too() -> None:
    world, made = plan(3, 3, Limits(100, 1.0))
    with pytest.raises(RefusedError):
        world.apply(made, 2)


def test_to_say_yes_raises_no_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world, _ = plan(3, 3, Limits())
    setup = Setup(load_config(None, {"HOME": str(tmp_path)}, tmp_path), world.world, Progress(), Stop())
    monkeypatch.setattr(Setup, "load", lambda *_: setup)
    book = tmp_path / "close.yml"
    book.write_text(
        "[{name: p, limits: {max_changes: 2, max_fraction: 1.0}, rules: ["
        "{name: r, match: {item: {state: closed}}, ensure: {session: retained}}]}]"
    )
    with pytest.raises(RefusedError, match="3 changes"):
        apply.main([str(book), "-y"], standalone_mode=False)
    assert world.machine.effects == []
    assert apply.main([str(book), "-y", "--max-changes", "3"], standalone_mode=False) == 0
    assert world.machine.effects != []


@pytest.mark.parametrize(("fraction", "passes"), [(1.0, True), (0.5, False)])
def test_what_a_lost_agent_left_behind_counts_on_both_sides(fraction: float, passes: bool) -> None:
    """Its pane is gone and a helper of it lives: to end that is an ending, of a session that could be ended."""
    world = FakeWorld()
    for n in range(1, 5):
        world.item(f"demo/app#{n}", "closed")
        made = world.session(f"demo/app#{n}")
        world.machine.spawn("helper", parent=1, mark=made.id, owner=made.id)
        assert made.pane
        world.servers.drop(made.pane)
    plan = world.plan(ending(limits=Limits(100, fraction)))
    assert [scope.running for scope in plan.plays] == [4]
    if passes:
        assert world.apply(plan).summary["changed"] == 4
    else:
        with pytest.raises(RefusedError, match=r"4 of 4 running sessions would end \(100%\)"):
            world.apply(plan)
