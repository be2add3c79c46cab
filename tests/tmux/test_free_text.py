"""Words that programs and people choose: in no listing do they add, hide or change a pane, and nothing runs them."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from loopctl.adapters.shell import clean_env
from loopctl.adapters.tmux import Tmux
from loopctl.model.facts import Known
from tests.support import wait_until
from tests.tmux.strangers import Server

pytestmark = pytest.mark.tmux


def test_what_a_program_calls_itself_is_one_word_of_one_line(
    tmux_socket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """argv[0], the pane's title and the window's name; a line of it looks like a pane of somebody else's."""
    monkeypatch.chdir(tmp_path)
    server = Server(tmux_socket)
    victim = server.session("victim")
    (line,) = server.run(
        "list-panes", "-a", "-F", "#{pid}|#{start_time}|#{version}|#{session_id}|@0|%7|1|0"
    ).splitlines()
    forged = f"x|\n{line}{'|' * 16}cat|forged\n#(touch PWNED)\t\x1f#{{pid}}"
    title = "\033]2;$(touch PWNED)|#(touch PWNED)\033\\"
    code = f"import os; os.write(1, {title!r}.encode()); os.execv('/bin/sleep', [{forged!r}, '3600'])"
    loud = server.session("loud", sys.executable, "-S", "-c", code)
    with suppress(AssertionError):  # 3.7 and later refuse such a name
        server.run("rename-window", "-t", loud, "a|b\t##(touch PWNED)")
    server.run("set-option", "-p", "-t", victim, "@loopctl_command", "c|\nd")
    wait_until(lambda: "PWNED" in server.run("display-message", "-p", "-t", loud, "#{pane_title}"), what="its title")
    if server.run("display-message", "-p", "#{version}") < "3.7":  # those after it show nothing of such a name
        wait_until(
            lambda: "|" in server.run("list-panes", "-t", loud, "-F", "#{pane_current_command}"), what="its name"
        )
    seen = Tmux(clean_env(os.environ), own_socket=tmux_socket).look(tmux_socket)
    assert isinstance(seen, Known), seen
    assert {pane.pane_id: pane.session for pane in seen.value.panes} == {victim: "victim", loud: "loud"}
    assert list(tmp_path.iterdir()) == []


def test_what_a_program_prints_is_only_text(tmux_socket: str) -> None:
    """Words of loopctl's own and of tmux's, at the beginning and at the end of a screen."""
    words = ("loopctl-another-server", "loopctl-0123 0 main", "no server running", "Pane is dead (status 0)", "last")
    server = Server(tmux_socket)
    server.session("talks", "sh", "-c", "printf '%s\\n' \"$@\"; exec sleep 3600", "sh", *words)
    host = Tmux(clean_env(os.environ), own_socket=tmux_socket)
    seen = host.look(tmux_socket)
    assert isinstance(seen, Known) and seen.value.server
    view, identity = seen.value, seen.value.server

    def text() -> bytes:
        said = host.capture(tmux_socket, identity, view.panes)[view.panes[0].pane_id]
        assert isinstance(said, Known), said
        return said.value

    wait_until(lambda: b"last" in text(), what="all is printed")
    assert text().decode().splitlines() == list(words)
