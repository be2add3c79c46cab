"""What was passed on and posted, in the registry's file: each line is a short transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
from typing import TypeVar

from loopctl.adapters.registry_database import Database
from loopctl.adapters.registry_rows import time_text
from loopctl.errors import StateError
from loopctl.model.refs import WorkItemRef
from loopctl.model.talk import DELIVERY_STATES, FAILED_DELIVERY, SENDING, Delivery, Posted, Talk

T = TypeVar("T", Delivery, Posted)


class SqliteLedger:
    """ports.Ledger beside the sessions, in `<root>/registry.db`."""

    def __init__(self, root: Path, *, now: Callable[[], datetime]) -> None:
        """Nothing is made or opened before it is needed."""
        self._database = Database(root)
        self._now = now

    def read(self) -> Talk:
        """All of it; nothing while there is no file, or one that is older than the ledger."""
        if not self._database.exists():
            return Talk()
        with self._database.open() as db:
            if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'deliveries'").fetchone():
                return Talk()
            deliveries = db.execute("SELECT id, session, status, attempts, detail, at FROM deliveries ORDER BY rowid")
            sent = deliveries.fetchall()
            cursors = db.execute("SELECT session, cursor FROM cursors").fetchall()
            posted = db.execute("SELECT session, key, digest, url, at FROM posted ORDER BY at, key").fetchall()
            armed = db.execute("SELECT ref_key, at FROM armed").fetchall()
        with self._believed():
            return Talk(
                _by_session([_delivery(row) for row in sent]),
                {session: _time(at) for session, at in cursors},
                _by_session([Posted(s, key, digest, url, _time(at)) for s, key, digest, url, at in posted]),
                {key: _time(at) for key, at in armed},
            )

    def claim(self, session: str, message: str) -> bool:
        """A new line, or a failed one that is tried again."""
        with self._write() as db:
            done = db.execute(
                "INSERT INTO deliveries VALUES (?, ?, ?, 1, '', ?) ON CONFLICT (session, id) DO UPDATE SET"
                " status = excluded.status, attempts = attempts + 1, detail = '', at = excluded.at WHERE status = ?",
                (session, message, SENDING, time_text(self._now()), FAILED_DELIVERY),
            )
            return done.rowcount == 1

    def settle(self, session: str, message: str, status: str, detail: str = "") -> None:
        """Write over the line of a claimed message."""
        with self._write() as db:
            db.execute(
                "UPDATE deliveries SET status = ?, detail = ?, at = ? WHERE session = ? AND id = ?",
                (status, detail, time_text(self._now()), session, message),
            )

    def set_cursor(self, session: str, cursor: datetime) -> None:
        """Never back."""
        with self._write() as db:
            db.execute(
                "INSERT INTO cursors VALUES (?, ?) ON CONFLICT (session) DO UPDATE SET cursor = max(cursor, excluded.cursor)",
                (session, time_text(cursor)),
            )

    def inherit(self, old: str, new: str) -> None:
        """Copy what the old one knows, where the new one knows nothing yet."""
        with self._write() as db:
            for table, names in (("deliveries", "id, status, attempts, detail, at"), ("cursors", "cursor")):
                db.execute(
                    f"INSERT OR IGNORE INTO {table} (session, {names}) SELECT ?, {names} FROM {table} WHERE session = ? ORDER BY rowid",
                    (new, old),
                )

    def posted(self, note: Posted) -> None:
        """One line for each session and key."""
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO posted VALUES (?, ?, ?, ?, ?)",
                (note.session, note.key, note.digest, note.url, time_text(note.at or self._now())),
            )

    def arm(self, ref: WorkItemRef) -> None:
        """Remember when."""
        with self._write() as db:
            db.execute("INSERT OR REPLACE INTO armed VALUES (?, ?)", (ref.key, time_text(self._now())))

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with self._database.open(write=True, create=True) as db:
            yield db

    @contextmanager
    def _believed(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError) as error:
            raise StateError(
                f"{self._database.path}: {error}", hint="nothing was done; mend or remove this row"
            ) from None


def _by_session(rows: Sequence[T]) -> dict[str, tuple[T, ...]]:
    found: dict[str, list[T]] = {}
    for row in rows:
        found.setdefault(row.session, []).append(row)
    return {session: tuple(mine) for session, mine in found.items()}


def _delivery(row: tuple[str, str, str, int, str, str]) -> Delivery:
    if row[2] not in DELIVERY_STATES:
        raise ValueError(f"delivery {row[0]!r}: status {row[2]!r} is not one of {', '.join(DELIVERY_STATES)}")
    return Delivery(*row[:5], at=_time(row[5]))


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time") from None
