"""How a session is named on the command line."""

from __future__ import annotations

import pytest

from loopctl.cli.session_words import pick
from loopctl.errors import LoopctlError, UsageError
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import SessionRecord

ONE, TWO = (
    SessionRecord(id, WorkItemRef.parse("github:octo/app#15"), "desk", "claude", status=status)
    for id, status in (("1b2c3d4e", "active"), ("1b2c9999", "closed"))
)


@pytest.mark.parametrize(
    ("text", "found"), [("1b2c3", ONE), ("1B2C9", TWO), ("octo/app#15", ONE), ("Octo/App#15", ONE)]
)
def test_an_item_or_the_beginning_of_an_id(text: str, found: SessionRecord) -> None:
    assert pick([ONE, TWO], text) is found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1b2c", "begins the ids of 2 sessions"),
        ("1b", "no session for 1b: a session is named by its item, or by at least 4 letters that its id begins with"),
        ("ffff", "no session for ffff: a session is named by"),
        ("octo/app#16", r"no session for github:octo/app#16\Z"),
    ],
)
def test_what_names_none_is_told_how_one_is_named(text: str, message: str) -> None:
    with pytest.raises((LoopctlError, UsageError), match=message):
        pick([ONE, TWO], text)
