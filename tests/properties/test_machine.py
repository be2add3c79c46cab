"""Random worlds, step by step: see tests/properties/machine.py. WORLDS says how many; without it the same few each time."""

from __future__ import annotations

from tests.properties.machine import TRIED, AnyWorld
from tests.properties.play import WORLDS, play, report


def test_any_world_keeps_what_was_promised() -> None:
    TRIED.clear()
    play(AnyWorld, worlds=WORLDS, few=12, steps=50, few_steps=30)
    report(TRIED, "worlds.json")
    assert TRIED["worlds"] and TRIED["faults"]
