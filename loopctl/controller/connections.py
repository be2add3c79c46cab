"""Connections to the webhook receiver: there are only so many, and none may keep its request to itself for ever."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

#: How long the head of a request may take, and its body.
REQUEST_SECONDS = 30.0
#: Fewer than the files that a process may have open.
MOST_CONNECTIONS = 500


class Connection(H11Protocol):
    """One of uvicorn's, which closes itself when it has no whole head of a request in time."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request, where there is room."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.close()
            return
        self._wait()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        if self._late:
            self._late.cancel()

    def _wait(self) -> None:
        if self._late:
            self._late.cancel()
        self._late = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _give_up(self) -> None:
        # A request that is being answered has a limit for its body.
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
