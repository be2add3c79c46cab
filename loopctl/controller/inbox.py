"""Where the loop waits: for a signal, and for what the webhook receiver, a process of its own, hands over."""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from loopctl.config import Config
from loopctl.controller.log import ERROR, INFO, WARNING, Log
from loopctl.controller.loop import Hint
from loopctl.controller.routing import missing_events
from loopctl.controller.status import Snapshot
from loopctl.controller.trust import item_from_json
from loopctl.errors import StateError
from loopctl.model.refs import WorkItemRef

#: How often in a row a receiver may die at once before the controller gives up, visibly.
MOST_DEATHS = 5
_SEND_SECONDS = 5.0
_MOST_TEXT = 16 << 20


class Process(Protocol):
    """A receiver that runs: lines of JSON go both ways over its socket; it ends when that is closed."""

    socket: socket.socket

    def end(self) -> int:
        """End it; returns its exit code."""
        ...


class Silence:
    """Nobody sends hints: only a signal ends the waiting. `wakeup` is a descriptor that a signal makes readable."""

    def __init__(self, wakeup: int) -> None:
        """Keep the descriptor."""
        self._wakeup = wakeup

    def wait(self, seconds: float) -> tuple[Hint, ...]:
        """Wait for the time or a signal."""
        ready, _, _ = select.select([self._wakeup], [], [], seconds)
        if ready:
            drain(self._wakeup)
        return ()

    def show(self, snapshot: Snapshot) -> None:
        """Nobody looks."""

    def configure(self, config: Config) -> None:
        """Nothing to configure."""


class Receiver:
    """The worker's end of the webhook receiver. One that dies is started again, unless it cannot live."""

    def __init__(
        self,
        wakeup: int,
        start: Callable[[], Process],
        settings: Callable[[Config], Mapping[str, Any]],
        config: Config,
        log: Log,
    ) -> None:
        """Start it and wait until it listens. Raises StateError with what it says when it cannot."""
        self._wakeup, self._start, self._settings, self._config, self._log = wakeup, start, settings, config, log
        self._snapshot: Snapshot = {}
        self._deaths = 0
        self._text = b""
        self._warn()
        self._begin()

    def wait(self, seconds: float) -> Iterator[Hint]:
        """Wait for hints. A dead receiver is started again; raises StateError when that fails time and again."""
        worker = self._process.socket.fileno()
        ready, _, _ = select.select([self._wakeup, worker], [], [], seconds)
        if self._wakeup in ready:
            drain(self._wakeup)
        if worker in ready:
            yield from self._read()

    def show(self, snapshot: Snapshot) -> None:
        """Hand a snapshot over."""
        self._snapshot = snapshot
        self._send({"snapshot": snapshot})

    def configure(self, config: Config) -> None:
        """Hand other settings over."""
        self._config = config
        self._warn()
        self._send({"settings": self._settings(config)})

    def close(self) -> None:
        """End the receiver."""
        self._process.end()

    def _warn(self) -> None:
        for sentence in missing_events(self._config.webhook.events):
            self._log(WARNING, sentence)

    def _begin(self) -> None:
        self._process, self._text = self._start(), b""
        self._process.socket.settimeout(_SEND_SECONDS)
        self._send({"settings": self._settings(self._config)})
        if self._snapshot:
            self._send({"snapshot": self._snapshot})
        first = self._first_line()
        if "listening" not in first:
            self._process.end()
            raise StateError(str(first.get("error") or "the webhook receiver ended before it listened"))
        self._log(INFO, "listening for webhooks", address=first["listening"])

    def _first_line(self) -> Mapping[str, Any]:
        self._process.socket.settimeout(30.0)
        try:
            while b"\n" not in self._text:
                if not (chunk := self._process.socket.recv(1 << 16)):
                    return {}
                self._text += chunk
        except OSError as error:
            return {"error": f"the webhook receiver does not answer: {error}"}
        finally:
            self._process.socket.settimeout(_SEND_SECONDS)
        line, _, self._text = self._text.partition(b"\n")
        return _message(line)

    def _read(self) -> Iterator[Hint]:
        try:
            chunk = self._process.socket.recv(1 << 20)
        except OSError:
            chunk = b""
        if not chunk or len(self._text) > _MOST_TEXT:
            self._restart()
            return
        *lines, self._text = (self._text + chunk).split(b"\n")
        self._deaths = 0
        for line in lines:
            yield _hint(_message(line))

    def _restart(self) -> None:
        code = self._process.end()
        self._deaths += 1
        self._log(ERROR, "the webhook receiver has ended; starting it again", exit_code=code)
        if self._deaths > MOST_DEATHS:
            raise StateError(f"the webhook receiver ended {self._deaths} times in a row (exit code {code})")
        self._begin()

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._process.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            # Dead or deaf: `wait` sees the end of the stream and starts another one.
            self._shut()

    def _shut(self) -> None:
        try:
            self._process.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


def drain(descriptor: int) -> None:
    """Read away what signals left in a pipe that does not block."""
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:
        return


def _message(line: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _hint(message: Mapping[str, Any]) -> Hint:
    refs = tuple(WorkItemRef.parse(text) for text in message.get("refs", ()))
    told = item_from_json(message["told"]) if message.get("told") else None
    return Hint(refs, message.get("may_start") is True, message.get("ended") is True, told)
