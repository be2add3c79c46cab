"""Every identity of a record must agree with what is seen, else it is unknown, never absent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loopctl.model.facts import Known, Unknown
from loopctl.model.processes import ProcessId
from loopctl.model.sessions import ServerId
from loopctl.testing import FakeWorld, SimRecord
from tests.unit.playbooks import ending

Spoil = Callable[[FakeWorld, SimRecord], object]

MISMATCHES: dict[str, tuple[Spoil, str]] = {
    "no mark": (lambda w, s: setattr(s.session, "mark", ""), "no mark of ours"),
    "another mark": (lambda w, s: setattr(s.session, "mark", "abc-9"), "the mark of session abc-9"),
    "session id": (lambda w, s: w.registry.edit(s.id, session_id="$99"), "the record's session is $99"),
    "pane id": (lambda w, s: w.registry.edit(s.id, pane_id="%0"), "identity mismatch"),
    "process": (lambda w, s: w.registry.edit(s.id, pane=ProcessId(900, "x")), "the record's process is 900"),
    "start time": (
        lambda w, s: w.registry.edit(s.id, pane=ProcessId(s.process.pid if s.process else 0, "x")),
        "another start time",
    ),
    "server": (lambda w, s: w.registry.edit(s.id, server=ServerId(4242, 1)), "4242"),
    "name": (lambda w, s: w.registry.edit(s.id, name="somebody"), "the record's name somebody is another session's"),
    "hanging server": (lambda w, s: setattr(w.servers.at(w.socket), "hangs", True), "did not answer"),
    "deleted socket": (lambda w, s: w.servers.unlink(w.socket), "cannot be reached"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_a_mismatch_is_a_doubt_that_names_it(name: str) -> None:
    world = FakeWorld()
    world.keep_alive()
    agent = world.session("demo/app#1")
    assert world.phase(agent) == "running"
    spoil, said = MISMATCHES[name]
    spoil(world, agent)
    sighting = world.view(agent).sighting
    assert isinstance(sighting, Unknown)
    assert said in sighting.reason


@pytest.mark.parametrize("phase", ["running", "paused", "exited", "lost", "undead", "retained", "gone"])
def test_each_phase_is_seen_as_it_was_made(phase: str) -> None:
    world = FakeWorld()
    assert world.phase(world.session("demo/app#1", phase)) == phase


def test_a_renamed_session_is_still_ours() -> None:
    world = FakeWorld()
    agent = world.session("demo/app#1")
    assert agent.session
    agent.session.name = "elsewhere"
    assert world.phase(agent) == "running"


def test_a_record_that_was_never_bound_is_found_by_its_mark() -> None:
    world = FakeWorld()
    agent = world.session("demo/app#1", server=None, session_id="", pane_id="", pane=None)
    sighting = world.view(agent).sighting
    assert isinstance(sighting, Known)
    assert sighting.value.pane and agent.pane
    assert sighting.value.pane.pane_id == agent.pane.pane_id


def test_ids_of_a_server_that_ended_are_not_those_of_the_next() -> None:
    world = FakeWorld()
    agent = world.session("demo/app#1")
    world.servers.stop(world.socket)
    world.machine.advance(5)
    world.foreign("after")
    assert world.phase(agent) == "lost"


def test_a_server_whose_number_a_later_one_has_is_gone() -> None:
    world = FakeWorld()
    agent = world.session("demo/app#1")
    server = world.servers.ensure(world.socket).id
    world.servers.stop(world.socket)
    for started_at in (server.start + 3.5, server.start, None):
        world.machine.spawn("tmux: server", pid=server.pid, started_at=started_at)
        assert world.phase(agent) == "lost"
        world.machine.end(server.pid)


def test_of_a_record_that_names_no_process_the_clock_must_tell_which_server_it_is() -> None:
    world = FakeWorld()
    agent = world.session("demo/app#1", pane=None)
    server = world.servers.ensure(world.socket).id
    world.servers.stop(world.socket)
    for started_at, phase in ((server.start + 3.5, "lost"), (server.start + 2.5, None), (None, None)):
        world.machine.spawn("tmux: server", pid=server.pid, started_at=started_at)
        assert world.phase(agent) == phase
        world.machine.end(server.pid)


def test_a_clock_that_was_set_hides_no_server() -> None:
    """Its socket was cleaned away, and tmux tells its start by another clock than the kernel does now."""
    world = FakeWorld()
    agent = world.session("demo/app#1")
    server = world.servers.ensure(world.socket)
    world.servers.unlink(world.socket)
    row = world.machine.processes[server.id.pid]
    row.row = replace(row.row, started_at=server.id.start + 3600.0)
    sighting = world.view(agent).sighting
    assert isinstance(sighting, Unknown)
    assert "still runs but cannot be reached" in sighting.reason
    assert world.plan(ending()).actions == ()


@pytest.mark.parametrize("status", ["active", "closed"])
def test_a_pane_of_the_next_server_is_a_strangers_though_all_numbers_are_the_same(status: str) -> None:
    """Where numbers are given anew, as in a container that starts again, server and pane get those of the last time."""
    world = FakeWorld()
    server = world.servers.ensure(world.socket).id
    stranger = world.foreign("somebody").panes[0]
    assert stranger.pid
    editor = world.machine.processes[stranger.pid]
    editor.row = replace(editor.row, pane=(f"{world.socket},{server.pid},0", stranger.pane_id))
    world.item("demo/app#1", "closed")
    agent = world.session(
        "demo/app#1", "gone", server=replace(server, start=server.start - 5000), pane_id=stranger.pane_id, status=status
    )
    world.apply(world.plan(ending()))
    assert world.phase(agent) == "gone"
    assert world.machine.alive(editor.id)
    assert not any(effect.what == "signal" for effect in world.machine.effects)


@pytest.mark.parametrize("phase", ["lost", "gone"])
def test_a_name_that_is_used_again_is_no_doubt_about_a_pane_that_is_gone(phase: str) -> None:
    world = FakeWorld()
    world.keep_alive()
    agent = world.session("demo/app#1", phase)
    world.foreign("loop-items-demo-app-1")
    assert world.phase(agent) == phase


def test_a_pid_that_went_to_another_process_is_not_the_agent() -> None:
    world = FakeWorld()
    agent = world.session("demo/app#1")
    assert agent.pane and agent.process
    agent.pane.late = True
    world.machine.reuse(agent.process.pid)
    assert world.phase(agent) is None


@pytest.mark.parametrize("phase", ["running", "exited"])
def test_a_record_that_was_never_bound_is_not_lost_while_its_server_is_hidden(phase: str) -> None:
    world = FakeWorld()
    world.keep_alive()
    agent = world.session("demo/app#1", phase, server=None, session_id="", pane_id="", pane=None)
    world.servers.unlink(world.socket)
    world.servers.open(world.socket, "of another server")
    sighting = world.view(agent).sighting
    assert isinstance(sighting, Unknown)
    assert "cannot be reached" in sighting.reason


def test_a_server_of_another_socket_hides_nothing() -> None:
    world = FakeWorld()
    agent = world.session("demo/app#1", server=None, session_id="", pane_id="", pane=None)
    world.servers.stop(world.socket)
    world.foreign("somebody", socket="/elsewhere")
    world.servers.unlink("/elsewhere")
    world.machine.spawn("tmux: client", argv=("tmux", "-S", world.socket))
    assert world.phase(agent) == "lost"
