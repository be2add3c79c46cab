"""ports.Processes: shown on the fake and on real, short-lived processes."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from loopctl.adapters import processes_proc
from loopctl.adapters.processes import LocalProcesses, Source
from loopctl.adapters.processes_psutil import Psutil
from loopctl.model.facts import Known
from loopctl.model.processes import ProcessId, ProcessInfo, ProcessTable
from loopctl.ports import Processes
from loopctl.testing import FakeWorld, Habit
from tests.contract.stages import TmuxStage, view
from tests.support import wait_until


class Stage(Protocol):
    port: Processes
    own: int

    def spawn(self, *, stubborn: bool = False, mark: str = "", zombie: bool = False) -> int:
        """A child of this process."""


class FakeStage:
    def __init__(self) -> None:
        self.world = FakeWorld()
        self.port: Processes = self.world.processes
        self.own = self.world.machine.own

    def spawn(self, *, stubborn: bool = False, mark: str = "", zombie: bool = False) -> int:
        habit = Habit(on_term="ignores" if stubborn else "ends", zombie=zombie)
        return self.world.machine.spawn("sh", parent=self.own, mark=mark, habit=habit).id.pid


class RealStage:
    def __init__(self, source: Source | None = None) -> None:
        self.port: Processes = LocalProcesses(source)
        self.own = os.getpid()
        self.children: list[subprocess.Popen[bytes]] = []

    def spawn(self, *, stubborn: bool = False, mark: str = "", zombie: bool = False) -> int:
        trap = "trap '' TERM; " if stubborn else ""
        return self.run(["sh", "-c", f"{trap}echo ready; read line"], mark)

    def run(self, argv: list[str], mark: str) -> int:
        env = {**os.environ, **({"LOOPCTL_SESSION": mark} if mark else {})}
        child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            start_new_session=True,
        )
        self.children.append(child)
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        return child.pid

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.communicate()


@pytest.fixture(params=["fake", "real", "portable"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    if request.param == "fake":
        yield FakeStage()
        return
    real = RealStage(Psutil() if request.param == "portable" else None)
    yield real
    real.close()


def table(stage: Stage) -> ProcessTable:
    fact = stage.port.look()
    assert isinstance(fact, Known)
    return fact.value


def row(stage: Stage, pid: int) -> ProcessInfo:
    found = table(stage).get(pid)
    assert found
    return found


def test_a_process_shows_its_parent_session_and_mark(stage: Stage) -> None:
    pid = stage.spawn(mark="abc-1")
    seen = row(stage, pid)
    assert (seen.ppid, seen.sid, seen.pgid, seen.mark, seen.name) == (stage.own, pid, pid, "abc-1", "sh")
    assert table(stage).marked["abc-1"] == (pid,)
    assert row(stage, stage.spawn()).mark == ""


def test_own_are_this_process_and_its_ancestors(stage: Stage) -> None:
    child = stage.spawn()
    own = table(stage).own
    assert {stage.own, row(stage, stage.own).ppid} <= own
    assert child not in own


def test_a_signal_ends_the_process_and_a_wait_sees_it(stage: Stage) -> None:
    target = row(stage, stage.spawn()).id
    assert stage.port.signal([target], signal.SIGTERM) == {}
    assert stage.port.wait([target], 20) == frozenset()
    assert not table(stage).alive(target)


def test_another_start_time_is_another_process(stage: Stage) -> None:
    target = row(stage, stage.spawn()).id
    assert stage.port.signal([replace(target, start=target.start + "x")], signal.SIGKILL) == {}
    assert table(stage).alive(target)


def test_a_stubborn_process_needs_a_kill(stage: Stage) -> None:
    target = row(stage, stage.spawn(stubborn=True)).id
    stage.port.signal([target], signal.SIGTERM)
    assert stage.port.wait([target], 0.2) == {target}
    stage.port.signal([target], signal.SIGKILL)
    assert stage.port.wait([target], 20) == frozenset()


def test_a_wait_ends_with_the_first_that_ends(stage: Stage) -> None:
    first, second = (row(stage, stage.spawn()).id for _ in range(2))
    stage.port.signal([first], signal.SIGTERM)
    # Whether it ends before the wait begins or during it.
    assert stage.port.wait([first, second], 600) == {second}
    assert stage.port.wait([first, second], 600) == {second}


def test_a_zombie_has_ended(stage: Stage) -> None:
    target = row(stage, stage.spawn(zombie=True)).id
    stage.port.signal([target], signal.SIGKILL)
    wait_until(lambda: not table(stage).alive(target), what="it has ended, though nobody collected it")
    assert stage.port.wait([target], 600) == frozenset()
    assert stage.port.signal([target], signal.SIGTERM) == {}


def test_what_is_gone_is_no_failure_and_init_and_self_are_refused(stage: Stage) -> None:
    assert stage.port.signal([ProcessId(2**22 - 3, "never")], signal.SIGTERM) == {}
    own = row(stage, stage.own).id
    init = ProcessId(1, "x")
    assert set(stage.port.signal([own, init, ProcessId(0, ""), ProcessId(-1, "")], signal.SIGTERM)) == {
        own,
        init,
        ProcessId(0, ""),
        ProcessId(-1, ""),
    }


#: Only its first thread ends; the other one waits for the end of its input.
_HEADLESS = """
import ctypes, os, sys, threading
def rest():
    print("ready", flush=True)
    os.read(0, 1)
    os._exit(0)
