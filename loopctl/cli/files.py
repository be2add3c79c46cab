"""Files that the command line writes."""

from __future__ import annotations

import json
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from loopctl.errors import RefusedError, StateError

#: What every saved plan has at its top.
_OF_A_PLAN = frozenset({"version", "created_at", "digest", "actions"})


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, 0600. Raises StateError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        msg = f"{path}: {error.strerror}"
        raise StateError(msg) from None


def place_for_plan(name: str) -> Path:
    """Where a plan of this name is written, links followed: where nothing is, or nothing but an earlier plan.

    Raises RefusedError for anything else, StateError where it cannot be told.
    """
    # A circle of links is no error to it.
    path = Path(os.path.realpath(name))
    try:
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) and _may_go(path):
            return path
    except FileNotFoundError:
        return path
    except OSError as error:
        raise StateError(f"{name}: {error.strerror}") from None
    raise RefusedError(
        f"{name} is there already and is no saved plan; it was left as it is",
        hint="name another file, or remove this one",
    )


def _may_go(path: Path) -> bool:
    """Whether a file holds nothing (as `mktemp` makes it) or a saved plan."""
    from loopctl.playbook.plans import MAX_PLAN_BYTES

    with path.open("rb") as file:
        data = file.read(MAX_PLAN_BYTES + 1)
    if not data:
        return True
    try:
        value = json.loads(data) if len(data) <= MAX_PLAN_BYTES else None
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.keys() >= _OF_A_PLAN
