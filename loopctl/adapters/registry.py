"""Session records in SQLite, and the apply lock beside them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import sqlite3
import sys
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

from loopctl.errors import RefusedError, StateError
from loopctl.model.processes import ProcessId
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS, STATUSES, ServerId, SessionRecord

APPLICATION_ID = 0x6C6F6F70  # "loop"
SCHEMA_VERSION = 1

_NUMBERS = {"server_pid", "server_start", "pane_pid", "generation"}
_TIMES = ("created_at", "updated_at", "closed_at")
_PLAIN = tuple(f.name for f in fields(SessionRecord) if f.name not in {"ref", "server", "pane", *_TIMES})
_COLUMNS = ("ref", "ref_key", "server_pid", "server_start", "pane_pid", "pane_start", *_TIMES, *_PLAIN)

_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE sessions (
  {", ".join(f"{c} {'INTEGER' if c in _NUMBERS else 'TEXT'}{' PRIMARY KEY NOT NULL' if c == 'id' else ''}" for c in _COLUMNS)}
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
            rows = db.execute(f"SELECT {', '.join(_COLUMNS)} FROM sessions ORDER BY created_at, id").fetchall()
        return tuple(self._record(dict(zip(_COLUMNS, row, strict=True))) for row in rows)

    def add(self, record: SessionRecord) -> SessionRecord:
        """Insert a record."""
        new = replace(record, generation=1, updated_at=self._now())
        row = _row(new)
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
                row = _row(new)
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
            return _to_record(row)
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

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the apply lock. The descriptor is not inherited, so no tmux server keeps it alive."""
        make_root(self._root)
        path = self._root / "apply.lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            msg = f"{path}: {error.strerror}"
            raise StateError(msg) from None
        try:
            self._acquire(handle)
            note = {"pid": os.getpid(), "command": Path(sys.argv[0]).name, "since": _time_text(self._now())}
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(note).encode(), 0)
            yield
        finally:
            os.close(handle)

    def _acquire(self, handle: int) -> None:
        deadline = time.monotonic() + self._lock_timeout
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK}:
                    msg = f"{self._root / 'apply.lock'}: {error.strerror}"
                    raise StateError(msg) from None
                if time.monotonic() >= deadline:
                    msg = f"another loopctl is at work on {self._root}: {_holder(handle)}"
                    raise RefusedError(msg, hint="wait for it, or raise lock.timeoutSeconds") from None
                time.sleep(0.05)
            else:
                return


def make_root(root: Path) -> None:
    """Make the state folder, 0700, and check it. Raises StateError."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{root}: {error.strerror}"
        raise StateError(msg, hint="set state.root to a folder of yours") from None
    check_root(root)


def check_root(root: Path) -> None:
    """Refuse a state folder that others could write to. A missing one is fine. Raises StateError."""
    try:
        info = root.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        msg = f"{root}: {error.strerror}"
        raise StateError(msg) from None
    if not root.is_dir():
        msg = f"{root} is not a folder"
        raise StateError(msg, hint="set state.root to a folder of yours")
    if info.st_uid != os.geteuid():
        msg = f"{root} belongs to another user"
        raise StateError(msg, hint="set state.root to a folder of yours")
    if info.st_mode & 0o022:
        msg = f"{root} can be written by others"
        raise StateError(msg, hint=f"chmod go-w {root}")


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


def _holder(handle: int) -> str:
    try:
        note = json.loads(os.pread(handle, 4096, 0))
        return f"{note['command']}, pid {note['pid']}, since {note['since']}"
    except (ValueError, KeyError, TypeError, OSError):
        return "its holder did not say who it is"


def _uri(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _time_text(value: datetime | None) -> str | None:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if value else None


def _time(value: object, name: str) -> datetime | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC)
    except ValueError:
        msg = f"{name}: {value!r} is not a time"
        raise ValueError(msg) from None


def _row(record: SessionRecord) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(record, name) for name in _PLAIN}
    row |= {name: _time_text(getattr(record, name)) for name in _TIMES}
    row |= {"ref": str(record.ref), "ref_key": record.ref.key}
    row |= (
        {"server_pid": record.server.pid, "server_start": record.server.start}
        if record.server
        else dict.fromkeys(("server_pid", "server_start"))
    )
    row |= (
        {"pane_pid": record.pane.pid, "pane_start": record.pane.start}
        if record.pane
        else dict.fromkeys(("pane_pid", "pane_start"))
    )
    return row


def _pid(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 1:
        msg = f"{name}: {value!r} is not the process id of a session"
        raise ValueError(msg)
    return value


def _to_record(row: dict[str, object]) -> SessionRecord:
    ref = WorkItemRef.parse(str(row["ref"]))
    if ref.key != row["ref_key"]:
        msg = f"ref_key: {row['ref_key']!r} does not belong to {ref}"
        raise ValueError(msg)
    if row["status"] not in STATUSES:
        msg = f"status: {row['status']!r} is not one of {', '.join(STATUSES)}"
        raise ValueError(msg)
    plain = {name: row[name] if row[name] is not None else "" for name in _PLAIN}
    server = pane = None
    if row["server_pid"] is not None:
        server = ServerId(_pid(row["server_pid"], "server_pid"), int(str(row["server_start"])))
    if row["pane_pid"] is not None:
        pane = ProcessId(_pid(row["pane_pid"], "pane_pid"), str(row["pane_start"] or ""))
    times = {name: _time(row[name], name) for name in _TIMES}
    return SessionRecord(ref=ref, server=server, pane=pane, **times, **plain)  # type: ignore[arg-type]
