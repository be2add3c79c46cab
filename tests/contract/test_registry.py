"""ports.Registry: shown on the fake and on SQLite."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from loopctl.adapters.registry import SqliteRegistry
from loopctl.errors import RefusedError, StateError
from loopctl.model.processes import ProcessId
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import ServerId, SessionRecord
from loopctl.ports import Registry
from loopctl.testing import FakeWorld

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
REF = WorkItemRef.parse("github:octo/app#15")


@pytest.fixture(params=["fake", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Registry]:
    if request.param == "fake":
        fake = FakeWorld().registry
        return lambda: fake
    tmp_path.chmod(0o700)
    return lambda: SqliteRegistry(tmp_path, now=lambda: NOW, lock_timeout=0.0)


@pytest.fixture
def registry(opened: Callable[[], Registry]) -> Registry:
    return opened()


def record(id_: str = "a-1", **fields: object) -> SessionRecord:
    given = SessionRecord(id_, REF, "desk", "claude", created_at=NOW)
    return replace(given, **fields)  # type: ignore[arg-type]


def test_nothing_exists_until_something_is_written(registry: Registry) -> None:
    assert (registry.identity, registry.all()) == ("", ())
    registry.add(record())
    assert registry.identity == registry.identity != ""


def test_a_record_comes_back_whole(opened: Callable[[], Registry]) -> None:
    written = opened().add(
        record(
            server=ServerId(7, 9),
            pane=ProcessId(8, "boot:1"),
            pane_id="%3",
            session_id="$2",
            name="ünï #(x)",
            reason="'",
        )
    )
    (read,) = opened().all()
    assert (read, read.generation) == (written, 1)


def test_the_oldest_come_first_and_those_without_a_time_before_them(registry: Registry) -> None:
    for n, born in enumerate((NOW, NOW - timedelta(days=1), None, NOW)):
        registry.add(record(f"a-{n}", created_at=born, status="closed"))
    assert [r.id for r in registry.all()] == ["a-2", "a-1", "a-0", "a-3"]


def test_an_item_has_one_open_session_a_machine(registry: Registry) -> None:
    registry.add(record("a-1", status="closed"))
    registry.add(record("a-2"))
    with pytest.raises(StateError, match="already has a session"):
        registry.add(record("a-3", ref=WorkItemRef.parse("github:OCTO/App#15"), status="paused"))
    registry.add(record("a-4", machine="laptop"))
    registry.add(record("a-5", status="closed"))
    assert {r.id for r in registry.all()} == {"a-1", "a-2", "a-4", "a-5"}


def test_a_write_over_an_older_generation_is_refused(registry: Registry) -> None:
    old = registry.add(record())
    new = registry.replace(replace(old, status="paused"))
    assert new and new.generation == 2
    assert registry.replace(replace(old, status="closed")) is None
    assert [r.status for r in registry.all()] == ["paused"]
    assert registry.replace(record("never-added", generation=1)) is None


def test_many_writes_are_each_compared_by_themselves(registry: Registry) -> None:
    first, second = (registry.add(record(f"a-{n}", ref=replace(REF, number=n))) for n in (1, 2))
    registry.replace(replace(second, status="paused"))
    done = registry.replace_all([replace(first, status="closed"), replace(second, status="closed")])
    assert done[first.id] and done[second.id] is None
    assert [r.status for r in registry.all()] == ["closed", "paused"]


def test_a_record_that_has_moved_on_is_not_forgotten(registry: Registry) -> None:
    old = registry.add(record())
    new = registry.replace(old)
    assert new
    registry.remove(old)
    assert len(registry.all()) == 1
    registry.remove(new)
    assert registry.all() == ()


def test_one_actor_holds_the_lock(opened: Callable[[], Registry]) -> None:
    with opened().lock():
        with pytest.raises(RefusedError), opened().lock():
            pass
        opened().add(record())
    with opened().lock():
        assert len(opened().all()) == 1


def test_a_lock_file_that_was_removed_lets_nobody_in(tmp_path: Path) -> None:
    def lock() -> AbstractContextManager[None]:
        return SqliteRegistry(tmp_path, now=lambda: NOW, lock_timeout=0.0).lock()

    tmp_path.chmod(0o700)
    with lock():
        (tmp_path / "apply.lock").unlink()
        with pytest.raises(RefusedError), lock():
            pass
    with lock():
        pass


def test_where_locks_exclude_nobody_the_later_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """flock on some network file systems: both are in, and the generation decides."""
    monkeypatch.setattr("loopctl.adapters.registry_lock.fcntl.flock", lambda *_: None)
    tmp_path.chmod(0o700)
    one, other = (SqliteRegistry(tmp_path, now=lambda: NOW, lock_timeout=0.0) for _ in range(2))
    one.add(record())
    with one.lock(), other.lock():
        (mine,), (theirs,) = one.all(), other.all()
        assert one.replace(replace(mine, status="paused"))
        assert other.replace(replace(theirs, status="closed")) is None
    assert [r.status for r in other.all()] == ["paused"]


@pytest.mark.parametrize("id_", ["", "no hex", "a;b", "A-1", "a" * 65])
def test_a_row_whose_id_is_no_mark_is_refused_by_name(tmp_path: Path, id_: str) -> None:
    tmp_path.chmod(0o700)
    opened = SqliteRegistry(tmp_path, now=lambda: NOW)
    opened.add(record(id_))
    with pytest.raises(StateError, match=re.escape(f"session {id_!r}: id: not a session id")):
        opened.all()


@pytest.mark.parametrize("pid", [0, -1, 1, 2**31, 2**63 - 1])
@pytest.mark.parametrize("column", ["pane_pid", "server_pid"])
def test_a_number_that_is_no_sessions_process_is_refused_by_name(tmp_path: Path, column: str, pid: object) -> None:
    tmp_path.chmod(0o700)
    opened = SqliteRegistry(tmp_path, now=lambda: NOW)
    opened.add(record(server=ServerId(500, 1), pane=ProcessId(501, "b:1")))
    with sqlite3.connect(tmp_path / "registry.db") as db:
        for text in ("", "12abc", 1.5, b"7"):  # no edit by hand puts these there
            with pytest.raises(sqlite3.IntegrityError):
                db.execute(f"UPDATE sessions SET {column} = ?", (text,))
        db.execute(f"UPDATE sessions SET {column} = ?", (pid,))
    db.close()
    with pytest.raises(StateError, match=re.escape(f"{column}: {pid!r} is not the process id")):
        opened.all()


def test_a_time_that_cannot_be_is_refused_by_name(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    opened = SqliteRegistry(tmp_path, now=lambda: NOW)
    opened.add(record())
    for text in ("yesterday", "0001-01-01T00:00:00+23:59"):
        with sqlite3.connect(tmp_path / "registry.db") as db:
            db.execute("UPDATE sessions SET closed_at = ?", (text,))
        db.close()
        with pytest.raises(StateError, match=re.escape(f"closed_at: {text!r} is not a time")):
            opened.all()


@pytest.mark.parametrize("column", ["socket", "pane_id", "name", "harness", "cwd", "pane_start", "branch"])
def test_a_text_that_no_program_takes_is_refused_by_name(tmp_path: Path, column: str) -> None:
    tmp_path.chmod(0o700)
    opened = SqliteRegistry(tmp_path, now=lambda: NOW)
    opened.add(record(pane=ProcessId(501, "b:1")))
    with sqlite3.connect(tmp_path / "registry.db") as db:
        db.execute(f"UPDATE sessions SET {column} = ?", ("/x\0y",))
    db.close()
    with pytest.raises(StateError, match=f"{column}: holds a NUL"):
        opened.all()


def test_a_writable_registry_is_proved_without_a_record(registry: Registry) -> None:
    registry.prove_writable()
    assert registry.all() == ()
    assert registry.identity


def test_opening_it_again_leaves_the_locks_of_this_process_alone(tmp_path: Path) -> None:
    """Closing a descriptor of one's own would drop SQLite's locks: another process would take the log away, and what is written
    after that would be lost."""
    (tmp_path / "state").mkdir(mode=0o700)
    first = SqliteRegistry(tmp_path / "state", now=lambda: datetime.now(UTC))
    first.prove_writable()
    second = SqliteRegistry(tmp_path / "state", now=lambda: datetime.now(UTC))
    assert second.identity == first.identity
    script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM meta').fetchall(); db.close()"
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "state" / "registry.db")], check=True)
    assert (tmp_path / "state" / "registry.db-wal").exists()
