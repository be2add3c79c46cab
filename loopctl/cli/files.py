"""Files that the command line writes."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from loopctl.errors import StateError


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, 0600. Raises StateError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        msg = f"{path}: {error.strerror}"
        raise StateError(msg) from None
