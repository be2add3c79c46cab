"""The file that the registry and the ledger share: opened, checked, made whole and brought up to date in one place."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from loopctl.adapters.registry_check import Untrusted, backup_of, in_words, lost, prove_sound, remedy, uri, way_back
from loopctl.adapters.registry_lock import check_root, make_root
from loopctl.adapters.registry_schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION, UPGRADES
from loopctl.errors import StateError

#: How old the copy may become that is kept beside the file.
_COPY_SECONDS = 86400.0


class Database:
    """`<root>/registry.db`. Nothing is made or opened before it is needed: planning on an empty machine leaves no trace."""

    def __init__(self, root: Path) -> None:
        """`root` is the state folder, absolute."""
        self._root = root
        self.path = root / "registry.db"
        # Kept open: closing the last connection writes the log back, which costs more than a transaction.
        self._db: sqlite3.Connection | None = None
        self._close: Callable[[], object] | None = None
        self._inode = (0, 0)

    def exists(self) -> bool:
        """Whether there is a file, or something in its place.

        Raises StateError for a state folder that is not the user's own, and where only the file's log is left.
        """
        check_root(self._root)
        if lost(self.path):
            msg = f"{self.path} is gone, and its write-ahead log is still there"
            raise StateError(msg, hint=f"nothing was done; put the file back, or {way_back(self.path)}")
        return self.path.exists() or self.path.is_symlink()

    @contextmanager
    def open(self, *, write: bool = False, create: bool = False) -> Iterator[sqlite3.Connection]:
        """One short transaction. Any doubt about the file is a StateError that names it.

        A file of an older version is read as it is, and brought up to date by the first write.
        """
        if create:
            make_root(self._root)
        try:
            db = self._connection(create)
            if write:
                self._upgrade(db)
                self._keep_copy(db)
            with db:
                db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield db
        except (sqlite3.Error, OSError, UnicodeError) as error:
            self._drop()
            msg = f"{self.path}: {in_words(error)}"
            raise StateError(msg, hint=remedy(self.path, error)) from error

    def _connection(self, create: bool) -> sqlite3.Connection:
        """The open connection, as long as the file is still the one that it was opened on."""
        if self.path.is_symlink():
            msg = f"{self.path} is a symbolic link: refused"
            raise StateError(msg)
        if create and not self.exists():
            self._create()
        info = self.path.stat()
        if self._db is None or self._inode != (info.st_dev, info.st_ino):
            self._drop()
            prove_sound(self.path)
            db = _connection(self.path)
            self._close = weakref.finalize(self, db.close)
            self._db, self._inode = db, (info.st_dev, info.st_ino)
        return self._db

    def _drop(self) -> None:
        if self._db is not None and self._close is not None:
            self._close()
            self._db = None

    def _upgrade(self, db: sqlite3.Connection) -> None:
        """Bring an older file up to date, in one transaction, once it was copied."""
        version = _version(db)
        if version == SCHEMA_VERSION:
            return
        self._back_up(db, version)
        with db:
            db.execute("BEGIN IMMEDIATE")
            # Another process may have been faster.
            for step in range(_version(db), SCHEMA_VERSION):
                for statement in UPGRADES[step]:
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _back_up(self, db: sqlite3.Connection, version: int) -> None:
        """Keep a copy of the file as it was, beside it."""
        kept = self._root / f"registry.v{version}.db"
        if not kept.exists():
            self._copy(db, kept)

    def _keep_copy(self, db: sqlite3.Connection) -> None:
        """Once a day, before something is written, keep a copy of what was found sound."""
        kept = backup_of(self.path)
        with contextlib.suppress(FileNotFoundError):
            if abs(time.time() - kept.lstat().st_mtime) < _COPY_SECONDS:
                return
        # Without room for a copy there may still be room for the work, whose own writes tell.
        with contextlib.suppress(OSError, sqlite3.OperationalError):
            _put_aside(kept, identity_of(db))
            self._copy(db, kept)

    def _copy(self, db: sqlite3.Connection, kept: Path) -> None:
        """A copy that is whole or not there."""
        temporary = self._root / f".registry-{uuid.uuid4().hex}.db"
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            with contextlib.closing(sqlite3.connect(temporary)) as copy:
                db.backup(copy)
                if copy.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                    raise Untrusted("damaged")
            _sync(temporary)
            temporary.rename(kept)
            _sync(self._root)
        finally:
            temporary.unlink(missing_ok=True)

    def _create(self) -> None:
        """Make the file whole under another name, then give it its own: no crash leaves half of one."""
        temporary = self._root / f".registry-{uuid.uuid4().hex}.db"
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            db = _connection(temporary)
            try:
                db.executescript(SCHEMA)
                db.execute("INSERT INTO meta VALUES ('identity', ?)", (uuid.uuid4().hex,))
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            finally:
                db.close()
            with contextlib.suppress(FileExistsError):
                os.link(temporary, self.path)
            _sync(self._root)
        except OSError as error:
            msg = f"{self.path}: {error.strerror}"
            raise StateError(msg) from None
        finally:
            temporary.unlink(missing_ok=True)


def _connection(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"file:{uri(path)}?mode=rw", uri=True, timeout=10, isolation_level=None)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA journal_mode = WAL")
    return db


def _put_aside(kept: Path, identity: str) -> None:
    """Give a copy of another registry than this one a name of its own: it may be all that is left of one that was lost."""
    try:
        info = kept.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(info.st_mode):
        return
    # Nobody writes to a copy.
    readonly = f"file:{uri(kept)}?mode=ro&immutable=1"
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(readonly, uri=True)) as copy:
        if identity_of(copy) == identity:
            return
    made = datetime.fromtimestamp(info.st_mtime, UTC)
    # A second name for the file takes nothing away from whoever does the same at this moment.
    with contextlib.suppress(FileExistsError):
        os.link(kept, kept.with_name(f"{kept.name}-{made:%Y%m%dT%H%M%SZ}"))


def identity_of(db: sqlite3.Connection) -> str:
    """The random name of a registry, "" for one without."""
    (identity,) = db.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone() or ("",)
    return str(identity)


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
