"""The registry through a loss of power, a kill, damage, other versions and strangers' hands."""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loopctl.adapters import registry_database
from loopctl.adapters.registry import SqliteRegistry
from loopctl.adapters.registry_check import remedy
from loopctl.adapters.registry_ledger import SqliteLedger
from loopctl.adapters.registry_schema import SCHEMA_VERSION
from loopctl.errors import StateError
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS, PAUSED_STATUS, SessionRecord
from loopctl.model.talk import Talk
from tests.support import ROOT

NOW = datetime(2026, 7, 25, 10, tzinfo=UTC)
VERSIONS = sorted((ROOT / "tests/data/registry").glob("v*.sql"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir(mode=0o700)
    return made


def opened(root: Path) -> SqliteRegistry:
    return SqliteRegistry(root, now=lambda: NOW)


def record(number: int) -> SessionRecord:
    ref = WorkItemRef.parse(f"items:demo/app#{number}")
    return SessionRecord(f"a-{number}", ref, "desk", "claude", created_at=NOW, cwd="/srv/" + "x" * 3000)


def filled(root: Path) -> SqliteRegistry:
    registry = opened(root)
    for number in (1, 2, 3):
        registry.add(record(number))
    return registry


def connection(registry: SqliteRegistry) -> sqlite3.Connection:
    assert registry.all()
    db = registry._database._db
    assert db
    return db


WRITES: dict[str, Callable[[SqliteRegistry], object]] = {
    "add": lambda registry: registry.add(record(4)),
    "replace": lambda registry: registry.replace_all([replace(r, status=PAUSED_STATUS) for r in registry.all()]),
    "remove": lambda registry: registry.remove(registry.all()[0]),
    "prove writable": lambda registry: registry.prove_writable(),
}


class Disk:
    """What a disk may hold after a loss of power: the database and its log, each as some moment left them."""

    def __init__(self, root: Path) -> None:
        self.file, self.log = root / "registry.db", root / "registry.db-wal"
        self._copies = root.parent / "copies"
        self._made = 0

    def now(self) -> tuple[bytes, bytes]:
        return self.file.read_bytes(), self.log.read_bytes() if self.log.exists() else b""

    def after(self, file: bytes, log: bytes) -> tuple[SessionRecord, ...]:
        """What the next run reads from it; the shared memory beside it is gone with the power."""
        self._made += 1
        copy = self._copies / str(self._made)
        copy.mkdir(mode=0o700, parents=True)
        (copy / "registry.db").write_bytes(file)
        (copy / "registry.db-wal").write_bytes(log)
        found = opened(copy).all()
        shutil.rmtree(copy)
        return found


def test_every_commit_waits_for_the_disk(root: Path) -> None:
    registry = filled(root)
    db = connection(registry)
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("write", list(WRITES))
def test_a_loss_of_power_at_any_step_leaves_the_old_or_the_new(root: Path, write: str) -> None:
    registry, disk = filled(root), Disk(root)
    db, before = connection(registry), registry.all()
    moments = [disk.now()]
    db.set_trace_callback(lambda statement: moments.append(disk.now()))
    WRITES[write](registry)
    db.set_trace_callback(None)
    after, end = registry.all(), disk.now()
    assert len(moments) >= 4, "begin, the write itself and commit at least"
    for moment in moments:
        assert disk.after(*moment) == before
    assert disk.after(*end) == after
    # Of what the log has got since, the last blocks may be lost, or hold anything.
    old, log = len(moments[0][1]), end[1]
    assert old < len(log)
    for cut in range(old, len(log), max(512, (len(log) - old) // 12)):
        for rest in (b"", bytes(len(log) - cut), random.Random(cut).randbytes(len(log) - cut)):
            assert disk.after(end[0], log[:cut] + rest) in (before, after), cut


def test_a_loss_of_power_while_the_log_is_written_back_loses_nothing(root: Path) -> None:
    registry, disk = filled(root), Disk(root)
    file, log = disk.now()
    everything = registry.all()
    connection(registry).execute("PRAGMA wal_checkpoint(PASSIVE)")
    written = disk.file.read_bytes().ljust(len(file), b"\0")
    for seed in range(20):
        chance = random.Random(seed)
        blocks = [(written if chance.random() < 0.5 else file)[at : at + 512] for at in range(0, len(written), 512)]
        assert disk.after(b"".join(blocks), log) == everything


CHILD = """
import os, signal, sys
from pathlib import Path
from tests.unit.test_durability import WRITES, connection, opened
root, write, first = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
for step in range(100):
    copy = Path(f"{root}-{step}")
    os.system(f"cp -a {root} {copy}")
    child = os.fork()
    if child == 0:
        registry = opened(copy)
        db, count = connection(registry), [0]
        def die(statement):
            count[0] += 1
            if count[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)
        db.set_trace_callback(die)
        WRITES[write](registry)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0 and step:
        print(step)
        sys.exit(0)
"""


@pytest.mark.parametrize("write", ["add", "replace"])
def test_a_kill_before_any_statement_leaves_the_old_or_the_new(root: Path, write: str) -> None:
    registry = filled(root)
    before = registry.all()
    connection(registry).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    del registry
    argv = [sys.executable, "-c", CHILD, str(root), write, ""]
    done = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    steps = int(done.stdout)
    assert steps >= 4
    ends = [opened(Path(f"{root}-{step}")).all() for step in range(steps + 1)]
    assert ends[0] == ends[-1] != before
    assert all(end in (before, ends[0]) for end in ends)
    assert before in ends


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_the_order_in_which_things_reach_the_disk(root: Path) -> None:
    """A new file is whole on disk before it has its name, its name is on disk before it is used, and so is each record."""
    program = (
        "import os, sys; from pathlib import Path; from tests.unit.test_durability import opened, record\n"
        "opened(Path(sys.argv[1])).add(record(1)); os.write(1, b'added')"
    )
    calls = "trace=fsync,fdatasync,link,linkat,write,pwrite64"
    argv = ["strace", "-f", "-y", "-s", "8", "-e", calls, "-o", str(root.parent / "t"), sys.executable, "-c", program]
    done = subprocess.run([*argv, str(root)], cwd=ROOT, capture_output=True, text=True, timeout=60)
    if done.returncode and "ptrace" in done.stderr:
        pytest.skip("this machine does not let us trace")
    trace = (root.parent / "t").read_text().splitlines()
    mine = [line for line in trace if str(root) in line or "added" in line]

    def where(pattern: str, start: int = 0) -> int:
        return next(at for at, line in enumerate(mine) if at >= start and re.search(pattern, line))

    named = where(r"link")
    whole = max(at for at in range(named) if re.search(r"(fsync|fdatasync)\(.*/\.registry-[^-]*\.db>", mine[at]))
    assert not [line for line in mine[whole:named] if "pwrite64" in line and re.search(r"\.registry-\w+\.db>", line)]
    kept = where(rf"fsync\(\d+<{re.escape(str(root))}>", named)
    wrote = where(r"pwrite64\(.*registry\.db-wal>", kept)
    told = where(r"write\(.*added")
    synced = where(r"(fsync|fdatasync)\(.*registry\.db-wal>", wrote)
    assert named < kept < wrote < synced < told
    last = max(at for at in range(told) if re.search(r"pwrite64\(.*registry\.db-wal>", mine[at]))
    assert where(r"(fsync|fdatasync)\(.*registry\.db-wal>", last) < told


@pytest.mark.parametrize("broken", ["executescript", "link", "sync"])
def test_a_new_file_is_whole_or_not_there(root: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if broken == "executescript":
        monkeypatch.setattr(registry_database, "SCHEMA", "CREATE TABLE meta (key TEXT); CREATE nonsense;")
    else:
        monkeypatch.setattr(
            registry_database if broken == "sync" else os, "_sync" if broken == "sync" else "link", fail
        )
    with pytest.raises(StateError):
        opened(root).add(record(1))
    monkeypatch.undo()
    assert [path.name for path in root.iterdir() if path.name.startswith(".")] == []
    assert opened(root).all() == ()
    opened(root).add(record(1))
    assert len(opened(root).all()) == 1


# --- damage, and the way back -----------------------------------------------------------------------------------------


def at_rest(root: Path) -> bytes:
    """The registry's file with everything in it."""
    registry = filled(root)
    connection(registry).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (root / "registry.db").read_bytes()


def refused(root: Path) -> StateError:
    with pytest.raises(StateError) as caught:
        opened(root).all()
    assert str(root / "registry.db") in caught.value.message
    assert caught.value.message.isprintable()
    return caught.value


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "half": lambda whole: whole[: len(whole) // 2],
    "a page of nothing": lambda whole: whole[:4096] + bytes(4096) + whole[8192:],
    "the last page torn": lambda whole: whole[:-4000] + b"\xff" * 4000,
    "the beginning overwritten": lambda whole: b"\0" * 512 + whole[512:],
    "a table's name": lambda whole: whole.replace(b"CREATE TABLE sessions", b"CREATE TABLE sess\xffons"),
    "a table's words": lambda whole: whole.replace(b"CREATE TABLE meta (", b"CREATE TABLE \n\x1b[(("),
    "another text": lambda whole: b'{"sessions": []}\n' * 300,
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_damage_is_an_error_that_names_the_way_back_and_the_way_works(root: Path, damage: str) -> None:
    whole = at_rest(root)
    copied = opened(root).all()
    broken = DAMAGES[damage](whole)
    (root / "registry.db").write_bytes(broken)
    error = refused(root)
    assert "sessions rebuild" in error.hint
    assert "registry.db.bak (of 2" in error.hint
    with pytest.raises(StateError):
        opened(root).add(record(9))
    assert (root / "registry.db").read_bytes() == broken
    # As the hint says.
    for name in ("registry.db", "registry.db-wal", "registry.db-shm"):
        if (root / name).exists():
            (root / name).rename(root / f"{name}.away")
    shutil.copy(root / "registry.db.bak", root / "registry.db")
    found = opened(root).all()
    assert found == copied[: len(found)]
    opened(root).add(record(9))


@pytest.mark.parametrize("column", [b"closed_at", b"ref_key", b"created_at", b"harness", b"branch"])
def test_a_table_without_one_of_its_columns_is_damage_too(root: Path, column: bytes) -> None:
    whole = at_rest(root)
    (root / "registry.db").write_bytes(whole.replace(column, b"x" * len(column)))
    error = refused(root)
    assert "damaged" in error.message
    assert "sessions rebuild" in error.hint


def test_a_row_whose_text_is_none_is_damage_too(root: Path) -> None:
    whole = at_rest(root)
    (root / "registry.db").write_bytes(whole.replace(b"items:demo/app#2", b"items:d\xffmo/app#2"))
    assert "sessions rebuild" in refused(root).hint


def test_without_a_copy_rebuild_is_the_way(root: Path) -> None:
    at_rest(root)
    (root / "registry.db.bak").unlink()
    (root / "registry.db").write_bytes(b"")
    assert refused(root).hint.endswith("then `loopctl sessions rebuild` restores what tmux still shows")


def test_a_file_that_was_taken_from_its_log_is_not_begun_anew(root: Path) -> None:
    registry = filled(root)
    connection(registry)
    (root / "registry.db").rename(root / "away")
    for again in (opened(root), registry):
        with pytest.raises(StateError, match="is gone, and its write-ahead log is still there") as caught:
            again.all()
        assert "sessions rebuild" in caught.value.hint
        with pytest.raises(StateError):
            again.add(record(7))
    assert not (root / "registry.db").exists()
    (root / "away").rename(root / "registry.db")
    assert len(opened(root).all()) == 3


def test_a_full_disk_is_no_damage(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = filled(root)
    connection(registry).execute("PRAGMA max_page_count = 1")
    with pytest.raises(StateError, match="full") as caught:
        registry.add(replace(record(5), cwd="/" + "x" * 100_000))
    assert "rebuild" not in caught.value.hint


def test_without_write_access_the_way_on_is_named(root: Path) -> None:
    at_rest(root)
    readonly = f"file:{root}/registry.db?mode=ro"
    with closing(sqlite3.connect(readonly, uri=True)) as db, pytest.raises(sqlite3.OperationalError) as caught:
        db.execute("DELETE FROM sessions")
    assert f"give yourself write access to {root} and what is in it" in remedy(root / "registry.db", caught.value)


# --- the copy ---------------------------------------------------------------------------------------------------------


def test_a_copy_is_kept_before_the_first_write_of_a_day_and_by_no_reader(root: Path) -> None:
    filled(root)
    copy = root / "registry.db.bak"
    assert copy.stat().st_mode & 0o777 == 0o600
    first = copy.read_bytes()
    opened(root).add(record(4))
    assert copy.read_bytes() == first, "one a day"
    os.utime(copy, (time.time() - 90_000,) * 2)
    assert len(opened(root).all()) == 4
    assert copy.read_bytes() == first, "a reader writes nothing"
    opened(root).add(record(5))
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT count(*) FROM sessions").fetchone() == (4,)
    assert sorted(path.name for path in root.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("other", ["of a registry that was lost", "no database"])
def test_the_copy_of_another_registry_is_put_aside(root: Path, other: str) -> None:
    filled(root)
    copy = root / "registry.db.bak"
    if other == "no database":
        copy.write_text("x" * 5000)
    os.utime(copy, (1_800_000_000, 1_800_000_000))
    there = copy.read_bytes()
    for path in (root / name for name in ("registry.db", "registry.db-wal", "registry.db-shm")):
        path.unlink(missing_ok=True)
    opened(root).add(record(7))
    assert (root / "registry.db.bak-20270115T080000Z").read_bytes() == there
    assert copy.read_bytes() != there
    os.utime(copy, (1_700_000_000, 1_700_000_000))
    opened(root).add(record(8))
    assert len(list(root.glob("registry.db.bak*"))) == 2, "its own is written over"


def test_a_copy_that_cannot_be_made_stops_no_work(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "registry.db.bak").mkdir()
    os.utime(root / "registry.db.bak", (0, 0))
    filled(root)
    assert len(opened(root).all()) == 3


def test_a_link_in_the_place_of_the_copy_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (root / "registry.db.bak").symlink_to(tmp_path / "victim")
    os.utime(root / "registry.db.bak", (0, 0), follow_symlinks=False)
    filled(root)
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (root / "registry.db.bak").is_symlink()


def test_damage_does_not_get_into_the_copy(root: Path) -> None:
    whole = at_rest(root)
    copy = root / "registry.db.bak"
    kept = copy.read_bytes()
    # A controller has its connection open for months, and checks a file when it opens it.
    (root / "registry.db").write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    with closing(sqlite3.connect(root / "registry.db")) as db, pytest.raises(sqlite3.DatabaseError):
        registry_database.Database(root)._copy(db, copy)
    assert copy.read_bytes() == kept
    assert [path.name for path in root.iterdir() if path.name.startswith(".")] == []


# --- versions ---------------------------------------------------------------------------------------------------------


def from_dump(root: Path, dump: Path) -> None:
    with closing(sqlite3.connect(root / "registry.db")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(dump.read_text("utf-8"))
    (root / "registry.db").chmod(0o600)


def schema_of(path: Path) -> dict[str, list[tuple[str, str]]]:
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [(row[1], row[2]) for row in db.execute(f"PRAGMA table_info({name})")] for name in tables}


def test_there_is_a_dump_of_every_version() -> None:
    assert [path.stem for path in VERSIONS] == [f"v{version}" for version in range(1, SCHEMA_VERSION + 1)]


@pytest.mark.parametrize("dump", VERSIONS, ids=lambda path: path.stem)
def test_every_version_is_read_as_it_is_and_brought_up_to_date_by_the_first_write(root: Path, dump: Path) -> None:
    from_dump(root, dump)
    before = (root / "registry.db").read_bytes()
    old = opened(root).all()
    assert (opened(root).identity, [r.id[-1] for r in old]) == ("0123456789abcdef0123456789abcdef", ["2", "1"])
    assert (old[0].name, old[1].cwd) == ("it's ünï; -- x", "/srv/work")
    assert (root / "registry.db").read_bytes() == before
    opened(root).add(record(1))
    now = opened(root).all()
    assert now[:2] == old
    current = root.parent / "new"
    current.mkdir(mode=0o700)
    filled(current)
    assert schema_of(root / "registry.db") == schema_of(current / "registry.db")
    assert opened(root).replace(replace(now[1], status=CLOSED_STATUS))
    kept = root / f"registry.{dump.stem}.db"
    assert kept.exists() == (dump != VERSIONS[-1])
    if kept.exists():
        with closing(sqlite3.connect(kept)) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (int(dump.stem[1:]),)


@pytest.mark.parametrize("dump", VERSIONS[:-1], ids=lambda path: path.stem)
def test_a_loss_of_power_during_an_upgrade_leaves_a_version_that_is_read(root: Path, dump: Path) -> None:
    from_dump(root, dump)
    registry, disk = opened(root), Disk(root)
    db, old = connection(registry), registry.all()
    moments: list[tuple[bytes, bytes]] = []
    db.set_trace_callback(lambda statement: moments.append(disk.now()))
    registry.prove_writable()
    db.set_trace_callback(None)
    assert len(moments) > 5
    for moment in (*moments, disk.now()):
        assert disk.after(*moment) == old


def test_the_dump_of_this_version_is_that_of_a_new_file(root: Path) -> None:
    """Whoever changes the tables makes a new version, and keeps a dump of this one."""
    from_dump(root, VERSIONS[-1])
    dumped = schema_of(root / "registry.db")
    (root / "registry.db").unlink()
    filled(root)
    assert schema_of(root / "registry.db") == dumped


@pytest.mark.parametrize(("version", "message"), [(SCHEMA_VERSION + 1, "a newer loopctl wrote it"), (0, "version 0")])
def test_another_version_is_refused_and_left(root: Path, version: int, message: str) -> None:
    at_rest(root)
    with closing(sqlite3.connect(root / "registry.db")) as db:
        db.execute(f"PRAGMA user_version = {version}")
    before = (root / "registry.db").read_bytes()
    error = refused(root)
    assert message in error.message
    assert "rebuild" not in error.hint
    with pytest.raises(StateError, match=message):
        opened(root).add(record(9))
    assert (root / "registry.db").read_bytes() == before


# --- strangers --------------------------------------------------------------------------------------------------------


def stranger(path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute("CREATE TABLE sessions (id TEXT)")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_database_of_something_else_is_not_even_opened(root: Path, mode: str) -> None:
    stranger(root / "registry.db", mode)
    before = {path.name: path.read_bytes() for path in root.iterdir()}
    for _ in range(2):
        assert "not a loopctl registry" in refused(root).message
        with pytest.raises(StateError):
            opened(root).prove_writable()
    assert {path.name: path.read_bytes() for path in root.iterdir()} == before


@pytest.fixture
def linked(root: Path, tmp_path: Path) -> Iterator[Path]:
    at_rest(root)
    (root / "registry.db").rename(tmp_path / "elsewhere.db")
    (root / "registry.db").symlink_to(tmp_path / "elsewhere.db")
    yield tmp_path / "elsewhere.db"


def test_a_registry_that_is_a_link_is_refused(root: Path, linked: Path) -> None:
    before = linked.read_bytes()
    assert "is a symbolic link" in refused(root).message
    with pytest.raises(StateError, match="is a symbolic link"):
        opened(root).add(record(9))
    assert linked.read_bytes() == before


def test_a_registry_that_others_can_write_to_is_refused(root: Path) -> None:
    at_rest(root)
    for mode in (0o620, 0o602, 0o666):
        (root / "registry.db").chmod(mode)
        error = refused(root)
        assert "can be written by others" in error.message
        assert "chmod 600" in error.hint
    (root / "registry.db").chmod(0o600)
    assert opened(root).all()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_registry_of_another_user_is_refused(root: Path) -> None:
    at_rest(root)
    os.chown(root / "registry.db", 12345, -1)
    assert "belongs to another user (uid 12345)" in refused(root).message
    with pytest.raises(StateError, match="another user"):
        opened(root).add(record(9))


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: os.mkfifo(path)], ids=["folder", "pipe"])
def test_something_else_in_the_place_of_the_registry_is_refused(root: Path, make: Callable[[Path], object]) -> None:
    root.mkdir(mode=0o700, exist_ok=True)
    make(root / "registry.db")
    with pytest.raises(StateError, match="not a file"):
        opened(root).all()


def test_a_registry_older_than_the_ledger_has_nothing_in_it(root: Path) -> None:
    from_dump(root, VERSIONS[0])
    assert SqliteLedger(root, now=lambda: datetime.now(UTC)).read() == Talk()


def test_text_that_cannot_be_written_is_an_error_and_no_damage(root: Path) -> None:
    registry = opened(root)
    registry.add(record(1))
    with pytest.raises(StateError, match="surrogates not allowed") as caught:
        registry.add(replace(record(2), node_id="I\ud800"))
    assert caught.value.hint == "nothing was done, and the file was left as it is"
    assert [row.id for row in registry.all()] == ["a-1"]
