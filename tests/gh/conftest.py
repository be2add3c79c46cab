from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

#: The distribution's gh (the oldest that is supported is Debian 12's 2.23) and the current one beside the interpreter.
CANDIDATES = {"system": shutil.which("gh", path="/usr/bin:/usr/local/bin:/opt/homebrew/bin"), "venv": None}
CANDIDATES["venv"] = shutil.which("gh", path=str(Path(sys.executable).parent))
#: The one that `make test-gh-matrix` is about, in the place of each.
ONLY = os.environ.get("LOOPCTL_TEST_GH")
if ONLY:
    CANDIDATES = dict.fromkeys(CANDIDATES, ONLY)


@pytest.fixture
def gh() -> str:
    """A real gh: the machine's own where there is one. `make test-gh-matrix` runs each version."""
    found = CANDIDATES["system"] or CANDIDATES["venv"]
    assert found, "there is no gh here"
    return found


@pytest.fixture
def path() -> str:
    return os.environ["PATH"]
