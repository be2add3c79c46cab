"""Every loopctl command that the documentation shows or names exists, with these options."""

from __future__ import annotations

import pytest

from loopctl.cli.main import COMMANDS
from tests.docs.commands import PLANNED, problem, shown
from tests.docs.pages import name_of, pages

SHOWN = sorted({(name_of(page), *found) for page in pages() for found in shown(page.read_text("utf-8"))})


@pytest.mark.parametrize(("page", "command", "complete"), SHOWN, ids=lambda value: str(value))
def test_it_parses(page: str, command: str, complete: bool) -> None:
    assert problem(command, complete=complete) == ""


def test_what_is_planned_is_still_to_come() -> None:
    assert PLANNED & set(COMMANDS) == set()


def test_commands_are_found() -> None:
    page = (
        "Say `loopctl plan` or `x`.\n\n```console\n$ loopctl version\nloopctl 1\n$ A=b loopctl plan a \\\n  -v\n```\n\n"
        "```yaml\n- run: loopctl validate x\n```\n\n```sh\n*/5 * * * * loopctl demo\n```\n\n```json\n$ loopctl no\n```\n"
    )
    assert list(shown(page)) == [
        ("loopctl version", True),
        ("loopctl plan a -v", True),
        ("loopctl validate x", True),
        ("loopctl demo", True),
        ("loopctl plan", False),
    ]


@pytest.mark.parametrize(
    ("command", "complete", "wrong"),
    [
        ("loopctl plan a --out p.json > x", True, ""),
        ("loopctl plan a --uot p.json", True, "no such option"),
        ("loopctl plan", True, "Missing argument"),
        ("loopctl plan", False, ""),
        ("loopctl plan --uot", False, "no such option: --uot"),
        ("loopctl sessions clos", False, "no such command: clos"),
        ("loopctl sessions", False, ""),
        ("loopctl --help", True, ""),
        ("loopctl events | grep -x y", True, ""),
        ("loopctl runn x", True, "no such command: runn"),
    ],
)
def test_a_wrong_command_is_seen(command: str, complete: bool, wrong: str) -> None:
    found = problem(command, complete=complete)
    assert found.lower().startswith(wrong.lower()) if wrong else found == ""
