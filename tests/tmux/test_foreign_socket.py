"""What `look` would not believe gets no word of ours either."""

from __future__ import annotations

import os
import socket as sockets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loopctl.adapters.shell import clean_env
from loopctl.adapters.tmux import Tmux
from loopctl.model.facts import REFUSED, Known, Unknown
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import ServerId
from loopctl.ports import PaneRef, StartSpec

pytestmark = pytest.mark.tmux
ID = "7b1c9e52-0000-4000-8000-000000000015"


def spec(cwd: str) -> StartSpec:
    return StartSpec(ID, WorkItemRef.parse("items:demo/app#1"), "loop-1", ("sleep", "1000"), cwd, {"TOKEN": "secret"})


@contextmanager
def listener(path: str) -> Iterator[sockets.socket]:
    with sockets.socket(sockets.AF_UNIX) as server:
        server.bind(path)
        server.listen(5)
        server.setblocking(False)
        yield server


def test_a_socket_of_another_user_is_told_nothing(
    tmux_socket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Tmux(clean_env(os.environ), own_socket=tmux_socket, timeout=2.0)
    with listener(tmux_socket) as server:
        owner = os.geteuid()
        monkeypatch.setattr("loopctl.adapters.tmux.os.geteuid", lambda: owner + 1)
        made = host.start(tmux_socket, [spec(str(tmp_path))])[ID]
        said = host.secure(tmux_socket, ServerId(700, 1), [PaneRef("%1", "$1", ID)])
        with pytest.raises(BlockingIOError):
            server.accept()
    assert made == Unknown(f"{tmux_socket} belongs to another user", REFUSED)
    assert "belongs to another user" in said
    Path(tmux_socket).unlink()


def test_a_socket_that_its_server_left_behind_is_no_server(tmux_socket: str, tmp_path: Path) -> None:
    with sockets.socket(sockets.AF_UNIX) as server:
        server.bind(tmux_socket)
    host = Tmux(clean_env(os.environ), own_socket=tmux_socket)
    seen = host.look(tmux_socket)
    assert isinstance(seen, Known)
    assert (seen.value.server, seen.value.panes) == (None, ())
    assert isinstance(host.start(tmux_socket, [spec(str(tmp_path))])[ID], Known)


def test_a_file_in_the_place_of_the_socket_is_left_alone(tmux_socket: str, tmp_path: Path) -> None:
    Path(tmux_socket).write_text("mine", encoding="utf-8")
    made = Tmux(clean_env(os.environ), own_socket=tmux_socket).start(tmux_socket, [spec(str(tmp_path))])[ID]
    assert made == Unknown(f"{tmux_socket} is not a socket", REFUSED)
    assert Path(tmux_socket).read_text(encoding="utf-8") == "mine"
    Path(tmux_socket).unlink()
