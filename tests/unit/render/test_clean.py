from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopctl.model.secrets import mask, mask_argv, mask_value
from loopctl.render.clean import clean, cut, encodable, inert, shown
from tests.unit.render.samples import HOSTILE

GHP = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain", "plain"),
        ("a ##[error]b", "a # #[error]b"),
        ("  two\n\r\n lines\tand a tab  ", "two lines and a tab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mcolour\x1b[m", "colour"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;https://evil.example\x1b\\text\x1b]8;;\x1b\\", "text"),
        ("\x1bP1$r0m\x1b\\dcs", "dcs"),
        ("\x1b(Bset", "set"),
        ("\x9b31mc1", "c1"),
        ("\x1b]0;never ended", "0;never ended"),
        ("a\x1b", "a"),
        ("nul\x00bell\x07back\x08del\x7f", "nulbellbackdel"),
        ("\u202egnp.exe\u202c", "gnp.exe"),
        ("\u2066iso\u2069lated\u200e\u200f", "isolated"),
        ("ze\u200bro\ufeff wid\u00adth", "zero width"),
        ("line\u2028para\u2029next\x85", "line para next"),
        ("lone \ud800 half", "lone half"),
        ("tag\U000e0041", "tag"),
        ("crab \U0001f980, \u00e9\u4e2d", "crab \U0001f980, \u00e9\u4e2d"),
    ],
)
def test_clean(text: str, wanted: str) -> None:
    assert clean(text) == wanted


@given(st.text(), st.integers(0, 20))
def test_cleaned_text_is_one_printable_line_that_fits_and_stays_so(text: str, width: int) -> None:
    line = clean(text, width)
    assert line.isprintable() or any(not c.isprintable() and ord(c) > 0x7F for c in line)
    assert "\x1b" not in line
    assert len(line.splitlines()) <= 1
    assert not width or len(line) <= max(width, 3)
    line.encode("utf-8")


@pytest.mark.parametrize(
    ("width", "wanted"), [(0, "abcdefgh"), (8, "abcdefgh"), (7, "abcd..."), (3, "..."), (4, "a...")]
)
def test_cut(width: int, wanted: str) -> None:
    assert cut("abcdefgh", width) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ghp_EXAMPLE", "***"),
        (f"a {GHP}.", "a ***."),
        ("github_pat_11ABC_def", "***"),
        ("gho_abcd1234", "***"),
        ("sk-" + "ant-api03-" + "aB3" * 6, "***"),
        ("xoxb-123-abc", "***"),
        ("claude --token=ghp_EXAMPLE -x", "claude --token=*** -x"),
        ("run --api-key abc --model m", "run --api-key *** --model m"),
        ("run --api-key='a b' x", "run --api-key=*** x"),
        ("--password hunter2", "--password ***"),
        ("API_KEY=abc OTHER=1", "API_KEY=*** OTHER=1"),
        ("export ANTHROPIC_API_KEY='a b' && x", "export ANTHROPIC_API_KEY=*** && x"),
        ("GH_TOKEN=x;Y=1", "GH_TOKEN=***;Y=1"),
        ('{"api_key": "a b", "n": 1}', '{"api_key": ***, "n": 1}'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("https://user:p@ss@host/x", "https://***@host/x"),
        ("git+ssh://u:p@h, then", "git+ssh://***@h, then"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- x", "*** x"),
        # What only looks like one.
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("task-force sk-learn", "task-force sk-learn"),
        ("run --max-tokens 100", "run --max-tokens 100"),
        ("the token is missing", "the token is missing"),
        ("ssh://git@github.com/o/r", "ssh://git@github.com/o/r"),
        ("github:octo/app#15 closed", "github:octo/app#15 closed"),
    ],
)
def test_mask(text: str, wanted: str) -> None:
    assert mask(text) == wanted
    assert mask(wanted) == wanted


def test_an_invisible_character_does_not_save_a_secret() -> None:
    assert shown("ghp_\u200bEXAMPLE") == "***"
    assert "EXAMPLE" not in shown("--to\x1b[1mken=ghp_EXAMPLE")
    assert "EXA" not in shown("x" * 10 + " ghp_EXAMPLE", 21)


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        (("claude", "--token", "abc", "-v"), ("claude", "--token", "***", "-v")),
        (("claude", "--token=abc"), ("claude", "--token=***")),
        (("claude", "--token", "--verbose"), ("claude", "--token", "--verbose")),
        (("env", "API_KEY=a b"), ("env", "API_KEY=***")),
    ],
)
def test_mask_argv(argv: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    assert mask_argv(argv) == wanted


def test_mask_value_looks_at_names_and_goes_down() -> None:
    value = {
        "api_key": "abc",
        "env": {"GH_TOKEN": "x", "HOME": "/h"},
        "argv": ["a", "--token", "x"],
        "n": 5,
        "none": None,
    }
    assert mask_value(value) == {
        "api_key": "***",
        "env": {"GH_TOKEN": "***", "HOME": "/h"},
        "argv": ["a", "--token", "***"],
        "n": 5,
        "none": None,
    }


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", None])
def test_encodable_text_can_be_printed_anywhere(encoding: str | None) -> None:
    encodable(clean(HOSTILE), encoding).encode(encoding or "ascii")
    assert encodable("caf\u00e9 \U0001f980", "ascii") == "caf? ?"


@pytest.mark.parametrize("start", ["", "a\n", "a\r", "a\n \t\n"])
def test_a_transcript_has_no_command_for_a_ci_runner(start: str) -> None:
    assert inert(f"{start} ::add-mask::x ::y::\t\x1b[m##[error]") == f"{start} : :add-mask::x ::y::\t\x1b[m# #[error]"
