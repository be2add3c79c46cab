"""Where the terminal contract is played: on the fake, and on real tmux with a private socket."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from loopctl.adapters.processes import LocalProcesses
from loopctl.adapters.shell import clean_env
from loopctl.adapters.tmux import Tmux
from loopctl.model.facts import Known
from loopctl.model.sessions import Pane, ServerId, ServerView
from loopctl.ports import TerminalHost
from loopctl.testing import FakeWorld
from tests.support import wait_until

#: Runs until it is killed, whatever its arguments are; ends at once.
LIVE = ("sh", "-c", "echo hello; read line", "sh")
BRIEF = ("echo", "bye")


class Stage(Protocol):
    host: TerminalHost
    socket: str
    cwd: str

    def foreign(self, name: str) -> None:
        """A session that somebody else made."""

    def restart(self) -> None:
        """Another server at the same socket, with a session in it."""

    def unlink(self) -> None:
        """The socket file goes, the server stays."""

    def end_server(self, server: ServerId) -> None:
        """This server ends, wherever its socket is."""

    def group(self, name: str, viewer: str) -> None:
        """A second session on the same panes, as a second client makes one."""

    def new_window(self, name: str) -> None:
        """A second window in a session, which becomes its current one."""

    def end(self, pane: Pane) -> None:
        """The pane's process ends."""

    def argv(self, pane: Pane) -> Sequence[str]:
        """The command line of the pane's process as the machine shows it."""


def view(stage: Stage) -> ServerView:
    fact = stage.host.look(stage.socket)
    assert isinstance(fact, Known), fact
    return fact.value


def pane_of(stage: Stage, name: str) -> Pane:
    (pane,) = [pane for pane in view(stage).panes if pane.session == name]
    return pane


class FakeStage:
    def __init__(self) -> None:
        self.world = FakeWorld()
        self.host: TerminalHost = self.world.terminals
        self.socket = self.world.socket
        self.cwd = "/srv/work"
        self.world.servers.brief.add(BRIEF[0])
        self.world.servers.missing_folders.add("/nowhere")

    def foreign(self, name: str) -> None:
        self.world.foreign(name)

    def restart(self) -> None:
        self.world.servers.stop(self.socket)
        self.world.machine.advance(5)
        self.foreign("after")

    def unlink(self) -> None:
        self.world.servers.unlink(self.socket)

    def end_server(self, server: ServerId) -> None:
        self.world.machine.end(server.pid)

    def group(self, name: str, viewer: str) -> None:
        server = self.world.servers.ensure(self.socket)
        session = next(session for session in server.sessions if session.name == name)
        self.world.servers.group(self.socket, session, viewer)

    def new_window(self, name: str) -> None:
        server = self.world.servers.ensure(self.socket)
        self.world.servers.split(self.socket, next(s for s in server.sessions if s.name == name))

    def end(self, pane: Pane) -> None:
        self.world.machine.end(pane.pid)

    def argv(self, pane: Pane) -> Sequence[str]:
        return self.world.machine.processes[pane.pid].row.argv


class TmuxStage:
    def __init__(self, socket: str, folder: Path) -> None:
        self.env = clean_env(os.environ)
        self.host: TerminalHost = Tmux(self.env, own_socket=socket)
        self.socket = socket
        self.cwd = str(folder)

    def tmux(self, *words: str) -> str:
        argv = ["tmux", "-S", self.socket, "-f", "/dev/null", *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=20, env=self.env).stdout

    def foreign(self, name: str) -> None:
        self.tmux("new-session", "-d", "-s", name, *LIVE)

    def restart(self) -> None:
        pid = view(self).server.pid  # type: ignore[union-attr]
        self.tmux("kill-server")
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the server ends")
        self.foreign("after")

    def unlink(self) -> None:
        Path(self.socket).unlink()

    def end_server(self, server: ServerId) -> None:
        os.kill(server.pid, signal.SIGKILL)

    def group(self, name: str, viewer: str) -> None:
        self.tmux("new-session", "-d", "-s", viewer, "-t", f"={name}")

    def new_window(self, name: str) -> None:
        self.tmux("new-window", "-t", f"={name}:", *LIVE)

    def end(self, pane: Pane) -> None:
        os.kill(pane.pid, signal.SIGKILL)
        wait_until(lambda: self._dead(pane), what=f"{pane.pane_id} is dead")

    def _dead(self, pane: Pane) -> bool:
        seen = view(self)
        if seen.server:
            self.host.nudge(self.socket, seen.server)
        return all(p.dead for p in seen.panes if p.pane_id == pane.pane_id)

    def argv(self, pane: Pane) -> Sequence[str]:
        table = LocalProcesses().look()
        assert isinstance(table, Known)
        return table.value.processes[pane.pid].argv
