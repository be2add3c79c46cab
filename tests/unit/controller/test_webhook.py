"""The receiver as the process that it is: what it answers, what it hands over, what it remembers, when it ends."""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from loopctl.adapters.shell_child import Child
from loopctl.config import load_config
from loopctl.controller.inbox import MOST_DEATHS, Receiver, Silence
from loopctl.controller.log import Log
from loopctl.controller.loop import Hint
from loopctl.controller.routing import DEFAULT_EVENTS
from loopctl.controller.status import stamp
from loopctl.errors import StateError
from tests.e2e.controller import SECRET, headers, issue_event
from tests.payloads import payload as whole_payload
from tests.payloads import pull as whole_pull
from tests.support import wait_until

PATH = "/gh-webhook"
JSON = "application/json"


class Post:
    """A running receiver, and the worker's end of it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.log_file = folder / "events.jsonl"
        self.settings = {
            "host": "127.0.0.1",
            "port": 0,
            "path": PATH,
            "secret_env": "HOOK_SECRET",
            "insecure": False,
            "events": list(DEFAULT_EVENTS),
            "authorized": ["octocat"],
            "remembered": 1024,
            "trusts": False,
            "event_log": {"enabled": True, "path": str(self.log_file), "max_bytes": 0},
            "files": [],
        } | settings
        reading, self._writing = os.pipe()
        os.set_blocking(reading, False)
        self.said: list[tuple[str, str, dict[str, Any]]] = []
        post = self

        class Said(Log):
            def __call__(self, level: str, message: str, **fields: Any) -> None:
                post.said.append((level, message, fields))

        config = load_config(None, {}, Path("/"))
        log = Said(lambda text: None, lambda: datetime.now(UTC), as_json=True)
        self.children: list[Child] = []
        self.receiver = Receiver(reading, self._start, lambda config: self.settings, config, log)
        self.config = config

    def _start(self) -> Child:
        child = Child([sys.executable, "-P", "-m", "loopctl.cli.receive"], os.environ | {"HOOK_SECRET": SECRET})
        self.children.append(child)
        return child

    @property
    def port(self) -> int:
        address = [fields["address"] for _, message, fields in self.said if message.startswith("listening")][-1]
        return int(address.rpartition(":")[2].partition("/")[0])

    def ask(
        self, method: str = "POST", path: str = PATH, body: bytes | None = None, fields: dict[str, str] | None = None
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, fields or {})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def send(self, payload: object, event: str = "issues", delivery: str = "", **fields: str) -> tuple[int, str]:
        body = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
        sent = headers(event, body, delivery=delivery) | {
            name.replace("_", "-"): value for name, value in fields.items()
        }
        return self.ask(body=body, fields={name: value for name, value in sent.items() if value != "-"})

    def hints(self, count: int) -> list[Hint]:
        """Wait for so many."""
        found: list[Hint] = []
        wait_until(lambda: (found.extend(self.receiver.wait(0.1)), len(found) >= count)[1], what=f"{count} hints")
        return found

    def silent(self) -> bool:
        """Whether nothing has come; a delivery that surely is handed over comes last."""
        self.send(issue_event("octo/last#1", "closed"))
        return [str(ref) for hint in self.hints(1) for ref in hint.refs] == ["github:octo/last#1"]

    def events(self, name: str) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in self.log_file.read_text().splitlines()]
        return [row for row in rows if row["event"] == name]

    def close(self) -> None:
        self.receiver.close()
        os.close(self._writing)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Post]:
    post = Post(tmp_path_factory.mktemp("post"))
    yield post
    post.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Any]:
    made: list[Post] = []

    def make(**settings: Any) -> Post:
        made.append(Post(tmp_path, **settings))
        return made[-1]

    yield make
    for post in made:
        post.close()


CLOSED = issue_event("octo/app#1", "closed")


def test_a_signed_delivery_is_accepted_and_handed_over(shared: Post) -> None:
    assert shared.send(CLOSED) == (202, "accepted\n")
    (hint,) = shared.hints(1)
    assert ([str(ref) for ref in hint.refs], hint.may_start) == (["github:octo/app#1"], False)
    assert shared.send(issue_event("octo/app#1", "labeled")) == (202, "accepted\n")
    (hint,) = shared.hints(1)
    assert hint.may_start


FORGED = {
    "no header": {"X-Hub-Signature-256": "-"},
    "empty": {"X-Hub-Signature-256": ""},
    "SHA-1 only": {"X-Hub-Signature-256": "-", "X-Hub-Signature": "sha1=" + "0" * 40},
    "SHA-1 in its place": {"X-Hub-Signature-256": "sha1=" + "0" * 40},
    "wrong": {"X-Hub-Signature-256": "sha256=" + "0" * 64},
    "wrong length": {"X-Hub-Signature-256": "sha256=00"},
    "no digits": {"X-Hub-Signature-256": "sha256="},
    "not ASCII": {"X-Hub-Signature-256": "sha256=\xe9"},
    "another secret": {},
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_delivery_is_refused_and_nothing_is_handed_over(shared: Post, kind: str) -> None:
    """S27, L21."""
    body = json.dumps(CLOSED).encode()
    sent = headers("issues", body, "another" if kind == "another secret" else SECRET) | FORGED[kind]
    status, _ = shared.ask(body=body, fields={name: value for name, value in sent.items() if value != "-"})
    assert status == 401
    assert shared.silent()


def test_the_secret_of_sha1_does_not_help_either(shared: Post) -> None:
    import hashlib
    import hmac

    body = json.dumps(CLOSED).encode()
    right = "sha1=" + hmac.new(SECRET.encode(), body, hashlib.sha1).hexdigest()
    assert shared.send(body, X_Hub_Signature_256=right)[0] == 401
    assert shared.send(body, X_Hub_Signature_256="-", X_Hub_Signature=right)[0] == 401


def test_what_is_not_signed_is_not_even_read(shared: Post) -> None:
    for body in (b"{", b"\xff\xfe", b"[]"):
        assert shared.send(body, X_Hub_Signature_256="-")[0] == 401
        assert shared.send(body, X_Hub_Signature_256="sha256=" + "0" * 64)[0] == 401


@pytest.mark.parametrize(
    "title", ["\U0001f680 rocket", "a\u2028b", "two  spaces", "line\r\nline", "nul \\u0000", "\u00e9\u0301 \u202e"]
)
@pytest.mark.parametrize("escaped", [True, False])
def test_the_signature_is_over_the_bytes_as_they_came(shared: Post, title: str, escaped: bool) -> None:
    payload = issue_event("octo/app#1", "closed", title=title)
    for body in (
        json.dumps(payload, ensure_ascii=escaped).encode(),
        json.dumps(payload, ensure_ascii=escaped, indent=3).replace("\n", "\r\n").encode(),
    ):
        assert shared.send(body)[0] == 202
        assert shared.hints(1)


def test_a_form_is_read_too(shared: Post) -> None:
    body = b"payload=" + quote_plus(json.dumps(CLOSED)).encode()
    kind = "application/x-www-form-urlencoded"
    assert shared.send(body, Content_Type=kind) == (202, "accepted\n")
    assert shared.hints(1)
    for wrong in (b"", b"x=1", b"payload=", b"payload", b"payload=%FF", b"&".join([b"a=1"] * 20)):
        assert shared.send(wrong, Content_Type=kind)[0] == 400


def test_a_ping_is_answered(shared: Post) -> None:
    assert shared.send({"zen": "Design for failure.", "hook_id": 1}, "ping") == (200, "pong\n")
    assert shared.send({"zen": "x"}, "ping", X_Hub_Signature_256="-")[0] == 401


ANSWERS: list[tuple[int, dict[str, Any]]] = [
    (404, {"path": "/"}),
    (404, {"path": PATH + "/"}),
    (404, {"path": "/gh-webhook/../x"}),
    (405, {"method": "GET"}),
    (405, {"method": "PUT"}),
    (405, {"method": "DELETE"}),
    (405, {"path": "/healthz"}),
    (405, {"path": "/metrics"}),
    (415, {"fields": {"Content-Type": "text/plain"}}),
    (415, {"fields": {"Content-Type": ""}}),
    (415, {"fields": {"Content-Type": "multipart/form-data"}}),
    (400, {"fields": {"X-GitHub-Delivery": ""}}),
    (400, {"fields": {"X-GitHub-Event": ""}}),
    (400, {"body": b"{"}),
    (400, {"body": b"[]"}),
    (400, {"body": b"null"}),
    (400, {"body": b"\xff\xfe"}),
    (400, {"body": b"[" * 100_000}),
]


@pytest.mark.parametrize(("status", "request_"), ANSWERS)
def test_what_is_wrong_is_answered_as_such(shared: Post, status: int, request_: dict[str, Any]) -> None:
    body = request_.get("body", json.dumps(CLOSED).encode())
    sent = headers("issues", body) | request_.get("fields", {})
    answer, _ = shared.ask(request_.get("method", "POST"), request_.get("path", PATH), body, sent)
    assert answer == status


def test_a_charset_is_no_other_type(shared: Post) -> None:
    assert shared.send(CLOSED, Content_Type="application/json; charset=utf-8")[0] == 202
    shared.hints(1)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large(shared: Post, chunked: bool) -> None:
    """Announced or not, it is refused before it is whole."""
    with socket.create_connection(("127.0.0.1", shared.port), timeout=30) as client:
        size = 26 << 20
        how = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
        client.sendall(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n{how}\r\n\r\n".encode())
        chunk = b"x" * (1 << 20)
        try:
            for _ in range(26):
                client.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk) if chunked else chunk)
        except OSError:
            pass  # it has heard enough
        try:
            answer = client.recv(4096)
        except ConnectionResetError:
            answer = b"HTTP/1.1 413"
    assert b" 413" in answer.partition(b"\r\n")[0]
    assert shared.silent()


def test_a_large_body_that_is_allowed(shared: Post) -> None:
    assert shared.send(issue_event("octo/app#1", "closed", body="x" * (24 << 20)))[0] == 202
    shared.hints(1)


def test_a_delivery_that_comes_again_is_ignored(shared: Post) -> None:
    name = str(uuid.uuid4())
    assert shared.send(CLOSED, delivery=name) == (202, "accepted\n")
    shared.hints(1)
    assert shared.send(CLOSED, delivery=name) == (202, "seen before\n")
    assert shared.silent()


def tells(
    action: str, state: str, *, actor: str = "octocat", repo: str = "octo/app", number: int = 6
) -> dict[str, Any]:
    node = whole_pull(number, state, repo=repo)
    return whole_payload(action, actor=actor, pull_request=node)


def test_what_a_payload_tells_is_handed_over_where_it_is_wanted(own: Any) -> None:
    post = own(trusts=True)
    post.send(tells("closed", "closed"), "pull_request")
    (hint,) = post.hints(1)
    assert ([str(ref) for ref in hint.refs], hint.ended) == (["github:octo/app#6"], True)
    assert (str(hint.told.ref), hint.told.kind, hint.told.state) == ("github:octo/app#6", "pull_request", "closed")
    # The same body under another name is only a hint.
    assert post.send(tells("closed", "closed"), "pull_request") == (202, "accepted\n")
    assert post.hints(1) == [replace(hint, told=None)]
    # A stranger's reopening is no reason to look, and tells all the same.
    assert post.send(tells("reopened", "open", actor="mallory"), "pull_request")[1] == "ignored: unauthorized-actor\n"
    (hint,) = post.hints(1)
    assert (hint.refs, hint.may_start, hint.ended, hint.told.state) == ((), False, False, "open")
    # Another repository's item tells nothing.
    post.send(tells("closed", "closed", repo="octo/other"), "pull_request")
    assert [h.told for h in post.hints(1)] == [None]
    # Nor does one that was changed on its way.
    body = json.dumps(tells("closed", "closed", number=7)).encode()
    sent = headers("pull_request", body)
    assert post.ask(body=body.replace(b'"open"', b'"shut"').replace(b"7", b"8"), fields=sent)[0] == 401
    assert post.silent()
    # Before the settings it was not wanted, and after them it is not either.
    post.settings = post.settings | {"trusts": False}
    post.receiver.configure(post.config)

    def plain() -> bool:
        post.send(tells("edited", "open", number=9) | {"n": str(uuid.uuid4())}, "pull_request")
        return post.hints(1)[0].told is None

    wait_until(plain, what="it is not wanted any more")


@pytest.mark.parametrize("settings", [{"trusts": False}, {"trusts": True, "insecure": True}])
def test_nothing_is_told_unless_it_is_asked_for_and_signed(own: Any, settings: dict[str, bool]) -> None:
    post = own(**settings)
    post.send(tells("closed", "closed"), "pull_request")
    assert [hint.told for hint in post.hints(1)] == [None]


def test_only_so_many_deliveries_are_remembered(own: Any) -> None:
    post = own(remembered=3)
    for name in ("a", "b", "c", "d"):
        post.send(CLOSED, delivery=name)
    assert post.send(CLOSED, delivery="d")[1] == "seen before\n"
    assert post.send(CLOSED, delivery="a")[1] == "accepted\n"


@pytest.mark.parametrize("event", ["discussion", "push", "star", "x" * 500])
def test_other_events_are_ignored(shared: Post, event: str) -> None:
    assert shared.send(CLOSED, event) == (202, "ignored: disabled-event\n")


def test_what_was_refused_and_received_is_in_the_event_log(own: Any) -> None:
    post = own()
    post.send(CLOSED, delivery="one")
    post.send(issue_event("octo/app#1", "labeled", actor="mallory"), delivery="two")
    post.send(CLOSED, X_Hub_Signature_256="-", delivery="three")
    rows = post.events("webhook.received")
    assert [(row["delivery"], row.get("dropped")) for row in rows] == [("one", None), ("two", "unauthorized-actor")]
    assert (rows[1]["actor"], rows[1]["refs"], rows[1]["source"]) == ("mallory", ["github:octo/app#1"], "gh-webhook")
    (row,) = post.events("webhook.rejected")
    assert (row["status"], row["delivery"], row["level"]) == (401, "three", "warning")
    assert SECRET not in post.log_file.read_text()


def test_settings_take_effect_while_it_runs(own: Any) -> None:
    post = own()
    labeled = issue_event("octo/app#1", "labeled")
    assert post.send(labeled)[1] == "accepted\n"
    post.settings = post.settings | {"authorized": []}
    post.receiver.configure(post.config)
    wait_until(lambda: post.send(labeled)[1] == "ignored: unauthorized-actor\n", what="nobody is authorized")
    post.settings = post.settings | {"events": ["pull_request"]}
    post.receiver.configure(post.config)
    wait_until(lambda: post.send(labeled)[1] == "ignored: disabled-event\n", what="issues are not listened to")


def test_a_list_without_endings_warns_at_the_start_and_on_each_reload(own: Any) -> None:
    post = own()
    assert [message for level, message, _ in post.said if level == "warning"] == []
    without = replace(post.config, webhook=replace(post.config.webhook, events=("status",)))
    for times in (1, 2):
        post.receiver.configure(without)
        warned = [message for level, message, _ in post.said if level == "warning"]
        assert len(warned) == 2 * times
    assert any("'issues'" in message for message in warned)


def test_health_from_a_snapshot(own: Any) -> None:
    post = own()
    now = datetime.now(UTC)
    snapshot = {"interval_seconds": 60, "turned_at": stamp(now), "good_at": stamp(now), "whole_is_good": True}

    def shows(status: int, state: str, **fields: Any) -> bool:
        post.receiver.show(snapshot | fields)

        def seen() -> bool:
            code, text = post.ask("GET", "/healthz")
            return (code, json.loads(text)["status"]) == (status, state)

        return bool(wait_until(seen, what=state))

    assert shows(200, "ok")
    assert shows(200, "degraded", whole_is_good=False)
    assert shows(503, "stalled", turned_at=stamp(now - timedelta(hours=1)))
    assert "loopctl_up 0.0" in post.ask("GET", "/metrics")[1]
    body = json.loads(post.ask("GET", "/healthz")[1])
    assert body["last_cycle_age_seconds"] > 3000 > body["last_good_cycle_age_seconds"]


def test_it_ends_with_its_worker(own: Any) -> None:
    post = own()
    (child,) = post.children
    assert child.end() == 0
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", post.port), timeout=5).close()


def test_one_that_dies_is_started_again_and_one_that_cannot_live_is_told(own: Any) -> None:
    post = own()
    before = post.port
    post.children[-1]._process.kill()
    wait_until(lambda: (list(post.receiver.wait(0.1)), len(post.children) == 2)[1], what="another one")
    assert post.port != before
    assert post.send(CLOSED)[0] == 202
    assert post.hints(1)
    with pytest.raises(StateError, match=f"ended {MOST_DEATHS + 1} times in a row"):
        for _ in range(100):
            post.children[-1]._process.kill()
            post.children[-1]._process.wait()
            list(post.receiver.wait(5))


def test_a_port_that_is_taken(own: Any) -> None:
    post = own()
    with pytest.raises(StateError, match=f"cannot listen on 127.0.0.1 port {post.port}"):
        own(port=post.port)


def test_insecure_needs_no_signature(own: Any) -> None:
    post = own(insecure=True)
    assert post.send(CLOSED, X_Hub_Signature_256="-")[0] == 202


def test_files_that_change_wake_the_worker(own: Any, tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_text("1")
    post = own(files=[str(file)])
    count = 0

    def edited() -> bool:
        # The watch may begin later than the process: edit until it is seen.
        nonlocal count
        count += 1
        (tmp_path / "new").write_text(str(count))
        (tmp_path / "new").replace(file)
        return any(hint == Hint() for hint in post.receiver.wait(0.5))

    assert wait_until(edited, what="it is woken")


def test_a_signal_ends_the_waiting() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, b"\x0f")
    assert Silence(reading).wait(3600) == ()
    assert Silence(reading).wait(0) == ()
    os.close(reading)
    os.close(writing)


def test_a_burst(own: Any) -> None:
    """2,000 deliveries about 40 items, shuffled, one in ten twice, one in twenty forged: each answered, few handed over."""
    post = own(remembered=4096)
    chance = random.Random(2000)
    sent = []
    for number in range(2000):
        action = chance.choice(["closed", "reopened", "labeled"])
        actor = chance.choice(["octocat", "mallory"])
        body = json.dumps(issue_event(f"octo/app#{1 + number % 40}", action, actor=actor)).encode()
        fields = headers("issues", body, SECRET if chance.random() >= 0.05 else "guessed", f"d{number}")
        sent += [(body, fields)] * (2 if number % 10 == 0 else 1)
    chance.shuffle(sent)
    answers: Counter[int] = Counter()
    bad = sum(fields["X-Hub-Signature-256"] != headers("issues", body)["X-Hub-Signature-256"] for body, fields in sent)
    hints: list[Hint] = []

    def deliver(part: list[tuple[bytes, dict[str, str]]]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", post.port, timeout=60)
        for body, fields in part:
            connection.request("POST", PATH, body, fields)
            response = connection.getresponse()
            response.read()
            answers[response.status] += 1
        connection.close()

    threads = [threading.Thread(target=deliver, args=(sent[start::8],)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The worker was busy all the while.
    wait_until(lambda: (hints.extend(post.receiver.wait(0.1)), len({h.refs for h in hints}) == 40)[1], what="all items")
    assert answers == {202: len(sent) - bad, 401: bad}
    assert bad > 50
    assert len(post.events("webhook.received")) == len({f["X-GitHub-Delivery"] for _, f in sent}) - bad_deliveries(sent)


def bad_deliveries(sent: list[tuple[bytes, dict[str, str]]]) -> int:
    return len(
        {
            f["X-GitHub-Delivery"]
            for body, f in sent
            if f["X-Hub-Signature-256"] != headers("issues", body)["X-Hub-Signature-256"]
        }
    )
