"""The apply lock ends with whoever took it."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loopctl.adapters.registry import SqliteRegistry
from loopctl.errors import LoopctlError, StateError


def test_who_waits_says_for_whom_and_can_be_interrupted(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    moment, said, asked = datetime(2026, 1, 1, tzinfo=UTC), [], iter([False, False, True])
    registry = SqliteRegistry(
        tmp_path, now=lambda: moment, lock_timeout=5.0, tell=said.append, interrupted=lambda: next(asked)
    )
    with (
        SqliteRegistry(tmp_path, now=lambda: moment).lock(),
        pytest.raises(LoopctlError, match=r"^interrupted; nothing was done$") as caught,
        registry.lock(),
    ):
        pass
    assert caught.value.exit_code == 1
    (line,) = said
    assert line.startswith(f"waiting: another loopctl is at work on {tmp_path}: ")
    assert f"pid {os.getpid()}, since 2026-01-01" in line


def test_a_lock_without_access_says_the_way_on(tmp_path: Path) -> None:
    (tmp_path / "apply.lock").mkdir(mode=0o700)
    tmp_path.chmod(0o700)
    registry = SqliteRegistry(tmp_path, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(StateError, match=r"apply\.lock: Is a directory") as caught, registry.lock():
        pass
    assert "set state.root" in caught.value.hint


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
