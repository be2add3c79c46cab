"""How a state machine of random worlds is played, and what is said of it."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

#: How many worlds `make worlds` asks for; 0 in `make test`, which tries the same few each time.
WORLDS = int(os.environ.get("WORLDS", "0"))


def play(machine: type[RuleBasedStateMachine], *, worlds: int, few: int, steps: int, few_steps: int) -> None:
    """Try so many `worlds` of so many `steps`, all of them new; with none asked for the `few` that are always the same."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=worlds or few,
            stateful_step_count=steps if worlds else few_steps,
            deadline=None,
            derandomize=not worlds,
            database=None,
            print_blob=True,
            phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )


def report(tried: Counter[str], name: str) -> None:
    """Write what was tried beside the file that WORLDS_REPORT names, where it does."""
    if figures := os.environ.get("WORLDS_REPORT"):
        path = Path(figures).with_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dict(sorted(tried.items())), indent=2))
