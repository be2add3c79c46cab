"""Attaching: read-only where the session is closed, whoever asks and however."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.kit import LOOPCTL, Box

pytestmark = pytest.mark.tmux


def attached_with(box: Box, *args: str) -> list[str]:
    """Run `sessions attach` on a terminal, with a tmux that says how it would have been attached."""
    folder = box.folder / "bin"
    folder.mkdir(exist_ok=True)
    real = shutil.which("tmux", path=box.env["PATH"])
    script = folder / "tmux"
    said = box.folder / "attached"
    script.write_text(
        f'#!/bin/sh\ncase " $* " in *" attach-session "*) printf "%s\\n" "$@" >{said};; *) exec {real} "$@";; esac\n'
    )
    script.chmod(0o755)
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [LOOPCTL, "sessions", "attach", *args],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env=box.env | {"PATH": f"{folder}:{box.env['PATH']}", "TERM": "xterm"},
            cwd=box.folder,
            check=False,
            timeout=60,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0, done
    return Path(said).read_text().splitlines()


def test_a_closed_session_is_always_attached_read_only(box: Box) -> None:
    box.start(["demo/app#1"])
    box.items({"demo/app#1": "closed"})
    assert box.run("apply", "close.yml", "-y").code == 0
    pane = box.record("items:demo/app#1")["pane_id"]
    for args in (("items:demo/app#1",), ("items:demo/app#1", "--read-only")):
        argv = attached_with(box, *args)
        assert argv[argv.index("attach-session") :] == ["attach-session", "-r", "-t", pane]


def test_an_active_session_is_attached_read_only_when_asked(box: Box) -> None:
    box.start(["demo/app#1"])
    pane = box.record("items:demo/app#1")["pane_id"]
    argv = attached_with(box, "items:demo/app#1")
    assert argv[argv.index("attach-session") :] == ["attach-session", "-t", pane]
    assert "-r" in attached_with(box, "items:demo/app#1", "--read-only")
