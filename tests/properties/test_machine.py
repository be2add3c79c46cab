"""Random worlds, step by step: see tests/properties/machine.py. WORLDS says how many; without it the same few each time."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.machine import TRIED, AnyWorld

WORLDS = int(os.environ.get("WORLDS", "0"))


def test_any_world_keeps_what_was_promised() -> None:
    TRIED.clear()
    run_state_machine_as_test(
        AnyWorld,
        settings=settings(
            max_examples=WORLDS or 12,
            stateful_step_count=50 if WORLDS else 30,
            deadline=None,
            derandomize=not WORLDS,
            database=None,
            print_blob=True,
            phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
    if report := os.environ.get("WORLDS_REPORT"):
        Path(report).parent.mkdir(parents=True, exist_ok=True)
        Path(report).write_text(json.dumps(dict(sorted(TRIED.items())), indent=2))
    assert TRIED["worlds"] and TRIED["faults"]
