"""Remembers which values were found valid, so that the validator (0.1 s to import) is only loaded for new ones.

A verdict is an empty file in the user's cache folder, named by the hash of schema and value; only "valid" is remembered.
Without a usable cache folder everything works, only slower.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

#: From so many on the folder is emptied: playbooks and configs change rarely.
_MOST = 1000


def verdict_key(schema: str, value: object) -> str:
    """The hash of a schema's text and a value; "" for a value that is not plain JSON."""
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return ""
    return hashlib.sha256(f"{schema}\0{text}".encode()).hexdigest()


def is_known_valid(key: str) -> bool:
    """Whether this very value was found valid against this very schema before."""
    folder = _folder()
    if not key or folder is None:
        return False
    try:
        info = (folder / key).lstat()
    except OSError:
        return False
    return info.st_uid == os.geteuid() and info.st_size == 0


def remember_valid(key: str) -> None:
    """Keep the verdict, if there is a place for it."""
    folder = _folder()
    if not key or folder is None:
        return
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.geteuid():
            return
        if sum(1 for _ in folder.iterdir()) >= _MOST:
            for old in folder.iterdir():
                old.unlink(missing_ok=True)
        os.close(os.open(folder / key, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def _folder() -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        home = os.environ.get("HOME", "")
        if not home.startswith("/"):
            return None
        base = f"{home}/.cache"
    return Path(base) / "loopctl" / "valid"
