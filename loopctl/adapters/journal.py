"""The event log: one JSON object a line, appended by every loopctl process of a state root."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path

from loopctl.model.events import EVENT_TYPES, INFO
from loopctl.model.refs import WorkItemRef
from loopctl.model.secrets import mask_value

#: How many old files stay.
KEPT = 5

_OPEN = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class NullJournal:
    """A log that is turned off."""

    def emit(self, event: str, level: str = INFO, **fields: object) -> None:
        """Check the event's name and keep nothing."""
        _check(event)


class EventLog:
    """Appends to one file (0600). It is opened for each event, so that it may be rotated at any time."""

    def __init__(
        self,
        path: Path,
        now: Callable[[], datetime],
        source: str,
        warn: Callable[[str], object] = lambda text: sys.stderr.write(f"{text}\n"),
        max_bytes: int = 0,
    ) -> None:
        """`source` says who writes (`apply`, `controller`, ...); `warn` is told once when the log cannot be written.

        A file of `max_bytes` (0: no limit) is put aside as `NAME.1`, the one before it as `NAME.2`, and so on.
        """
        self._path = path
        self._now = now
        self._source = source
        self._warn = warn
        self._warned = False
        self._max_bytes = max_bytes

    def emit(self, event: str, level: str = INFO, **fields: object) -> None:
        """Append one event with its time, source and pid. Fields that are None are left out, secrets are masked.

        An unregistered event is a mistake in the program and raises ValueError; a log that cannot be written never
        stops the work: it is told once.
        """
        _check(event)
        head = {"ts": _time(self._now()), "event": event, "level": level, "source": self._source, "pid": os.getpid()}
        body = {name: _plain(value, name) for name, value in fields.items() if value is not None and name not in head}
        line = json.dumps(head | body, ensure_ascii=True, default=str).encode() + b"\n"
        try:
            size = _append(self._path, line)
            if self._max_bytes and size >= self._max_bytes:
                _rotate(self._path, self._max_bytes)
        except OSError as error:
            self._tell(f"loopctl: the event log {self._path} cannot be written: {error.strerror or error}")

    def _tell(self, text: str) -> None:
        if self._warned:
            return
        self._warned = True
        try:
            self._warn(text)
        except (OSError, ValueError, AttributeError):  # stderr is closed: there is nobody left to tell
            return


def _check(event: str) -> None:
    if event not in EVENT_TYPES:
        msg = f"{event!r} is no registered event"
        raise ValueError(msg)


def _append(path: Path, line: bytes) -> int:
    """Append a line; returns the size of the file after it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, _OPEN, 0o600)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no regular file")
        # A writer that was killed, or a full disk, may have left half a line; ours must not join it.
        if status.st_size and os.pread(descriptor, 1, status.st_size - 1) != b"\n":
            line = b"\n" + line
        if os.write(descriptor, line) != len(line):
            raise OSError("the disk is full")
        return status.st_size + len(line)
    finally:
        os.close(descriptor)


def _rotate(path: Path, max_bytes: int) -> None:
    """Put the file aside, once: of many writers, the one that holds it and still finds it there."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine = os.fstat(descriptor)
        if mine.st_size < max_bytes or not os.path.samestat(mine, path.stat()):
            return
        for number in range(KEPT - 1, 0, -1):
            with suppress(FileNotFoundError):
                rotated(path, number).replace(rotated(path, number + 1))
        path.replace(rotated(path, 1))
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)


def rotated(path: Path, number: int) -> Path:
    """Where a file that was put aside is; 1 is the newest."""
    return path.with_name(f"{path.name}.{number}")


def _plain(value: object, name: str = "") -> object:
    """A value as JSON can hold it, its secrets masked."""
    if isinstance(value, WorkItemRef):
        return str(value)
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, str(key)) for key, inner in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name), field.name) for field in fields(value)}
    if isinstance(value, frozenset | set):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return mask_value([_plain(inner) for inner in value], name)
    return mask_value(value if value is None or isinstance(value, str | int | float | bool) else str(value), name)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
