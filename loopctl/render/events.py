"""Events for people: one line each."""

from __future__ import annotations

import json
from collections.abc import Mapping

from loopctl.render.clean import shown
from loopctl.render.view import View

_HEAD = ("ts", "event", "level", "source", "pid", "ref")
_COLORS = {"warning": "33", "error": "31"}


def event_text(event: Mapping[str, object], view: View) -> str:
    """`time  event  item  name=value ...`, with the level where it is not info."""
    level = shown(str(event.get("level", "info")))
    name = shown(str(event.get("event", "")))
    color = _COLORS.get(level) if view.color else None
    fields = [f"{key}={_value(value)}" for key, value in event.items() if key not in _HEAD]
    words = [
        shown(str(event.get("ts", ""))),
        f"\x1b[{color}m{name}\x1b[0m" if color else name,
        *([level] if level != "info" and not color else []),
        shown(str(event.get("ref", ""))),
        shown(" ".join(fields)),
    ]
    return "  ".join(word for word in words if word) + "\n"


def _value(value: object) -> str:
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value)
