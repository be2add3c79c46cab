"""What tests of every folder share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parent.parent

T = TypeVar("T")


def workers() -> str:
    """How many processes the tests are spread over, as in the Makefile."""
    return str(min(4, (os.cpu_count() or 1) + 1))


def wait_until(condition: Callable[[], T], timeout: float = 20.0, what: str = "") -> T:
    """Poll until the condition is true and return what it gave; AssertionError naming `what` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what or condition} (last seen: {value!r})")
        time.sleep(0.01)
    return value
