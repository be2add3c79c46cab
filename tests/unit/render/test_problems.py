from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from loopctl.errors import Problem
from loopctl.render import problems
from loopctl.render.problems import problems_text


def test_the_place_the_line_a_caret_and_a_hint() -> None:
    problem = Problem("book.yml", 7, 5, "unknown key 'ensrue'", "did you mean 'ensure'?", "    ensrue:")
    assert problems_text([problem, Problem("b.yml", 0, 0, "is empty")]) == (
        "book.yml:7:5: unknown key 'ensrue'\n    |     ensrue:\n    |     ^\n"
        "    hint: did you mean 'ensure'?\nb.yml: is empty"
    )


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("key: @", 6),
        ("\tkey:\t@", 7),
        ("漢字: @", 5),
        ("e\u0301: @", 5),
        ("a\x1b[31mb\u202ec@", 10),
        ("x" * 500 + "@" + "x" * 500, 501),
        ("漢" * 200 + "@" + "漢" * 200, 201),
        ("\t" * 50 + "@", 51),
        ("@" + "x" * 5000, 1),
    ],
)
def test_the_caret_stands_below_its_character(line: str, column: int) -> None:
    assert line[column - 1] == "@"
    _, shown, caret = problems_text([Problem("f", 1, column, "m", "", line)]).splitlines()
    before = shown[: shown.index("@")]
    wide = sum(2 if c == "漢" or c == "字" else 0 if c == "\u0301" else 1 for c in before)
    assert len(caret) - 1 == wide
    assert len(shown) <= 110
    assert "\x1b" not in shown and "\u202e" not in shown


def test_no_line_of_a_document_is_a_command_for_a_ci_runner() -> None:
    text = problems_text([Problem("f", 1, 1, "m", "", "  ::add-mask::x ##[add-mask]y")])
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert "##[" not in text


def test_colour_only_when_asked_for() -> None:
    problem = Problem("f", 1, 1, "m", "h", "x")
    assert "\x1b" in problems_text([problem], color=True)
    assert "\x1b" not in problems_text([problem])


def test_a_secret_in_the_line_is_masked() -> None:
    line = "  env: {API_TOKEN: 5, X: ghp_abcdefghijklmnop}"
    assert "ghp_abc" not in problems_text([Problem("f", 1, 3, "m", "", line)])


@given(st.text(), st.text(), st.text(), st.integers(0, 50))
def test_nothing_steers_the_terminal(source: str, message: str, line: str, column: int) -> None:
    text = problems_text([Problem(source, 1, column, message, message, line)])
    assert all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in text)
    assert len(text.splitlines()) <= 4


@pytest.mark.parametrize("character", ["x", "é", "語"])
def test_a_long_line_costs_no_more_than_what_is_shown_of_it(character: str, mocker: MockerFixture) -> None:
    """A playbook of one line, with a problem on every page of it."""
    read, measured = mocker.spy(problems, "_clean"), mocker.spy(problems, "_width")
    text = problems_text([Problem("p.yml", 1, 900_000, "is wrong", "", character * 1_000_000)])
    assert len(text) < 400
    assert max(len(call.args[0]) for call in read.call_args_list) < 10_000
    assert measured.call_count < 2_000


def test_of_very_many_the_first_are_shown_and_the_rest_is_counted() -> None:
    many = [Problem("p.yml", line, 1, "is wrong", "", "x") for line in range(1, 131)]
    shown = problems_text(many).splitlines()
    assert (shown[0], shown[-1]) == ("p.yml:1:1: is wrong", "... and 30 problems more")
    assert sum("is wrong" in line for line in shown) == 100
    assert "more" not in problems_text(many[:100])
