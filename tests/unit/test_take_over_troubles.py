"""Taking a session over while the world is not as it should be: nothing is registered, and the reason is said."""

from __future__ import annotations

from typing import Any

import pytest

from loopctl.errors import StateError
from loopctl.executor.seen import look
from loopctl.executor.take_over import TakeOver, take_over
from loopctl.model.refs import WorkItemRef
from loopctl.testing import FakeWorld
from loopctl.testing.servers import SimSession

REF = WorkItemRef.parse("demo/app#1", "items")


def world() -> tuple[FakeWorld, SimSession]:
    made = FakeWorld()
    made.keep_alive()
    return made, made.foreign("agent")


def asked(made: FakeWorld) -> TakeOver:
    return TakeOver(REF, "claude", made.socket, "agent")


def refused(made: FakeWorld, reason: str) -> None:
    with pytest.raises(StateError, match=reason):
        take_over(asked(made), made.world)
    assert made.registry.records == {}


def test_a_socket_is_an_absolute_path() -> None:
    made, _ = world()
    with pytest.raises(StateError, match="no absolute path"):
        look("tmux.sock", made.world)


def test_processes_that_cannot_be_seen() -> None:
    made, _ = world()
    made.faults.fail("processes", "look", reason="hidden from us")
    refused(made, "hidden from us")


def test_a_pane_whose_process_is_not_there_is_looked_at_again_and_then_refused() -> None:
    made, session = world()
    session.panes[0].late = True
    made.machine.end(session.panes[0].pid)
    before = made.machine.time
    refused(made, "which is not running")
    assert made.machine.time > before


def test_a_mark_that_is_none_of_ours() -> None:
    made, session = world()
    session.mark = "abc"
    refused(made, "a mark that loopctl does not give: abc")


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (lambda made, session: made.servers.drop(session.panes[0]), "has vanished meanwhile"),
        (lambda made, session: setattr(session, "mark", "0" * 8), "carries the mark 00000000"),
        (lambda made, session: _server_anew(made), "another tmux server answers now"),
    ],
)
def test_what_changes_between_the_record_and_the_mark_leaves_no_record(
    monkeypatch: pytest.MonkeyPatch, what: Any, reason: str
) -> None:
    made, session = world()
    really = made.registry.add

    def add(record: Any) -> Any:
        added = really(record)
        what(made, session)
        return added

    monkeypatch.setattr(made.registry, "add", add)
    refused(made, reason)


def _server_anew(made: FakeWorld) -> None:
    made.servers.stop(made.socket)
    made.machine.advance(5)
    made.foreign("agent")


def test_a_session_that_was_registered_half_way_and_cannot_be_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    made, session = world()
    record = take_over(asked(made), made.world)
    session.mark = ""
    monkeypatch.setattr(made.terminals, "mark", lambda *_: "tmux did not answer")
    with pytest.raises(StateError, match="could not be marked: its session carries no mark: tmux did not answer"):
        take_over(asked(made), made.world)
    monkeypatch.undo()
    assert take_over(asked(made), made.world).id == record.id
    assert session.mark == record.id
