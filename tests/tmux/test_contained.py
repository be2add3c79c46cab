"""Agents below a keeper, on real tmux: keys, sizes, ends and names are the agent's, and no child of it gets away."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopctl.adapters.keeper import keeper_argv
from loopctl.adapters.processes import LocalProcesses
from loopctl.adapters.shell import clean_env
from loopctl.adapters.tmux import Tmux
from loopctl.model.facts import Known
from loopctl.model.processes import ProcessInfo
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import Pane
from loopctl.ports import StartSpec
from tests.support import wait_until
from tests.tmux.strangers import Server

pytestmark = [pytest.mark.tmux, pytest.mark.skipif(sys.platform != "linux", reason="subreapers are Linux's")]

REF = WorkItemRef.parse("items:demo/app#1")
TTY_THIEF = """
import os, signal, sys
if os.fork() == 0:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    os._exit(0)
# Ignored below tmux; Node sets it back.
signal.signal(signal.SIGTTIN, signal.SIG_DFL)
os.wait()
print("robbed", flush=True)
print("heard", sys.stdin.readline(), flush=True)
"""
LEAVES_A_CHILD = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 20)
    os.execve(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(1000)", sys.argv[1]], {})
os.wait()
print("ready", flush=True)
sys.stdin.readline()
"""


@dataclass
class Contained:
    """One server, and the session that a test starts on it."""

    socket: str
    folder: Path
    id: str = ""

    def start(self, *argv: str, keeper: tuple[str, ...] = keeper_argv(), name: str = "loop-1") -> None:
        self.id = str(uuid.uuid4())
        spec = StartSpec(
            self.id, REF, name, argv, str(self.folder), {"LOOPCTL_SESSION": self.id, "LANG": "C", "LC_ALL": ""}
        )
        made = Tmux(clean_env(os.environ), own_socket=self.socket, keeper=keeper).start(self.socket, [spec])
        assert isinstance(made[self.id], Known), made

    @property
    def pane(self) -> Pane:
        fact = Tmux(clean_env(os.environ), own_socket=self.socket).look(self.socket)
        assert isinstance(fact, Known), fact
        (pane,) = [pane for pane in fact.value.panes if pane.mark == self.id]
        return pane

    def keys(self, *keys: str) -> None:
        Server(self.socket).run("send-keys", "-t", self.pane.pane_id, *keys)

    def shows(self, text: str) -> None:
        words = ("capture-pane", "-p", "-S", "-", "-t", self.pane.pane_id)
        wait_until(lambda: text in Server(self.socket).run(*words), what=f"{text!r} on the screen")

    def ended(self) -> tuple[int | None, int | None]:
        """Wait for the end: exit status and signal."""

        def dead() -> bool:
            Server(self.socket).run("run-shell", "-b", "true")
            return self.pane.dead

        wait_until(dead, what="the pane is dead")
        return self.pane.exit_status, self.pane.exit_signal

    def keepers(self) -> list[ProcessInfo]:
        return [row for row in table() if row.mark == self.id and row.is_keeper]

    @property
    def agent(self) -> int:
        return wait_until(lambda: next((row.kept for row in self.keepers() if row.kept), 0), what="its keeper")


def table() -> list[ProcessInfo]:
    fact = LocalProcesses().look()
    assert isinstance(fact, Known)
    return list(fact.value.processes.values())


@pytest.fixture
def one(tmux_socket: str, tmp_path: Path) -> Contained:
    return Contained(tmux_socket, tmp_path)


def test_the_agent_has_the_pane_its_keys_and_its_name(one: Contained) -> None:
    one.start(
        "sh", "-c", "trap 'echo interrupted' INT; echo ready; while :; do read line && echo \"heard $line\"; done"
    )
    one.shows("ready")
    assert one.pane.command == "sh"
    one.keys("C-c")
    one.shows("interrupted")
    one.keys("hello", "Enter")
    one.shows("heard hello")
    front, keeper = sorted(one.keepers(), key=lambda row: row.id.pid != one.pane.pid)
    assert (front.id.pid, keeper.ppid) == (one.pane.pid, front.id.pid)
    # No word of Python or loopctl in what they are called: an agent may end all `python` there is, a person all `loopctl`.
    assert [row.argv for row in (front, keeper)] == [("keeper:pane",), (f"keeper:{one.agent}",)]


def test_a_shell_stops_and_continues_its_jobs(one: Contained) -> None:
    one.start("bash", "--norc", "-i")
    one.keys("echo job; sleep 1000", "Enter")
    wait_until(lambda: one.pane.command == "sleep", what="the job runs")
    one.keys("C-z")
    one.shows("Stopped")
    wait_until(lambda: one.pane.command == "bash", what="the shell has the terminal")
    one.keys("fg", "Enter")
    wait_until(lambda: one.pane.command == "sleep", what="the job runs on")
    one.keys("C-c")
    one.keys("exit 3", "Enter")
    assert one.ended() in {(3, None), (None, None)}


def test_an_agent_that_is_stopped_goes_on(one: Contained) -> None:
    one.start("sh", "-c", "echo ready; exec cat")
    one.shows("ready")
    wait_until(lambda: one.pane.command == "cat")
    one.keys("C-z")
    one.keys("once", "Enter")
    one.shows("once\nonce")


