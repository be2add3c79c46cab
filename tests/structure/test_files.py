"""No file in git names a folder of the machine that it was written on."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

# In two pieces, so that this file does not name them either.
MACHINE = re.compile(r"(?<![\w./-])/(?:" + "work|root" + r")/")


def tracked() -> list[Path]:
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    return [path for name in listing.split(b"\0") if name and (path := ROOT / name.decode()).is_file()]


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="not a git checkout")
def test_no_file_names_this_machine() -> None:
    files = tracked()
    assert files
    named = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert named == []


@pytest.mark.parametrize("text", ["cd /{}/main", "x=/{}/.venv", '"/{}/a"'])
@pytest.mark.parametrize("folder", ["work", "root"])
def test_a_machine_path_is_seen(text: str, folder: str) -> None:
    assert MACHINE.search(text.format(folder))


@pytest.mark.parametrize("text", ["src/{}/x", "https://example.org/{}/x", "/{}space/x"])
def test_other_paths_are_not(text: str) -> None:
    assert not MACHINE.search(text.format("work"))
