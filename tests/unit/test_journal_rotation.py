"""The event log is put aside when it is large, by any of its writers, and no reader loses a line."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loopctl.adapters.journal import KEPT, EventLog, rotated
from loopctl.adapters.journal_reader import EventFilter, EventReader, read_events


def now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def log(path: Path, max_bytes: int = 1000) -> EventLog:
    return EventLog(path, now, "test", max_bytes=max_bytes)


def write(journal: EventLog, *numbers: int) -> None:
    for number in numbers:
        journal.emit("item.held", ref=f"items:demo/app#{number}", number=number)


def numbers(path: Path) -> list[int]:
    return [event["number"] for event in read_events(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_a_large_file_is_put_aside_and_read_all_the_same(path: Path) -> None:
    write(log(path), *range(1, 31))
    assert rotated(path, 1).exists()
    assert rotated(path, 2).exists()
    assert path.stat().st_size < 1200 if path.exists() else True
    assert numbers(path) == list(range(1, 31))


def test_only_so_many_are_kept(path: Path) -> None:
    write(log(path, 100), *range(1, 51))
    there = sorted(file.name for file in path.parent.iterdir())
    assert there == [f"events.jsonl.{number}" for number in range(1, KEPT + 1)]
    assert numbers(path) == list(range(51 - KEPT, 51))


def test_without_a_limit_nothing_is_put_aside(path: Path) -> None:
    write(log(path, 0), *range(100))
    assert [file.name for file in path.parent.iterdir()] == ["events.jsonl"]


def following(path: Path, steps: list[Callable[[], object]]) -> list[int]:
    """Follow the log; each time there is nothing more, the next step is taken."""
    left = iter(steps)

    def wait() -> bool:
        step = next(left, None)
        if step:
            step()
        return step is not None

    return [event["number"] for event in EventReader(path, EventFilter(), 0, wait)]


def test_who_follows_misses_nothing(path: Path) -> None:
    journal = log(path, 300)
    write(journal, 1)
    steps = [lambda n=n: write(journal, *range(n, n + 7)) for n in range(2, 65, 7)]  # type: ignore[misc]
    # Seven events are three files and more: several are put aside between two looks.
    assert following(path, [*steps, lambda: None]) == list(range(1, 65))


def test_a_writer_that_had_the_old_file_open_is_not_lost(path: Path) -> None:
    journal = log(path, 300)
    write(journal, 1)
    late = path.open("ab")

    def late_word() -> None:
        write(log(path, 10_000), 5)
        late.write(rotated(path, 1).read_bytes().splitlines(keepends=True)[0].replace(b'"number": 1', b'"number": 4'))
        late.close()

    assert following(path, [lambda: write(journal, 2, 3), late_word, lambda: None]) == [1, 2, 3, 4, 5]


def test_somebody_elses_rotation_repeats_nothing(path: Path) -> None:
    """As logrotate does: the file goes to a name that is not ours."""
    journal = log(path, 0)
    write(journal, 1, 2)

    def away() -> None:
        path.rename(path.with_name("old"))
        write(journal, 3)

    assert following(path, [away, lambda: None]) == [1, 2, 3]


def _many(path: Path, first: int) -> None:
    journal = log(path, 20_000)
    write(journal, *range(first, first + 200))


def test_writers_side_by_side_put_it_aside_once(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_many, args=(path, 1000 * index)) for index in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    found = numbers(path)
    assert sorted(found) == sorted(1000 * index + n for index in range(3) for n in range(200))
    sizes = [rotated(path, number).stat().st_size for number in range(1, KEPT + 1) if rotated(path, number).exists()]
    # None was put aside before its time, which is what two at once would do.
    assert all(size >= 20_000 for size in sizes), sizes
