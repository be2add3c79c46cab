"""Starting: the record first, then the pane, never two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.plan import CHANGED, FAILED, RECORD, START, Result
from loopctl.model.processes import ProcessTable
from loopctl.model.sessions import RETAINED
from loopctl.ports import Started, StartSpec
from loopctl.run import apply_plan
from loopctl.testing import FakeWorld
from tests.unit.playbooks import running


def world() -> FakeWorld:
    made = FakeWorld()
    made.item("demo/app#1", labels=("loop",))
    return made


def start(made: FakeWorld) -> Result:
    (result,) = made.apply(made.plan(running())).results
    return result


def live(made: FakeWorld) -> list[str]:
    return [session.name for server in made.servers.all for session, pane in server.each() if not pane.dead]


def test_the_record_comes_before_the_pane_and_gets_its_identities_after() -> None:
    made = world()
    assert start(made).status == CHANGED
    assert [(e.what, e.detail) for e in made.machine.effects] == [
        ("record", "add"),
        ("start", ""),
        ("record", "active"),
    ]
    (record,) = made.registry.records.values()
    assert record.server and record.pane and record.pane_id and record.session_id
    assert made.plan(running()).actions == ()


def test_a_process_that_shows_no_environment_yet_is_the_one_that_its_server_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = world()
    plan, look = made.plan(running()), made.processes.look

    def forked_only() -> Fact[ProcessTable]:
        fact = look()
        assert isinstance(fact, Known)
        return Known(ProcessTable.of(replace(row, mark="") for row in fact.value.processes.values()))

    monkeypatch.setattr(made.processes, "look", forked_only)
    made.apply(plan)
    monkeypatch.undo()
    (record,) = made.registry.records.values()
    assert record.pane and made.machine.alive(record.pane)


def test_a_record_that_does_not_name_its_process_learns_it_by_the_mark_alone() -> None:
    made = world()
    mine = made.session("demo/app#1", pane=None)
    other = made.session("demo/app#2", pane=None)
    made.item("demo/app#2", labels=("loop",))
    assert other.process
    row = made.machine.processes[other.process.pid]
    row.row = replace(row.row, mark="")  # somebody's, for all that is known
    plan = made.plan(running())
    assert [(a.verb, a.ref.number, a.why) for a in plan.actions] == [
        (RECORD, 1, "its record does not name its process")
    ]
    (result,) = made.apply(plan).results
    assert (result.status, result.detail) == (CHANGED, "its record names its process")
    assert made.record(mine).pane == mine.process
    assert made.plan(running()).actions == ()


@pytest.mark.parametrize("asked_at", [0.0, None])
def test_a_record_knows_its_item_also_where_nobody_asked_again(asked_at: float | None) -> None:
    made = FakeWorld()
    made.item("demo/app#1", labels=("loop",), node_id="I_1")
    apply_plan(made.plan(running()), made.world, asked_at=asked_at)
    assert [record.node_id for record in made.registry.records.values()] == ["I_1"]


def test_a_start_whose_answer_was_lost_is_found_again_and_not_made_twice() -> None:
    made = world()
    made.faults.fail("terminals", "start", reason="tmux did not answer in time")
    assert start(made).status == FAILED
    assert len(made.registry.records) == 1
    mended(made)
    assert len(live(made)) == 1


def mended(made: FakeWorld) -> None:
    """The next apply writes the identities of the pane that was found into the record, and that is all."""
    plan = made.plan(running())
    assert [(a.verb, a.why) for a in plan.actions] == [(RECORD, "its record does not name its pane")]
    assert [(r.status, r.detail) for r in made.apply(plan).results] == [(CHANGED, "its record names its pane")]
    assert all(r.server and r.pane and r.pane_id and r.session_id for r in made.registry.records.values())
    assert {event["pane"] for event in made.journal.of("session.started")} == {
        r.pane_id for r in made.registry.records.values()
    }
    assert (made.plan(running()).actions, made.plan(running()).held) == ((), ())


def test_a_pane_that_comes_when_its_start_is_tried_again_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    slow: list[StartSpec] = []
    really = made.terminals.start

    def silent(socket: str, specs: Sequence[StartSpec]) -> Mapping[str, Fact[Started]]:
        slow.extend(specs)
        return {spec.id: Unknown("tmux did not answer in time") for spec in specs}

    def both(socket: str, specs: Sequence[StartSpec]) -> Mapping[str, Fact[Started]]:
        really(socket, slow)
        return really(socket, specs)

    monkeypatch.setattr(made.terminals, "start", silent)
    assert start(made).status == FAILED
    monkeypatch.setattr(made.terminals, "start", both)
    assert start(made).status == CHANGED
    assert len(live(made)) == 1


def test_a_start_that_tmux_refused_leaves_no_record() -> None:
    made = world()
    made.servers.missing_folders.add("/srv/work")
    assert "is not a folder" in start(made).detail
    assert made.registry.records == {}


def test_a_program_that_is_not_installed_is_said_and_leaves_nothing() -> None:
    made = world()
    made.harnesses["claude"].missing = True
    assert "not installed" in start(made).detail
    assert (made.registry.records, made.servers.all) == ({}, [])


def test_an_agent_that_ends_at_once_leaves_its_pane_to_be_read() -> None:
    made = world()
    made.servers.brief.add("claude")
    assert "ended at once" in start(made).detail
    ((_, pane),) = made.servers.all[0].each()
    assert pane.dead
    ((action,), held) = (lambda plan: (plan.actions, plan.held))(made.plan(running()))
    assert (action.verb, held) == ("resume", ())


def test_a_name_that_somebody_has_is_not_touched() -> None:
    made = world()
    (name,) = [action.after.name for action in made.plan(running()).actions]
    stranger = made.foreign(name)
    assert start(made).status == CHANGED
    assert (stranger.mark, len(live(made))) == ("", 2)


def meanwhile(made: FakeWorld, monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    """Somebody writes to every record while tmux makes the panes; without changes the records are removed."""
    make = made.terminals.start

    def start(socket: str, specs: Sequence[StartSpec]) -> Mapping[str, Fact[Started]]:
        started = make(socket, specs)
        for id_ in list(made.registry.records):
            made.registry.edit(id_, **changes) if changes else made.registry.records.pop(id_)
        return started

    monkeypatch.setattr(made.terminals, "start", start)


def test_a_pause_during_a_start_loses_neither_the_pause_nor_the_identities(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    meanwhile(made, monkeypatch, status="paused")
    assert start(made).status == CHANGED
    (record,) = made.registry.records.values()
    assert record.status == "paused"
    assert record.server and record.pane and record.pane_id and record.session_id


def test_a_record_that_vanishes_during_a_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    meanwhile(made, monkeypatch)
    result = start(made)
    assert result.status == FAILED
    assert "vanished" in result.detail


def test_a_registry_that_fails_after_the_panes_came_leaves_them_to_be_found() -> None:
    made = world()
    made.item("demo/app#2", labels=("loop",))
    made.faults.fail("registry", "replace", kind="raise", reason="disk full")
    first, second = made.apply(made.plan(running())).results
    assert (first.status, second.status) == (FAILED, CHANGED)
    mended(made)
    assert len(live(made)) == 2


def test_a_name_that_somebody_takes_at_the_last_moment_is_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    make = made.terminals.start

    def start_late(socket: str, specs: Sequence[StartSpec]) -> Mapping[str, Fact[Started]]:
        monkeypatch.setattr(made.terminals, "start", make)
        made.foreign(specs[0].name)
        return make(socket, specs)

    made.registry.prove_writable()
    monkeypatch.setattr(made.terminals, "start", start_late)
    assert start(made).status == CHANGED
    (record,) = made.registry.records.values()
    taken = [session for server in made.servers.all for session, _ in server.each() if session.mark == ""]
    assert [session.name + "-2" for session in taken] == [record.name]
    assert made.plan(running()).actions == ()


def test_a_pane_of_ours_that_came_after_all_is_taken_and_no_second_one_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    make = made.terminals.start

    def start_twice(socket: str, specs: Sequence[StartSpec]) -> Mapping[str, Fact[Started]]:
        monkeypatch.setattr(made.terminals, "start", make)
        make(socket, specs)
        return make(socket, specs)

    monkeypatch.setattr(made.terminals, "start", start_twice)
    assert start(made).status == CHANGED
    assert len(live(made)) == 1
    assert made.plan(running()).actions == ()


def test_an_earlier_session_that_somebody_brings_back_to_life_after_the_plan_is_seen() -> None:
    made = world()
    older = made.session("demo/app#1", RETAINED, up_for=7200)
    made.session("demo/app#1", RETAINED)
    plan = made.plan(running())
    assert [action.verb for action in plan.actions] == [START]
    assert older.pane
    server = made.servers.ensure(made.socket)
    agent = made.machine.spawn("claude", parent=server.id.pid, mark=older.id, owner=older.id)
    older.pane.pid, older.pane.dead = agent.id.pid, False
    outcome = made.apply(plan)
    way = f"`loopctl sessions close {older.id[:8]}` ends it"
    assert [held.reason for held in outcome.held] == [f"its session is closed but its agent is alive: {way}"]
    assert [pane for server in made.servers.all for _, pane in server.each() if not pane.dead] == [older.pane]
