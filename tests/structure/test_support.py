from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import wait_until


def test_wait_until_gives_what_it_waited_for() -> None:
    answers = iter(["", "", "there"])
    assert wait_until(lambda: next(answers)) == "there"


def test_wait_until_names_what_did_not_come() -> None:
    with pytest.raises(AssertionError, match="the pane dies"):
        wait_until(lambda: False, timeout=0, what="the pane dies")


def test_home_is_empty_and_ours(clean_environ: Path) -> None:
    assert Path.home() == clean_environ
    assert not list(clean_environ.iterdir())


def test_nothing_leaks_in() -> None:
    assert not [name for name in os.environ if name.startswith(("TMUX", "GH_", "LOOPCTL_", "XDG_"))]


@pytest.mark.tmux
def test_a_socket_for_each_test(tmux_socket: str) -> None:
    tmux = ["tmux", "-f", "/dev/null", "-S", tmux_socket]
    subprocess.run([*tmux, "new-session", "-d", "cat"], check=True)
    listed = subprocess.run([*tmux, "list-sessions"], check=True, capture_output=True, text=True)
    assert len(listed.stdout.splitlines()) == 1
