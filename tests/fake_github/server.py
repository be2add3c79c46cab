"""Serves a World over a Unix socket, as gh's `http_unix_socket` setting expects it."""

from __future__ import annotations

import json
import shutil
import socketserver
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.fake_github.faults import Fault
from tests.fake_github.schema import execute
from tests.fake_github.world import Repository, World

JSON = "application/json; charset=utf-8"


@dataclass(frozen=True)
class Request:
    """What gh sent."""

    method: str
    path: str
    host: str
    authorization: str
    body: bytes
    #: In which format node ids are asked for.
    next_global_id: str = ""

    @property
    def query(self) -> str:
        """The GraphQL text, or ""."""
        return str(json.loads(self.body)["query"]) if self.body else ""


class FakeGitHub(World):
    """A World that answers on a socket. Use it as a context manager; `env()` points a gh at it."""

    def __init__(self, host: str = "github.com", socket: str | None = None) -> None:
        super().__init__(host)
        # Not under pytest's folder: a socket's path has room for about a hundred bytes.
        self._folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="lc-gh-"))
        self.socket = socket or str(self._folder / "s")
        self.requests: list[Request] = []
        self._others: dict[str, World] = {}
        self._faults: deque[Fault | None] = deque()
        self._always: Fault | None = None
        self._released = threading.Event()
        self.arrived = threading.Event()
        self._server = _Server(self.socket, _Handler)
        self._server.fake = self

    def __enter__(self) -> FakeGitHub:
        # The short interval is how long shutdown() may take.
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        Path(self.socket).unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def env(self) -> dict[str, str]:
        """What gh needs in its environment: a config folder that names the socket, and a token for each kind of host."""
        config = self._folder / "gh"
        if not config.exists():
            config.mkdir()
            (config / "config.yml").write_text(f'version: "1"\nhttp_unix_socket: {self.socket}\n')
        return {"GH_CONFIG_DIR": str(config), "GH_TOKEN": "fake-token", "GH_ENTERPRISE_TOKEN": "fake-enterprise-token"}

    def fail(self, fault: Fault, times: int | None = None) -> None:
        """Answer the next `times` requests with a fault; without a number, all until `recover`."""
        if times is None:
            self._always = fault
        else:
            self._faults.extend([fault] * times)

    def fail_later(self, fault: Fault, after: int = 1) -> None:
        """Answer the next `after` requests rightly, and the one that follows with a fault."""
        self._faults.extend([*[None] * after, fault])

    def answer(self, document: object, times: int = 1) -> None:
        """Answer the next requests with this JSON, whatever is asked."""
        self.fail(Fault(200, json.dumps(document).encode(), {"Content-Type": JSON}), times)

    def recover(self) -> None:
        """No more faults."""
        self._always = None
        self._faults.clear()

    def release(self) -> None:
        """Let requests that hang go."""
        self._released.set()

    def next_fault(self) -> Fault | None:
        return self._faults.popleft() if self._faults else self._always

    def at(self, host: str) -> World:
        """Another GitHub behind the same socket, told from this one by the host that is asked."""
        return self._others.setdefault(host, World(host))

    def respond(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        """The right answer to a request."""
        if not request.authorization:
            return _message(401, "This endpoint requires you to be authenticated.")
        world = self._others.get(request.host, self)
        if request.path in ("/graphql", "/api/graphql"):
            sent = json.loads(request.body)
            return 200, {}, json.dumps(execute(world, sent["query"], sent.get("variables"))).encode()
        parts = request.path.removeprefix("/api/v3").strip("/").split("/")
        if len(parts) == 5 and parts[0] == "repos" and parts[3] == "issues":
            name = f"{parts[1]}/{parts[2]}"
            renamed = world.renamed.get(name.lower())
            repo = world.find(name)
            if renamed and repo:
                return _redirect(world, repo, int(parts[4]))
            return _rest_issue(world, repo, int(parts[4]))
        if len(parts) == 4 and parts[0] == "repositories" and parts[2] == "issues":
            return _rest_issue(world, world.by_number(int(parts[1])), int(parts[3]))
        return _message(404, "Not Found")

    def wait_hanging(self, fault: Fault) -> None:
        self._released.wait()


def _rest_issue(world: World, repo: Repository | None, number: int) -> tuple[int, dict[str, str], bytes]:
    if repo is None:
        return _message(404, "Not Found")
    if moved := repo.transferred.get(number):
        home = world.find(moved[0])
        # Where it may not be seen, GitHub does not say that it went there.
        return _redirect(world, home, moved[1]) if home else _message(404, "Not Found")
    if number in repo.deleted:
        return _message(410, "This issue was deleted")
    item = repo.items.get(number)
    if item is None:
        return _message(404, "Not Found")
    path = "issues" if item.kind == "Issue" else "pull"
    row: Mapping[str, Any] = {
        "number": number,
        "state": "open" if item.state == "OPEN" else "closed",
        "html_url": f"https://{world.host}/{repo.name}/{path}/{number}",
        "node_id": item.node_id,
    }
    return 200, {}, json.dumps(row).encode()


def _redirect(world: World, repo: Repository, number: int) -> tuple[int, dict[str, str], bytes]:
    api = "https://api.github.com" if world.host == "github.com" else f"https://{world.host}/api/v3"
    url = f"{api}/repositories/{repo.number}/issues/{number}"
    body = {"message": "Moved Permanently", "url": url, "documentation_url": "https://docs.github.com/rest"}
    return 301, {"Location": url}, json.dumps(body).encode()


def _message(status: int, text: str) -> tuple[int, dict[str, str], bytes]:
    return status, {}, json.dumps({"message": text, "documentation_url": "https://docs.github.com/rest"}).encode()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    fake: FakeGitHub

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A gh that was killed leaves a broken pipe; all else is a mistake in the fake, and shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self._handle()

    def do_GET(self) -> None:
        self._handle()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _handle(self) -> None:
        sent, body = self.headers, self._body()
        request = Request(
            self.command,
            self.path,
            sent.get("Host", ""),
            sent.get("Authorization", ""),
            body,
            sent.get("X-Github-Next-Global-Id", ""),
        )
        fake = self.server.fake
        fake.requests.append(request)
        fake.arrived.set()
        fault = fake.next_fault()
        if fault is None:
            status, headers, answer = fake.respond(request)
            self._send(status, {"Content-Type": JSON, "X-RateLimit-Remaining": str(fake.remaining)} | headers, answer)
        elif fault.hang:
            fake.wait_hanging(fault)
        elif fault.cut is not None:
            _, _, answer = fake.respond(request)
            length = fault.cut if fault.honest_length else len(answer)
            self._send(200, {"Content-Type": JSON}, answer[: fault.cut], length)
        else:
            self._send(fault.status, dict(fault.headers), fault.body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":  # gh knows no length for what it reads from stdin
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, status: int, headers: Mapping[str, str], body: bytes, length: int | None = None) -> None:
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(body) if length is None else length}", "Connection: close", "", ""]
        # One write: two would cost 40 ms each time, with the delayed acknowledgement of the first.
        self.wfile.write("\r\n".join(lines).encode() + body)
        self.close_connection = True
