"""Contained sessions: which processes are theirs, and how they end, on the fakes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopctl.executor.close_processes import KEEPER_WAIT, Ending
from loopctl.model.plan import CHANGED, FAILED
from loopctl.model.processes import ProcessId, ProcessInfo, ProcessTable, pane_key
from loopctl.model.sessions import RETAINED
from loopctl.model.trees import Tree, TreeRoot, tree_of
from loopctl.testing import POLITE, STUBBORN, FakeWorld, SimProcess, SimRecord
from tests.unit.playbooks import ending

MARK = "abc-1"
SERVER, PANE, KEEPER, AGENT = 50, 100, 101, 102
TMUX = ("/run/tmux,50,0", "%3")
ELSEWHERE = ("/run/user,70,0", "%0")


def process(pid: int, ppid: int, *, sid: int = 0, pgid: int = 0, name: str = "sh", **more: object) -> ProcessInfo:
    return ProcessInfo(ProcessId(pid, f"s{pid}"), ppid, pgid or pid, sid or pid, AGENT, 1000, name, (name,), **more)  # type: ignore[arg-type]


FRONT_ROW = process(PANE, SERVER, sid=PANE, name="keeper:pane", mark=MARK, pane=TMUX)
KEEPER_ROW = process(KEEPER, PANE, sid=PANE, name=f"keeper:{AGENT}", mark=MARK, pane=TMUX)
AGENT_ROW = process(AGENT, KEEPER, sid=PANE, name="claude", mark=MARK, pane=TMUX)
BARE = process(110, KEEPER, name="daemon")


def tree(*rows: ProcessInfo, live: bool = True) -> Tree:
    root = TreeRoot(
        MARK,
        FRONT_ROW.id if live else None,
        pane_key(*TMUX),
        SERVER,
        leader=FRONT_ROW.id,
        others=frozenset({MARK, "abc-2"}),
    )
    return tree_of(ProcessTable.of((process(SERVER, 1, name="tmux: server"), *rows)), root, ())


def pids(rows: tuple[ProcessInfo, ...]) -> list[int]:
    return [row.id.pid for row in rows]


def test_the_harness_is_the_agent_and_never_its_keepers() -> None:
    helper = process(103, AGENT, sid=PANE, pgid=AGENT)
    found = tree(FRONT_ROW, KEEPER_ROW, AGENT_ROW, helper, BARE)
    assert (pids(found.harness), pids(found.rest), pids(found.keepers)) == ([AGENT, 103], [110], [PANE, KEEPER])


def test_a_shell_and_the_job_in_its_foreground_are_the_harness() -> None:
    rows = [replace(row, foreground=104) for row in (FRONT_ROW, KEEPER_ROW, AGENT_ROW)]
    found = tree(*rows, process(104, AGENT, sid=PANE), process(105, AGENT, sid=PANE))
    assert (pids(found.harness), pids(found.rest)) == ([AGENT, 104], [105])


def test_when_the_agent_has_ended_its_keeper_still_says_whose_the_orphan_is() -> None:
    found = tree(replace(KEEPER_ROW, ppid=1), BARE, live=False)
    assert (pids(found.members), pids(found.keepers)) == ([110], [KEEPER])


@pytest.mark.parametrize("tie", [{"mark": MARK}, {"pane": TMUX}, {"sid": PANE}])
def test_beside_a_server_of_others_an_adopted_child_needs_a_tie_of_its_own(tie: dict[str, object]) -> None:
    """It may be what somebody started in that server: the server is below the keeper, and so is all that left it."""
    server = process(111, KEEPER, name="tmux: server", mark=MARK)
    tied = replace(process(112, KEEPER), **tie)  # type: ignore[arg-type]
    found = tree(FRONT_ROW, KEEPER_ROW, AGENT_ROW, server, tied, BARE, process(113, 110))
    assert (pids(found.members), pids(found.spared)) == ([AGENT, 112], [110, 111])


def test_an_adopted_child_of_another_tmux_server_is_somebody_elses() -> None:
    theirs = process(114, KEEPER, mark=MARK, pane=ELSEWHERE)
    found = tree(FRONT_ROW, KEEPER_ROW, AGENT_ROW, theirs, BARE)
    assert (pids(found.members), pids(found.spared)) == ([AGENT, 110], [114])


def contained(*, exited: bool = False) -> tuple[FakeWorld, SimRecord, dict[str, SimProcess]]:
    """A session whose pane's process is a front, with keeper, agent and a child that cut all ties."""
    world = FakeWorld()
    world.item("demo/app#1", "closed")
    record = world.session("demo/app#1")
    assert record.process
    front = world.machine.processes[record.process.pid]
    front.row = replace(front.row, name="keeper:pane")
    machine, row = world.machine, front.row

    def below(parent: SimProcess, name: str) -> SimProcess:
        return machine.spawn(
            name, parent=parent.id.pid, session=row.sid, mark=record.id, pane=row.pane, owner=record.id
        )

    keeper = below(front, "keeper:0")
    agent = below(keeper, "claude")
    keeper.row = replace(keeper.row, name=f"keeper:{agent.id.pid}")
    bare = machine.spawn("daemon", parent=keeper.id.pid, habit=STUBBORN, owner=record.id)
    if exited:
        machine.end(agent.id.pid)
    return world, record, {"front": front, "keeper": keeper, "agent": agent, "bare": bare}


