"""Sessions follow their item to its new address: records, then marks, and no process."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopctl.cli.output import Progress
from loopctl.cli.sessions_move import move as command
from loopctl.cli.wiring import Setup, Stop
from loopctl.config import load_config
from loopctl.errors import StateError
from loopctl.executor.move import Moved, move
from loopctl.model.refs import WorkItemRef
from loopctl.testing import FakeWorld, SimRecord

OLD = WorkItemRef.parse("demo/app#1", "items")
NEW = WorkItemRef.parse("demo/other#7", "items")


def world(*phases: str) -> tuple[FakeWorld, list[SimRecord]]:
    made = FakeWorld()
    made.keep_alive()
    return made, [made.session("demo/app#1", phase) for phase in phases]


def only(moved: tuple[Moved, ...]) -> Moved:
    (one,) = moved
    return one


def test_all_sessions_of_an_item_move_and_the_marks_with_them() -> None:
    made, (retained, agent) = world("retained", "running")
    moved = move(OLD, NEW, "I_7", made.world)
    assert [one.problem for one in moved] == ["", ""]
    for one in (retained, agent):
        assert (made.record(one).ref, made.record(one).node_id) == (NEW, "I_7")
        assert one.session
        assert one.session.ref == str(NEW)
    assert made.phase(agent) == "running"
    assert {effect.what for effect in made.machine.effects} <= {"record", "mark"}
    assert [event["from"] for event in made.journal.of("session.moved")] == [str(OLD)] * 2


def test_a_move_that_was_cut_off_is_mended_by_asking_again() -> None:
    made, (agent,) = world("running")
    made.registry.edit(agent.id, ref=NEW)
    assert only(move(OLD, NEW, "", made.world)).problem == ""
    assert agent.session
    assert agent.session.ref == str(NEW)


def test_what_has_no_session_does_not_move() -> None:
    made, _ = world()
    with pytest.raises(StateError, match="no session for"):
        move(OLD, NEW, "", made.world)


def test_a_session_at_the_new_address_that_came_from_nowhere_is_no_success() -> None:
    made, _ = world()
    agent = made.session("demo/other#7")
    with pytest.raises(StateError, match=f"no session for {OLD}\\Z"):
        move(OLD, NEW, "", made.world)
    server = made.servers.at(made.socket)
    assert server
    server.hangs = True
    with pytest.raises(StateError, match=f"whether one has moved to {NEW} cannot be told"):
        move(OLD, NEW, "", made.world)
    assert made.machine.effects == []
    assert made.record(agent).ref == NEW


@pytest.mark.parametrize(("told", "kept"), [("", "I_1"), ("I_7", "I_7")])
def test_a_node_id_that_is_known_is_not_forgotten(told: str, kept: str) -> None:
    made, (agent,) = world("running")
    made.registry.edit(agent.id, node_id="I_1")
    move(OLD, NEW, told, made.world)
    assert made.record(agent).node_id == kept


@pytest.mark.parametrize(("node", "refused"), [("I_1", True), ("", False)])
def test_a_silent_source_moves_no_item_that_it_knew(
    node: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, (agent,) = world("running")
    made.registry.edit(agent.id, node_id=node)
    made.item("demo/other#7", silent="Bad Gateway")
    setup = Setup(load_config(None, {"HOME": str(tmp_path)}, tmp_path), made.world, Progress(), Stop())
    monkeypatch.setattr(Setup, "load", lambda *_: setup)
    if refused:
        with pytest.raises(StateError, match="Bad Gateway; nothing was moved"):
            command.main([str(OLD), str(NEW)], standalone_mode=False)
    else:
        assert command.main([str(OLD), str(NEW)], standalone_mode=False) == 0
        assert "not checked: Bad Gateway" in capsys.readouterr().err
    assert made.record(agent).ref == (OLD if refused else NEW)


def test_an_item_that_has_an_open_session_gets_no_second_one() -> None:
    made, (agent,) = world("running")
    made.session("demo/other#7")
    with pytest.raises(StateError, match="already has an open session"):
        move(OLD, NEW, "", made.world)
    assert made.record(agent).ref == OLD
    assert made.machine.effects == []


def test_a_closed_session_moves_beside_an_open_one() -> None:
    made, (ended,) = world("retained")
    made.session("demo/other#7")
    only(move(OLD, NEW, "", made.world))
    assert made.record(ended).ref == NEW


def test_a_session_without_tmux_moves_by_its_record_alone() -> None:
    made, _ = world()
    agent = made.session("demo/app#1", runner="process")
    assert only(move(OLD, NEW, "", made.world)).problem == ""
    assert made.record(agent).ref == NEW


def test_a_pane_that_cannot_be_seen_is_said_and_one_that_is_gone_needs_no_mark() -> None:
    made, (agent,) = world("running")
    server = made.servers.at(made.socket)
    assert server
    server.hangs = True
    assert only(move(OLD, NEW, "", made.world)).problem
    assert made.record(agent).ref == NEW

    made, _ = world("gone")
    assert only(move(OLD, NEW, "", made.world)).problem == ""


def test_a_record_that_changes_meanwhile_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made, (agent,) = world("running")
    monkeypatch.setattr(made.registry, "replace", lambda record: None)
    with pytest.raises(StateError, match="0 of 1 moved"):
        move(OLD, NEW, "", made.world)
    assert made.record(agent).ref == OLD
