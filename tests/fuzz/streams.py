"""What programs and strangers send while we run: gh, tmux and webhooks."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from loopctl import run
from loopctl.adapters import shell
from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.adapters.github_health import health
from loopctl.adapters.github_lookup import lookup_fact
from loopctl.adapters.github_reply import read_http
from loopctl.adapters.tmux_capture import split_captures, tidy
from loopctl.adapters.tmux_format import PANE_FORMAT, parse_panes
from loopctl.controller.desk import Desk, Settings
from loopctl.controller.inbox import _hint, _message
from loopctl.controller.routing import DEFAULT_EVENTS, is_end
from loopctl.controller.webhook import build_app
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.items import CLOSED, MERGED, MISSING, MOVED, OPEN
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import Pane, ServerId, ServerView
from loopctl.testing import FakeWorld
from loopctl.testing.world import SOCKET
from tests.fake_github.server import FakeGitHub, Request
from tests.fuzz.civil import fit_to_show
from tests.fuzz.targets import Target
from tests.payloads import issue, payload, pull
from tests.unit.controller.test_routing import TABLE
from tests.unit.playbooks import ending

# --- gh ---------------------------------------------------------------------------------------------------------------

REFS = tuple(WorkItemRef.parse(f"github:octo/app#{number}") for number in (1, 2, 3, 9))
_HEAD = b"HTTP/2.0 %d OK\r\nX-Ratelimit-Remaining: 4000\r\nContent-Type: application/json\r\n\r\n"
#: What an answer must hold before anybody may say that an item has ended.
_SAID = {CLOSED: (b"CLOSED",), MERGED: (b"MERGED",), MISSING: (b"NOT_FOUND", b"404", b"410")}


def _provider() -> GitHub:
    return GitHub(GitHubApi("github.com", {}), ["octo/app"], "agent")


@cache
def _gh_replies() -> Sequence[bytes]:
    """What the fake GitHub answers to our own queries, as gh prints it."""
    replies: list[bytes] = []
    with FakeGitHub() as fake, pytest.MonkeyPatch.context() as patch:
        fake.issue("octo/app", 1, labels=("agent",))
        fake.issue("octo/app", 2, "CLOSED")
        fake.pull("octo/app", 3, "OPEN", labels=("agent",), closes=("octo/app#1",))
        fake.said("octo/app", 1, "a comment", "alice", "2026-07-25T09:00:00Z")
        fake.review("octo/app", 3, "a review", "bob", "2026-07-25T09:00:00Z")

        def answer(argv: Sequence[str], *, stdin: bytes | None = None, **options: object) -> shell.Completed:
            path = "/graphql" if "graphql" in argv else f"/{argv[-1]}"
            status, _, body = fake.respond(Request("POST", path, "github.com", "token", stdin or b""))
            replies.append(_HEAD % status + body)
            return shell.Completed(0, replies[-1], "")

        patch.setattr(shell, "run", answer)
        _provider().get(REFS)
        _provider().listed()
        _provider().threads(REFS)
        list(health(GitHubApi("github.com", {}), ["octo/app"]))
    return [reply for reply in dict.fromkeys(replies) if reply.startswith(b"HTTP/2.0 200")]


def gh_output(data: bytes, folder: Path) -> bool:
    """All that gh prints in one run is this. What is not said outright is unknown."""
    failed = len(data) % 2
    with pytest.MonkeyPatch.context() as patch:
        done = shell.Completed(failed, data, data[-300:].decode("utf-8", "replace") if failed else "")
        patch.setattr(shell, "run", lambda argv, **_: done)
        facts = _provider().get(REFS)
        listed = _provider().listed()
        threads = _provider().threads(REFS)
        posted = _provider().comment(REFS[0], "running", "at work")
        for finding in health(GitHubApi("github.com", {}), ["octo/app"]):
            fit_to_show(finding.text)
    assert set(facts) == set(REFS)
    assert set(threads) == set(REFS)
    for answer in (*facts.values(), *threads.values(), listed, posted):
        if isinstance(answer, Unknown):
            fit_to_show(answer.reason)
    for fact in facts.values():
        if isinstance(fact, Known) and fact.value.state in _SAID:
            assert any(word in data for word in _SAID[fact.value.state]), fact
    if isinstance(listed, Known):
        assert {item.state for item in listed.value} <= {OPEN}
    return any(isinstance(fact, Known) for fact in (listed, *facts.values(), *threads.values()))


def _answers() -> Sequence[bytes]:
    return [reply.partition(b"\r\n\r\n")[2] for reply in _gh_replies()]


def gh_answer(data: bytes, folder: Path) -> bool:
    """The same of JSON that is none of ours, in a response that is in order."""
    return gh_output(_HEAD % 200 + data + b" " * ((len(_HEAD % 200) + len(data)) % 2), folder)


def _look_ups() -> Sequence[bytes]:
    moved: Mapping[str, object] = {"number": 4, "html_url": "https://github.com/octo/web/issues/4"}
    bodies: Mapping[int, Mapping[str, object]] = {
        404: {"message": "Not Found"},
        410: {"message": "This issue was deleted"},
        200: moved,
        301: {},
    }
    return [_HEAD % status + json.dumps(body).encode() for status, body in bodies.items()]


def gh_look_up(data: bytes, folder: Path) -> bool:
    """What REST says of an item that GraphQL did not find."""
    http = read_http(data)
    if http is None:
        return False
    fact = lookup_fact(REFS[0], http)
    if isinstance(fact, Unknown):
        fit_to_show(fact.reason)
        return False
    assert http.status in (404, 410, 301, 302, 307, 308, 200)
    assert fact.value.state == (MISSING if http.status in (404, 410) else MOVED)
    return True


# --- tmux -------------------------------------------------------------------------------------------------------------


def _crowd() -> FakeWorld:
    """Two sessions whose items ended, one whose item is open, and panes of somebody else."""
    world = FakeWorld()
    for number, state in enumerate(("closed", "merged", "open"), 1):
        world.item(f"demo/app#{number}", state)
        world.session(f"demo/app#{number}")
    world.foreign("somebody")
    world.foreign("claims-to-be-ours", mark="00000000-0000-4000-8000-00000000000f")
    return world


def _line(server: ServerId, pane: Pane) -> str:
    values = {
        "pid": server.pid,
        "start_time": server.start,
        "version": "3.3a",
        "session_id": pane.session_id,
        "window_id": pane.window_id,
        "pane_id": pane.pane_id,
        "pane_pid": pane.pid,
        "pane_dead": int(pane.dead),
        "pane_input_off": int(pane.input_off),
        "session_attached": pane.attached,
        "session_created": pane.since,
        "alternate_on": 0,
        "remain-on-exit": pane.remain_on_exit,
        "@loopctl_id": pane.mark,
        "@loopctl_ref": pane.ref_mark,
        "@loopctl_pane": pane.own_mark,
        "pane_current_command": pane.command,
        "session_name": pane.session,
    }
    names = [field.strip("#{}").rpartition(":")[2] for field in PANE_FORMAT.split("|")]
    return "|".join(str(values.get(name, "")) for name in names)


def _listing() -> Sequence[bytes]:
    view = _crowd().terminals.look(SOCKET)
    assert isinstance(view, Known)
    assert view.value.server
    return ["".join(f"{_line(view.value.server, pane)}\n" for pane in view.value.panes).encode()]


def tmux_listing(data: bytes, folder: Path) -> bool:
    """Whatever tmux lists, what is somebody else's is not touched, and an open item's session is not ended."""
    text = data.decode(errors="replace")
    said = parse_panes(SOCKET, text)
    world = _crowd()
    terminals = _Said(world, said)
    ports = replace(world.world, terminals=terminals)
    plan = run.plan_once(ending(), ports)
    if isinstance(said, Unknown):
        fit_to_show(said.reason)
        assert plan.actions == (), "acts on what it could not read"
        return False
    assert len(said.value.panes) == sum(map(bool, text.split("\n"))), "a line was dropped or invented"
    assert WorkItemRef.parse("items:demo/app#3") not in {action.ref for action in plan.actions}
    run.apply_plan(plan, ports, 1000)
    assert [effect for effect in world.machine.effects if not effect.owner] == []
    return True


class _Said:
    """The terminals of a world, but for what they list."""

    def __init__(self, world: FakeWorld, said: Fact[ServerView]) -> None:
        self._terminals, self._said = world.terminals, said

    def look(self, socket: str) -> Fact[ServerView]:
        return self._said

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminals, name)


NONCE = "loopctl-0123"
_CAPTURE = b"loopctl-0123 7 main\n$ make\nok\n\nloopctl-0123 7 end\nloopctl-0123 8 covered\na\nloopctl-0123 8 end\n"


def tmux_capture(data: bytes, folder: Path) -> bool:
    """A transcript is what stands between its two marks, or there is none."""
    parts = split_captures(data, NONCE)
    for (pane, name), text in parts.items():
        whole = f"{NONCE} {pane[1:]} {name}\n".encode() + text + f"{NONCE} {pane[1:]} end\n".encode()
        assert whole in data
        assert len(tidy(text, dead=True)) <= len(text) + 1
    return bool(parts)


# --- webhooks ---------------------------------------------------------------------------------------------------------

SECRET = "It's a Secret to Everybody"
ALL = frozenset(DEFAULT_EVENTS)
_OF = {"issues": "issue", "pull_request": "pull_request"}


def _payloads() -> Sequence[bytes]:
    bodies = [body for _, body, _ in TABLE]
    whole = [
        payload("closed", issue=issue(6, "closed")),
        payload("closed", pull_request=pull(6, "closed", merged=True)),
        payload("reopened", issue=issue(6)),
    ]
    return [json.dumps(body).encode() for body in (*whole, *bodies)]


def webhook(data: bytes, folder: Path) -> bool:
    """A signed body is answered and yields at most hints that are true to it; with a wrong signature it yields none."""
    event = DEFAULT_EVENTS[len(data) % len(DEFAULT_EVENTS)] if len(data) % 2 else list(_OF)[b"pull_request" in data]
    signature = "sha256=" + hmac.new(SECRET.encode(), data, hashlib.sha256).hexdigest()
    status, hints, events = _deliver(data, event, signature)
    assert status in (202, 400), status
    for line in hints:
        hint = _hint(_message(line))
        assert hint.refs or hint.told
        said = json.loads(data)
        assert not (hint.ended and not is_end(event, said))
        assert not hint.may_start or "octocat" in json.dumps(said).lower()
        if hint.told:
            assert (hint.told.state == OPEN) == (b'"closed"' not in json.dumps(said[_OF[event]]["state"]).encode())
    assert _deliver(data, event, signature[:-1] + "g")[:2] == (401, [])
    assert _deliver(data, event, "")[:2] == (401, [])
    for name, fields in events:
        assert name in {"webhook.received", "webhook.rejected"}
        assert SECRET not in repr(fields)
    return status == 202


def webhook_form(data: bytes, folder: Path) -> bool:
    """The same, of a body that is a form."""
    signature = "sha256=" + hmac.new(SECRET.encode(), data, hashlib.sha256).hexdigest()
    status, hints, _ = _deliver(data, "issues", signature, kind="application/x-www-form-urlencoded")
    assert status in (202, 400), status
    for line in hints:
        hint = _hint(_message(line))
        assert hint.refs or hint.told
    return status == 202


Events = list[tuple[str, Mapping[str, object]]]


def _deliver(
    body: bytes, event: str, signature: str, kind: str = "application/json"
) -> tuple[int, list[bytes], Events]:
    """One request through the ASGI application: its status, the hints for the worker, and what went to the log."""
    events: Events = []
    desk = Desk(
        SECRET,
        Settings(ALL, frozenset({"octocat"}), 10, trusts=True),
        lambda name, level="", **fields: events.append((name, fields)),
    )
    app = build_app(desk, "/hook", lambda snapshot, counts: b"", lambda: datetime.now(UTC))
    headers = {
        "content-type": kind,
        "x-github-event": event,
        "x-github-delivery": "1",
        "x-hub-signature-256": signature,
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/hook",
        "raw_path": b"/hook",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    sent: list[Any] = []
    arriving = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return arriving.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    async def deliver() -> list[bytes]:
        await app(scope, receive, send)
        hints = desk.hints()
        return [await anext(hints)] if desk.pending else []

    handed_over = asyncio.run(deliver())
    return sent[0]["status"], handed_over, events


def _forms() -> Sequence[bytes]:
    from urllib.parse import urlencode

    return [urlencode({"payload": body.decode()}).encode() for body in _payloads()[:3]]


TARGETS = (
    Target("gh output", _gh_replies, gh_output),
    Target("gh answer", _answers, gh_answer, tree=True),
    Target("gh look-up", _look_ups, gh_look_up),
    Target("tmux listing", _listing, tmux_listing),
    Target("tmux capture", lambda: [_CAPTURE], tmux_capture),
    Target("webhook body", _payloads, webhook, tree=True),
    Target("webhook form", _forms, webhook_form),
)