threading.Thread(target=rest).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def real() -> Iterator[RealStage]:
    stage = RealStage()
    yield stage
    stage.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the first thread is the process")
def test_a_process_whose_first_thread_has_ended_is_alive_and_shows_what_it_is(real: RealStage) -> None:
    pid = real.run([sys.executable, "-c", _HEADLESS], mark="abc-2")
    wait_until(
        lambda: " Z " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8"), what="its first thread has ended"
    )
    seen = row(real, pid)
    assert (seen.mark, seen.argv[:2]) == ("abc-2", (sys.executable, "-c"))
    assert real.port.wait([seen.id], 0) == {seen.id}
    assert real.port.signal([seen.id], signal.SIGKILL) == {}
    assert real.port.wait([seen.id], 20) == frozenset()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_process_may_call_itself_what_looks_like_its_other_fields(real: RealStage) -> None:
    calls_itself = "open('/proc/self/comm', 'w').write(') S 1 1 1 (x')"
    pid = real.run([sys.executable, "-c", f"{calls_itself}; print('ready', flush=True); input()"], mark="abc-3")
    seen = row(real, pid)
    assert (seen.name, seen.ppid, seen.sid, seen.mark) == (") S 1 1 1 (x", real.own, pid, "abc-3")
    # Its start was read from the right field: the signal finds it.
    assert real.port.signal([seen.id], signal.SIGKILL) == {}
    assert real.port.wait([seen.id], 20) == frozenset()


@pytest.fixture
def few_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def open_files() -> int:
    return max(int(file.name) for file in Path("/dev/fd").iterdir())


def test_with_few_files_left_many_are_waited_for_all_the_same(real: RealStage, few_files: None) -> None:
    targets = [row(real, real.spawn()).id for _ in range(6)]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Fewer numbers are free than there are targets.
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 4, hard))
    assert real.port.wait(targets, 0.1) == set(targets)
    assert real.port.signal(targets, signal.SIGKILL) == {}
    wait_until(lambda: real.port.wait(targets, 0) == frozenset(), what="they have ended")


def test_with_no_file_left_nothing_is_raised_and_nothing_is_signalled(real: RealStage, few_files: None) -> None:
    target = row(real, real.spawn()).id
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    assert real.port.wait([target], 0.1) == {target}
    assert "too many open files" in real.port.signal([target], signal.SIGKILL)[target]
    assert real.port.wait([target], 0) == {target}


def test_of_a_machine_that_shows_all_the_table_is_whole(stage: Stage) -> None:
    assert not table(stage).partial


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("who", ["one", "init"])
@pytest.mark.parametrize("error", [errno.EACCES, errno.EPERM, errno.ENOENT])
def test_what_the_machine_hides_is_not_taken_for_ended(
    real: RealStage, monkeypatch: pytest.MonkeyPatch, who: str, error: int
) -> None:
    target = row(real, real.spawn()).id
    hidden = f"/proc/{target.pid if who == 'one' else 1}/"

    def hiding(path: str, *args: object, **more: object) -> object:
        if path.startswith(hidden):
            raise OSError(error, os.strerror(error))
        return open(path, *args, **more)  # type: ignore[call-overload]  # noqa: PTH123

    monkeypatch.setattr(processes_proc, "open", hiding, raising=False)
    # One that is as if it were not there cannot be told from none, but there is always an init.
    assert table(real).partial == (who == "init" or error != errno.ENOENT)
    assert real.port.wait([target], 0) == {target}
    assert (real.port.signal([target], signal.SIGCONT) == {}) == (who == "init")


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="namespaces are made by root, on Linux")
def test_a_pane_of_another_world_of_numbers_is_no_pane_of_ours(
    real: RealStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "/run/tmux,7,0")
    monkeypatch.setenv("TMUX_PANE", "%0")
    outer = real.run(["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", "echo ready; read line"], "abc-1")
    mine, inner = row(real, outer), table(real).children[outer]
    assert mine.pane == ("/run/tmux,7,0", "%0")
    assert [(row(real, pid).pane, row(real, pid).mark) for pid in inner] == [(("", ""), "abc-1")]


@pytest.mark.parametrize(
    ("cgroups", "service"),
    [
        (b"0::/user.slice/user-1000.slice/user@1000.service/app.slice/notes.service\n", "notes.service"),
        (b"12:pids:/system.slice/cron.service\n1:name=systemd:/system.slice/cron.service\n0::/\n", "cron.service"),
        (b"0::/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1234.scope\n", ""),
        (b"0::/user.slice/user-1000.slice/session-3.scope\n", ""),
        (b"0::/\n", ""),
        (b"", ""),
    ],
)
def test_which_service_a_process_runs_in(cgroups: bytes, service: str) -> None:
    assert processes_proc._service(cgroups) == service


@pytest.mark.tmux
def test_a_tmux_server_began_when_it_says(tmux_socket: str, tmp_path: Path) -> None:
    stage = TmuxStage(tmux_socket, tmp_path)
    stage.foreign("somebody")
    seen = view(stage)
    looked = LocalProcesses().look()
    assert seen.server
    assert isinstance(looked, Known)
    row = looked.value.get(seen.server.pid)
    assert row
    assert row.started_at is not None
    assert abs(row.started_at - seen.server.start) <= 3
