"""What cannot be printed stops no work, and is not kept quiet either."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def test_the_command_says_by_its_exit_code_that_its_output_is_lost() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "loopctl.cli.main", "schema", "plan"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
