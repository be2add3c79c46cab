from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.git.kit import Scratch


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process that is killed leaves behind goes with the test."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


@pytest.fixture
def box(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path)
