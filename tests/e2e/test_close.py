"""Ending sessions: what is left of the agent, its processes, its pane and its record."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.kit import LOOPCTL, Box, close_rule
from tests.support import wait_until

pytestmark = pytest.mark.tmux


def nothing_to_do(box: Box) -> bool:
    plan = box.run("plan", "close.yml", "--detailed-exitcode", "--format", "json")
    return (plan.code, plan.json["actions"], plan.json["held"]) == (0, [], [])


def test_a_closed_item_leaves_a_retained_dead_read_only_pane(box: Box) -> None:
    box.start(["demo/app#1", "demo/app#2"])
    box.items({"demo/app#1": {"state": "closed", "reason": "completed"}, "demo/app#2": "open"})
    plan = box.run("plan", "close.yml", "--detailed-exitcode", "--format", "json")
    assert plan.code == 2, plan
    assert plan.json["summary"]["close"] == 1
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    row = box.session("items:demo/app#1")
    assert (row["phase"], row["status"], row["reason"]) == ("retained", "closed", "issue-closed")
    assert [box.pane(row["pane"], f) for f in ("pane_dead", "pane_input_off", "remain-on-exit")] == ["1", "1", "on"]
    text = Path(row["transcript"]).read_text()
    assert text.startswith("first line of items:demo/app#1\nline 1\n")
    assert "last words of items:demo/app#1" in text
    assert box.session("items:demo/app#2")["phase"] == "running"
    assert nothing_to_do(box)


def test_an_agent_that_ignores_sigterm_is_killed_and_it_is_said_so(box: Box) -> None:
    box.start(["demo/app#1"], "stubborn")
    box.items({"demo/app#1": "closed"})
    box.playbook("close.yml", close_rule(0.4))
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert "SIGKILL after 0.4 s" in done.out
    assert "waiting up to 0.4 s" in done.err
    (event,) = box.events("session.harness_terminated")
    assert event["killed"] is True
    assert event["survivors"] == []
    assert box.processes() == {}


def test_no_grace_means_no_waiting(box: Box) -> None:
    box.start(["demo/app#1"], "stubborn")
    box.start(["demo/app#2"], "polite")
    box.items({"demo/app#1": "closed", "demo/app#2": "closed"})
    box.playbook("close.yml", close_rule(0))
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert "waiting" not in done.err
    assert box.processes() == {}
    # Nobody was asked first: the polite agent had no time for its last words, and died of signal 9.
    for ref in ("items:demo/app#1", "items:demo/app#2"):
        pane = box.record(ref)["pane_id"]
        assert box.pane(pane, "pane_dead_signal") in {"9", "KILL", ""}
        assert box.pane(pane, "pane_dead_status") == ""
    assert "last words" not in Path(box.record("items:demo/app#2")["transcript"]).read_text()


def test_fifty_stubborn_agents_take_one_grace(box: Box) -> None:
    refs = [f"demo/app#{number}" for number in range(1, 51)]
    box.start(refs, "stubborn")
    box.items(dict.fromkeys(refs, "closed"))
    box.playbook("close.yml", close_rule(3))
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert done.err.count("waiting up to 3 s for 50 agents") == 1
    assert done.out.count("SIGKILL after 3 s") == 50
    assert box.processes() == {}
    # One wave: had they been ended one after the other, there were three seconds between any two of them.
    ends = sorted(int(line) for line in box.tmux("list-panes", "-a", "-F", "#{pane_dead_time}").split())
    assert len(ends) == 50
    assert ends[-1] - ends[0] <= 3


@pytest.mark.parametrize(("harness", "count"), [("nasty", 6), ("hydra", 4)])
def test_no_child_is_left_whatever_it_does(box: Box, harness: str, count: int) -> None:
    box.start(["demo/app#1", "demo/app#2"], harness)
    wait_until(lambda: len(box.processes()) == 2 * count, what="all helpers run")
    box.items({"demo/app#1": "merged", "demo/app#2": "open"})
    box.playbook("close.yml", close_rule(0.6))
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert len(box.processes()) == count
    assert box.record("items:demo/app#1")["reason"] == "pr-merged"
    assert box.session("items:demo/app#2")["phase"] == "running"


def test_a_server_that_others_share_is_spared_and_it_is_said_so(box: Box) -> None:
    """An agent that starts a tmux server of the user's: it carries the session's mark, and so does all below it."""
    nested = box.folder / "nested"
    box.harness("shell", "sh", "-c", f"tmux -S {nested} -f /dev/null new-session -d 'exec sleep 1000'; echo ready; cat")
    box.start(["demo/app#1"], "shell")
    box.items({"demo/app#1": "closed"})
    theirs = ["tmux", "-S", str(nested), "display-message", "-p", "#{pid}"]
    server = subprocess.run(theirs, check=True, capture_output=True, text=True, env=box.env).stdout.strip()
    assert f"tmux: server ({server})" in box.run("plan", "close.yml", "--format", "json").out
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert f"spared tmux: server ({server})" in done.out
    assert subprocess.run(theirs, check=True, capture_output=True, text=True, env=box.env).stdout.strip() == server
    assert len(box.processes()) == 2
    assert nothing_to_do(box)


def test_who_cannot_be_ended_is_named_and_the_others_are_done(box: Box) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can make a process that loopctl may not signal")
    box.start(["demo/app#1"], "shielded")
    box.start(["demo/app#2"])
    box.items({"demo/app#1": "closed", "demo/app#2": "closed"})
    box.playbook("close.yml", close_rule(0.4))
    (shielded,) = [pid for pid in box.processes() if Path(f"/proc/{pid}").stat().st_uid == 65534]
    done = subprocess.run(
        ["setpriv", "--bounding-set", "-kill", LOOPCTL, "apply", "close.yml", "-y"],
        env=box.env,
        cwd=box.folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done
    assert f"({shielded})" in done.stdout
    assert "operation not permitted" in done.stdout
    assert "1 changed" in done.stdout
    assert "1 failed" in done.stdout
    (failed,) = box.events("action.failed")
    assert failed["ref"] == "items:demo/app#1"
    (event,) = [e for e in box.events("session.harness_terminated") if e["ref"] == "items:demo/app#1"]
    assert [str(shielded) in label for label in event["survivors"]] == [True]
    assert box.record("items:demo/app#1")["status"] == "active"
    assert box.record("items:demo/app#2")["status"] == "closed"
    # Once it can be signalled, the next run finishes.
    assert box.run("apply", "close.yml", "-y").code == 0
    assert box.processes() == {}
    assert box.record("items:demo/app#1")["status"] == "closed"


def test_the_session_is_removed_where_it_is_not_to_be_kept(box: Box) -> None:
    box.settings["routing"]["tmux"] = {"keepSessionOnClose": False}
    box.write_config()
    box.start(["demo/app#1", "demo/app#2"])
    box.items({"demo/app#1": "closed", "demo/app#2": "open"})
    done = box.run("apply", "close-ended-items", "-y")
    assert done.code == 0, done
    row = box.session("items:demo/app#1")
    assert (row["phase"], row["status"]) == ("gone", "closed")
    assert box.tmux("list-sessions", "-F", "#{@loopctl_ref}").split() == ["items:demo/app#2"]
    text = Path(row["transcript"]).read_text()
    assert text.startswith("first line of items:demo/app#1\n")
    assert "last words" in text
    assert [event["ref"] for event in box.events("session.reaped")] == ["items:demo/app#1"]
    again = box.run("plan", "close-ended-items", "--detailed-exitcode")
    assert again.code == 0, again


def test_the_agent_runs_on_where_it_is_not_to_be_ended(box: Box) -> None:
    box.settings["routing"]["tmux"] = {"killHarnessOnClose": False}
    box.write_config()
    box.start(["demo/app#1"])
    before = box.processes()
    box.items({"demo/app#1": "closed"})
    done = box.run("apply", "close-ended-items", "-y")
    assert done.code == 0, done
    row = box.session("items:demo/app#1")
    assert (row["status"], row["reason"]) == ("closed", "issue-closed")
    assert [box.pane(row["pane"], f) for f in ("pane_dead", "pane_input_off")] == ["0", "1"]
    assert box.processes().keys() == before.keys()
    again = box.run("plan", "close-ended-items", "--detailed-exitcode", "--format", "json")
    assert (again.code, again.json["actions"]) == (0, [])


def test_what_has_ended_already_is_success(box: Box) -> None:
    """A dead pane, a session that is gone, an agent that exited, and a record whose runner is not tmux."""
    box.start([f"demo/app#{number}" for number in (1, 2, 3)])
    one, two, three = (box.record(f"items:demo/app#{number}") for number in (1, 2, 3))
    os.kill(one["pane_pid"], signal.SIGKILL)
    box.wait_dead(one["pane_id"])
    box.tmux("kill-session", "-t", two["session_id"])
    os.kill(three["pane_pid"], signal.SIGTERM)
    box.wait_dead(three["pane_id"])
    nowhere = dict.fromkeys(
        ("socket", "session_id", "pane_id", "name", "server_pid", "server_start", "pane_pid", "pane_start")
    )
    box.add_record(ref="items:demo/app#4", runner="process", **nowhere)
    box.items({f"demo/app#{number}": "closed" for number in (1, 2, 3, 4)})
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    rows = box.sessions()
    assert {row["ref"][-1]: row["phase"] for row in rows} == {
        "1": "retained",
        "2": "gone",
        "3": "retained",
        "4": "gone",
    }
    assert {row["reason"] for row in rows} == {"issue-closed"}
    text = Path(box.record("items:demo/app#3")["transcript"]).read_text()
    assert text.startswith("first line of items:demo/app#3\n")
    assert "last words of items:demo/app#3" in text
    assert box.processes() == {}
    assert nothing_to_do(box)


def test_a_server_that_is_gone_is_success(box: Box) -> None:
    box.start(["demo/app#1"])
    box.tmux("kill-server")
    wait_until(lambda: not box.processes(), what="its agents have ended")
    box.items({"demo/app#1": "closed"})
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert box.session("items:demo/app#1")["phase"] == "gone"
    assert nothing_to_do(box)


def test_the_undead_are_found_and_ended(box: Box) -> None:
    """A closed record whose pane lives again, and one whose processes live without a pane."""
    box.start(["demo/app#1", "demo/app#2"])
    box.items({"demo/app#1": "closed", "demo/app#2": "closed"})
    assert box.run("apply", "close.yml", "-y").code == 0
    one, two = box.record("items:demo/app#1"), box.record("items:demo/app#2")
    box.tmux("respawn-pane", "-t", one["pane_id"], "sleep 1000")
    box.tmux("kill-pane", "-t", two["pane_id"])
    left = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(1000)", box.tag],
        env={"LOOPCTL_SESSION": two["id"]},
        start_new_session=True,
    )
    wait_until(lambda: box.pane(one["pane_id"], "pane_dead") == "0", what="the pane lives again")
    plan = box.run("plan", "close.yml", "--detailed-exitcode", "--format", "json")
    assert plan.code == 2, plan
    assert [(a["before"]["phase"], a["after"]["phase"]) for a in plan.json["actions"]] == [
        ("undead", "retained"),
        ("undead", "gone"),
    ]
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert left.wait(20) == -signal.SIGTERM
    assert box.pane(one["pane_id"], "pane_dead") == "1"
    assert box.processes() == {}
    # What it was closed for, and when, is what it was.
    for then in (one, two):
        now = box.record(then["ref"])
        assert [now[name] for name in ("status", "reason", "closed_at")] == [
            "closed",
            "issue-closed",
            then["closed_at"],
        ]
    assert nothing_to_do(box)
