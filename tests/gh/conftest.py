from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

#: The distribution's gh (the oldest that is supported is Debian 12's 2.23) and the current one beside the interpreter.
CANDIDATES = {"system": shutil.which("gh", path="/usr/bin:/usr/local/bin:/opt/homebrew/bin"), "venv": None}
CANDIDATES["venv"] = shutil.which("gh", path=str(Path(sys.executable).parent))
if only := os.environ.get("LOOPCTL_TEST_GH"):
    CANDIDATES = {"given": only}


@pytest.fixture(params=sorted(CANDIDATES))
def gh(request: pytest.FixtureRequest) -> str:
    """A real gh."""
    found = CANDIDATES[request.param]
    if found is None:
        pytest.skip(f"there is no {request.param} gh here")
    return found


@pytest.fixture
def path() -> str:
    return os.environ["PATH"]
