"""Whether the registry's file can be trusted, found out without writing to it; and what to do when it cannot."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from loopctl.adapters.registry_rows import ADDED_2, COLUMNS
from loopctl.adapters.registry_schema import APPLICATION_ID, SCHEMA_VERSION
from loopctl.model.plain import plain

#: What SQLite says of a file whose content is wrong; everything else is about access to it.
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_LONGEST = 300


class Untrusted(sqlite3.DatabaseError):
    """The file is not to be used; `remedy` is the way on."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        """Without a remedy the file is damaged."""
        super().__init__(reason)
        self.remedy = remedy


def prove_sound(path: Path) -> None:
    """Read a file that is to be opened: of this user, a registry, whole, and of a version that we know.

    Raises Untrusted, sqlite3.Error, OSError or UnicodeDecodeError. SQLite would write to a file as soon as it is opened for writing, so a
    stranger's is not even opened.
    """
    _check_header(path)
    with closing(sqlite3.connect(f"file:{uri(path)}?mode=ro", uri=True, timeout=10)) as db:
        if db.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
            raise Untrusted("not a loopctl registry")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if not 1 <= version <= SCHEMA_VERSION:
            newer = " (a newer loopctl wrote it)" if version > SCHEMA_VERSION else ""
            msg = f"schema version {version}{newer}; this loopctl reads up to version {SCHEMA_VERSION}"
            raise Untrusted(msg, "nothing was done; use the loopctl that wrote it, or a newer one")
        (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
        there = {row[1] for row in db.execute("PRAGMA table_info(sessions)")}
    if verdict != "ok":
        raise Untrusted(f"damaged: {verdict.splitlines()[-1]}")
    if missing := sorted(set(COLUMNS) - there - (set(ADDED_2) if version == 1 else set())):
        raise Untrusted(f"damaged: sessions have no {missing[0]}")


def _check_header(path: Path) -> None:
    """What the file itself says, without opening it other than through SQLite: closing a descriptor of one's own would take away
    the locks that SQLite holds for this process, and another process would then take the log away from under it."""
    info = path.lstat()
    if not stat.S_ISREG(info.st_mode):
        raise Untrusted("not a file")
    if info.st_uid != os.geteuid():
        raise Untrusted(
            f"belongs to another user (uid {info.st_uid})", f"nothing was done; chown {os.geteuid()} {path}"
        )
    if info.st_mode & 0o022:
        raise Untrusted("can be written by others", f"nothing was done; look at what it holds, then chmod 600 {path}")
    if not info.st_size:
        raise Untrusted("the file is empty: it was cut short, or is no registry")
    # Immutable: nothing is locked, and no log is made beside a stranger's file.
    with closing(sqlite3.connect(f"file:{uri(path)}?mode=ro&immutable=1", uri=True)) as db:
        try:
            (application,) = db.execute("PRAGMA application_id").fetchone()
        except sqlite3.DatabaseError as error:
            if _code(error) != sqlite3.SQLITE_NOTADB:
                # While its log is written back, the file is whole together with its log only.
                return
            raise Untrusted("not a loopctl registry, or its beginning is damaged") from None
    if application != APPLICATION_ID:
        raise Untrusted("not a loopctl registry")


def lost(path: Path) -> bool:
    """Whether a file was taken away and its write-ahead log was not: a new file would swallow the old one's log."""
    try:
        there = path.with_name(f"{path.name}-wal").lstat().st_size > 0
    except FileNotFoundError:
        return False
    # In this order: a log comes after its file, so this one's file is gone and not merely young.
    return there and not path.exists()


def in_words(error: Exception) -> str:
    """The error as one line: SQLite repeats what it cannot read."""
    words = " ".join(plain(str(error)).split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 3] + "..."


def remedy(path: Path, error: Exception) -> str:
    """What to do about an error of this file: one sentence, no newline."""
    if isinstance(error, Untrusted) and error.remedy:
        return error.remedy
    if _code(error) == sqlite3.SQLITE_READONLY:
        return (
            f"nothing was done; SQLite writes beside a file even to read it: give yourself write access to {path.parent} and "
            "what is in it, or set state.root to a copy of it"
        )
    if not _is_damage(error):
        return "nothing was done, and the file was left as it is"
    return f"nothing was done, and the file was left as it is; {way_back(path)}"


def _is_damage(error: Exception) -> bool:
    # Text that is none, in a row or in SQLite's own words about a table whose name it repeats.
    undecodable = isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode to UTF-8")
    return isinstance(error, Untrusted) or undecodable or _code(error) in _DAMAGE


def _code(error: Exception) -> int:
    """What SQLite says that is wrong, without the details; 0 for other errors."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def way_back(path: Path) -> str:
    """How to get from a file that is lost or damaged to one that works."""
    away = f"move {path.name}, {path.name}-wal and {path.name}-shm away"
    try:
        made = datetime.fromtimestamp(backup_of(path).stat().st_mtime, UTC)
    except OSError:
        return f"{away}, then `loopctl sessions rebuild` restores what tmux still shows"
    kept = f"copy {backup_of(path).name} (of {made:%Y-%m-%d %H:%M} UTC) to {path.name}"
    return f"{away}, {kept}, then `loopctl sessions rebuild` adds what is newer and still in tmux"


def backup_of(path: Path) -> Path:
    """Where the copy of a registry is kept."""
    return path.with_name(f"{path.name}.bak")


def uri(path: Path) -> str:
    """A path inside a `file:` URI."""
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
