"""What is installed is what is in the tree: the package with its playbooks, templates and schemas, and nothing of the tests."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (path,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(path).namelist())


@pytest.mark.parametrize("folder", ["playbooks", "schemas"])
def test_data_is_in_the_wheel(wheel: set[str], folder: str) -> None:
    files = {f"loopctl/_data/{path.relative_to(ROOT)}" for path in (ROOT / folder).rglob("*.*") if path.is_file()}
    assert files
    assert files <= wheel


def test_every_module_is_in_the_wheel(wheel: set[str]) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "loopctl").rglob("*.py")}
    assert modules | {"loopctl/py.typed"} <= wheel


def test_nothing_else_is_in_the_wheel(wheel: set[str]) -> None:
    assert {Path(name).parts[0].split("-")[0] for name in wheel} == {"loopctl"}
