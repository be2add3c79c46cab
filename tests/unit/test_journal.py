from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from loopctl.adapters.journal import EventLog, NullJournal
from loopctl.adapters.journal_reader import EventFilter, EventReader, parse_since, read_events
from loopctl.cli.main import cli
from loopctl.errors import LoopctlError, StateError, UsageError
from loopctl.model.processes import ProcessId
from loopctl.model.refs import WorkItemRef
from loopctl.playbook.document import load_document
from tests.support import ROOT

NOW = datetime(2026, 7, 25, 10, 0, 0, 123456, tzinfo=UTC)
REF = WorkItemRef.parse("github:octo/app#15")


def log(path: Path, warn: Callable[[str], object] = pytest.fail, now: datetime = NOW) -> EventLog:
    return EventLog(path, lambda: now, "apply", warn)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_an_event_is_one_line_with_its_envelope(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log(path).emit("session.closed", ref=REF, reason="issue-closed", killed=False, detail=None)
    assert lines(path) == [
        {
            "ts": "2026-07-25T10:00:00.123Z",
            "event": "session.closed",
            "level": "info",
            "source": "apply",
            "pid": os.getpid(),
            "ref": "github:octo/app#15",
            "reason": "issue-closed",
            "killed": False,
        }
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_times_are_utc(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log(path, now=NOW.astimezone(timezone(timedelta(hours=2)))).emit("plan.created", at=NOW)
    assert lines(path)[0]["ts"] == lines(path)[0]["at"] == "2026-07-25T10:00:00.123Z"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ((REF, REF), ["github:octo/app#15"] * 2),
        ({REF: (1, 2.5, None)}, {"github:octo/app#15": [1, 2.5, None]}),
        (frozenset({"b", "a"}), ["a", "b"]),
        (ProcessId(5, "b:1"), {"pid": 5, "start": "b:1"}),
        (Path("/x"), "/x"),
        ("two\nlines \x1b[31m \u2028 \ud800", "two\nlines \x1b[31m \u2028 \ud800"),
        ("run --token=ghp_EXAMPLE", "run --token=***"),
        (["claude", "--token", "x"], ["claude", "--token", "***"]),
        ({"API_KEY": "abc", "HOME": "/h"}, {"API_KEY": "***", "HOME": "/h"}),
        ("https://user:pass@host/", "https://***@host/"),
    ],
)
def test_values(value: object, wanted: object, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log(path).emit("action.failed", value=value)
    assert lines(path)[0]["value"] == wanted


def test_a_field_cannot_forge_the_envelope(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log(path).emit("session.closed", level="warning", **{"ts": "never", "source": "x", "pid": 1})
    event = lines(path)[0]
    assert (event["ts"], event["source"], event["pid"]) == ("2026-07-25T10:00:00.123Z", "apply", os.getpid())
    assert event["level"] == "warning"


@pytest.mark.parametrize("journal", [NullJournal(), EventLog(Path("/nonexistent/x"), lambda: NOW, "apply")])
def test_an_event_that_is_not_registered_is_a_mistake(journal: NullJournal | EventLog) -> None:
    with pytest.raises(ValueError, match=r"'session\.exploded' is no registered event"):
        journal.emit("session.exploded")


def test_a_log_that_is_turned_off_keeps_nothing() -> None:
    NullJournal().emit("session.closed", ref=REF)


def as_folder(path: Path) -> None:
    path.mkdir()


def as_link(path: Path) -> None:
    (path.parent / "victim.txt").write_text("precious")
    path.symlink_to("victim.txt")


def as_fifo(path: Path) -> None:
    os.mkfifo(path)


def below_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("no folder")


@pytest.mark.parametrize("spoil", [as_folder, as_link, as_fifo, below_a_file])
def test_a_log_that_cannot_be_written_is_told_once_and_stops_nothing(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "state" / "events.jsonl"
    path.parent.mkdir()
    spoil(path)
    told: list[str] = []
    journal = log(path, told.append)
    for _ in range(3):
        journal.emit("session.closed")
    assert len(told) == 1
    assert f"the event log {path} cannot be written: " in told[0]
    victim = path.parent / "victim.txt"
    assert not victim.exists() or victim.read_text() == "precious"


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "full").symlink_to("/dev/full")
    EventLog(Path("/dev/full"), lambda: NOW, "apply", told.append).emit("session.closed")
    assert len(told) == 1


def test_half_a_write_is_told_and_the_next_event_begins_a_new_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    told: list[str] = []
    journal = log(path, told.append)
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:20]))
        journal.emit("session.closed")
    journal.emit("session.reaped")
    reader = read_events(path)
    assert [event["event"] for event in reader] == ["session.reaped"]
    assert reader.malformed == 1
    assert told == [f"loopctl: the event log {path} cannot be written: the disk is full"]


