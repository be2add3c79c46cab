"""Hostile input of every kind. `make fuzz` tries many; `make test` tries a few, always the same ones."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import documents, stores, streams
from tests.fuzz.mutations import bent, regrown
from tests.fuzz.targets import Target

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
TARGETS: tuple[Target, ...] = (*documents.TARGETS, *streams.TARGETS, *stores.TARGETS)

fuzzing = settings(
    max_examples=EXAMPLES or 30,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class Input(bytes):
    """Hypothesis prints what made a test fail; megabytes help nobody."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes that begin with {self[:20]!s}>"


def inputs(target: Target) -> st.SearchStrategy[Input]:
    seeds = target.seeds()
    return (st.one_of(bent(seeds), regrown(seeds)) if target.tree else bent(seeds)).map(Input)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name.replace(" ", "-"))
def test_hostile_input_is_refused_in_one_line_and_does_nothing(
    target: Target, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tried = accepted = 0
    slowest = 0.0
    folder = tmp_path / "f"

    @fuzzing
    @given(inputs(target))
    def attack(data: bytes) -> None:
        nonlocal tried, accepted, slowest
        folder.mkdir(0o700)
        try:
            started = time.process_time()
            accepted += target.attack(data, folder)
            slowest = max(slowest, time.process_time() - started)
            tried += 1
        except BaseException as error:
            kept = tmp_path / hashlib.sha256(data).hexdigest()[:12]
            kept.write_bytes(data)
            error.add_note(f"the input is in {kept}")
            raise
        finally:
            shutil.rmtree(folder)

    attack()
    record_property("fuzz", [target.name, tried, accepted, round(slowest, 3)])


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name.replace(" ", "-"))
def test_the_real_input_is_accepted(target: Target, tmp_path: Path) -> None:
    """Else everything would be refused for the wrong reason."""
    for number, seed in enumerate(target.seeds()):
        folder = tmp_path / str(number)
        folder.mkdir(0o700)
        assert target.attack(seed, folder) is target.ours, seed
