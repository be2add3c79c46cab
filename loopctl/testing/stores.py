"""Fakes of the places where loopctl keeps things: ports.Registry, ports.Journal and ports.Transcripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from loopctl.errors import RefusedError, StateError
from loopctl.model.events import EVENT_TYPES, INFO
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.sessions import CLOSED_STATUS, SessionRecord
from loopctl.model.transcripts import transcript_name
from loopctl.testing.faults import Faults
from loopctl.testing.machine import Effect


class FakeRegistry:
    """ports.Registry in memory: generations, one open record an item and machine, a lock."""

    def __init__(self, now: Callable[[], datetime], faults: Faults, effects: list[Effect]) -> None:
        """Empty, and without identity until it is first written to."""
        self.records: dict[str, SessionRecord] = {}
        self.name = ""
        self.holder = ""
        self._now = now
        self._faults = faults
        self._effects = effects

    @property
    def identity(self) -> str:
        """Its name, or "" while nothing was written."""
        return self.name

    def all(self) -> tuple[SessionRecord, ...]:
        """Every record, the oldest first; those without a time come before the others, as in SQLite."""
        self._faults.enter("registry.all")
        return tuple(sorted(self.records.values(), key=_age))

    def add(self, record: SessionRecord) -> SessionRecord:
        """Insert a record."""
        self._faults.enter("registry.add")
        self._effects.append(Effect("record", record.id, record.id, "add"))
        return self.put(record)

    def put(self, record: SessionRecord) -> SessionRecord:
        """Insert a record as a test's set-up: counted by nobody, failing for nobody."""
        self.name = self.name or "fake-registry"
        taken = record.id in self.records or (record.status != CLOSED_STATUS and self._open(record))
        if taken:
            raise StateError(f"{record.ref} already has a session that is not closed")
        self.records[record.id] = replace(record, generation=1, updated_at=self._now())
        return self.records[record.id]

    def _open(self, record: SessionRecord) -> bool:
        mine = (record.machine, record.ref)
        others = (r for r in self.records.values() if r.id != record.id and r.status != CLOSED_STATUS)
        return any((r.machine, r.ref) == mine for r in others)

    def replace(self, record: SessionRecord) -> SessionRecord | None:
        """Write over the row of the same id and generation."""
        self._faults.enter("registry.replace")
        row = self.records.get(record.id)
        if row is None or row.generation != record.generation:
            return None
        if record.status != CLOSED_STATUS and self._open(record):
            raise StateError(f"{record.ref} already has a session that is not closed")
        self._effects.append(Effect("record", record.id, record.id, record.status))
        return self.edit(record.id, **{name: getattr(record, name) for name in _FIELDS})

    def replace_all(self, records: Sequence[SessionRecord]) -> Mapping[str, SessionRecord | None]:
        """`replace` for each."""
        return {record.id: self.replace(record) for record in records}

    def edit(self, id_: str, **changes: object) -> SessionRecord:
        """Change a row as somebody else would, behind loopctl's back; its generation moves on."""
        row = self.records[id_]
        changed = replace(row, **changes)  # type: ignore[arg-type]
        self.records[id_] = replace(changed, generation=row.generation + 1, updated_at=self._now())
        return self.records[id_]

    def remove(self, record: SessionRecord) -> None:
        """Forget a record of this id and generation."""
        self._faults.enter("registry.remove")
        row = self.records.get(record.id)
        if row is not None and row.generation == record.generation:
            self._effects.append(Effect("record", record.id, record.id, "remove"))
            del self.records[record.id]

    def prove_writable(self) -> None:
        """Fails where it was told to."""
        self._faults.enter("registry.prove_writable")
        self.name = self.name or "fake-registry"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Refused while `holder` says who has it; given back by a crash too, as the kernel does."""
        self._faults.enter("registry.lock")
        if self.holder:
            raise RefusedError(f"another loopctl is at work: {self.holder}")
        self.holder = "this test"
        try:
            yield
        finally:
            self.holder = ""


_FIELDS = tuple(SessionRecord.__dataclass_fields__)


def _age(record: SessionRecord) -> tuple[bool, float, str]:
    born = record.created_at
    return (born is not None, born.timestamp() if born else 0.0, record.id)


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it was emitted."""

    event: str
    level: str
    fields: Mapping[str, object]


@dataclass(slots=True)
class FakeJournal:
    """ports.Journal as a list."""

    faults: Faults
    events: list[Event] = field(default_factory=list)

    def emit(self, event: str, level: str = INFO, **fields: object) -> None:
        """Keep one event; an unregistered one is a ValueError."""
        if event not in EVENT_TYPES:
            msg = f"{event!r} is no registered event"
            raise ValueError(msg)
        self.faults.enter("journal.emit")
        self.events.append(Event(event, level, {name: value for name, value in fields.items() if value is not None}))

    def of(self, event: str) -> list[Mapping[str, object]]:
        """The fields of all events of one type."""
        return [e.fields for e in self.events if e.event == event]


class FakeTranscripts:
    """ports.Transcripts in memory: `files` by path."""

    def __init__(self, faults: Faults, effects: list[Effect]) -> None:
        """No files."""
        self.files: dict[str, bytes] = {}
        self._faults = faults
        self._effects = effects

    def path(self, record: SessionRecord) -> str:
        """The same for one session each time."""
        try:
            return f"/transcripts/{transcript_name(record.ref, record.id)}"
        except ValueError as error:
            raise StateError(f"no transcript for {record.ref}: {error}") from error

    def save(self, record: SessionRecord, text: bytes) -> str:
        """Keep the text."""
        path = self.path(record)
        self._faults.enter("transcripts.save")
        self._effects.append(Effect("save", path, record.id))
        self.files[path] = text
        return path

    def save_all(self, texts: Sequence[tuple[SessionRecord, bytes]]) -> Mapping[str, Fact[str]]:
        """Keep the texts."""
        saved: dict[str, Fact[str]] = {}
        for record, text in texts:
            try:
                saved[record.id] = Known(self.save(record, text))
            except StateError as error:
                saved[record.id] = Unknown(error.message)
        return saved

    def load(self, record: SessionRecord) -> bytes:
        """What was kept."""
        self._faults.enter("transcripts.load")
        return self.files.get(self.path(record), b"")

    def prove_writable(self) -> None:
        """Fails where it was told to."""
        self._faults.enter("transcripts.prove_writable")
