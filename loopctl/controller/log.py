"""What the controller says while it works: one line each, text for a person, JSON for a log collector."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from loopctl.controller.status import stamp
from loopctl.model.events import ERROR, INFO, WARNING
from loopctl.model.secrets import mask_value
from loopctl.render.clean import shown
from loopctl.render.json import json_line

__all__ = ["ERROR", "INFO", "WARNING", "Log"]


@dataclass(frozen=True, slots=True)
class Log:
    """Writes lines with `write` (which ends them itself). Fields that are None are left out."""

    write: Callable[[str], object]
    now: Callable[[], datetime]
    as_json: bool

    def __call__(self, level: str, message: str, **fields: Any) -> None:
        """Say one thing."""
        given = {name: value for name, value in fields.items() if value is not None}
        if self.as_json:
            line = {"ts": stamp(self.now()), "level": level, "message": message, **given}
            self.write(json_line({name: mask_value(value, name) for name, value in line.items()}))
            return
        words = " ".join(f"{name}={_word(value)}" for name, value in given.items())
        mark = {WARNING: "warning: ", ERROR: "error: "}.get(level, "")
        self.write(shown(f"{self.now().astimezone():%H:%M:%S} {mark}{message}" + (f" {words}" if words else "")))


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return json.dumps(text) if not text or " " in text else text
