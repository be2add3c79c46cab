from __future__ import annotations

from pathlib import Path

from tests.e2e.kit import Box


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
    again = box.run("plan", "close.yml", "--detailed-exitcode", "--format", "json")
    assert (again.code, again.json["actions"]) == (0, [])


def test_an_agent_that_ignores_sigterm_is_killed_and_it_is_said_so(box: Box) -> None:
    box.start(["demo/app#1"], "stubborn")
    box.items({"demo/app#1": "closed"})
    box.playbook("close.yml", close_rule_with(0.4))
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert "SIGKILL after 0.4 s" in done.out
    (event,) = box.events("session.harness_terminated")
    assert event["killed"] is True
    assert event["survivors"] == []
    assert box.processes() == {}


def test_no_child_is_left_whatever_it_does(box: Box) -> None:
    box.start(["demo/app#1", "demo/app#2"], "nasty")
    before = box.processes()
    assert len(before) == 12
    box.items({"demo/app#1": "merged", "demo/app#2": "open"})
    box.playbook("close.yml", close_rule_with(0.4))
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert len(box.processes()) == 6
    assert box.session("items:demo/app#1")["reason"] == "pr-merged"


def close_rule_with(grace: float) -> str:
    from tests.e2e.kit import close_rule

    return close_rule(grace)
