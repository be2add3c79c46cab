"""How long to wait before something is tried again."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

Time = TypeVar("Time", float, timedelta)


def wait_after(tries: int, first: Time, longest: Time, factor: int = 2) -> Time:
    """`first` after one try, `factor` times as long after each further one, never more than `longest`."""
    wait = first
    for _ in range(tries - 1):
        if wait >= longest:
            break
        wait *= factor
    return min(wait, longest)
