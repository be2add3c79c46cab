"""What `loopctl doctor` finds: one finding a line, each with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

GOOD = "ok"
WARN = "warn"
FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `level` is ok, warn or fail; `remedy` is "" where nothing is to be done."""

    what: str
    level: str
    text: str
    remedy: str = ""
