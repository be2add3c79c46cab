"""The event log: one JSON object a line, appended by every loopctl process of a state root."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path

from loopctl.model.events import EVENT_TYPES, INFO
from loopctl.model.refs import WorkItemRef
from loopctl.model.secrets import mask_value

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
    ) -> None:
        """`source` says who writes (`apply`, `controller`, ...); `warn` is told once when the log cannot be written."""
        self._path = path
        self._now = now
        self._source = source
        self._warn = warn
        self._warned = False

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
            _append(self._path, line)
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


def _append(path: Path, line: bytes) -> None:
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
    finally:
        os.close(descriptor)


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