def test_a_stderr_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    def gone(text: str) -> None:
        raise ValueError("I/O operation on closed file")

    log(tmp_path, gone).emit("session.closed")


def test_the_default_warning_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    EventLog(tmp_path, lambda: NOW, "apply").emit("session.closed")
    assert "cannot be written" in capsys.readouterr().err


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from loopctl.adapters.journal import EventLog
log = EventLog(Path(sys.argv[1]), lambda: datetime.now(UTC), "apply")
for n in range(200):
    log.emit("session.closed", n=n, writer=sys.argv[2], padding="x" * (n * 20))
"""


def test_many_writers_do_not_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, str(n)], cwd=ROOT) for n in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    reader = read_events(path)
    seen = [(event["writer"], event["n"]) for event in reader]
    assert reader.malformed == 0
    assert sorted(seen) == sorted((str(w), n) for w in range(4) for n in range(200))


def write(path: Path, *events: Mapping[str, object]) -> None:
    with path.open("a") as file:
        for event in events:
            file.write(json.dumps(event) + "\n")


def event(number: int, name: str = "session.closed", ref: str = "github:octo/app#15") -> dict[str, object]:
    return {"ts": f"2026-07-25T10:00:{number:02}.000Z", "event": name, "ref": ref, "n": number}


def numbers(reader: EventReader) -> list[int]:
    return [event["n"] for event in reader]


@pytest.fixture
def some(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    write(
        path,
        event(1),
        event(2, "session.retained"),
        event(3, "plan.created", ""),
        event(4, ref="github:octo/app#1"),
        event(5, "session.closed", "items:demo/app#3"),
    )
    return path


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"types": ("session.closed",)}, [1, 4, 5]),
        ({"types": ("session.*",)}, [1, 2, 4, 5]),
        ({"types": ("plan.*", "session.retained")}, [2, 3]),
        ({"types": ("session",)}, []),
        ({"item": "github:octo/app#1"}, [4]),
        ({"item": "GitHub:Octo/App#15"}, [1, 2]),
        ({"item": "github:octo/*"}, [1, 2, 4]),
        ({"since": datetime(2026, 7, 25, 10, 0, 4, tzinfo=UTC)}, [4, 5]),
        ({"limit": 2}, [4, 5]),
        ({"limit": 2, "types": ("session.*",), "item": "github:octo/app#15"}, [1, 2]),
        ({"limit": 9}, [1, 2, 3, 4, 5]),
    ],
)
def test_reading(some: Path, query: dict[str, Any], wanted: list[int]) -> None:
    assert numbers(read_events(some, **query)) == wanted


def test_a_log_that_does_not_exist_has_no_events(tmp_path: Path) -> None:
    assert numbers(read_events(tmp_path / "none")) == []


def test_a_log_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=f"the event log {tmp_path} cannot be read"):
        numbers(read_events(tmp_path))


BROKEN = [
    b"not json", b"[]", b"5", b"null", b'{"event": "x"}', b'{"ts": "2026-07-25T10:00:00Z"}', b"{}", b"\xff\xfe",
    b'{"event": "x", "ts": "yesterday"}', b'{"event": "x", "ts": 5}', b'{"event": 5, "ts": "2026-07-25T10:00:00Z"}',
    b'{"event": "x", "ts": "2026-07-25T10:00:00"}', b"[" * 100_000, b'"ts event"',
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_a_line_that_is_no_event_is_counted_and_passed_over(some: Path, broken: bytes) -> None:
    with some.open("ab") as file:
        file.write(broken + b"\n")
    write(some, event(6))
    reader = read_events(some)
    assert numbers(reader) == [1, 2, 3, 4, 5, 6]
    assert reader.malformed == 1


def test_empty_lines_do_not_count(some: Path) -> None:
    with some.open("ab") as file:
        file.write(b"\n\n")
    reader = read_events(some)
    assert numbers(reader) == [1, 2, 3, 4, 5]
    assert reader.malformed == 0


def test_events_are_printed_as_harmless_ascii(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(json.dumps({"state": {"root": str(tmp_path)}}))
    event = {"event": "webhook.rejected", "ts": "2026-01-01T00:00:00+00:00", "name": "\x9b31m ##[add-mask]x \u202e"}
    (tmp_path / "events.jsonl").write_bytes(json.dumps(event).encode()[:-1] + rb', "half": "\udc9b"}' + b"\n")
    cli.main(["events", "-c", str(config), "--format", "json"], standalone_mode=False)
    (line,) = capsysbinary.readouterr().out.splitlines()
    assert json.loads(line) == event | {"half": "\ufffd"}
    assert line.isascii()
    assert b"##[" not in line


@pytest.mark.parametrize("read", [lambda path: numbers(read_events(path)), load_document])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LoopctlError, match="no regular file"):
        read(tmp_path / "pipe")


def test_a_last_line_that_is_still_being_written_is_left(some: Path) -> None:
    with some.open("a") as file:
        file.write(json.dumps(event(6))[:-3])
    reader = read_events(some)
    assert numbers(reader) == [1, 2, 3, 4, 5]
    assert reader.malformed == 0


def follow(path: Path, *steps: Callable[[], object], limit: int = 0) -> list[int]:
    """What is read while each step happens in turn, whenever there is nothing more."""
    left = list(steps)

    def wait() -> bool:
        if not left:
            return False
        left.pop(0)()
        return True

    return numbers(EventReader(path, EventFilter(), limit, wait))


def test_following(some: Path) -> None:
    half, rest = json.dumps(event(7))[:10], json.dumps(event(7))[10:]

    def add(text: str) -> Callable[[], object]:
        return lambda: some.write_text(some.read_text() + text)

    steps = [
        lambda: write(some, event(6)),
        lambda: None,
        add(half),
        add(rest),
        add("\n"),
        lambda: write(some, event(8)),
    ]
    assert follow(some, *steps) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert follow(some, lambda: write(some, event(9), event(10)), limit=1) == [8, 9, 10]


def test_following_a_log_that_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "later.jsonl"
    assert follow(path, lambda: None, lambda: write(path, event(1)), lambda: write(path, event(2))) == [1, 2]


def test_following_over_a_rotation_loses_nothing(some: Path) -> None:
    def rotate() -> None:
        write(some, event(6))
        some.rename(some.with_suffix(".1"))

    def renew() -> None:
        write(some.with_suffix(".1"), event(7))
        write(some, event(8))

    assert follow(some, rotate, renew, lambda: write(some, event(9))) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_following_over_a_truncation(some: Path) -> None:
    def truncate() -> None:
        some.write_text("")
        write(some, event(6))

    assert follow(some, truncate, lambda: write(some, event(7))) == [1, 2, 3, 4, 5, 6, 7]


def test_follow_waits_for_what_comes(some: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        write(some, event(6))

    monkeypatch.setattr("loopctl.adapters.journal_reader.time.sleep", sleep)
    events = iter(read_events(some, follow=True))
    assert [next(events)["n"] for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert pauses == [0.2]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("15m", NOW - timedelta(minutes=15)),
        ("2h", NOW - timedelta(hours=2)),
        ("3d", NOW - timedelta(days=3)),
        ("1w", NOW - timedelta(weeks=1)),
        (" 30 s ", NOW - timedelta(seconds=30)),
        ("2026-07-25T10:00:00Z", datetime(2026, 7, 25, 10, tzinfo=UTC)),
        ("2026-07-25T12:00:00+02:00", datetime(2026, 7, 25, 10, tzinfo=UTC)),
        ("2026-07-25 10:00", datetime(2026, 7, 25, 10, tzinfo=UTC)),
        ("2026-07-25", datetime(2026, 7, 25, tzinfo=UTC)),
    ],
)
def test_since(text: str, wanted: datetime) -> None:
    assert parse_since(text, NOW) == wanted


@pytest.mark.parametrize("text", ["", "soon", "-5m", "5", "5x", "1.5h", "999999999w", "2026-13-01"])
def test_since_that_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is no time") as caught:
        parse_since(text, NOW)
    assert "15m" in caught.value.hint
