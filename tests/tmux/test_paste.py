"""Texts that are given to agents in live panes: real tmux, and agents that write down what they read."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from loopctl.adapters.shell import clean_env
from loopctl.adapters.tmux import Tmux
from loopctl.model.facts import REFUSED, Fact, Known, Unknown
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import ServerId
from loopctl.ports import PaneRef, StartSpec
from tests.support import wait_until

pytestmark = pytest.mark.tmux

LISTENER = str(Path(__file__).parent / "listener.py")
ODD = "\n".join(
    (
        "umlaut ä, 日本語, 😀, combining e\u0301, family 👨\u200d👩\u200d👧",
        """quotes ' " ` and \\ \\\\ and \\n""",
        "$(touch PWNED) `touch PWNED` $HOME ${HOME} ~ ~root #{pid} #(touch PWNED) ##",
        "; kill-server",
        "kill-server ;",
        "} ; kill-server ; {",
        '" ; kill-server ; "',
        "%if 1",
        "-b other -t %0",
        "",
        "\ttab, and blanks at the end   ",
        "ends in a backslash\\",
    )
)


@dataclass
class Agent:
    ref: PaneRef
    log: Path

    def read(self, *texts: str) -> bytes:
        """All that it has read, once that is as much as these texts are."""
        wait_until(lambda: self._has(texts), what=f"{self.ref.pane_id} has read all")
        return self.log.read_bytes()

    def _has(self, texts: tuple[str, ...]) -> bool:
        return len(self.log.read_bytes()) >= len(submitted(*texts))


class Desk:
    """A private server with agents that listen."""

    def __init__(self, socket: str, folder: Path, count: int) -> None:
        self.host = Tmux(clean_env(os.environ), own_socket=socket)
        self.socket = socket
        self.folder = folder
        specs = {}
        for number in range(count):
            id_, log = str(uuid.uuid4()), folder / f"{number}.log"
            argv = (sys.executable, "-I", "-S", LISTENER, str(log))
            item = WorkItemRef.parse(f"items:demo/app#{number + 1}")
            specs[log] = StartSpec(id_, item, f"loop-{number}", argv, str(folder), {"LOOPCTL_SESSION": id_})
        made = self.host.start(socket, list(specs.values()))
        self.agents = []
        self.server = ServerId(0, 0)
        for log, spec in specs.items():
            fact = made[spec.id]
            assert isinstance(fact, Known), fact
            self.server = fact.value.server
            self.agents.append(Agent(PaneRef(fact.value.pane.pane_id, fact.value.pane.session_id, spec.id), log))
        # What an agent has said first, tmux has read: brackets are on.
        wait_until(lambda: all("ready" in self.screen(agent) for agent in self.agents), what="all agents listen")

    def screen(self, agent: Agent) -> str:
        return self.tmux("capture-pane", "-p", "-t", agent.ref.pane_id)

    def paste(self, agent: Agent, text: str) -> Fact[None]:
        return self.host.paste(self.socket, self.server, agent.ref, text)

    def tmux(self, *words: str) -> str:
        argv = ["tmux", "-u", "-S", self.socket, "-f", "/dev/null", *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=20).stdout


@pytest.fixture
def desk(tmux_socket: str, tmp_path: Path) -> Desk:
    return Desk(tmux_socket, tmp_path, 1)


def submitted(*texts: str) -> bytes:
    """What an agent reads of texts that were pasted and submitted."""
    return b"".join(b"\x1b[200~" + text.encode() + b"\x1b[201~\r" for text in texts)


def test_a_hundred_texts_to_ten_agents_at_once_arrive_whole_and_in_order(tmux_socket: str, tmp_path: Path) -> None:
    desk = Desk(tmux_socket, tmp_path, 10)
    texts = {
        agent.ref.pane_id: [
            f"{turn} for {agent.ref.pane_id}\n{ODD}" + "\nlong line é" * 7000 * (turn == 4) for turn in range(10)
        ]
        for agent in desk.agents
    }
    assert max(len(text.encode()) for text in texts["%0"]) > 90_000

    def talk(agent: Agent) -> list[Fact[None]]:
        return [desk.paste(agent, text) for text in texts[agent.ref.pane_id]]

    with ThreadPoolExecutor(10) as pool:
        done = list(pool.map(talk, desk.agents))
    assert done == [[Known(None)] * 10] * 10
    for agent in desk.agents:
        wanted = texts[agent.ref.pane_id]
        assert agent.read(*wanted) == submitted(*wanted)
    assert desk.tmux("list-buffers") == ""
    assert not (tmp_path / "PWNED").exists()


def test_control_characters_arrive_as_pictures_and_end_nothing(desk: Desk) -> None:
    (agent,) = desk.agents
    assert desk.paste(agent, "a\x1b[201~\rrm -rf\x00\x07\x7f\x9b\ud800\r\nb\t.") == Known(None)
    wanted = "a␛[201~\nrm -rf␀␇␡\ufffd\ufffd\nb\t."
    assert agent.read(wanted) == submitted(wanted)


