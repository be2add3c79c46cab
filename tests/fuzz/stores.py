"""What lies in the state folder, or in that of the-loop: every file may have been cut, bent or put there by somebody."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from loopctl import run
from loopctl.adapters.journal import EventLog
from loopctl.adapters.journal_reader import read_events
from loopctl.adapters.registry import SqliteRegistry
from loopctl.adapters.registry_ledger import SqliteLedger
from loopctl.adapters.registry_lock import APPLY, hold_lock, holder
from loopctl.adapters.the_loop import read_loop_folder
from loopctl.cli.status import _read, _text
from loopctl.controller.status import health
from loopctl.errors import RefusedError
from loopctl.model.the_loop import loop_slug
from loopctl.ports import World
from loopctl.render.events import event_text
from loopctl.render.view import View
from loopctl.testing import FakeWorld
from tests.fuzz.civil import civil, fit_to_show, shown_safely
from tests.fuzz.targets import Target
from tests.unit.playbooks import ending

NOW = datetime(2026, 7, 25, 10, tzinfo=UTC)


# --- the registry -----------------------------------------------------------------------------------------------------


def _crowd() -> FakeWorld:
    world = FakeWorld()
    for number, state in enumerate(("closed", "open", "merged"), 1):
        world.item(f"demo/app#{number}", state)
        world.session(f"demo/app#{number}")
    world.foreign("somebody")
    return world


def _with_registry(world: FakeWorld, folder: Path) -> World:
    return replace(world.world, registry=SqliteRegistry(folder, now=lambda: NOW, lock_timeout=0.0))


@cache
def _files() -> tuple[bytes, bytes, bytes]:
    """A registry without a log, and one whose records are in its log still."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        registry = SqliteRegistry(folder, now=lambda: NOW)
        for record in _crowd().registry.all():
            registry.add(record)
        file, log = folder / "registry.db", folder / "registry.db-wal"
        logged = file.read_bytes(), log.read_bytes()
        with closing(sqlite3.connect(file)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return file.read_bytes(), *logged


def _stranger() -> bytes:
    with tempfile.TemporaryDirectory() as name, closing(sqlite3.connect(Path(name, "f"))) as db, db:
        db.execute("CREATE TABLE sessions (id TEXT)")
        db.commit()
        return Path(name, "f").read_bytes()


def registry_file(data: bytes, folder: Path) -> bool:
    """A file that is refused stays as it is, and nobody acts; what is accepted hurts nobody else."""
    (folder / "registry.db").write_bytes(data)
    return _used(folder)


def registry_log(data: bytes, folder: Path) -> bool:
    """The same, of the write-ahead log beside a whole file."""
    (folder / "registry.db").write_bytes(_files()[1])
    (folder / "registry.db-wal").write_bytes(data)
    return _used(folder)


def _used(folder: Path) -> bool:
    before = (folder / "registry.db").read_bytes()
    world = _crowd()
    ports = _with_registry(world, folder)
    records = civil(ports.registry.all)
    identity = civil(lambda: ports.registry.identity)
    civil(SqliteLedger(folder, now=lambda: NOW).read)
    plan = civil(lambda: run.plan_once(ending(), ports))
    if plan is None:
        # Another reader may still find the log in order; without a plan nothing is done in any case.
        assert world.machine.effects == []
    else:
        civil(lambda: run.apply_plan(plan, ports, 1000))
    assert [effect for effect in world.machine.effects if not effect.owner] == []
    if records is None or identity is None:
        civil(ports.registry.prove_writable)
        assert (folder / "registry.db").read_bytes() == before, "a file that was refused was written to"
    return records is not None and identity is not None


# --- the event log ----------------------------------------------------------------------------------------------------


def _events() -> Sequence[bytes]:
    with tempfile.TemporaryDirectory() as name:
        log = EventLog(Path(name, "events.jsonl"), lambda: NOW, "apply")
        log.emit("session.closed", ref="items:demo/app#1", reason="issue-closed", pids=[1, 2], nested={"a": None})
        log.emit("plan.created", "warning", playbooks=["a.yml"], counts={"close": 3})
        return [Path(name, "events.jsonl").read_bytes()]


def journal(data: bytes, folder: Path) -> bool:
    """Every whole line is an event or is counted as none; showing it is safe."""
    file = folder / "events.jsonl"
    file.write_bytes(data)
    reader = read_events(file, types=("*",), item="*:*", since=datetime.min.replace(tzinfo=UTC))
    for event in reader:
        shown_safely(event_text(event, View()))
    everything = read_events(file)
    found = list(everything)
    lines = [line for line in data.split(b"\n")[:-1] if line]
    assert len(found) + everything.malformed == len(lines)
    EventLog(file, lambda: NOW, "apply").emit("plan.created")
    assert [event["event"] for event in read_events(file)][-1] == "plan.created"
    return everything.malformed == 0 and bool(found)


# --- the controller's snapshot, the lock's note, and the records of the-loop -------------------------------------------


def _snapshots() -> Sequence[bytes]:
    snapshot = {
        "version": 1,
        "pid": 12,
        "playbooks": ["a.yml"],
        "interval_seconds": 60.0,
        "started_at": "2026-07-25T09:00:00.000+00:00",
        "turned_at": "2026-07-25T09:59:00.000+00:00",
        "good_at": "2026-07-25T09:59:00.000+00:00",
        "whole_is_good": False,
        "queue_depth": 0,
        "last_cycle": {"at": "2026-07-25T09:59:00.000+00:00", "seen": 3, "changed": 1, "error": "x", "problems": ["y"]},
        "sessions": {"running": 3},
        "held": {"GitHub": 1},
    }
    return [json.dumps(snapshot).encode()]


def snapshot(data: bytes, folder: Path) -> bool:
    file = folder / "status.json"
    file.write_bytes(data)
    read = _read(file)
    state, why = health(read, NOW)
    shown_safely(_text(state, why, "loopctl, pid 12, since 2026", read))
    return bool(read)


def lock_note(data: bytes, folder: Path) -> bool:
    """Whatever a lock file says, one holder excludes the other."""
    with hold_lock(folder, 0.0, lambda: NOW):
        (folder / APPLY.file).write_bytes(data)
        fit_to_show(holder(folder, APPLY))
        try:
            with hold_lock(folder, 0.0, lambda: NOW):
                raise AssertionError("two hold the lock")
        except RefusedError as error:
            fit_to_show(error.message)
    assert holder(folder, APPLY) == ""
    with hold_lock(folder, 0.0, lambda: NOW):
        return True


def _loop_records() -> Sequence[bytes]:
    item = {"ref": "github:octo/app#15", "type": "issue"}
    record = {
        "workItem": item,
        "harness": "claude",
        "harnessSessionId": "0b8f",
        "cwd": "/srv/app",
        "status": "active",
        "createdAt": "2026-07-01T10:00:00Z",
        "tmuxTarget": "the-loop-octo-app-15",
        "pullRequests": [{"workItem": {"ref": "github:octo/app#16"}, "harness": "claude", "harnessSessionId": "1"}],
    }
    return [json.dumps(record).encode()]


def loop_record(data: bytes, folder: Path) -> bool:
    from loopctl.model.refs import WorkItemRef

    (folder / f"{loop_slug(WorkItemRef.parse('github:octo/app#15'))}.json").write_bytes(data)
    read = civil(lambda: read_loop_folder(folder))
    assert read is not None
    for problem in read.skipped:
        fit_to_show(problem.reason)
    return bool(read.records)


TARGETS = (
    Target("registry file", lambda: _files()[:2], registry_file),
    Target("foreign database", lambda: [_stranger()], registry_file, ours=False),
    Target("registry log", lambda: [_files()[2]], registry_log),
    Target("event log", _events, journal),
    Target("controller's snapshot", _snapshots, snapshot, tree=True),
    Target("lock note", lambda: [b'{"pid": 12, "command": "loopctl", "since": "2026-07-25T10:00:00Z"}'], lock_note),
    Target("the-loop's record", _loop_records, loop_record, tree=True),
)
