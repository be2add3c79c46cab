"""A controller that runs in a box, and a GitHub that sends it webhooks."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import signal
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.kit import Box
from tests.support import wait_until

SECRET = "It's a Secret to Everybody"
ENV = {"THE_LOOP_GH_WEBHOOK_SECRET": SECRET}


@dataclass(frozen=True)
class Answer:
    status: int
    text: str


class Running:
    """`loopctl run` in a box. Use it as a context manager; what it said on stderr is in `log`."""

    def __init__(self, box: Box, *args: str, webhook: bool = False) -> None:
        self.box = box
        self.file = box.folder / f"controller-{uuid.uuid4().hex[:6]}.log"
        if webhook:
            box.settings.setdefault("webhooks", {}).setdefault("ghWebhook", {})["port"] = 0
            box.write_config()
            args = (*args, "--webhook")
        with self.file.open("wb") as stderr:
            self.process = box.popen("run", *args, env=ENV if webhook else {}, stderr=stderr, stdout=subprocess.DEVNULL)
        self.said("listening for webhooks" if webhook else "started")

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def log(self) -> list[dict[str, Any]]:
        lines = self.file.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    def find(self, message: str, **fields: object) -> list[dict[str, Any]]:
        return [
            row for row in self.log if row["message"] == message and all(row.get(k) == v for k, v in fields.items())
        ]

    def said(self, message: str, count: int = 1, **fields: object) -> dict[str, Any]:
        """Wait until it has said this as often."""

        def said_or_dead() -> bool:
            assert self.process.poll() is None or len(self.find(message, **fields)) >= count, self.file.read_text()
            return len(self.find(message, **fields)) >= count

        wait_until(said_or_dead, what=f"{message} {fields}")
        return self.find(message, **fields)[-1]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)

    @property
    def address(self) -> str:
        return str(self.find("listening for webhooks")[-1]["address"])

    def get(self, path: str) -> Answer:
        return self._ask("GET", path, None, {})

    def deliver(self, event: str, payload: object, *, delivery: str = "", secret: str = SECRET) -> Answer:
        """Send a signed delivery as GitHub does."""
        body = json.dumps(payload).encode()
        return self._ask("POST", urlsplit(self.address).path, body, headers(event, body, secret, delivery))

    def _ask(self, method: str, path: str, body: bytes | None, fields: dict[str, str]) -> Answer:
        place = urlsplit(self.address)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        try:
            connection.request(method, path, body, fields)
            response = connection.getresponse()
            return Answer(response.status, response.read().decode())
        finally:
            connection.close()


def headers(event: str, body: bytes, secret: str = SECRET, delivery: str = "") -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery or str(uuid.uuid4()),
        "X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
    }


def issue_event(ref: str, action: str, *, actor: str = "octocat", **fields: object) -> dict[str, Any]:
    """The part of an `issues` payload that matters: `octo/app#15`, closed."""
    repo, _, number = ref.partition("#")
    return {
        "action": action,
        "issue": {"number": int(number), "state": "closed" if action == "closed" else "open", **fields},
        "repository": {"full_name": repo, "html_url": f"https://github.com/{repo}"},
        "sender": {"login": actor},
    }


def children_of(pid: int) -> list[int]:
    """The live children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_bytes().rpartition(b") ")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[1]) == pid and fields[0] != b"Z":
            found.append(int(entry.name))
    return found
