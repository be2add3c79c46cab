"""The process around the webhook receiver: its listening socket, its talk with the worker, its end."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn
from watchfiles import Change, awatch

from loopctl.controller import metrics
from loopctl.controller.connections import Connection
from loopctl.controller.desk import Desk, Emit, Settings
from loopctl.controller.webhook import build_app

#: One message of the worker.
_MOST_LINE = 4 << 20


def serve(worker: socket.socket, environ: Mapping[str, str], make_emit: Callable[[Mapping[str, Any]], Emit]) -> None:
    """Serve until the worker's end of the socket is closed. `make_emit` makes the event log from the first message."""
    # Only the worker ends us: an interrupt from the keyboard, or of a whole control group, is his to answer.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    asyncio.run(_serve(worker, environ, make_emit))


async def _serve(
    worker: socket.socket, environ: Mapping[str, str], make_emit: Callable[[Mapping[str, Any]], Emit]
) -> None:
    reader, writer = await asyncio.open_connection(sock=worker, limit=_MOST_LINE)
    first = json.loads(await reader.readline())["settings"]
    secret = "" if first["insecure"] else environ.get(first["secret_env"], "")
    desk = Desk(secret, Settings.parse(first), make_emit(first))
    try:
        listening = listen(first["host"], first["port"])
    except OSError as error:
        _say(writer, {"error": f"cannot listen on {first['host']} port {first['port']}: {error.strerror or error}"})
        await writer.drain()
        return
    server = _server(desk, first["path"])
    host, port = listening.getsockname()[:2]
    _say(writer, {"listening": f"http://{f'[{host}]' if ':' in host else host}:{port}{first['path']}"})
    tasks = [
        asyncio.create_task(server.serve(sockets=[listening])),
        asyncio.create_task(_hand_over(desk, writer)),
        asyncio.create_task(_listen_to_worker(reader, desk)),
        asyncio.create_task(_watch(first["files"], writer)),
    ]
    try:
        # Whichever ends first, the others are of no use without it.
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError."""
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    made = socket.socket(family)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(2048)
    except OSError:
        made.close()
        raise
    return made


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the worker's."""
        yield


def _server(desk: Desk, path: str) -> uvicorn.Server:
    def now() -> datetime:
        return datetime.now(UTC)

    app = build_app(desk, path, lambda snapshot, counts: metrics.render(snapshot, counts, now()), now)
    config = uvicorn.Config(
        app,
        log_level="critical",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        http=Connection,
        ws="none",
        timeout_keep_alive=5,
        backlog=2048,
    )
    return _Server(config)


async def _hand_over(desk: Desk, writer: asyncio.StreamWriter) -> None:
    async for line in desk.hints():
        writer.write(line)
        await writer.drain()


async def _listen_to_worker(reader: asyncio.StreamReader, desk: Desk) -> None:
    while line := await reader.readline():
        message = json.loads(line)
        if "snapshot" in message:
            desk.snapshot = message["snapshot"]
        if "settings" in message:
            desk.settings = Settings.parse(message["settings"])


async def _watch(files: Sequence[str], writer: asyncio.StreamWriter) -> None:
    """Wake the worker when one of these files changes. Editors replace files, so their folders are watched."""
    names = {str(Path(file).absolute()) for file in files}
    folders = {str(Path(name).parent) for name in names if Path(name).parent.is_dir()}

    def ours(change: Change, path: str) -> bool:
        return path in names

    # Where nothing can be watched (no inotify left, a folder that goes away) the worker compares before each look anyway.
    with suppress(OSError, RuntimeError):
        if folders:
            async for _ in awatch(*folders, watch_filter=ours, recursive=False, debounce=200):
                _say(writer, {"files": True})
                await writer.drain()
    await asyncio.Event().wait()


def _say(writer: asyncio.StreamWriter, message: Mapping[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
