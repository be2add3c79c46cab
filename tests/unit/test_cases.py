"""Golden cases: tests/cases/NAME/{playbook.yaml,observed.yaml} give plan.json. `--golden` rewrites: then read the diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from loopctl.model.encode import plan_to_dict
from loopctl.playbook.compile import load_playbook
from loopctl.testing import POLITE, STUBBORN, FakeWorld
from tests.support import ROOT

CASES = sorted(path.parent for path in (ROOT / "tests" / "cases").glob("*/observed.yaml"))
HABITS = {"polite": POLITE, "stubborn": STUBBORN}


def world_of(observed: dict[str, Any]) -> FakeWorld:
    """`items` and `sessions` are the arguments of FakeWorld.item and .session; `record` overwrites the record."""
    world = FakeWorld()
    for item in observed.get("items", ()):
        world.item(**item)
    for session in observed.get("sessions", ()):
        children, record = session.pop("children", ()), session.pop("record", {})
        made = world.session(habit=HABITS[session.pop("habit", "polite")], **session, **record)
        for kind in children:
            world.child(made, kind)
    return world


def test_there_are_cases() -> None:
    assert len(CASES) >= 8


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_the_plan_is_the_expected_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.chdir(folder)
    observed = yaml.safe_load(Path("observed.yaml").read_text(encoding="utf-8"))
    why_nothing = observed.pop("why_nothing", "")
    world = world_of(observed)
    playbook = load_playbook(["playbook.yaml"], extra_vars={}, tags=frozenset(), policy=world.policy)
    plan = world.plan(playbook)
    assert bool(plan.actions) != bool(why_nothing), "a case without an action says why_nothing, and only such a case"
    text = json.dumps(plan_to_dict(plan), indent=2, ensure_ascii=True) + "\n"
    expected = Path("plan.json")
    if pytestconfig.getoption("--golden"):
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")
