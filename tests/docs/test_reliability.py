"""The reliability page: every case once, every test that it names exists, and no figure without a command."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.pages import links
from tests.docs.test_links import broken
from tests.support import ROOT

PAGE = ROOT / "docs" / "reliability.md"
TEXT = PAGE.read_text("utf-8")
CASES = [*(f"S{number:02}" for number in range(1, 61)), *(f"L{number}" for number in range(1, 28))]
PENDING = "not measured yet"
_TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`")
_CELLS = re.compile(r"(?<!\\)\|")


def rows(columns: int) -> Iterator[list[str]]:
    """The rows of all tables of so many columns, their heads left out."""
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in _CELLS.split(line.strip())[1:-1]]
        if len(cells) == columns and cells[0] not in {"Case", "What", "---"}:
            yield cells


@cache
def functions_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_case_is_there_once_in_order() -> None:
    assert [row[0] for row in rows(4)] == CASES


@pytest.mark.parametrize("row", list(rows(4)), ids=lambda row: row[0])
def test_every_case_names_tests_that_exist_and_what_must_not_happen(row: list[str]) -> None:
    _, fault, shown, _ = row
    named = _TEST.findall(shown)
    assert fault and named
    assert ", ".join(f"`{file}::{name}`" for file, name in named) == shown, "something else stands between them"
    assert [f"{file}::{name}" for file, name in named if name not in functions_in(file)] == []


def test_every_figure_says_how_it_is_made() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = {target for line in re.findall(r"^([a-z][a-z -]*):", makefile, re.MULTILINE) for target in line.split()}
    figures = list(rows(3))
    assert len(figures) >= 10
    for what, command, figure in figures:
        target = re.fullmatch(r"`make ([a-z-]+)`", command)
        assert target and what and figure, what
        assert figure == PENDING or (re.search(r"\d", figure) and target[1] in targets), what


def test_no_link_is_dead() -> None:
    assert list(links(TEXT))
    assert broken(PAGE, TEXT) == []
