"""What the webhook receiver remembers, and what it has been told."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loopctl.controller.routing import Routed
from loopctl.controller.status import Snapshot

_MOST_PENDING = 10_000

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
    _deliveries: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _bodies: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def is_new(self, delivery: str) -> bool:
        """Whether a delivery was not seen before, and remember it."""
        return self._remember(self._deliveries, delivery)

    def is_new_body(self, body: bytes) -> bool:
        """The same for a body: its name is not signed, so what is sent again may go by another one."""
        return self._remember(self._bodies, hashlib.sha256(body).hexdigest())

    def _remember(self, memory: OrderedDict[str, None], name: str) -> bool:
        if name in memory:
            memory.move_to_end(name)
            return False
        memory[name] = None
        while len(memory) > self.settings.remembered:
            memory.popitem(last=False)
        return True

    def hand_over(self, routed: Routed, told: str) -> None:
        """Put a hint where the worker gets it; the same hint twice is one. What was dropped only tells."""
        refs = () if routed.dropped else tuple(map(str, routed.refs))
        if (refs or told) and len(self.pending) < _MOST_PENDING:
            self.pending[refs, routed.may_start, bool(refs) and routed.ends, told] = None
            self.news.set()

    async def hints(self) -> AsyncIterator[bytes]:
        """Lines for the worker, as they come."""
        while True:
            await self.news.wait()
            self.news.clear()
            while self.pending:
                (refs, may_start, ended, told), _ = self.pending.popitem(last=False)
                hint = {"refs": refs, "may_start": may_start, "ended": ended}
                yield json.dumps(hint | ({"told": json.loads(told)} if told else {})).encode() + b"\n"
