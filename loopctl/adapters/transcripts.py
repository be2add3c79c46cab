"""Transcripts: the scrollback of ended sessions, one file each, readable by the owner only."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from loopctl.errors import StateError
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.sessions import SessionRecord
from loopctl.model.transcripts import transcript_name

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# From so many files on, flushing them side by side is worth the threads.
_MANY = 8
_FLUSHERS = 16
_HINT = "free space or give access; no session is ended before its transcript can be written"


class TranscriptFolder:
    """All transcripts of one state root, in one folder (0700) that must be the user's own and no symbolic link."""

    def __init__(self, folder: Path) -> None:
        """`folder` is absolute; it is made when it is first written to."""
        self._folder = folder

    def path(self, record: SessionRecord) -> str:
        """`<folder>/<slug>-<first 8 of the record's id>.txt`. Raises StateError for an id that is no plain word."""
        return str(self._folder / _name(record))

    def save(self, record: SessionRecord, text: bytes) -> str:
        """Write one transcript and return its path. Raises StateError, naming the file and the cause."""
        saved = self.save_all([(record, text)])[record.id]
        if isinstance(saved, Unknown):
            raise StateError(saved.reason, hint=_HINT)
        return saved.value

    def save_all(self, texts: Sequence[tuple[SessionRecord, bytes]]) -> Mapping[str, Fact[str]]:
        """Write transcripts whole and durably; an older one of the same session is replaced, nothing half-written stays.

        All are written before the first is flushed.
        """
        saved: dict[str, Fact[str]] = {}
        wanted: list[tuple[SessionRecord, bytes, str]] = []
        for record, text in texts:
            try:
                wanted.append((record, text, _name(record)))
            except StateError as error:
                saved[record.id] = Unknown(error.message)
        try:
            if wanted:
                with _opened(self._folder) as folder:
                    saved |= self._save_into(folder, wanted)
        except OSError as error:
            saved |= {record.id: self._failure(name, error) for record, _, name in wanted}
        return saved

    def _save_into(self, folder: int, texts: Sequence[tuple[SessionRecord, bytes, str]]) -> Mapping[str, Fact[str]]:
        saved: dict[str, Fact[str]] = {}
        with ExitStack() as stack:
            ready = []
            for record, text, name in texts:
                try:
                    ready.append((record, stack.enter_context(_temporary(folder, text)), _free(folder, name)))
                except OSError as error:
                    saved[record.id] = self._failure(name, error)
            flushed = _flush([file.descriptor for _, file, _ in ready])
            for (record, file, name), problem in zip(ready, flushed, strict=True):
                try:
                    if problem:
                        raise problem
                    os.rename(file.name, name, src_dir_fd=folder, dst_dir_fd=folder)
                    saved[record.id] = Known(str(self._folder / name))
                except OSError as error:
                    saved[record.id] = self._failure(name, error)
            os.fsync(folder)
        return saved

    def _failure(self, name: str, error: OSError) -> Unknown:
        return Unknown(f"{self._folder / name} cannot be written: {error.strerror or error}")

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
        with (
            _explained(self._folder),
            _opened(self._folder) as folder,
            _temporary(folder, b"writable\n") as file,
        ):
            os.fsync(file.descriptor)


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
        raise StateError(f"{where} cannot be written: {error.strerror or error}", hint=_HINT) from error


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The folder as a descriptor: whoever swaps the path meanwhile changes nothing."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700, parents=True)
        # Its own name has to be on the disk too.
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)
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


@dataclass(frozen=True, slots=True)
class _File:
    descriptor: int
    name: str


@contextmanager
def _temporary(folder: int, text: bytes) -> Iterator[_File]:
    """A file with a random name and this content, which goes again unless it was renamed."""
    name = f".{secrets.token_hex(8)}.tmp"
    descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
    try:
        rest = memoryview(text)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        yield _File(descriptor, name)
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _flush(descriptors: Sequence[int]) -> list[OSError | None]:
    """Flush files side by side, which a journalling file system answers with few commits; the error of each, or None."""

    def flush(descriptor: int) -> OSError | None:
        try:
            os.fsync(descriptor)
        except OSError as error:
            return error
        return None

    if len(descriptors) < _MANY:
        return [flush(descriptor) for descriptor in descriptors]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_FLUSHERS) as pool:
        return list(pool.map(flush, descriptors))


def _free(folder: int, name: str) -> str:
    """The name, where nothing but an older transcript has it. Raises OSError."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError("something that is no regular file has its name")
    return name
