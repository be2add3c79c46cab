"""What GitHub is understood to say decides who lives: the installed command, real gh, real tmux. Case numbers in the names."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kit import Box, close_rule
from tests.fake_github import FakeGitHub

pytestmark = [pytest.mark.gh, pytest.mark.tmux]

REPO = "octo/app"
REF = f"github:{REPO}#1"
GHE = "ghe.example.test"


@pytest.fixture
def hub(box: Box, fake_github: FakeGitHub) -> Iterator[FakeGitHub]:
    box.env |= fake_github.env()
    box.github(REPO)
    yield fake_github
    fake_github.release()


def keep_loop(box: Box) -> str:
    """What is open runs, what has ended ends."""
    start = {"name": "open", "match": {"item": {"state": "open"}}, "ensure": {"session": "running"}}
    (play,) = json.loads(close_rule(0.5))
    play["rules"].append(start)
    return box.playbook("loop.yml", json.dumps([play]))


def fill_registry(box: Box, refs: list[str]) -> None:
    """Records of sessions whose runner is not tmux, one for each ref."""
    row = {**box.records()[0], "runner": "process", "socket": "", "pane_id": "", "session_id": "", "node_id": ""}
    row |= dict.fromkeys(("server_pid", "server_start", "pane_pid", "pane_start"))
    with sqlite3.connect(box.state / "registry.db") as db:
        for ref in refs:
            new = {**row, "id": str(uuid.uuid4()), "ref": ref, "ref_key": ref.lower(), "name": ""}
            db.execute(
                f"INSERT INTO sessions ({', '.join(new)}) VALUES ({', '.join('?' * len(new))})", list(new.values())
            )
    db.close()


def test_s39_closed_reopened_closed_reopened_each_time_right(box: Box, hub: FakeGitHub) -> None:
    """No memory of an event gets in the way, and a fresh session has a fresh pane."""
    book = keep_loop(box)
    hub.issue(REPO, 1, labels=("agent",))
    names = []
    for turn in range(1, 4):
        hub.change(REPO, 1, state="OPEN", state_reason=None)
        done = box.run("apply", book, "-y", "--format", "json")
        assert (done.code, [r["verb"] for r in done.json["results"]]) == (0, ["start"]), (turn, done)
        assert box.run("plan", book, "--detailed-exitcode").code == 0, turn
        record = box.record(REF)
        box.wait_ready([REF])
        names.append(record["name"])
        assert len(box.records()) == turn

        hub.change(REPO, 1, state="CLOSED")
        done = box.run("apply", book, "-y", "--format", "json")
        assert (done.code, [r["verb"] for r in done.json["results"]]) == (0, ["close"]), (turn, done)
        closed = box.record(REF)
        assert (closed["id"], closed["status"], closed["reason"]) == (record["id"], "closed", "issue-closed")
        assert (box.pane(closed["pane_id"], "pane_dead"), box.processes()) == ("1", {})
        assert box.run("plan", book, "--detailed-exitcode").code == 0, turn
    assert names == ["loop-octo-app-1", "loop-octo-app-1-r2", "loop-octo-app-1-r3"]
    assert len({row["pane_id"] for row in box.records()}) == 3


def test_s39_a_reopened_item_never_ends_by_what_was_closed_before(box: Box, hub: FakeGitHub) -> None:
    hub.issue(REPO, 1, labels=("agent",))
    assert box.run("apply", "start.yml", "-y").code == 0
    hub.change(REPO, 1, state="CLOSED")
    assert box.run("apply", "close.yml", "-y").code == 0
    hub.change(REPO, 1, state="OPEN", state_reason=None)
    assert box.run("plan", "close.yml", "--detailed-exitcode").code == 0
    assert box.run("apply", "start.yml", "-y").code == 0
    before = box.processes()
    assert before
    assert box.run("apply", "close.yml", "-y").code == 0
    assert box.processes().keys() == before.keys()


def test_s40_what_comes_back_is_ended_again_and_named(box: Box, hub: FakeGitHub) -> None:
    """Something else revives a closed pane. The plan says so each time, and no run goes on for ever."""
    hub.issue(REPO, 1, labels=("agent",))
    assert box.run("apply", "start.yml", "-y").code == 0
    hub.change(REPO, 1, state="CLOSED")
    assert box.run("apply", "close.yml", "-y").code == 0
    pane = box.record(REF)["pane_id"]
    for _ in range(3):
        box.tmux("respawn-pane", "-t", pane, "sleep 1000")
        plan = box.run("plan", "close.yml", "--format", "json")
        (action,) = plan.json["actions"]
        assert (action["verb"], action["before"]["phase"], action["after"]["phase"]) == ("close", "undead", "retained")
        assert "its record is closed but processes are alive" in action["why"]
        assert box.run("apply", "close.yml", "-y").code == 0
        assert box.pane(pane, "pane_dead") == "1"
        assert box.run("plan", "close.yml", "--detailed-exitcode").code == 0
    assert len(box.events("session.closed")) == 1


def test_a_thousand_sessions_in_seven_repositories_on_two_hosts(box: Box, hub: FakeGitHub) -> None:
    here, there = [f"octo/r{n}" for n in range(4)], [f"corp/r{n}" for n in range(3)]
    ghe = hub.at(GHE)
    hub.issue(REPO, 1, labels=("agent",))
    assert box.run("apply", "start.yml", "-y").code == 0
    refs = []
    for number in range(1, 1001):
        world, name, host = (hub, here[number // 2 % 4], "") if number % 2 else (ghe, there[number // 2 % 3], f"{GHE}/")
        world.issue(name, number, "CLOSED" if number % 5 == 0 else "OPEN")
        refs.append(f"github:{host}{name}#{number}")
    for number in range(2001, 2251):
        hub.issue(here[0], number, labels=("agent",))
    fill_registry(box, refs)
    box.github(*here, *[f"{GHE}/{name}" for name in there])
    hub.requests.clear()

    plan = box.run("plan", "close.yml", "-v", "--format", "json")
    assert plan.json["summary"]["close"] == 200, plan.err
    asked = [request.host for request in hub.requests]
    assert {host: asked.count(host) for host in asked} == {"api.github.com": 5, GHE: 5}
    assert f"asked github: items on github.com: 500 in 5 calls, 5 points spent, {hub.remaining} left" in plan.err
    assert f"asked github: items on {GHE}: 500 in 5 calls" in plan.err

    hub.requests.clear()
    plan = box.run("plan", keep_loop(box), "--format", "json")
    assert plan.json["summary"]["start"] == 250, plan.json["problems"]
    numbers = {int(a["ref"].partition("#")[2]) for a in plan.json["actions"] if a["verb"] == "start"}
    assert numbers == set(range(2001, 2251))
    listing = [request for request in hub.requests if "issueOrPullRequest" not in request.query]
    items = [request for request in hub.requests if "issueOrPullRequest" in request.query]
    # github.com: one call for all four repositories, two more pages of one; the other host: one.
    assert len(listing) == 4
    assert {host: sum(r.host == host for r in items) for host in ("api.github.com", GHE)} == {
        "api.github.com": 5,
        GHE: 5,
    }
    assert all(request.path.endswith("graphql") for request in hub.requests)


def test_s15_a_listing_of_small_pages_is_read_to_its_end(box: Box, hub: FakeGitHub) -> None:
    hub.page_size = 30
    for number in range(1, 36):
        hub.issue(REPO, number, labels=("agent",))
    plan = box.run("plan", "start.yml", "--format", "json")
    assert plan.json["summary"]["start"] == 35
    # Absence from a listing proves nothing: without its label an item is asked about by itself.
    assert box.run("apply", "start.yml", "-y", "--limit", REF).code == 0
    hub.change(REPO, 1, labels=())
    plan = box.run("plan", "close.yml", "--detailed-exitcode")
    assert plan.code == 0, plan


def test_s33_s35_one_bad_item_leaves_the_others(box: Box, hub: FakeGitHub) -> None:
    for number in range(1, 6):
        hub.issue(REPO, number, labels=("agent",))
    assert box.run("apply", "start.yml", "-y").code == 0
    for number in (1, 2, 4, 5):
        hub.change(REPO, number, state="CLOSED")
    hub.delete(REPO, 3)
    hub.break_item(REPO, 5, "INTERNAL", "Something went wrong")
    plan = box.run("plan", "close.yml", "--format", "json")
    assert plan.code == 5
    assert sorted(a["ref"] for a in plan.json["actions"]) == [f"github:{REPO}#{n}" for n in (1, 2, 4)]
    assert {h["ref"]: h["reason"] for h in plan.json["held"]} == {
        f"github:{REPO}#3": "the item was deleted",
        f"github:{REPO}#5": "GitHub: Something went wrong",
    }


def test_s36_a_pull_request_closed_is_not_merged(box: Box, hub: FakeGitHub) -> None:
    hub.pull(REPO, 11, labels=("agent",))
    hub.issue(REPO, 12, labels=("agent",))
    assert box.run("apply", "start.yml", "-y").code == 0
    hub.change(REPO, 11, state="CLOSED")
    hub.change(REPO, 12, state="CLOSED")
    rule = "[{name: a, rules: [{name: r, match: {item: %s}, ensure: {session: retained}}]}]"
    for item, expected in (
        ("{state: merged}", []),
        ("{kind: issue, state: closed}", [f"github:{REPO}#12"]),
        ("{kind: pull_request, state: closed}", [f"github:{REPO}#11"]),
    ):
        plan = box.run("plan", box.playbook("p.yml", rule % item), "--format", "json")
        assert [action["ref"] for action in plan.json["actions"]] == expected, item
    assert "pull request closed" in plan.json["actions"][0]["why"]


def test_s37_letter_case_makes_no_second_item(box: Box, hub: FakeGitHub) -> None:
    hub.issue("Acme/Api", 3, labels=("agent",))
    box.github("ACME/api")
    assert box.run("apply", "start.yml", "-y").code == 0
    box.edit("UPDATE sessions SET ref = 'github:acme/api#3', ref_key = 'github:acme/api#3'")
    box.github("Acme/Api")
    assert box.run("plan", "start.yml", "--detailed-exitcode").code == 0
    hub.change("Acme/Api", 3, state="CLOSED")
    done = box.run("apply", "close.yml", "-y", "--limit", "aCME/aPI#3")
    assert done.code == 0, done
    (record,) = box.records()
    assert record["status"] == "closed"


def test_like_named_items_are_two(box: Box, hub: FakeGitHub) -> None:
    """`a-b/c#1` and `a/b-c#1`: two sessions, two names, two transcripts."""
    for name in ("a-b/c", "a/b-c"):
        hub.issue(name, 1, labels=("agent",))
    box.github("a-b/c", "a/b-c")
    assert box.run("apply", "start.yml", "-y").code == 0
    hub.change("a-b/c", 1, state="CLOSED")
    assert box.run("apply", "close.yml", "-y").code == 0
    first, second = box.record("github:a-b/c#1"), box.record("github:a/b-c#1")
    assert (first["status"], second["status"]) == ("closed", "active")
    assert first["name"] != second["name"]
    hub.change("a/b-c", 1, state="CLOSED")
    assert box.run("apply", "close.yml", "-y").code == 0
    first, second = box.record("github:a-b/c#1"), box.record("github:a/b-c#1")
    assert first["transcript"] != second["transcript"]
    assert first["ref"] in Path(first["transcript"]).read_text()


def test_s38_an_item_of_another_host_is_asked_there_and_nowhere_else(box: Box, hub: FakeGitHub) -> None:
    ghe = hub.at(GHE)
    ghe.issue("acme/api", 3, labels=("agent",))
    hub.issue("acme/api", 3, "CLOSED")
    box.github(f"{GHE}/acme/api")
    assert box.run("apply", "start.yml", "-y").code == 0
    hub.requests.clear()
    plan = box.run("plan", "close.yml", "--detailed-exitcode", env={"GH_HOST": "github.com"})
    assert plan.code == 0, plan
    assert {(r.host, r.authorization) for r in hub.requests} == {(GHE, "token fake-enterprise-token")}
    # Without an account there, nobody else is asked in its place.
    plan = box.run("plan", "close.yml", env={"GH_ENTERPRISE_TOKEN": ""})
    assert plan.code == 5
    assert "or set GH_ENTERPRISE_TOKEN" in plan.out
    assert {r.host for r in hub.requests} == {GHE}


def test_s57_titles_of_any_kind_on_a_stream_of_ascii(box: Box, hub: FakeGitHub) -> None:
    hub.issue(REPO, 1, labels=("agent",), title="Fïx \u2028 \x1b[31m 🎉", milestone="Ünïcode 🎉")
    ascii_only = {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii",
        "TERM": "",
    }
    book = box.playbook(
        "p.yml",
        "[{name: 'p 🎉', rules: [{name: 'öffnen 🎉', match: {item: {state: open}}, "
        "ensure: {session: running, prompt: '{{ item.title }} {{ item.milestone }}'}}]}]",
    )
    for args in (("plan", book), ("apply", book, "-y"), ("sessions", "list"), ("sessions", "show", REF), ("doctor",)):
        done = box.run(*args, env=ascii_only)
        assert "Traceback" not in done.err, (args, done.err)
        assert done.code in (0, 1), (args, done)
        assert done.out.isascii(), args
    assert box.record(REF)["status"] == "active"
    hub.change(REPO, 1, state="CLOSED")
    assert box.run("apply", "close.yml", "-y", env=ascii_only).code == 0


def test_s24_the_plan_names_what_keeps_a_session_open(box: Box, hub: FakeGitHub) -> None:
    """Issue 1 is closed, its pull request 6 merged, its pull request 7 open; 7 has an agent of its own."""
    hub.issue(REPO, 1, labels=("agent",))
    assert box.run("apply", "start.yml", "-y").code == 0
    hub.pull(REPO, 6, "MERGED", closes=(f"{REPO}#1",))
    hub.pull(REPO, 7, labels=("agent",), closes=(f"{REPO}#1",))
    # While the issue has its session, its pull request gets none of its own.
    plan = box.run("plan", "start.yml", "--detailed-exitcode")
    assert plan.code == 0, plan
    hub.change(REPO, 1, state="CLOSED")
    plan = box.run("plan", "close.yml", "--detailed-exitcode")
    assert plan.code == 0, plan
    assert f"{REF} is closed, but its pull request github:{REPO}#7 is open: its session stays" in plan.out
    box.settings["routing"]["linkedItems"] = "own"
    box.write_config()
    assert box.run("plan", "close.yml", "--detailed-exitcode").code == 2
    del box.settings["routing"]["linkedItems"]
    box.write_config()
    hub.change(REPO, 7, state="MERGED")
    assert box.run("apply", "close.yml", "-y").code == 0
    assert (box.record(REF)["status"], box.record(REF)["reason"]) == ("closed", "issue-closed")


def test_s54_a_playbook_can_leave_converted_issues_alone(box: Box, hub: FakeGitHub) -> None:
    for number in (1, 2):
        hub.issue(REPO, number, labels=("agent",))
    assert box.run("apply", "start.yml", "-y").code == 0
    hub.change(REPO, 1, state="CLOSED", converted=True, locked=True)
    hub.change(REPO, 2, state="CLOSED", converted=False, locked=True)
    plan = box.run("plan", "close.yml", "--format", "json")
    whys = [action["why"] for action in plan.json["actions"]]
    assert [
        why.startswith(f"issue closed as {word}") for why, word in zip(whys, ("converted", "completed"), strict=True)
    ]
    (play,) = json.loads(close_rule())
    play["rules"][0]["when"] = "item.reason != 'converted'"
    plan = box.run("plan", box.playbook("but.yml", json.dumps([play])), "--format", "json")
    assert plan.code == 0, plan
    assert [a["ref"] for a in plan.json["actions"]] == [f"github:{REPO}#2"]


def test_a_transferred_issue_is_moved_along(box: Box, hub: FakeGitHub) -> None:
    hub.issue(REPO, 1, labels=("agent",))
    hub.issue("octo/new", 1, "CLOSED")
    box.github(REPO, "octo/new")
    assert box.run("apply", "start.yml", "-y").code == 0
    before, record = box.processes(), box.record(REF)
    hub.transfer(REPO, 1, "octo/new", 40)
    hub.change("octo/new", 40, state="CLOSED")
    plan = box.run("plan", "close.yml", "--format", "json")
    assert (plan.code, plan.json["actions"]) == (5, [])
    (held,) = plan.json["held"]
    new = "github:octo/new#40"
    assert held["reason"] == f"the item has moved to {new}: `loopctl sessions move {REF} {new}` takes its session along"

    assert box.run("sessions", "move", REF, "octo/new#41").code == 1
    done = box.run("sessions", "move", REF, new)
    assert done.code == 0, done
    moved = box.record(new)
    assert (moved["id"], moved["generation"]) == (record["id"], record["generation"] + 1)
    assert moved["node_id"] not in {"", record["node_id"]}
    assert box.pane(record["pane_id"], "@loopctl_ref") == new
    assert box.pane(record["pane_id"], "@loopctl_id") == record["id"]
    assert box.processes().keys() == before.keys()
    (event,) = box.events("session.moved")
    assert (event["from"], event["to"]) == (REF, new)
    # Again: nothing more to do.
    assert box.run("sessions", "move", REF, new).code == 1
    assert len(box.events("session.moved")) == 1
    assert box.run("apply", "close.yml", "-y").code == 0
    assert (box.record(new)["status"], box.processes()) == ("closed", {})


def test_a_move_mends_its_marks_and_never_makes_two_of_one(box: Box, hub: FakeGitHub) -> None:
    hub.issue(REPO, 1, labels=("agent",))
    hub.issue(REPO, 2, labels=("agent",))
    assert box.run("apply", "start.yml", "-y").code == 0
    done = box.run("sessions", "move", REF, f"{REPO}#2")
    assert done.code == 1
    assert "already has an open session" in done.err
    assert sorted(row["ref"] for row in box.records()) == [f"github:{REPO}#1", f"github:{REPO}#2"]
    # Cut off between record and mark: the same command completes it.
    record = box.record(REF)
    box.tmux("set-option", "-t", record["session_id"], "@loopctl_ref", "github:old/name#1")
    assert box.run("sessions", "move", "old/name#1", REF).code == 0
    assert box.pane(record["pane_id"], "@loopctl_ref") == REF
    assert box.run("sessions", "move", "old/name#1", "old/name#2").code == 1


def test_doctor_says_what_is_wrong_and_what_to_do(box: Box, hub: FakeGitHub) -> None:
    hub.issue(REPO, 1)
    done = box.run("doctor", "--format", "json")
    assert done.code == 0, done
    found = {(f["what"], f["level"]): f["text"] for f in done.json["findings"]}
    assert done.json["ok"]
    assert {level for _, level in found} == {"ok"}
    assert found["github.com", "ok"].startswith("4999 of 5000 points left")
    assert not box.state.exists(), "a doctor leaves no trace"

    done = box.run("doctor", env={"GH_TOKEN": "", "GH_ENTERPRISE_TOKEN": "", "GH_CONFIG_DIR": str(box.folder)})
    assert done.code == 1
    assert "fail  github.com  gh is not logged in to github.com\n" in done.out
    assert "-> run gh auth login --hostname github.com" in done.out

    box.settings["github"] = {"timeOut": 3}
    box.write_config()
    done = box.run("doctor")
    assert done.code == 1
    assert "unknown key 'timeOut'" in done.out
