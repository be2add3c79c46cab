"""The whole life of a session on GitHub: real gh, real tmux; each step is one apply, and each second plan is empty."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.kit import Box
from tests.fake_github import FakeGitHub
from tests.support import ROOT, wait_until

pytestmark = [pytest.mark.gh, pytest.mark.tmux]

REPO = "octo/app"
PULL = "github:octo/app#7"
RULES = [
    {
        "name": "open and labelled",
        "match": {"item": {"state": "open", "labels": ["agent"]}},
        "ensure": {"session": "running", "deliver": "comments", "comment": "default"},
    },
    {
        "name": "ended",
        "match": {"item": {"state": ["closed", "merged"]}},
        "ensure": {"session": "retained", "comment": "default"},
    },
    {
        "name": "old",
        "match": {"session": {"phase": "retained", "closed_for": "14d"}},
        "ensure": {"session": "gone"},
    },
]


def step(box: Box, *wanted: str) -> None:
    """One apply that does just this, and a plan after it that has nothing to do."""
    done = box.run("apply", "life.yml", "-y", "--format", "json")
    assert done.code == 0, done
    assert [f"{r['verb']} {r['status']}" for r in done.json["results"]] == list(wanted), done
    again = box.run("plan", "life.yml", "--detailed-exitcode")
    assert again.code == 0, again


def phases(box: Box) -> list[str]:
    return [row["phase"] for row in box.sessions()]


def test_from_birth_to_grave(box: Box, fake_github: FakeGitHub) -> None:
    box.env |= fake_github.env()
    box.github(REPO)
    box.settings["routing"] |= {"authorizedUsers": ["alice"], "defaultHarness": "listener"}
    heard = Path(box.folder / "heard")
    box.harness("listener", sys.executable, "-I", "-S", str(ROOT / "tests" / "tmux" / "listener.py"), str(heard))
    box.playbook("life.yml", json.dumps([{"name": "life", "rules": RULES}]))

    fake_github.pull(REPO, 7)
    step(box)
    fake_github.change(REPO, 7, labels=("agent",))
    step(box, "start changed", "comment changed")
    box.wait_ready([PULL])
    first = box.record(PULL)

    fake_github.said(
        REPO, 7, "please be kind", "alice", f"{datetime.now(UTC) + timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
    )
    step(box, "deliver changed")
    wait_until(lambda: b"please be kind" in heard.read_bytes(), what="the comment was read")

    fake_github.change(REPO, 7, state="CLOSED")
    step(box, "close changed", "comment changed")
    assert phases(box) == ["retained"]

    # Opened again: a new session in a pane of its own. The record of the old one is as it was.
    fake_github.change(REPO, 7, state="OPEN")
    ended = box.record(PULL)
    step(box, "start changed", "comment changed")
    box.wait_ready([PULL])
    second = box.record(PULL)
    assert (second["id"] != first["id"], second["pane_id"] != first["pane_id"]) == (True, True)
    assert phases(box) == ["retained", "running"]
    assert box.records()[0] == ended

    fake_github.change(REPO, 7, state="MERGED")
    step(box, "close changed", "comment changed")
    assert [row["reason"] for row in box.records()] == ["pr-closed", "pr-merged"]

    box.edit("UPDATE sessions SET closed_at = ?", f"{datetime.now(UTC) - timedelta(days=15):%Y-%m-%dT%H:%M:%S.%fZ}")
    step(box, "reap changed", "reap changed")
    assert phases(box) == ["gone", "gone"]
    assert box.processes() == {}
    assert len(box.events("session.reaped")) == 2
    assert all(Path(row["transcript"]).is_file() for row in box.records())
    assert [event["author"] for event in box.events("delivery.sent")] == ["alice"]
    ours = [remark.body for remark in fake_github.remarks(REPO, 7) if remark.body.startswith("<!-- loopctl:")]
    assert len(ours) == 4
    fake_github.release()
