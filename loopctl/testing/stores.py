"""Fakes of the places where loopctl keeps things: ports.Registry, ports.Journal and ports.Transcripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from loopctl.errors import RefusedError, StateError
from loopctl.model.events import EVENT_TYPES, INFO
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS, SessionRecord
from loopctl.model.talk import FAILED_DELIVERY, SENDING, Delivery, Posted, Talk
from loopctl.model.transcripts import transcript_name
from loopctl.model.workspaces import Prepared, Removal, Workspace, worktree_path
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


class FakeLedger:
    """ports.Ledger in memory."""

    def __init__(self, now: Callable[[], datetime], faults: Faults, effects: list[Effect]) -> None:
        """Nothing was said yet."""
        self.deliveries: dict[tuple[str, str], Delivery] = {}
        self.cursors: dict[str, datetime] = {}
        self.notes: dict[tuple[str, str], Posted] = {}
        self.armed: dict[str, datetime] = {}
        self._now = now
        self._faults = faults
        self._effects = effects

    def read(self) -> Talk:
        """All of it."""
        self._faults.enter("ledger.read")
        sent: dict[str, tuple[Delivery, ...]] = {}
        for delivery in self.deliveries.values():
            sent[delivery.session] = (*sent.get(delivery.session, ()), delivery)
        notes: dict[str, tuple[Posted, ...]] = {}
        for note in self.notes.values():
            notes[note.session] = (*notes.get(note.session, ()), note)
        return Talk(sent, dict(self.cursors), notes, dict(self.armed))

    def claim(self, session: str, message: str) -> bool:
        """A new line, or a failed one that is tried again."""
        self._faults.enter("ledger.claim")
        line = self.deliveries.get((session, message))
        if line is not None and line.status != FAILED_DELIVERY:
            return False
        self._effects.append(Effect("ledger", message, session, "claim"))
        attempts = line.attempts + 1 if line else 1
        self.deliveries[session, message] = Delivery(message, session, SENDING, attempts, at=self._now())
        return True

    def settle(self, session: str, message: str, status: str, detail: str = "") -> None:
        """Write over the line of a claimed message."""
        self._faults.enter("ledger.settle")
        self._effects.append(Effect("ledger", message, session, status))
        line = self.deliveries[session, message]
        self.deliveries[session, message] = replace(line, status=status, detail=detail, at=self._now())

    def set_cursor(self, session: str, cursor: datetime) -> None:
        """Never back."""
        self._faults.enter("ledger.set_cursor")
        self._effects.append(Effect("ledger", "", session, "cursor"))
        self.cursors[session] = max(cursor, self.cursors.get(session, cursor))

    def inherit(self, old: str, new: str) -> None:
        """Copy what the old one knows."""
        self._faults.enter("ledger.inherit")
        for (session, message), line in list(self.deliveries.items()):
            if session == old:
                self.deliveries.setdefault((new, message), replace(line, session=new))
        if old in self.cursors:
            self.cursors.setdefault(new, self.cursors[old])

    def posted(self, note: Posted) -> None:
        """One line for each session and key."""
        self._faults.enter("ledger.posted")
        self._effects.append(Effect("ledger", note.key, note.session, "posted"))
        self.notes[note.session, note.key] = replace(note, at=note.at or self._now())

    def arm(self, ref: WorkItemRef) -> None:
        """Remember when."""
        self._faults.enter("ledger.arm")
        self.armed[ref.key] = self._now()


class FakeWorkspaces:
    """ports.Workspaces in memory: `trees` by path. `broken` is why none can be made."""

    root = "/workspaces"

    def __init__(self, faults: Faults, effects: list[Effect]) -> None:
        """No worktrees."""
        self.trees: dict[str, Workspace] = {}
        self.saved: list[str] = []
        self.broken = ""
        self._faults = faults
        self._effects = effects

    def look(self, paths: Sequence[str]) -> Mapping[str, Fact[Workspace]]:
        """What stands there."""
        doubt = self._faults.enter("workspaces.look")
        return {path: doubt or Known(self.trees.get(path, Workspace(path, exists=False))) for path in paths}

    def prepare(self, ref: WorkItemRef, branch: str) -> Prepared:
        """Make it, or find it."""
        self._faults.enter("workspaces.prepare")
        if self.broken:
            raise StateError(self.broken)
        path = worktree_path(self.root, ref)
        if path not in self.trees:
            self._effects.append(Effect("workspace", path, "", "prepare"))
            self.trees[path] = Workspace(path, exists=True, ours=True, branch=branch)
        if not self.trees[path].ours:
            raise StateError(f"{path} is taken")
        return Prepared(path, self.trees[path].branch)

    def remove(self, path: str, *, force: bool) -> Removal:
        """Take it away."""
        try:
            self._faults.enter("workspaces.remove")
        except StateError as error:
            return Removal(error.message)
        tree = self.trees.get(path)
        if tree is None:
            return Removal()
        if not tree.ours:
            return Removal(f"{path} is not ours")
        if tree.has_work and not force:
            return Removal(f"it has {' and '.join(tree.work)}", has_work=True)
        self.saved += [path] if tree.has_work else []
        self._effects.append(Effect("workspace", path, "", "remove"))
        del self.trees[path]
        return Removal(saved=f"/saved{path}" if tree.has_work else "")
