"""ports.Ledger: shown on the fake and on SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from loopctl.adapters.registry_ledger import SqliteLedger
from loopctl.errors import StateError
from loopctl.model.refs import WorkItemRef
from loopctl.model.talk import DELIVERED, FAILED_DELIVERY, SENDING, Posted, Talk
from loopctl.ports import Ledger
from loopctl.testing import FakeWorld

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ITEM = WorkItemRef.parse("github:octo/app#15")


@pytest.fixture(params=["fake", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Ledger]:
    """Opens the ledger anew each time, as another process would."""
    if request.param == "fake":
        fake = FakeWorld().ledger
        return lambda: fake
    tmp_path.chmod(0o700)
    return lambda: SqliteLedger(tmp_path, now=lambda: NOW)


def lines(ledger: Ledger, session: str = "one") -> list[tuple[str, str, int, str]]:
    return [(line.id, line.status, line.attempts, line.detail) for line in ledger.read().deliveries.get(session, ())]


def test_at_first_nothing_was_said(opened: Callable[[], Ledger]) -> None:
    assert opened().read() == Talk()


def test_a_message_is_claimed_once_and_again_only_after_it_failed(opened: Callable[[], Ledger]) -> None:
    assert opened().claim("one", "a")
    assert not opened().claim("one", "a")
    assert opened().claim("two", "a")
    opened().settle("one", "a", FAILED_DELIVERY, "no pane")
    assert lines(opened()) == [("a", FAILED_DELIVERY, 1, "no pane")]
    assert opened().claim("one", "a")
    assert lines(opened()) == [("a", SENDING, 2, "")]
    opened().settle("one", "a", DELIVERED)
    assert not opened().claim("one", "a")
    assert lines(opened()) == [("a", DELIVERED, 2, "")]
    assert lines(opened(), "two") == [("a", SENDING, 1, "")]


def test_messages_stay_in_the_order_of_their_claims(opened: Callable[[], Ledger]) -> None:
    for name in ("b", "c", "a"):
        opened().claim("one", name)
    opened().settle("one", "c", DELIVERED)
    assert [id_ for id_, *_ in lines(opened())] == ["b", "c", "a"]


def test_a_cursor_never_goes_back(opened: Callable[[], Ledger]) -> None:
    opened().set_cursor("one", NOW)
    opened().set_cursor("one", NOW - timedelta(days=1))
    assert opened().read().cursors == {"one": NOW}
    opened().set_cursor("one", NOW + timedelta(microseconds=1))
    assert opened().read().cursors == {"one": NOW + timedelta(microseconds=1)}


def test_who_goes_on_knows_what_the_other_was_told_and_keeps_its_own(opened: Callable[[], Ledger]) -> None:
    opened().claim("old", "a")
    opened().settle("old", "a", DELIVERED)
    opened().claim("old", "b")
    opened().set_cursor("old", NOW)
    opened().claim("new", "b")
    opened().settle("new", "b", FAILED_DELIVERY, "mine")
    opened().inherit("old", "new")
    assert sorted(lines(opened(), "new")) == [("a", DELIVERED, 1, ""), ("b", FAILED_DELIVERY, 1, "mine")]
    assert opened().read().cursors == {"old": NOW, "new": NOW}
    assert [id_ for id_, *_ in lines(opened(), "old")] == ["a", "b"]


def test_a_comment_has_one_line_for_each_state(opened: Callable[[], Ledger]) -> None:
    opened().posted(Posted("one", "running", "1", "https://x/1", NOW))
    opened().posted(Posted("one", "ended", "2", "https://x/2", NOW))
    opened().posted(Posted("one", "running", "3", "https://x/1", NOW))
    notes = opened().read().posted["one"]
    assert {(note.key, note.digest, note.at) for note in notes} == {("running", "3", NOW), ("ended", "2", NOW)}
    assert len(notes) == 2


def test_who_asks_to_try_again_is_remembered_by_the_item(opened: Callable[[], Ledger]) -> None:
    opened().arm(ITEM)
    opened().arm(WorkItemRef.parse("github:Octo/App#15"))
    assert list(opened().read().armed) == [ITEM.key]


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE deliveries SET status = 'perhaps'", "'perhaps' is not one of"),
        ("UPDATE deliveries SET at = 'noon'", "'noon' is not a time"),
        ("UPDATE cursors SET cursor = 'later'", "'later' is not a time"),
    ],
)
def test_a_row_that_cannot_be_is_refused_by_name(tmp_path: Path, statement: str, named: str) -> None:
    tmp_path.chmod(0o700)
    ledger = SqliteLedger(tmp_path, now=lambda: NOW)
    ledger.claim("one", "a")
    ledger.set_cursor("one", NOW)
    db = sqlite3.connect(tmp_path / "registry.db")
    with db:
        db.execute(statement)
    db.close()
    with pytest.raises(StateError, match=named):
        SqliteLedger(tmp_path, now=lambda: NOW).read()
