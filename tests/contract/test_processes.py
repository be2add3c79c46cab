"""ports.Processes: shown on the fake and on real, short-lived processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import pytest

from loopctl.adapters.processes import LocalProcesses
from loopctl.model.facts import Known
from loopctl.model.processes import ProcessId, ProcessInfo, ProcessTable
from loopctl.ports import Processes
from loopctl.testing import FakeWorld, Habit
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
    def __init__(self) -> None:
        self.port: Processes = LocalProcesses()
        self.own = os.getpid()
        self.children: list[subprocess.Popen[bytes]] = []

    def spawn(self, *, stubborn: bool = False, mark: str = "", zombie: bool = False) -> int:
        trap = "trap '' TERM; " if stubborn else ""
        env = {**os.environ, **({"LOOPCTL_SESSION": mark} if mark else {})}
        child = subprocess.Popen(
            ["sh", "-c", f"{trap}echo ready; read line"],
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


@pytest.fixture(params=["fake", "real"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    if request.param == "fake":
        yield FakeStage()
        return
    real = RealStage()
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
