"""Texts that are shown, the same everywhere."""

from __future__ import annotations

from datetime import datetime

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def age(seconds: float) -> str:
    """A length of time in its largest whole unit: `3h`, `12 min`, `5s`; never negative."""
    seconds = max(0.0, seconds)
    for unit, length in _UNITS:
        if seconds >= length or unit == "s":
            return f"{int(seconds // length)}{' ' if unit == 'min' else ''}{unit}"
    return "0s"


def ago(then: datetime | None, now: datetime) -> str:
    """`12 min ago`, or "" where the time is not known."""
    return f"{age((now - then).total_seconds())} ago" if then else ""


def plural(count: int, noun: str) -> str:
    """`1 process`, `4 processes`."""
    ending = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{count} {noun if count == 1 else noun + ending}"


def cut(text: str, width: int) -> str:
    """At most `width` characters, with `...` where something is missing; 0 leaves the text whole."""
    return text if not width or len(text) <= width else text[: max(0, width - 3)].rstrip() + "..."


def is_text(path: str) -> bool:
    """Whether a path is UTF-8: a name of a file may be any bytes, and what is written down cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in path)
