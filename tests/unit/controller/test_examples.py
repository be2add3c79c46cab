"""GitHub's own examples of webhooks (npm: @octokit/webhooks-examples), a development download."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from loopctl.controller.routing import DEFAULT_EVENTS, DISABLED, NO_ITEM, route, told
from tests.e2e.controller import SECRET, headers, issue_event
from tests.unit.controller.test_webhook import Post

PACKAGE = "@octokit/webhooks-examples@7.6.1"
ALL = frozenset(DEFAULT_EVENTS)
# npm finds its registry through the person's own settings, which no test gets to see.
_ENVIRON = dict(os.environ)
Examples = dict[str, list[tuple[str, dict[str, Any]]]]
#: The numbers that the examples' own items have, by where they stand.
_ITEMS = ("issue", "pull_request")


@pytest.fixture(scope="module")
def examples(request: pytest.FixtureRequest) -> Examples:
    """Event and payload of each example, by the kind of GitHub; skipped where they cannot be had, but not in CI."""
    assert request.config.cache
    folder = request.config.cache.mkdir("webhooks-examples") / PACKAGE.rpartition("@")[2]
    if not (folder / "package").exists() and (why := _download(folder)):
        if os.environ.get("CI") == "true":
            pytest.fail(f"{PACKAGE} is needed in CI: {why}")
        pytest.skip(f"{PACKAGE} cannot be had: {why}")
    found = {}
    for index in sorted(folder.glob("package/*/index.json")):
        document = json.loads(index.read_text("utf-8"))
        found[index.parent.name] = [(one["name"], payload) for one in document for payload in one["examples"]]
    return found


def _download(folder: Path) -> str:
    """Fetch the examples; returns why not, or ""."""
    npm = shutil.which("npm")
    if npm is None:
        return "there is no npm here"
    folder.mkdir(parents=True, exist_ok=True)
    argv = [npm, "pack", PACKAGE, "--silent", "--ignore-scripts"]
    # Tests may run side by side: whoever is first puts it into its place whole.
    with tempfile.TemporaryDirectory(dir=folder) as mine:
        try:
            done = subprocess.run(
                argv, cwd=mine, env=_ENVIRON, capture_output=True, text=True, timeout=120, check=False
            )
        except subprocess.TimeoutExpired:
            return "npm did not answer within 120 s"
        packed = next(Path(mine).glob("*.tgz"), None)
        if done.returncode or packed is None:
            return (done.stderr.strip().splitlines() or ["npm failed"])[-1]
        with tarfile.open(packed) as archive:
            archive.extractall(mine, filter="data")
        with suppress(OSError):
            Path(mine, "package").rename(folder / "package")
    return "" if (folder / "package").exists() else "it could not be put into its place"


def each(examples: Examples) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for kind, rows in examples.items():
        for event, payload in rows:
            yield kind, event, payload


def test_there_are_hundreds(examples: Examples) -> None:
    assert len(examples["api.github.com"]) > 300
    assert {event for event, _ in examples["api.github.com"]} >= ALL


def test_each_names_its_own_item_last(examples: Examples) -> None:
    routed_any = set()
    for kind, event, payload in each(examples):
        actor = payload.get("sender", {}).get("login", "").lower()
        said = payload.get("comment") or payload.get("review") or {}
        author = ((said.get("user") or {}).get("login") or "").lower()
        routed = route(event, payload, ALL, frozenset({actor, author} - {""}))
        if event not in ALL:
            assert routed.dropped == DISABLED
            continue
        own = [payload[name]["number"] for name in _ITEMS if name in payload]
        repo = payload["repository"]["full_name"].lower()
        host = re.sub(r"https?://([^/]+)/.*", r"\1", payload["repository"]["html_url"])
        where = repo if host == "github.com" else f"{host}/{repo}"
        if own:
            assert str(routed.refs[-1]).lower() == f"github:{where}#{own[-1]}", (kind, event)
            assert routed.dropped == "", (kind, event, routed)
        else:
            assert routed.dropped in ("", NO_ITEM)
        routed_any |= {event} if routed.refs else set()
    assert {"issues", "issue_comment", "pull_request", "pull_request_review", "check_run", "check_suite"} <= routed_any


def test_each_tells_all_of_its_item_or_nothing(examples: Examples) -> None:
    found = set()
    for _, event, payload in each(examples):
        item = told(event, payload, route(event, payload, ALL, frozenset()))
        if item:
            found.add((event, item.kind, item.state))
            node = payload["issue" if event == "issues" else "pull_request"]
            assert (item.node_id, item.title, item.ref.number) == (node["node_id"], node["title"], node["number"])
            assert item.labels == {label["name"] for label in node["labels"]}
    assert {("pull_request", "pull_request", "open"), ("pull_request", "pull_request", "closed")} <= found
    # Those of issues are older than reasons: where one matters, that of a closed issue, nothing is told.
    assert [one for one in found if one[0] == "issues"] == [("issues", "issue", "open")]


def test_each_is_accepted_or_refused_cleanly_by_the_receiver(examples: Examples, tmp_path: Path) -> None:
    """As it is, signed, and once in twenty with another secret; what is handed over is what routing says."""
    post = Post(tmp_path, trusts=True, authorized=["codertocat"])
    expected: Counter[str] = Counter()
    handed: Counter[str] = Counter()
    try:
        for number, (_, event, payload) in enumerate(each(examples)):
            body = json.dumps(payload).encode()
            secret = "another" if number % 20 == 0 else SECRET
            status, text = post.ask(body=body, fields=headers(event, body, secret))
            routed = route(event, payload, ALL, frozenset({"codertocat"}))
            answer = (202, f"ignored: {routed.dropped}" if routed.dropped else "accepted")
            answer = (200, "pong") if event == "ping" else answer
            answer = (401, "the signature is wrong") if secret != SECRET else answer
            assert (status, text.strip()) == answer, (event, number)
            if secret == SECRET and not routed.dropped:
                expected[" ".join(map(str, routed.refs))] += 1
        assert len(expected) > 2
        post.send(issue_event("octo/last#1", "closed", actor="codertocat"))
        while "github:octo/last#1" not in handed:
            handed.update(" ".join(map(str, hint.refs)) for hint in post.receiver.wait(5))
        assert handed.keys() - {"", "github:octo/last#1"} == expected.keys()
    finally:
        post.close()


def test_a_stranger_gets_endings_through_and_nothing_else(
    examples: Examples,
) -> None:
    through = set()
    for _, event, payload in each(examples):
        routed = route(event, payload, ALL, frozenset())
        if routed.refs and not routed.dropped:
            through.add((event, payload["action"]))
            assert not routed.may_start
    assert through == {("pull_request", "closed")}  # there is no example of issues/closed


def test_an_issue_that_was_opened_can_be_closed(examples: Examples) -> None:
    for _, event, payload in each(examples):
        if event == "issues" and payload["action"] == "opened":
            closed = {**payload, "action": "closed", "issue": {**payload["issue"], "state": "closed"}}
            routed = route(event, closed, ALL, frozenset())
            assert (len(routed.refs), routed.dropped, routed.ends) == (1, "", True)
