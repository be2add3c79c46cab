"""The import contracts of pyproject.toml hold, and every part of the package stands in them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.support import ROOT

LINT = "from importlinter.cli import lint_imports_command as main; main()"


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LINT, "--no-logo", "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def contracts() -> dict[str, dict[str, object]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return {contract["type"]: contract for contract in config["tool"]["importlinter"]["contracts"]}


def test_the_contracts_are_kept() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


def test_every_part_has_its_layer() -> None:
    layers = contracts()["layers"]
    assert layers["exhaustive"] is True
    assert "exhaustive_ignores" not in layers