@pytest.mark.parametrize("mode", ["copy-mode", "choose-tree"])
def test_a_reader_in_another_mode_does_not_lose_the_brackets(desk: Desk, mode: str) -> None:
    (agent,) = desk.agents
    desk.tmux(mode, "-t", agent.ref.pane_id)
    assert desk.paste(agent, "one\ntwo") == Known(None)
    assert agent.read("one\ntwo") == submitted("one\ntwo")


@pytest.fixture
def watcher(desk: Desk) -> Iterator[None]:
    """Somebody who watches, read-only."""
    leader, follower = pty.openpty()
    argv = [
        "tmux",
        "-u",
        "-S",
        desk.socket,
        "-f",
        "/dev/null",
        "attach-session",
        "-r",
        "-t",
        desk.agents[0].ref.pane_id,
    ]
    env = clean_env(os.environ) | {"TERM": "xterm"}
    client = subprocess.Popen(argv, stdin=follower, stdout=follower, stderr=follower, env=env)
    wait_until(lambda: "read-only" in desk.tmux("list-clients"), what="the watcher is attached")
    yield
    client.terminate()
    client.wait(10)
    os.close(leader)
    os.close(follower)


def test_somebody_who_watches_read_only_stops_nothing(desk: Desk, watcher: None) -> None:
    (agent,) = desk.agents
    assert desk.paste(agent, "hello") == Known(None)
    assert agent.read("hello") == submitted("hello")


def refused(fact: Fact[None]) -> str:
    assert isinstance(fact, Unknown), fact
    assert fact.kind == REFUSED, fact
    return fact.reason


def test_nothing_goes_to_a_pane_that_is_not_the_one_meant(tmux_socket: str, tmp_path: Path) -> None:
    desk = Desk(tmux_socket, tmp_path, 2)
    first, second = desk.agents
    wrong = [
        replace(first.ref, pane_id=second.ref.pane_id),
        replace(first.ref, session_id=second.ref.session_id),
        replace(first.ref, mark=second.ref.mark),
        replace(first.ref, pane_id="%99"),
        replace(first.ref, session_id="$99"),
        replace(first.ref, mark=""),
        replace(first.ref, pid=os.getpid()),
    ]
    for ref in wrong:
        refused(desk.host.paste(desk.socket, desk.server, ref, "lost"))
    refused(desk.host.paste(desk.socket, replace(desk.server, start=desk.server.start - 1), first.ref, "lost"))
    refused(desk.host.paste(str(tmp_path / "no-socket"), desk.server, first.ref, "lost"))
    # What is sent afterwards is read afterwards: nothing came before it.
    for agent in desk.agents:
        assert desk.paste(agent, "only this") == Known(None)
        assert agent.read("only this") == submitted("only this")
    assert desk.tmux("list-buffers") == ""


def test_a_shell_is_not_told_what_its_agent_was_to_be_told(desk: Desk, tmp_path: Path) -> None:
    """Of a session that was taken over the pane's process is a person's shell; what it is given, it runs."""
    id_ = str(uuid.uuid4())
    spec = StartSpec(id_, WorkItemRef.parse("items:demo/app#9"), "person", ("bash", "--norc"), str(tmp_path), {})
    made = desk.host.start(desk.socket, [spec])[id_]
    assert isinstance(made, Known)
    pane = made.value.pane

    def shown() -> str:
        return desk.tmux("display-message", "-p", "-t", pane.pane_id, "#{pane_current_command}").strip()

    ref = PaneRef(pane.pane_id, pane.session_id, id_, pane.pid, no_shell=True)
    wait_until(lambda: shown() == "bash", what="the shell shows")
    assert "it shows another program" in refused(desk.host.paste(desk.socket, desk.server, ref, "touch ran"))
    desk.tmux("send-keys", "-t", pane.pane_id, "cat > heard", "Enter")
    wait_until(lambda: shown() == "cat", what="another program shows")
    assert desk.host.paste(desk.socket, desk.server, ref, "hello") == Known(None)
    wait_until(lambda: b"hello" in (tmp_path / "heard").read_bytes(), what="it was read")
    assert not (tmp_path / "ran").exists()


def test_a_pane_without_input_gets_nothing(desk: Desk) -> None:
    (agent,) = desk.agents
    assert desk.host.secure(desk.socket, desk.server, [agent.ref]) == ""
    assert "input is off" in refused(desk.paste(agent, "lost"))
    assert desk.host.release(desk.socket, desk.server, [agent.ref]) == ""
    assert desk.paste(agent, "only this") == Known(None)
    assert agent.read("only this") == submitted("only this")


def test_a_dead_pane_gets_nothing_and_its_server_lives_on(tmux_socket: str, tmp_path: Path) -> None:
    desk = Desk(tmux_socket, tmp_path, 2)
    first, second = desk.agents
    pid = int(desk.tmux("list-panes", "-t", first.ref.pane_id, "-F", "#{pane_pid}"))
    os.kill(pid, 9)
    wait_until(
        lambda: desk.tmux("list-panes", "-t", first.ref.pane_id, "-F", "#{pane_dead}") == "1\n", what="it is dead"
    )
    refused(desk.paste(first, "lost"))
    assert desk.paste(second, "still here") == Known(None)
    assert desk.tmux("list-buffers") == ""
