"""The apply lock ends with whoever took it."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from loopctl.adapters.registry import SqliteRegistry


def test_a_child_that_closes_no_file_does_not_hold_the_lock_after_us(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    registry = SqliteRegistry(tmp_path, now=lambda: datetime(2026, 1, 1, tzinfo=UTC), lock_timeout=0.0)
    with registry.lock():
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    try:
        with registry.lock():
            assert child.poll() is None
    finally:
        child.communicate(timeout=20)
