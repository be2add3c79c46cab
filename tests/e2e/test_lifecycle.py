"""What becomes of sessions under one playbook: each step is one apply, and the plan after it is empty."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.kit import Box, close_rule
from tests.support import wait_until

pytestmark = pytest.mark.tmux

REF = "demo/app#1"
SEEN = f"items:{REF}"
LOOP = ("keep-the-loop", "-e", "label=agent")


def set_item(box: Box, state: str, *labels: str) -> None:
    box.items({REF: {"state": state, "kind": "pull_request", "labels": list(labels)}})


#: The first line of an action, as `apply` shows it.
HEAD = re.compile(r"^[-+~!] (\w+) +\S+ +(\w+ -> \w+)", re.MULTILINE)


def step(box: Box, *expected: str, book: tuple[str, ...] = LOOP) -> None:
    """The next apply does exactly this (`verb before -> after`), and leaves nothing to do."""
    if expected:
        done = box.run("apply", *book, "-y")
        assert [" ".join(found) for found in HEAD.findall(done.out)] == list(expected), done
        assert (done.code, f"{len(expected)} changed" in done.out) == (0, True), done
    plan = box.run("plan", *book, "--detailed-exitcode")
    assert plan.code == 0, plan


def phases(box: Box) -> list[str]:
    return [row["phase"] for row in box.sessions()]


def panes(box: Box) -> list[str]:
    """Pane id, mark and whether it is dead, of every pane of the server."""
    return sorted(box.tmux("list-panes", "-a", "-F", "#{pane_id} #{@loopctl_id} #{pane_dead}").splitlines())


def pane(row: dict[str, Any], dead: int) -> str:
    return f"{row['pane_id']} {row['id']} {dead}"


def close_days_ago(box: Box, days: float) -> None:
    when = datetime.now(UTC) - timedelta(days=days)
    box.edit("UPDATE sessions SET closed_at = ?", f"{when:%Y-%m-%dT%H:%M:%S.%fZ}")


def test_an_item_that_is_opened_again_starts_anew_while_its_old_pane_goes(box: Box) -> None:
    set_item(box, "open", "agent")
    step(box, "start absent -> running")
    box.wait_ready([SEEN])
    set_item(box, "closed", "agent")
    step(box, "close running -> retained")
    close_days_ago(box, 15)
    set_item(box, "open", "agent")
    step(box, "reap retained -> gone", "start retained -> running")
    row = box.record(SEEN)
    assert phases(box) == ["gone", "running"]
    assert panes(box) == [pane(row, 0)]


def test_a_paused_session_rests_and_is_closed_like_any_other(box: Box) -> None:
    set_item(box, "open", "agent")
    step(box, "start absent -> running")
    box.wait_ready([SEEN])
    pid = box.record(SEEN)["pane_pid"]
    for said in ("is paused", "paused already"):
        done = box.run("sessions", "pause", SEEN)
        assert done.code == 0, done
        assert said in done.out
    assert phases(box) == ["paused"]
    step(box)
    assert pid in box.processes() | box.keepers()
    shown = box.run("sessions", "resume", SEEN, "--format", "json").json
    assert (shown["phase"], shown["changed"]) == ("running", True)
    assert "not paused" in box.run("sessions", "resume", SEEN).out
    assert [e["event"] for e in box.events("session.paused", "session.resumed")] == [
        "session.paused",
        "session.resumed",
    ]

    assert box.run("sessions", "pause", SEEN).code == 0
    set_item(box, "closed", "agent")
    step(box, "close paused -> retained")
    assert box.processes() == {}
    for word in ("pause", "resume"):
        done = box.run("sessions", word, SEEN)
        assert done.code == 1, done
        assert "is closed" in done.err
    assert box.run("sessions", "pause", "demo/app#9").code == 1


def test_a_paused_session_whose_agent_ended_is_not_started_again(box: Box) -> None:
    set_item(box, "open", "agent")
    step(box, "start absent -> running")
    box.wait_ready([SEEN])
    assert box.run("sessions", "pause", SEEN).code == 0
    row = box.record(SEEN)
    box.tmux("send-keys", "-t", row["pane_id"], "C-c")
    box.wait_dead(row["pane_id"])
    plan = box.run("plan", *LOOP)
    assert plan.code == 0, plan
    assert "is paused and its agent has exited" in plan.out
    assert len(box.records()) == 1


def test_a_rule_can_pause(box: Box) -> None:
    hold = (
        box.playbook(
            "hold.yml",
            "[{name: hold, rules: [{name: on hold, match: {item: {state: open, labels: hold}}, ensure: {session: paused}}]}]",
        ),
    )
    both = (*LOOP, *hold)
    set_item(box, "open", "agent", "hold")
    step(box, book=both)
    set_item(box, "open", "agent")
    step(box, "start absent -> running", book=both)
    box.wait_ready([SEEN])
    set_item(box, "open", "agent", "hold")
    step(box, "record running -> paused", book=both)
    # It stays so until somebody resumes it: a rule that wants it to run does not.
    set_item(box, "open", "agent")
    step(box, book=both)
    assert phases(box) == ["paused"]
    assert box.run("sessions", "resume", SEEN).code == 0
    set_item(box, "merged", "agent", "hold")
    step(box, "close running -> retained", book=both)


def test_pausing_never_waits_for_an_apply_and_an_apply_closes_over_it(box: Box) -> None:
    box.start([REF], "stubborn")
    set_item(box, "closed")
    box.playbook("close.yml", close_rule(3))
    err = box.folder / "err"
    with err.open("wb") as stream, box.popen("apply", "close.yml", "-y", stdout=stream, stderr=stream) as apply:
        wait_until(lambda: b"waiting" in err.read_bytes(), what="it waits for the agent")
        assert box.run("sessions", "pause", SEEN).code == 0
        assert apply.poll() is None
        assert apply.wait(60) == 0, err.read_text()
    assert box.record(SEEN)["status"] == "closed"


def test_only_the_last_are_kept(box: Box) -> None:
    refs = [f"demo/app#{number}" for number in range(1, 6)]
    box.start(refs)
    box.items(dict.fromkeys(refs, "closed"))
    assert box.run("apply", "close.yml", "-y").code == 0
    for age, ref in enumerate(refs):
        box.edit(
            "UPDATE sessions SET closed_at = ? WHERE ref = ?", f"2026-01-0{9 - age}T00:00:00.000000Z", f"items:{ref}"
        )
    # No source is asked: it could not answer.
    box.items_file.write_text("- nonsense")
    book = box.playbook(
        "last.yml",
        "[{rules: [{name: only two, match: {session: {phase: retained}}, ensure: {session: gone, keep_last: 2}}]}]",
    )
    step(box, *["reap retained -> gone"] * 3, book=(book,))
    left = {row["ref"] for row in box.sessions() if row["phase"] == "retained"}
    assert left == {"items:demo/app#1", "items:demo/app#2"}


def lose(box: Box) -> list[dict[str, Any]]:
    """The registry is lost; what was in it."""
    rows = box.records()
    for path in box.state.glob("registry.db*"):
        path.unlink()
    return rows


KEPT = (
    "id",
    "ref",
    "status",
    "socket",
    "server_pid",
    "session_id",
    "pane_id",
    "pane_pid",
    "pane_start",
    "name",
    "origin",
)


def test_a_lost_registry_is_restored_from_the_marks(box: Box) -> None:
    refs = [f"demo/app#{number}" for number in range(1, 4)]
    box.start(refs)
    box.items(dict.fromkeys(refs, "open") | {refs[1]: "closed"})
    assert box.run("apply", "close.yml", "-y").code == 0
    exited = box.record(f"items:{refs[2]}")["pane_id"]
    box.tmux("send-keys", "-t", exited, "C-c")
    box.wait_dead(exited)
    box.tmux("new-session", "-d", "-s", "mine", "sleep 100000")
    before, shown, alive = lose(box), panes(box), box.processes()
    assert box.sessions() == []
    strays = box.run("sessions", "list", "--unmanaged").out
    assert "marked for items:demo/app#1: see `loopctl sessions rebuild`" in strays

    checked = box.run("sessions", "rebuild", "--check", "--format", "json")
    assert checked.code == 0, checked
    assert [(a["verb"], a["after"]["phase"]) for a in checked.json["actions"]] == [
        ("record", "running"),
        ("record", "retained"),
        ("record", "exited"),
    ]
    assert box.run("sessions", "rebuild").code == 64
    assert box.records() == []
    done = box.run("sessions", "rebuild", "-y")
    assert done.code == 0, done
    after = sorted(box.records(), key=lambda row: row["ref"])
    for old, new in zip(before, after, strict=True):
        same = set(KEPT) - ({"pane_pid", "pane_start", "origin"} if new["ref"] != "items:demo/app#1" else set())
        assert {key: new[key] for key in same} == {key: old[key] for key in same}
    assert (after[1]["reason"], after[1]["transcript"]) == ("rebuilt", before[1]["transcript"])
    assert (panes(box), box.processes()) == (shown, alive)

    again = box.run("sessions", "rebuild", "-y")
    assert (again.code, again.out) == (
        0,
        "Nothing to restore: every session with loopctl's marks is in the registry.\n",
    )
    assert sorted(box.records(), key=lambda row: row["ref"]) == after
    # They are sessions like any other.
    box.items(dict.fromkeys(refs, "closed"))
    assert box.run("apply", "close.yml", "-y").code == 0
    assert {row["phase"] for row in box.sessions()} == {"retained"}
    assert box.processes() == {}
    assert "mine" in box.tmux("list-sessions", "-F", "#{session_name}")


def test_marks_that_tell_nothing_for_certain_are_named_and_left_out(box: Box) -> None:
    refs = [f"demo/app#{number}" for number in range(1, 5)]
    box.start(refs)
    one, two, three, four = sorted(box.records(), key=lambda row: row["ref"])
    lose(box)
    box.tmux("set-option", "-t", two["session_id"], "@loopctl_ref", "no|\nref")
    box.tmux("set-option", "-t", four["session_id"], "@loopctl_id", three["id"])
    done = box.run("sessions", "rebuild", "-y")
    assert done.code == 5, done
    assert [row["id"] for row in box.records()] == [one["id"]]
    assert f"session {two['name']} ({two['pane_id']}) is marked for no work item: 'no__ref'" in done.out
    assert f"session {three['name']} ({three['pane_id']}) carries the same mark as {four['name']}" in done.out


def test_a_start_that_was_cut_off_for_an_item_opened_again_is_found_by_its_mark(box: Box) -> None:
    """The pane is there, the record does not know it yet, and an older session of the item is retained."""
    set_item(box, "open", "agent")
    step(box, "start absent -> running")
    box.wait_ready([SEEN])
    set_item(box, "closed", "agent")
    step(box, "close running -> retained")
    set_item(box, "open", "agent")
    step(box, "start retained -> running")
    row = box.record(SEEN)
    box.edit(
        "UPDATE sessions SET server_pid = NULL, server_start = NULL, session_id = '', pane_id = '', pane_pid = NULL, "
        "pane_start = NULL WHERE id = ?",
        row["id"],
    )
    step(box, "record running -> running")
    assert box.record(SEEN)["pane_id"] == row["pane_id"]
    assert phases(box) == ["retained", "running"]
    assert len(panes(box)) == 2
    set_item(box, "closed", "agent")
    step(box, "close running -> retained")
    assert box.processes() == {}
