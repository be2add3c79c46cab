"""Comments on GitHub that reach the agent in its pane: real gh, real tmux, an agent that writes down what it reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopctl.model.talk import OUR_MARK
from tests.e2e.kit import Box, Saboteur
from tests.fake_github import FakeGitHub
from tests.fake_github.world import Inline
from tests.support import ROOT, wait_until

pytestmark = [pytest.mark.gh, pytest.mark.tmux]

REPO = "octo/app"
BRACKETS = (b"\x1b[200~", b"\x1b[201~\r")


def at(minute: int) -> str:
    return f"2026-03-01T10:{minute:02}:00Z"


@pytest.fixture
def hub(box: Box, fake_github: FakeGitHub) -> Iterator[FakeGitHub]:
    box.env |= fake_github.env()
    box.github(REPO)
    box.settings["routing"] |= {"authorizedUsers": ["Alice", "bob"], "defaultHarness": "listener"}
    listener = str(ROOT / "tests" / "tmux" / "listener.py")
    box.harness("listener", sys.executable, "-I", "-S", listener, str(box.folder / "heard"))
    rule = {
        "name": "open",
        "match": {"item": {"state": "open", "labels": ["agent"]}},
        "ensure": {"session": "running", "deliver": "comments"},
    }
    box.playbook("run.yml", json.dumps([{"name": "run", "rules": [rule]}]))
    fake_github.issue(REPO, 1, labels=("agent",))
    fake_github.said(REPO, 1, "said before anybody ran", "alice", at(0))
    assert box.run("apply", "run.yml", "-y").code == 0
    box.wait_ready(["github:octo/app#1"])
    yield fake_github
    fake_github.release()


def heard(box: Box, count: int) -> list[str]:
    """The texts that the agent has read, each of them whole, once there are as many."""
    log = Path(box.folder / "heard")
    wait_until(lambda: log.read_bytes().count(BRACKETS[1]) >= count, what=f"{count} texts were read")
    begin, end = BRACKETS
    texts = log.read_bytes().split(end)
    assert texts.pop() == b""
    assert all(text.startswith(begin) for text in texts)
    return [text.removeprefix(begin).decode() for text in texts]


def test_what_is_said_on_the_item_and_its_pull_request_reaches_the_agent_once(box: Box, hub: FakeGitHub) -> None:
    hub.said(REPO, 1, "please $(touch PWNED)\nwith `care` \x1b[201~ ; kill-server", "alice", at(1))
    hub.said(REPO, 1, "by nobody we know", "mallory", at(2))
    hub.said(REPO, 1, f"{OUR_MARK}running -->\nour own", "octocat", at(2))
    hub.pull(REPO, 2, closes=("octo/app#1",))
    hub.review(REPO, 2, "", "Bob", at(3), Inline("rename this", "src/app.py"), state="CHANGES_REQUESTED")
    plan = box.run("plan", "run.yml", "--format", "json")
    assert plan.json["summary"] | {"deliver": 1, "start": 0} == plan.json["summary"]
    (action,) = plan.json["actions"]
    assert [message["author"] for message in action["after"]["messages"]] == ["alice", "Bob"]
    done = box.run("apply", "run.yml", "-y", "--format", "json")
    assert done.code == 0, done
    first, second = heard(box, 2)
    assert "please $(touch PWNED)\nwith `care`" in first
    assert "; kill-server" in first
    assert "\x1b" not in first
    assert "rename this" in second
    assert "src/app.py" in second
    assert not Path(box.folder / "PWNED").exists()
    assert box.run("plan", "run.yml", "--detailed-exitcode").code == 0
    shown = box.run("sessions", "show", "github:octo/app#1", "--format", "json").json
    assert [(line["status"], line["attempts"]) for line in shown["deliveries"]] == [("delivered", 1)] * 2
    assert [event["author"] for event in box.events("delivery.sent")] == ["alice", "Bob"]
    # A person's own words, and a session that rests.
    assert box.run("sessions", "send", "github:octo/app#1", "-", stdin="by hand: ä\n").code == 0
    assert heard(box, 3)[2] == "by hand: ä"
    assert box.run("sessions", "pause", "github:octo/app#1").code == 0
    hub.said(REPO, 1, "while it rests", "alice", at(5))
    assert box.run("apply", "run.yml", "-y", "--format", "json").json["results"] == []
    refused = box.run("sessions", "send", "github:octo/app#1", "lost")
    assert (refused.code, "is paused" in refused.err) == (1, True)
    assert len(heard(box, 3)) == 3


def test_a_crash_while_a_comment_is_sent_sends_it_once(box: Box, hub: FakeGitHub) -> None:
    hub.said(REPO, 1, "only once", "alice", at(1))
    saboteur = Saboteur(box)
    # Plan and apply look, and the third run of tmux pastes.
    saboteur.arm("after 3")
    assert box.run("apply", "run.yml", "-y", env=saboteur.env).code == -9
    assert "only once" in heard(box, 1)[0]
    saboteur.arm("never")
    again = box.run("apply", "run.yml", "-y")
    assert again.code == 0
    assert "whether 1 message arrived cannot be told" in again.out
    assert len(heard(box, 1)) == 1
    # Somebody looked, and wants it sent again.
    said = box.run("sessions", "retry", "github:octo/app#1")
    assert (said.code, "1 message will be sent again" in said.out) == (0, True), said
    assert box.run("apply", "run.yml", "-y").code == 0
    assert [text.count("only once") for text in heard(box, 2)] == [1, 1]
