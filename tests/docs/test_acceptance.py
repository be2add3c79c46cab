"""Every line of the acceptance page names tests that exist."""

from __future__ import annotations

import ast
import re

from tests.support import ROOT

PAGE = ROOT / "docs" / "acceptance-issue-94.md"
_TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`")
CRITERIA = [
    *(f"R1.{number}" for number in range(1, 8)),
    *(f"R2.{number}" for number in range(1, 5)),
    *(f"R3.{number}" for number in range(1, 8)),
    *("R4.1", "R4.2", "R5.1", "R5.2", "R5.3", "T14"),
]


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_criterion_has_its_line() -> None:
    assert list(dict.fromkeys(row[0] for row in rows())) == CRITERIA


def test_every_line_names_tests_that_exist() -> None:
    for criterion, _, shown, _ in rows():
        named = _TEST.findall(shown)
        assert named, criterion
        assert "".join(f"`{file}::{name}`" for file, name in named) == shown.replace(", ", ""), criterion
        for file, name in named:
            tree = ast.parse((ROOT / file).read_text("utf-8"))
            functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            assert name in functions, f"{criterion}: {file}::{name}"
