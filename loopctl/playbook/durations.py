"""How long something takes, as people write it."""

from __future__ import annotations

import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([smhd])\s*\Z")


def seconds(value: object) -> float:
    """Seconds of a number, or of a text such as 5s, 10m, 2h or 14d. Raises ValueError for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    found = _DURATION.match(value) if isinstance(value, str) else None
    if not found:
        msg = "no duration: write seconds, or 5s, 10m, 2h, 14d"
        raise ValueError(msg)
    return float(found[1]) * _UNITS[found[2]]
