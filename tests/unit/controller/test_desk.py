"""The receiver against those who flood it: what it keeps, what it writes, and which connections stay open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from loopctl.controller import connections, desk
from loopctl.controller.connections import Connection
from loopctl.controller.desk import Desk, Settings
from loopctl.controller.routing import Routed
from loopctl.model.refs import WorkItemRef


def routed(number: int) -> Routed:
    return Routed((WorkItemRef.parse(f"github:octo/app#{number}"),), "octocat")


class Made(Desk):
    """One with a clock of its own."""

    def __init__(self) -> None:
        self.time, self.rows = 0.0, []  # type: ignore[var-annotated]
        super().__init__(
            "secret",
            Settings(frozenset(), frozenset(), 100),
            lambda name, level, **fields: self.rows.append(fields),
            clock=lambda: self.time,
        )


def test_a_delivery_without_room_is_not_seen_before_when_it_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_MOST_PENDING", 1)
    made = Made()
    assert made.take("a", b"a", routed(1), "{}")
    assert made.take("b", b"b", routed(1), "{}"), "the same hint needs no room"
    assert not made.take("c", b"c", routed(2), "{}")
    assert (made.is_new("a"), made.is_new("b"), made.is_new("c")) == (False, False, True)
    assert (made.is_new_body(b"a"), made.is_new_body(b"c")) == (False, True)
    made.pending.clear()
    assert made.take("c", b"c", routed(2), "{}")
    assert (made.is_new("c"), made.is_new_body(b"c")) == (False, False)


def test_strangers_cannot_fill_the_event_log() -> None:
    made = Made()
    for second in range(1, 150):
        made.time = float(second)
        made.refused(401, "the signature is wrong", {})
    assert [row["unlogged"] for row in made.rows] == [None, 59, 59]
    assert made.counts["rejected"] == 149


class Loop:
    """Nothing in it happens by itself."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_later(self, seconds: float, what: Callable[[], None], *_: Any) -> Loop:
        if seconds == connections.REQUEST_SECONDS:
            self.due = [what]
        return self

    def cancel(self) -> None:
        """A timer is this loop too."""

    def create_task(self, task: Coroutine[Any, Any, None], **_: Any) -> Loop:
        task.close()
        return self

    def add_done_callback(self, what: object) -> None:
        """A task is this loop too, and never done."""


class Transport(asyncio.Transport):
    closed = False

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        """Nothing comes by itself."""

    resume_reading = pause_reading

    def write(self, data: object) -> None:
        """Nobody reads."""


def connected(loop: Loop, state: ServerState) -> tuple[Connection, Transport]:
    config = uvicorn.Config(lambda scope: None, log_config=None, lifespan="off")
    made, transport = Connection(config, state, {}, loop), Transport()  # type: ignore[arg-type]
    made.connection_made(transport)
    return made, transport


HEAD = b"POST /gh-webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"


@pytest.mark.parametrize(("sent", "closes"), [(b"", True), (HEAD, True), (HEAD + b"\r\n", False)])
def test_a_connection_that_keeps_its_request_to_itself_is_closed(sent: bytes, closes: bool) -> None:
    loop = Loop()
    made, transport = connected(loop, ServerState())
    if sent:
        made.data_received(sent)
    (late,) = loop.due
    late()
    assert transport.closed is closes


def test_one_that_was_answered_may_not_begin_another_request_and_stop() -> None:
    loop = Loop()
    made, transport = connected(loop, ServerState())
    made.data_received(HEAD + b"\r\nhello")
    made.cycle.response_complete = True
    loop.due.clear()
    made.on_response_complete()
    made.data_received(HEAD)
    (late,) = loop.due
    late()
    assert transport.closed


def test_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 2)
    state = ServerState()
    assert [connected(Loop(), state)[1].closed for _ in range(4)] == [False, False, True, True]
