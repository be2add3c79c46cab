"""Sessions of issues and pull requests on a GitHub, asked through real gh."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kit import Box, close_rule
from tests.fake_github import FakeGitHub, faults
from tests.support import wait_until

pytestmark = [pytest.mark.gh, pytest.mark.tmux]

REPO = "octo/app"
SEEN = ("pane_dead", "pane_input_off", "remain-on-exit")


@pytest.fixture
def hub(box: Box, fake_github: FakeGitHub) -> Iterator[FakeGitHub]:
    box.env |= fake_github.env()
    box.github(REPO)
    yield fake_github
    fake_github.release()


def start_all(box: Box, count: int) -> list[str]:
    done = box.run("apply", "start.yml", "-y")
    assert done.code == 0, done
    refs = [row["ref"] for row in box.records()]
    assert len(refs) == count
    box.wait_ready(refs)
    return refs


def test_twenty_sessions_of_ended_items(box: Box, hub: FakeGitHub) -> None:
    for number in range(1, 11):
        hub.issue(REPO, number, labels=("agent",))
    for number in range(11, 21):
        hub.pull(REPO, number, labels=("agent",))
    start_all(box, 20)
    for number in range(1, 21):
        hub.change(REPO, number, state="CLOSED" if number <= 15 else "MERGED")
    box.clear_trace()
    plan = box.run("plan", "close.yml", "--detailed-exitcode", "--format", "json")
    assert plan.code == 2, plan
    assert plan.json["summary"]["close"] == 20
    assert (box.calls("gh"), box.calls("tmux")) == (1, 1)

    box.clear_trace()
    done = box.run("apply", "close.yml", "-y", "--format", "json")
    assert done.code == 0, done
    assert done.json["summary"]["changed"] == 20
    assert box.calls("gh") <= 2
    assert box.calls("tmux") <= 15
    assert box.processes() == {}
    wanted = ["issue-closed"] * 10 + ["pr-closed"] * 5 + ["pr-merged"] * 5
    for row in box.records():
        number = int(row["ref"].partition("#")[2])
        assert (row["status"], row["reason"]) == ("closed", wanted[number - 1]), row
        assert [box.pane(row["pane_id"], field) for field in SEEN] == ["1", "1", "on"]
        file = Path(row["transcript"])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        for text in (file.read_text(), box.screen(row["pane_id"])):
            lines = text.splitlines()
            assert lines[:2] == [f"first line of {row['ref']}", "line 1"]
            assert f"last words of {row['ref']}" in lines
            assert "line 300" in lines
    events = box.events("session.closed", "session.retained", "session.harness_terminated")
    assert len(events) == 60

    box.clear_trace()
    again = box.run("plan", "close.yml", "--detailed-exitcode", "--format", "json")
    assert (again.code, again.json["actions"]) == (0, [])
    # Everything is as it should be, whatever the items are: nobody is asked.
    assert (box.calls("gh"), box.calls("tmux")) == (0, 1)


def test_what_is_not_known_to_have_ended_is_left_alone(box: Box, hub: FakeGitHub) -> None:
    """Open, without its label, in a repository nobody looks at, deleted, hidden, moved: none of these is an end."""
    for number in range(1, 6):
        hub.issue(REPO, number, labels=("agent",))
    hub.issue("octo/gone", 7, labels=("agent",))
    hub.issue("octo/other", 6, labels=("agent",))
    box.github(REPO, "octo/gone", "octo/other")
    start_all(box, 7)
    box.github(REPO, "octo/gone")
    hub.change(REPO, 2, labels=())
    hub.change("octo/other", 6, state="CLOSED")
    hub.delete(REPO, 3)
    hub.transfer(REPO, 4, "octo/new", 40)
    hub.hide("octo/gone")
    hub.break_item(REPO, 5, "INTERNAL", "Something went wrong")
    before = box.processes()
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 5, done
    assert "octo/other#6: left alone" in done.out + done.err
    assert f"{REPO}#5" in done.out
    assert box.processes().keys() == before.keys()
    assert {row["status"] for row in box.records()} == {"active"}
    # The one whose answer failed is held, not what was answered.
    plan = box.run("plan", "close.yml", "--format", "json")
    held = {row["ref"].partition(":")[2]: row["reason"] for row in plan.json["held"]}
    assert f"{REPO}#5" in held
    assert not {f"{REPO}#1", f"{REPO}#2"} & held.keys()
    assert plan.json["actions"] == []


FAULTS = {
    "bad_gateway": (faults.BAD_GATEWAY, "502"),
    "time-out": (faults.HANG, "no answer within"),
    "forbidden": (faults.FORBIDDEN, "not accessible"),
    "secondary limit": (faults.SECONDARY, "secondary rate limit"),
    "truncated": (faults.TRUNCATED, ""),
    "cut JSON": (faults.CUT_JSON, ""),
}


def test_a_github_that_does_not_answer_ends_nothing(box: Box, hub: FakeGitHub) -> None:
    hub.issue(REPO, 1, labels=("agent",))
    start_all(box, 1)
    before = box.processes()
    hub.change(REPO, 1, state="CLOSED")
    book = box.playbook("both.yml", _both())
    for name, (fault, words) in FAULTS.items():
        box.settings["github"] = {"timeoutSeconds": 1 if fault.hang else 60}
        box.write_config()
        hub.fail(fault)
        done = box.run("apply", book, "-y", "--format", "json")
        assert done.code == 5, (name, done)
        assert done.json["results"] == [], name
        assert words.lower() in (done.out + done.err).lower(), (name, done)
        assert "GitHub" in done.err, name
        assert box.processes().keys() == before.keys(), name
        assert box.records()[0]["status"] == "active", name
        hub.recover()
    assert box.pane(box.records()[0]["pane_id"], "pane_input_off") == "0"
    done = box.run("apply", book, "-y")
    assert done.code == 0, done
    assert box.processes() == {}


def test_an_item_that_stops_answering_between_plan_and_apply_is_held(box: Box, hub: FakeGitHub) -> None:
    hub.issue(REPO, 1, labels=("agent",))
    hub.issue(REPO, 2, labels=("agent",))
    start_all(box, 2)
    hub.change(REPO, 1, state="CLOSED")
    hub.change(REPO, 2, state="CLOSED")
    assert box.run("plan", "close.yml", "--out", "p.json").code == 0
    hub.break_item(REPO, 1, "INTERNAL", "Something went wrong")
    done = box.run("apply", "p.json", "--format", "json")
    assert done.code == 5, done
    assert [(r["ref"], r["status"]) for r in done.json["results"]] == [(f"github:{REPO}#2", "changed")]
    assert [event["ref"] for event in box.events("item.held")] == [f"github:{REPO}#1"]
    assert box.record(f"github:{REPO}#1")["status"] == "active"
    wait_until(lambda: len(box.processes()) == 2, what="one agent and its sleep are left")


def _both() -> str:
    """Start what is open, close what has ended: a listing and a question about the item."""
    start = (
        '[{"name": "start", "limits": {"max_changes": 1000}, "rules": [{"name": "open", "match": '
        '{"item": {"state": "open"}}, "ensure": {"session": "running"}}]}'
    )
    return f"{start}, {close_rule()[1:]}"
