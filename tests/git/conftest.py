from __future__ import annotations

from pathlib import Path

import pytest

from tests.git.kit import Scratch


@pytest.fixture
def box(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path)
