"""Session records in SQLite, and the apply lock beside them."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from loopctl.adapters.registry_database import Database, identity_of
from loopctl.adapters.registry_lock import APPLY, hold_lock
from loopctl.adapters.registry_rows import to_record, to_row
from loopctl.errors import StateError
from loopctl.model.sessions import SessionRecord


class SqliteRegistry:
    """ports.Registry in `<root>/registry.db`; the apply lock is `<root>/apply.lock`."""

    def __init__(
        self,
        root: Path,
        *,
        now: Callable[[], datetime],
        lock_timeout: float = 10.0,
        tell: Callable[[str], object] = lambda text: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Nothing is made or opened before it is needed. `tell` and `interrupted` are for the waiting for the apply lock."""
        self._root = root
        self._database = Database(root)
        self._path = self._database.path
        self._now = now
        self._lock_timeout, self._tell, self._interrupted = lock_timeout, tell, interrupted

    @property
    def identity(self) -> str:
        """The registry's own random name, or "" while there is no file."""
        if not self._database.exists():
            return ""
        with self._database.open() as db:
            return identity_of(db)

    def all(self) -> tuple[SessionRecord, ...]:
        """Every record, the oldest first."""
        if not self._database.exists():
            return ()
        with self._database.open() as db:
            rows = db.execute("SELECT * FROM sessions ORDER BY created_at, id")
            names = [column[0] for column in rows.description]
            found = rows.fetchall()
        return tuple(self._record(dict(zip(names, row, strict=True))) for row in found)

    def add(self, record: SessionRecord) -> SessionRecord:
        """Insert a record."""
        new = replace(record, generation=1, updated_at=self._now())
        row = to_row(new)
        with self._database.open(write=True, create=True) as db:
            try:
                db.execute(
                    f"INSERT INTO sessions ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", tuple(row.values())
                )
            except sqlite3.IntegrityError:
                msg = f"{record.ref} already has a session that is not closed"
                raise StateError(msg, hint=f"see `loopctl sessions show {record.ref}`") from None
        return new

    def replace(self, record: SessionRecord) -> SessionRecord | None:
        """Write over the row of the same id and generation."""
        return self.replace_all([record])[record.id]

    def replace_all(self, records: Sequence[SessionRecord]) -> Mapping[str, SessionRecord | None]:
        """Write over the rows of the same ids and generations, in one transaction."""
        written: dict[str, SessionRecord | None] = {}
        with self._database.open(write=True) as db:
            for record in records:
                new = replace(record, generation=record.generation + 1, updated_at=self._now())
                row = to_row(new)
                done = db.execute(
                    f"UPDATE sessions SET {', '.join(f'{c} = ?' for c in row)} WHERE id = ? AND generation = ?",
                    (*row.values(), record.id, record.generation),
                )
                written[record.id] = new if done.rowcount == 1 else None
        return written

    def remove(self, record: SessionRecord) -> None:
        """Forget a record that never became a session."""
        with self._database.open(write=True) as db:
            db.execute("DELETE FROM sessions WHERE id = ? AND generation = ?", (record.id, record.generation))

    def prove_writable(self) -> None:
        """Commit a row durably."""
        with self._database.open(write=True, create=True) as db:
            db.execute(
                "INSERT INTO meta VALUES ('probe', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (uuid.uuid4().hex,),
            )

    def _record(self, row: dict[str, object]) -> SessionRecord:
        try:
            return to_record(row)
        except (ValueError, TypeError) as error:
            msg = f"{self._path}: session {row.get('id')!r}: {error}"
            raise StateError(msg, hint="nothing was done; mend or remove this row") from None

    def lock(self) -> AbstractContextManager[None]:
        """The apply lock of this state root."""
        return hold_lock(self._root, self._lock_timeout, self._now, APPLY, self._tell, self._interrupted)