def signals(world: FakeWorld, process: SimProcess) -> list[str]:
    return [e.detail for e in world.machine.effects if e.what == "signal" and e.target == str(process.id.pid)]


@pytest.mark.parametrize("exited", [False, True])
def test_all_below_the_keeper_ends_and_the_keepers_by_themselves(exited: bool) -> None:
    world, _, found = contained(exited=exited)
    (result,) = world.apply(world.plan(ending())).results
    assert result.status == CHANGED, result
    assert not any(world.machine.alive(process.id) for process in found.values())
    assert signals(world, found["agent"]) == ([] if exited else ["SIGTERM"])
    assert signals(world, found["bare"]) == ["SIGTERM", "SIGKILL"]
    assert signals(world, found["front"]) == signals(world, found["keeper"]) == []


def test_a_child_born_during_the_close_is_found_though_nothing_ties_it() -> None:
    world, record, found = contained()
    machine, keeper = world.machine, found["keeper"].id.pid
    born: list[SimProcess] = []
    found["agent"].habit = replace(POLITE, after=1.0)
    machine.later(0.9, lambda: born.append(machine.spawn("late", parent=keeper, habit=STUBBORN, owner=record.id)))
    (result,) = world.apply(world.plan(ending())).results
    assert result.status == CHANGED, result
    assert born and not machine.alive(born[0].id)


def test_a_child_born_when_all_others_were_killed_is_found_too() -> None:
    world, record, found = contained()
    machine, keeper = world.machine, found["keeper"].id.pid
    born: list[SimProcess] = []

    def last(pid: int) -> None:
        if pid == found["bare"].id.pid:
            born.append(machine.spawn("late", parent=keeper, habit=STUBBORN, owner=record.id))

    machine.on_end.insert(0, last)
    (result,) = world.apply(world.plan(ending())).results
    assert result.status == CHANGED, result
    assert born and not machine.alive(born[0].id)
    assert signals(world, found["keeper"]) == []


def test_a_keeper_that_only_keeps_what_is_spared_is_ended_and_that_is_not() -> None:
    world, _, found = contained()
    server = world.machine.spawn("tmux: server", parent=found["keeper"].id.pid)
    before = world.machine.time
    (result,) = world.apply(world.plan(ending())).results
    assert result.status == CHANGED, result
    assert world.machine.alive(server.id) and world.machine.alive(found["bare"].id)
    assert not world.machine.alive(found["keeper"].id)
    assert signals(world, found["keeper"]) == ["SIGKILL"]
    assert world.machine.time - before < 2 * KEEPER_WAIT
    assert "spared" in result.detail and "SIGKILL" not in result.detail


def test_a_keeper_that_nothing_ends_is_named() -> None:
    world, _, found = contained()
    found["keeper"].habit = replace(STUBBORN, unkillable=True)
    world.machine.spawn("tmux: server", parent=found["keeper"].id.pid)
    (result,) = world.apply(world.plan(ending())).results
    assert result.status == FAILED
    assert f"still alive: {found['keeper'].row.label}" in result.detail


def test_the_plan_counts_the_agents_processes_and_not_its_keepers() -> None:
    world, _, found = contained()
    (action,) = world.plan(ending()).actions
    assert set(action.before.processes) == {found["agent"].row.label, found["bare"].row.label}
    assert (action.before.phase, action.after.phase) == ("running", RETAINED)


def test_a_keeper_alone_makes_no_session_undead() -> None:
    keeper_only = Tree(keepers=(KEEPER_ROW,))
    assert keeper_only.members == ()


def test_an_ending_waits_for_its_keepers() -> None:
    going = Ending(TreeRoot(MARK, FRONT_ROW.id, leader=FRONT_ROW.id), 5.0)
    going.rescan(ProcessTable.of((FRONT_ROW, KEEPER_ROW)), ())
    assert going.awaited == {FRONT_ROW.id, KEEPER_ROW.id}
    assert going.has_pane_process
    going.rescan(ProcessTable.of(()), ())
    assert (going.awaited, going.survivors) == (set(), ())
