"""What the webhook receiver remembers, and what it has been told."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loopctl.controller.routing import Routed
from loopctl.controller.status import Snapshot
from loopctl.model.events import WARNING

_MOST_PENDING = 10_000
_QUIET_SECONDS = 60.0

Emit = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a running receiver can be told anew. `authorized` are logins in lower case, `remembered` deliveries.

    `trusts` says that the worker wants to know what signed payloads say of their items.
    """

    events: frozenset[str]
    authorized: frozenset[str]
    remembered: int
    trusts: bool = False

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Settings:
        """From the message of the worker."""
        return cls(
            frozenset(given["events"]), frozenset(given["authorized"]), int(given["remembered"]), given["trusts"]
        )


@dataclass(slots=True)
class Desk:
    """Everything that the receiver remembers, all of it bounded. `emit` is the event log."""

    secret: str
    settings: Settings
    emit: Emit
    snapshot: Snapshot = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    bytes_held: int = 0
    pending: OrderedDict[tuple[tuple[str, ...], bool, bool, str], None] = field(default_factory=OrderedDict)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    clock: Callable[[], float] = time.monotonic
    _quiet_until: float = float("-inf")
    _unlogged: int = 0
    _deliveries: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _bodies: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def is_new(self, delivery: str) -> bool:
        """Whether a delivery was not taken before."""
        return _is_new(self._deliveries, delivery)

    def is_new_body(self, body: bytes) -> bool:
        """The same for a body: its name is not signed, so what is sent again may go by another one."""
        return _is_new(self._bodies, _digest(body))

    def take(self, delivery: str, body: bytes, routed: Routed, told: str) -> bool:
        """Put a hint where the worker gets it, and remember what it came from. False, and nothing of both, where there is no room.

        The same hint twice is one. What was dropped only tells.
        """
        refs = () if routed.dropped else tuple(map(str, routed.refs))
        hint = (refs, routed.may_start, bool(refs) and routed.ends, told)
        if refs or told:
            if hint not in self.pending and len(self.pending) >= _MOST_PENDING:
                return False
            self.pending[hint] = None
            self.news.set()
        self._remember(self._deliveries, delivery)
        if told:
            self._remember(self._bodies, _digest(body))
        return True

    def _remember(self, memory: OrderedDict[str, None], name: str) -> None:
        memory[name] = None
        while len(memory) > self.settings.remembered:
            memory.popitem(last=False)

    def refused(self, status: int, reason: str, headers: Mapping[str, str]) -> None:
        """Count a request that was refused. Anybody can send one: the event log gets no more than one a minute, and how many
        there were beside it."""
        self.counts["rejected"] += 1
        now = self.clock()
        if now < self._quiet_until:
            self._unlogged += 1
            return
        self.emit(
            "webhook.rejected",
            WARNING,
            status=status,
            reason=reason,
            delivery=headers.get("x-github-delivery", "")[:100] or None,
            webhook=headers.get("x-github-event", "")[:100] or None,
            unlogged=self._unlogged or None,
        )
        self._quiet_until, self._unlogged = now + _QUIET_SECONDS, 0

    async def hints(self) -> AsyncIterator[bytes]:
        """Lines for the worker, as they come."""
        while True:
            await self.news.wait()
            self.news.clear()
            while self.pending:
                (refs, may_start, ended, told), _ = self.pending.popitem(last=False)
                hint = {"refs": refs, "may_start": may_start, "ended": ended}
                yield json.dumps(hint | ({"told": json.loads(told)} if told else {})).encode() + b"\n"


def _is_new(memory: OrderedDict[str, None], name: str) -> bool:
    if name not in memory:
        return True
    memory.move_to_end(name)
    return False


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
