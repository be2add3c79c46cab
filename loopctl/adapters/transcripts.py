"""Transcripts: the scrollback of ended sessions, one file each, readable by the owner only."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loopctl.errors import StateError
from loopctl.model.sessions import SessionRecord
from loopctl.model.transcripts import transcript_name

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TranscriptFolder:
    """All transcripts of one state root, in one folder (0700) that must be the user's own and no symbolic link."""

    def __init__(self, folder: Path) -> None:
        """`folder` is absolute; it is made when it is first written to."""
        self._folder = folder

    def path(self, record: SessionRecord) -> str:
        """`<folder>/<slug>-<first 8 of the record's id>.txt`. Raises StateError for an id that is no plain word."""
        return str(self._folder / _name(record))

    def save(self, record: SessionRecord, text: bytes) -> str:
        """Write the transcript whole and durably and return its path; an older one of the session is replaced.

        Raises StateError, naming the file and the cause; nothing half-written is left then.
        """
        name = _name(record)
        target = self._folder / name
        with _explained(target), _opened(self._folder) as folder:
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise OSError("something that is no regular file has its name")
            _write(folder, text, name)
        return str(target)

    def load(self, record: SessionRecord) -> bytes:
        """What was saved for this session, b"" when nothing was. Raises StateError."""
        name = _name(record)
        target = self._folder / name
        if not self._folder.exists():
            return b""
        with _explained(target), _opened(self._folder) as folder:
            try:
                handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except FileNotFoundError:
                return b""
            with os.fdopen(handle, "rb") as file:
                return file.read()

    def prove_writable(self) -> None:
        """Write something and take it back. Raises StateError with what and where."""
        with _explained(self._folder), _opened(self._folder) as folder:
            _write(folder, b"writable\n", None)


def _name(record: SessionRecord) -> str:
    try:
        return transcript_name(record.ref, record.id)
    except ValueError as error:
        raise StateError(f"no transcript for {record.ref}: {error}") from error


@contextmanager
def _explained(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(
            f"{where} cannot be written: {error.strerror or error}",
            hint="free space or give access; no session is ended before its transcript can be written",
        ) from error


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The folder as a descriptor: whoever swaps the path meanwhile changes nothing."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path, _FOLDER)
    try:
        status = os.fstat(folder)
        if status.st_uid != os.geteuid():
            raise OSError(f"its folder belongs to another user (uid {status.st_uid})")
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.fchmod(folder, 0o700)
        yield folder
    finally:
        os.close(folder)


def _write(folder: int, text: bytes, name: str | None) -> None:
    """Write a file with a random name, then move it to `name`, or remove it where there is none."""
    temporary = f".{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, _NEW_FILE, 0o600, dir_fd=folder)
    try:
        try:
            rest = memoryview(text)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if name:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
