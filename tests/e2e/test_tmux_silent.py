"""A tmux that hangs, prints half a list or prints anything else: nothing is done, and it is said why."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.kit import Box, Saboteur

pytestmark = pytest.mark.tmux

#: What the program does in place of a listing, and the reason that is given.
TRICKS = {
    "hangs": ("exec sleep 1000", "did not answer within 0.7 s"),
    "prints half a list, then hangs": ('{real} "$@" | head -c 300; sleep 1000', "did not answer within 0.7 s"),
    "prints half a line": ('{real} "$@" | head -c 40', "cannot be read"),
    "prints nothing": ("exit 0", "empty or mixed listing"),
    "prints garbage": ("echo 'open terminal failed: not a terminal'", "cannot be read"),
    "fails": ("echo 'protocol version mismatch (client 8, server 7)' >&2; exit 1", "protocol version mismatch"),
    "is no tmux": ("kill -SEGV $$", "no answer"),
}


@pytest.fixture
def two(box: Box) -> Box:
    box.start(["demo/app#1", "demo/app#2"])
    box.items({"demo/app#1": "closed", "demo/app#2": "closed"})
    return box


@contextmanager
def impatient(box: Box) -> Iterator[None]:
    """loopctl soon gives up on a tmux that does not answer."""
    box.settings["tmux"]["timeoutSeconds"] = 0.7
    box.write_config()
    yield
    del box.settings["tmux"]["timeoutSeconds"]
    box.write_config()


def test_a_tmux_that_does_not_answer_ends_nothing(two: Box) -> None:
    before = two.processes().keys()
    folder = two.folder / "bin"
    folder.mkdir()
    script = folder / "tmux"
    path = {"PATH": f"{folder}:{two.env['PATH']}"}
    for name, (line, words) in TRICKS.items():
        script.write_text(f"#!/bin/sh\n{line.format(real=shutil.which('tmux'))}\n")
        script.chmod(0o755)
        with impatient(two):
            done = two.run("apply", "close.yml", "-y", env=path)
        assert done.code == 5, (name, done)
        assert done.out.count("! held") == 2, (name, done)
        assert words in done.out, (name, done)
        assert two.processes().keys() == before, name
    assert {row["status"] for row in two.records()} == {"active"}
    # "server exited unexpectedly" is said once by a server that is going away; it is asked again.
    script.write_text(
        f"#!/bin/sh\n[ -e {folder}/said ] || {{ touch {folder}/said; echo 'server exited unexpectedly' >&2; exit 1; }}\n"
        f'exec {shutil.which("tmux")} "$@"\n'
    )
    assert two.run("apply", "close.yml", "-y", env=path).code == 0
    assert (folder / "said").exists()


def test_a_server_that_is_stopped_ends_nothing(two: Box) -> None:
    server = two.record("items:demo/app#1")["server_pid"]
    before = two.processes().keys()
    os.kill(server, signal.SIGSTOP)
    try:
        with impatient(two):
            done = two.run("apply", "close.yml", "-y")
    finally:
        os.kill(server, signal.SIGCONT)
    assert done.code == 5, done
    assert done.out.count("! held") == 2
    assert "did not answer within" in done.out
    assert two.processes().keys() == before
    assert {row["status"] for row in two.records()} == {"active"}
    assert two.run("apply", "close.yml", "-y").code == 0


def test_a_socket_that_was_taken_away_ends_nothing(two: Box) -> None:
    before = two.processes().keys()
    hidden = f"{two.socket}-hidden"
    os.rename(two.socket, hidden)  # noqa: PTH104 - a socket
    done = two.run("apply", "close.yml", "-y")
    os.rename(hidden, two.socket)  # noqa: PTH104
    assert done.code == 5, done
    assert "kill -USR1" in done.out
    assert two.processes().keys() == before
    assert {row["status"] for row in two.records()} == {"active"}


def test_a_tmux_that_stops_answering_in_the_middle_leaves_the_records_open(two: Box) -> None:
    """From the third call on (after both looks): nobody's record is closed, and the next run finishes."""
    saboteur = Saboteur(two)
    script = saboteur.folder / "tmux"
    script.write_text(script.read_text().replace('[ "$when" = "after', '[ $n -ge 3 ] && exit 1\n[ "$when" = "after', 1))
    done = two.run("apply", "close.yml", "-y", env=saboteur.env)
    assert done.code == 1, done
    assert "2 failed" in done.out
    assert {row["status"] for row in two.records()} == {"active"}
    assert two.run("apply", "close.yml", "-y").code == 0
    assert two.processes() == {}
