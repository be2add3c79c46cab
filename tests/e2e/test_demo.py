"""The demo: it stops where something goes wrong, and leaves nothing."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.kit import LOOPCTL, Box, Done

pytestmark = pytest.mark.tmux


def demo(box: Box, path: str | None = None, within: str = "tmp") -> Done:
    """Run the demo with its scratch folder inside of the box."""
    (box.folder / within).mkdir()
    done = box.run("demo", env={"TMPDIR": str(box.folder / within), **({"PATH": path} if path else {})})
    assert not list((box.folder / within).iterdir())
    return done


def test_a_folder_that_no_socket_fits_in_is_told_before(box: Box) -> None:
    done = demo(box, within="x" * 100)
    assert (done.code, done.out) == (1, ""), done
    assert "longer than 103 bytes" in done.err and "set TMPDIR" in done.err and "clean up" not in done.err


def test_the_demo_plays_to_its_end_and_clears_its_last_line(box: Box) -> None:
    ours, theirs = pty.openpty()
    (box.folder / "tmp").mkdir()
    env = box.env | {"TMPDIR": str(box.folder / "tmp"), "TERM": "xterm"}
    done = subprocess.run(
        [LOOPCTL, "demo"], check=False, stdout=subprocess.PIPE, stderr=theirs, env=env, cwd=box.folder, timeout=120
    )
    os.close(theirs)
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 0 and "That was it" in done.stdout.decode()
    assert not list((box.folder / "tmp").iterdir())
    assert said.count(" ...") > 1 and said.endswith("\r\x1b[K")


def test_without_tmux_nothing_begins(box: Box) -> None:
    nothing = box.folder / "nothing"
    nothing.mkdir()
    done = demo(box, str(nothing))
    assert (done.code, done.out) == (1, "")
    assert "tmux was not found" in done.err and "hint: install tmux" in done.err


def test_a_signal_inside_of_an_apply_ends_the_demo(box: Box) -> None:
    # Stands before tmux: when the first agent is started, loopctl gets a Ctrl-C.
    folder = box.folder / "bin"
    folder.mkdir()
    script, once = folder / "tmux", box.folder / "once"
    script.write_text(
        f'#!/bin/sh\ncase " $* " in *" list-panes "*|*" -V "*) ;; *)\n'
        f"[ -e {once} ] || {{ : >{once}; kill -INT $PPID; }};; esac\n"
        f'exec {shutil.which("tmux", path=box.env["PATH"])} "$@"\n'
    )
    script.chmod(0o755)
    done = demo(box, f"{folder}:{box.env['PATH']}")
    assert Path(once).exists()
    assert done.code == 1, done
    assert done.err.endswith("interrupted\n") and "the demo stops here" not in done.err
    assert "sessions list" not in done.out


def test_the_whole_life_of_a_session_is_played_and_nothing_stays(box: Box) -> None:
    (box.folder / "tmp").mkdir()
    done = box.run("demo", "--full", env={"TMPDIR": str(box.folder / "tmp")})
    assert done.code == 0, done
    assert not list((box.folder / "tmp").iterdir())
    for words in ("1 to resume", "absent -> running", "retained -> gone", "That was it"):
        assert words in done.out
    assert box.processes() == {}
