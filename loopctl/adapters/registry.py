"""Session records in SQLite, and the apply lock beside them."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from loopctl.adapters.registry_lock import check_root, hold_lock, make_root
from loopctl.adapters.registry_rows import COLUMNS, NUMBERS, to_record, to_row
from loopctl.errors import StateError
from loopctl.model.sessions import CLOSED_STATUS, SessionRecord

APPLICATION_ID = 0x6C6F6F70  # "loop"
SCHEMA_VERSION = 1

_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE sessions (
  {", ".join(f"{c} {'INTEGER' if c in NUMBERS else 'TEXT'}{' PRIMARY KEY NOT NULL' if c == 'id' else ''}" for c in COLUMNS)}
) STRICT;
CREATE UNIQUE INDEX one_open_session ON sessions (machine, ref_key) WHERE status != '{CLOSED_STATUS}';
"""


class SqliteRegistry:
    """ports.Registry in `<root>/registry.db`; the apply lock is `<root>/apply.lock`."""

    def __init__(self, root: Path, *, now: Callable[[], datetime], lock_timeout: float = 10.0) -> None:
        """Nothing is made or opened before it is needed: planning on an empty machine leaves no trace."""
        self._root = root
        self._path = root / "registry.db"
        self._now = now
        self._lock_timeout = lock_timeout
        # Kept open: closing the last connection writes the log back, which costs more than a transaction.
        self._db: sqlite3.Connection | None = None
        self._close: Callable[[], object] | None = None
        self._inode = (0, 0)

    @property
    def identity(self) -> str:
        """The registry's own random name, or "" while there is no file."""
        if not self._exists():
            return ""
        with self._open() as db:
            row = db.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()
        return str(row[0]) if row else ""

    def all(self) -> tuple[SessionRecord, ...]:
        """Every record, the oldest first."""
        if not self._exists():
            return ()
        with self._open() as db:
            rows = db.execute(f"SELECT {', '.join(COLUMNS)} FROM sessions ORDER BY created_at, id").fetchall()
        return tuple(self._record(dict(zip(COLUMNS, row, strict=True))) for row in rows)

    def add(self, record: SessionRecord) -> SessionRecord:
        """Insert a record."""
        new = replace(record, generation=1, updated_at=self._now())
        row = to_row(new)
        with self._open(write=True, create=True) as db:
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
        with self._open(write=True) as db:
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
        with self._open(write=True) as db:
            db.execute("DELETE FROM sessions WHERE id = ? AND generation = ?", (record.id, record.generation))

    def prove_writable(self) -> None:
        """Commit a row durably."""
        with self._open(write=True, create=True) as db:
            db.execute(
                "INSERT INTO meta VALUES ('probe', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (uuid.uuid4().hex,),
            )

    def _exists(self) -> bool:
        check_root(self._root)
        return self._path.exists() or self._path.is_symlink()

    def _record(self, row: dict[str, object]) -> SessionRecord:
        try:
            return to_record(row)
        except (ValueError, TypeError) as error:
            msg = f"{self._path}: session {row.get('id')!r}: {error}"
            raise StateError(msg, hint="nothing was done; mend or remove this row") from None

    @contextmanager
    def _open(self, *, write: bool = False, create: bool = False) -> Iterator[sqlite3.Connection]:
        """One short transaction. Any doubt about the file is a StateError that names it."""
        if create:
            make_root(self._root)
        try:
            db = self._connection(create)
            with db:
                db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield db
        except (sqlite3.Error, OSError) as error:
            self._drop()
            msg = f"{self._path}: {error}"
            raise StateError(msg, hint="nothing was done, and the file was left as it is") from error

    def _connection(self, create: bool) -> sqlite3.Connection:
        """The open connection, as long as the file is still the one that it was opened on."""
        if self._path.is_symlink():
            msg = f"{self._path} is a symbolic link: refused"
            raise StateError(msg)
        if create and not self._path.exists():
            self._create()
        info = self._path.stat()
        if info.st_size == 0:
            msg = "the file is empty: it was cut short, or is no registry"
            raise sqlite3.DatabaseError(msg)
        if self._db is None or self._inode != (info.st_dev, info.st_ino):
            self._drop()
            db = _connection(self._path)
            self._close = weakref.finalize(self, db.close)
            self._db, self._inode = db, (info.st_dev, info.st_ino)
            self._check(db)
        return self._db

    def _drop(self) -> None:
        if self._db is not None and self._close is not None:
            self._close()
            self._db = None

    def _create(self) -> None:
        """Make the file whole under another name, then give it its own: no crash leaves half of one."""
        temporary = self._root / f".registry-{uuid.uuid4().hex}.db"
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            db = _connection(temporary)
            try:
                db.executescript(_SCHEMA)
                db.execute("INSERT INTO meta VALUES ('identity', ?)", (uuid.uuid4().hex,))
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            finally:
                db.close()
            with contextlib.suppress(FileExistsError):
                os.link(temporary, self._path)
            _sync_folder(self._root)
        except OSError as error:
            msg = f"{self._path}: {error.strerror}"
            raise StateError(msg) from None
        finally:
            temporary.unlink(missing_ok=True)

    @staticmethod
    def _check(db: sqlite3.Connection) -> None:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            msg = "not a loopctl registry"
            raise sqlite3.DatabaseError(msg)
        if version != SCHEMA_VERSION:
            msg = f"schema version {version}; this loopctl reads version {SCHEMA_VERSION}"
            raise sqlite3.DatabaseError(msg)
        (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(str(verdict))

    def lock(self) -> AbstractContextManager[None]:
        """The apply lock of this state root."""
        return hold_lock(self._root, self._lock_timeout, self._now)


def _connection(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"file:{_uri(path)}?mode=rw", uri=True, timeout=10, isolation_level=None)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA journal_mode = WAL")
    return db


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _uri(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