def test_an_agent_whose_child_took_the_terminal_gets_it_back(one: Contained) -> None:
    one.start(sys.executable, "-c", TTY_THIEF)
    one.shows("robbed")
    one.keys("hello", "Enter")
    one.shows("heard hello")


def test_an_agent_learns_of_a_new_size(one: Contained) -> None:
    one.start("sh", "-c", "trap 'stty size' WINCH; echo ready; while :; do read line; done")
    one.shows("ready")
    Server(one.socket).run("resize-window", "-t", one.pane.pane_id, "-x", "100", "-y", "30")
    one.shows("30 100")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_the_pane_dies_of_the_agents_signal(one: Contained, number: signal.Signals) -> None:
    one.start("sleep", "1000")
    os.kill(one.agent, number)
    status, by = one.ended()
    assert status is None
    assert by in {number, None}
    assert one.pane.command == "sleep"
    wait_until(lambda: not one.keepers(), what="its keepers have ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_what_is_sent_to_the_panes_process_reaches_the_agent_once(one: Contained, number: signal.Signals) -> None:
    code = (
        "import os, signal, sys\n"
        f"signal.signal({number}, lambda *_: os.write(1, b'got it\\n'))\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()"
    )
    one.start(sys.executable, "-c", code)
    one.shows("ready")
    # The whole group of the pane's process, which is the keeper's too.
    os.killpg(one.pane.pid, number)
    one.shows("got it")
    os.kill(one.agent, signal.SIGKILL)
    one.ended()
    text = Server(one.socket).run("capture-pane", "-p", "-t", one.pane.pane_id)
    assert text.count("got it") == 1


def test_the_agent_is_born_as_without_a_keeper(one: Contained) -> None:
    """Python itself changes the locale's variables where they say C, and ignores some signals."""
    script = "env | grep -v -e ^LOOPCTL_SESSION= -e ^TMUX | sort; grep ^Sig[BIC] /proc/self/status; pwd; umask; ulimit -a; exit 0"
    texts = []
    for name, keeper in (("loop-1", keeper_argv()), ("loop-2", ())):
        one.start("sh", "-c", script, keeper=keeper, name=name)
        one.ended()
        text = Server(one.socket).run("capture-pane", "-p", "-S", "-", "-t", one.pane.pane_id)
        texts.append(text.partition("Pane is dead")[0].rstrip())
    assert "SigBlk" in texts[0]
    assert texts[0] == texts[1]


def test_a_child_that_cut_all_ties_is_the_keepers_for_as_long_as_it_lives(one: Contained) -> None:
    tag = uuid.uuid4().hex
    one.start(sys.executable, "-c", LEAVES_A_CHILD, tag)
    one.shows("ready")
    (child,) = [row for row in table() if tag in row.argv and "-S" in row.argv]
    one.keys("Enter")
    assert one.ended() in {(0, None), (None, None)}
    wait_until(lambda: len(one.keepers()) == 1, what="the keeper is alone")
    (keeper,) = one.keepers()
    (orphan,) = [row for row in table() if row.id == child.id]
    assert (orphan.ppid, orphan.mark, orphan.sid == keeper.sid) == (keeper.id.pid, "", False)
    os.kill(orphan.id.pid, signal.SIGKILL)
    wait_until(lambda: not one.keepers(), what="the keeper has nothing left to keep")


def test_a_keeper_whose_agent_has_ended_lets_go_when_it_is_asked_to(one: Contained) -> None:
    tag = uuid.uuid4().hex
    one.start(sys.executable, "-c", LEAVES_A_CHILD, tag)
    one.shows("ready")
    (child,) = [row for row in table() if tag in row.argv and "-S" in row.argv]
    try:
        one.keys("Enter")
        one.ended()
        wait_until(lambda: len(one.keepers()) == 1, what="the keeper is alone")
        (keeper,) = one.keepers()
        os.kill(keeper.id.pid, signal.SIGTERM)
        wait_until(lambda: not one.keepers(), what="the keeper has ended")
        assert child.id in {row.id for row in table()}
    finally:
        os.kill(child.id.pid, signal.SIGKILL)


def test_a_killed_keeper_takes_the_pane_with_it(one: Contained) -> None:
    one.start("sleep", "1000")
    agent = one.agent
    (keeper,) = [row for row in one.keepers() if row.kept]
    os.kill(keeper.id.pid, signal.SIGKILL)
    status, by = one.ended()
    assert (status, by in {signal.SIGKILL, None}) == (None, True)
    # The terminal has gone, and the kernel says so.
    wait_until(lambda: agent not in {row.id.pid for row in table()}, what="the agent has ended")


def test_a_program_that_cannot_be_run_says_so(one: Contained) -> None:
    one.start("/no/such/agent")
    assert one.ended() in {(127, None), (None, None)}
    one.shows("loopctl: /no/such/agent: ")


def test_a_script_that_does_not_say_of_what_is_a_shells(one: Contained) -> None:
    script = one.folder / "agent"
    script.write_text('echo "ran with $1"; exit 4\n')
    script.chmod(0o755)
    one.start(str(script), "this")
    assert one.ended() in {(4, None), (None, None)}
    one.shows("ran with this")
