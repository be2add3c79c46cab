"""Reads the event log: filters, and waiting for more."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from loopctl.adapters.journal import KEPT, rotated
from loopctl.errors import StateError, UsageError
from loopctl.model.foreign_json import parse_json

_POLL_SECONDS = 0.2
_SPAN = re.compile(r"(\d{1,9})\s*(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are wanted; what is empty is no criterion.

    `types` are globs on the event's name, `item` is a ref or a glob on refs, in any letter case.
    """

    types: tuple[str, ...] = ()
    item: str = ""
    since: datetime | None = None

    def accepts(self, event: Event) -> bool:
        """Whether an event is wanted."""
        ref, item = str(event.get("ref", "")).lower(), self.item.lower()
        return (
            (not self.types or any(fnmatchcase(str(event["event"]), pattern) for pattern in self.types))
            and (not item or ref == item or fnmatchcase(ref, item))
            and (self.since is None or datetime.fromisoformat(event["ts"]) >= self.since)
        )


class EventReader:
    """Iterates over the events of a log, the oldest first. `malformed` counts lines that are no event."""

    def __init__(self, path: Path, wanted: EventFilter, limit: int, wait: Callable[[], bool] | None) -> None:
        """`limit` keeps the newest of those that are there already (0: all); `wait`, if given, is called whenever there is
        nothing more, and ends the iteration by returning False."""
        self._tail = _Tail(path)
        self._wanted = wanted
        self._limit = limit
        self._wait = wait
        self.malformed = 0

    def __iter__(self) -> Iterator[Event]:
        """Read to the end, then go on for as long as `wait` says. Raises StateError when the log cannot be read."""
        try:
            yield from deque(self._new(), self._limit) if self._limit else self._new()
            while self._wait and self._wait():
                yield from self._new()
        finally:
            self._tail.close()

    def _new(self) -> Iterator[Event]:
        for line in self._tail.lines():
            # A writer that saw another one in the middle of its line began a new line needlessly.
            event = _event(line) if line else {}
            if event is None:
                self.malformed += 1
            elif event and self._wanted.accepts(event):
                yield event


def read_events(
    path: Path,
    types: tuple[str, ...] = (),
    item: str = "",
    since: datetime | None = None,
    limit: int = 0,
    follow: bool = False,
) -> EventReader:
    """The events of a log, filtered (see EventFilter); `follow` waits for more until it is interrupted.

    A log that does not exist yet has no events. A last line that is still being written is left for later.
    """
    return EventReader(path, EventFilter(types, item, since), limit, _pause if follow else None)


def parse_since(text: str, now: datetime) -> datetime:
    """`15m`, `2h`, `3d`, `1w` before `now`, or an ISO date and time (UTC where no zone is given). Raises UsageError."""
    span = _SPAN.fullmatch(text.strip())
    try:
        if span:
            return now - timedelta(seconds=int(span[1]) * _SECONDS[span[2]])
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is no time", hint="write 15m, 2h, 3d or 2026-07-25T10:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class _File:
    """Whole lines of one file that grows. Half a line at its end is left for later."""

    def __init__(self, path: Path) -> None:
        # A pipe that nobody writes to would be waited for without end.
        self._file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
        self._rest = b""
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            self._file.close()
            raise OSError(errno.EINVAL, "it is no regular file")

    def lines(self) -> Iterator[bytes]:
        if os.fstat(self._file.fileno()).st_size < self._file.tell():
            self._file.seek(0)
            self._rest = b""
        while chunk := self._file.read(1 << 16):
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            yield from whole

    def is_at(self, path: Path) -> bool:
        try:
            return os.path.samestat(path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        self._file.close()


class _Tail:
    """Whole lines of a log, those that were put aside first, and of the file that takes its place when it is put aside."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: _File | None = None
        #: The file before, for one round more: a writer may have had it open still.
        self._before: _File | None = None

    def lines(self) -> Iterator[bytes]:
        """Every whole line that came since the last call, the oldest first."""
        try:
            if self._before:
                yield from self._before.lines()
                self._before.close()
                self._before = None
            if self._file:
                yield from self._file.lines()
            while following := self._next():
                if self._before:
                    self._before.close()
                self._before, self._file = self._file, following
                yield from following.lines()
        except OSError as error:
            raise StateError(f"the event log {self._path} cannot be read: {error.strerror or error}") from error

    def close(self) -> None:
        """Close the files; half a line is forgotten."""
        for file in (self._file, self._before):
            if file:
                file.close()
        self._file = self._before = None

    def _next(self) -> _File | None:
        """The file that came right after the one that was read last, if there is one."""
        for path in self._successors():
            try:
                following = _File(path)
            except FileNotFoundError:
                continue
            if following.is_at(path):
                return following
            # Another one was put aside this very moment: the next time tells where it is now.
            following.close()
            return None
        return None

    def _successors(self) -> list[Path]:
        """Where what came after the file that was read last may be, the oldest first; at first, all there is."""
        aside = [rotated(self._path, number) for number in range(KEPT, 0, -1)]
        if self._file is None:
            return [*aside, self._path]
        if self._file.is_at(self._path):
            return []
        mine = [index for index, path in enumerate(aside) if self._file.is_at(path)]
        # Nowhere: somebody else put it away, and what lies aside is older.
        return [*aside[mine[0] + 1 :], self._path] if mine else [self._path]


def _event(line: bytes) -> Event | None:
    """The event of one line, or None when it is none."""
    try:
        event = parse_json(line)
        sound = isinstance(event["event"], str) and datetime.fromisoformat(event["ts"]).tzinfo is not None
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
    return event if sound and isinstance(event, dict) else None


def _pause() -> bool:
    time.sleep(_POLL_SECONDS)
    return True
