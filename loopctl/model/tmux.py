"""What follows from a tmux version as tmux writes it: `3.3a`, `next-3.8`, `openbsd-7.4`."""

from __future__ import annotations

import re

#: Before it, a session cannot be given its environment at birth (3.1c), or the server can loop for ever (3.2).
OLDEST = "3.2a"
_VERSION = re.compile(r"(?:tmux )?(openbsd-|next-)?(\d+)\.(\d+)([a-z]?)(?:-rc\d*)?")
#: OpenBSD counts its own releases: the first one whose tmux has all that 3.2a has.
_OLDEST_OPENBSD = (7, 0, "")

_Parsed = tuple[int, int, str]


def unsupported(version: str) -> str:
    """Say why a tmux of this version is not used, or "" when it is good. What is no version is taken for a new one."""
    parsed, openbsd = _parse(version)
    oldest = _OLDEST_OPENBSD if openbsd else _parse(OLDEST)[0]
    if parsed is None or oldest is None or parsed >= oldest:
        return ""
    return f"tmux {version.removeprefix('tmux ')} is too old: {OLDEST} or later is needed"


def is_version(text: str) -> bool:
    """Tell whether a text is a version of tmux, also with the word `tmux` before it."""
    return _VERSION.fullmatch(text) is not None


def keeps_dots(version: str) -> bool:
    """Whether `.` and `:` stay in the name of a session (3.7 on) or become `_`."""
    parsed, openbsd = _parse(version)
    return parsed is None or parsed >= ((7, 9, "") if openbsd else (3, 7, ""))


def _parse(version: str) -> tuple[_Parsed | None, bool]:
    found = _VERSION.fullmatch(version)
    if found is None:
        return None, False
    return (int(found[2]), int(found[3]), found[4]), found[1] == "openbsd-"
