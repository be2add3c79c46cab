"""What cannot be printed stops no work, and is not kept quiet either."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

import pytest

from loopctl.cli import run
from loopctl.cli.output import Progress, say, say_at_once
from loopctl.cli.wiring import Setup, Stop
from loopctl.config import Config
from loopctl.ports import World

_PRINTS = """
import sys
from loopctl.cli import output
output.out("one\\n")
output.out("two\\n")
output.say("the work is done")
sys.exit(7 if output.lost_output() else 0)
"""


def test_a_full_disk_behind_standard_output_is_said_once_and_stops_nothing() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", _PRINTS], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 7, done
    assert done.stderr.count("No space left on device") == 1
    assert done.stderr.endswith("the work is done\n")


def test_a_reader_that_went_away_is_no_error_and_stops_nothing() -> None:
    """`loopctl plan ... | head -1`"""
    gone, pipe = os.pipe()
    os.close(gone)
    with open(pipe, "wb") as out:  # noqa: PTH123 - a descriptor
        done = subprocess.run(
            [sys.executable, "-c", _PRINTS], stdout=out, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "the work is done\n")


def test_a_full_disk_behind_both_stops_nothing_either() -> None:
    with Path("/dev/full").open("wb") as full:
        assert subprocess.run([sys.executable, "-c", _PRINTS], stdout=full, stderr=full, check=False).returncode == 7


@pytest.mark.parametrize("words", [["schema", "plan"], ["--help"], ["sessions", "--help"], ["--version"]])
def test_the_command_says_by_its_exit_code_that_its_output_is_lost(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "loopctl.cli.main", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1, done
    assert done.stderr == ("loopctl: standard output: No space left on device; what follows is done and not shown\n")


class Interrupted(io.RawIOBase):
    """A stream in the middle of whose first write a signal comes; `number` is a descriptor that text may go to as well."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.signals = 1
        self.text = b""

    def fileno(self) -> int:
        return self.number

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        if self.signals:
            self.signals = 0
            signal.raise_signal(signal.SIGTERM)
        self.text += bytes(cast("bytes", data))
        return len(cast("bytes", data))


def desk(stop: Stop) -> AbstractContextManager[object]:
    return Setup(cast("Config", None), cast("World", None), Progress(), stop).until_interrupted()


def controller(stop: Stop) -> AbstractContextManager[object]:
    return run._signals(stop, run._log(say_at_once))


@pytest.mark.parametrize("until_stopped", [desk, controller])
def test_a_signal_in_the_middle_of_a_line_asks_to_stop_and_breaks_nothing(
    until_stopped: Callable[[Stop], AbstractContextManager[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's buffers raise RuntimeError when a handler writes to the stream that it interrupted."""
    told, pipe = os.pipe()
    raw, stop = Interrupted(pipe), Stop()
    stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        try:
            with until_stopped(stop):
                say("the line in hand")
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    os.close(pipe)
    with open(told, "rb") as reader:  # noqa: PTH123 - a descriptor
        said = reader.read()
    assert (stop.asked, raw.text) == (True, b"the line in hand\n")
    assert b"stopping after the" in said
