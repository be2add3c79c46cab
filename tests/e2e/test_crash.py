"""Whatever stops an apply, and wherever: the next one finishes the job."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.kit import Box, Saboteur, close_rule
from tests.support import wait_until

pytestmark = pytest.mark.tmux

KILLED = -signal.SIGKILL
#: More than an apply of one action runs tmux.
MOST_CALLS = 15


def crashed(
    box: Box, saboteur: Saboteur, book: str, harness_of: list[str], codes: frozenset[int] = frozenset({KILLED})
) -> list[str]:
    """Kill one apply after another, each before or after another run of tmux, each about an item of its own.

    Returns the items that were tried. The last two are of applies that ran to their end, so every place was visited. `codes` is how
    one may end that was hit.
    """
    tried = []
    for when in ("before", "after"):
        # The first call is a look of the plan. What ends it before it is shown is no failure: nothing was done yet.
        for number in range(2, MOST_CALLS):
            ref = harness_of[len(tried)]
            tried.append(ref)
            saboteur.arm(f"{when} {number}")
            done = box.run("apply", book, "-y", "--limit", f"items:{ref}", env=saboteur.env)
            if saboteur.count < number:
                assert done.code == 0, done
                break
            assert done.code in codes or not done.out, (when, number, done)
        else:
            raise AssertionError("it goes on for ever")
    return tried


def test_a_close_that_is_killed_anywhere_is_finished_by_the_next(box: Box) -> None:
    refs = [f"demo/app#{number}" for number in range(1, 31)]
    box.start(refs[:26])
    box.items(dict.fromkeys(refs[:26], "closed"))
    tried = crashed(box, Saboteur(box), "close.yml", refs)
    assert len(tried) > 10
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert box.processes() == {}
    assert len(box.tmux("list-panes", "-a", "-F", "#{pane_dead}").split()) == 26
    for row in box.records():
        assert (row["status"], row["reason"]) == ("closed", "issue-closed"), row
        pane = [box.pane(row["pane_id"], field) for field in ("pane_dead", "pane_input_off", "remain-on-exit")]
        assert pane == ["1", "1", "on"], row
        text = Path(row["transcript"]).read_text()
        assert text.startswith(f"first line of {row['ref']}\nline 1\n"), row
        assert f"last words of {row['ref']}" in text, row
    assert not list((box.state / "transcripts").glob(".*"))
    plan = box.run("plan", "close.yml", "--detailed-exitcode")
    assert plan.code == 0, plan


def test_a_start_that_is_killed_anywhere_never_leaves_two_panes(box: Box) -> None:
    refs = [f"demo/app#{number}" for number in range(1, 31)]
    box.items(dict.fromkeys(refs, "open"))
    tried = crashed(box, Saboteur(box), "start.yml", refs)
    box.items(dict.fromkeys(tried, "open"))
    done = box.run("apply", "start.yml", "-y")
    assert done.code == 0, done
    rows = [row for row in box.records() if row["status"] != "closed"]
    assert sorted(row["ref"] for row in rows) == sorted(f"items:{ref}" for ref in tried)
    marks = box.tmux("list-panes", "-a", "-F", "#{@loopctl_ref}").split()
    assert sorted(marks) == sorted(row["ref"] for row in rows)
    plan = box.run("plan", "start.yml", "--detailed-exitcode")
    assert plan.code == 0, plan
    # And each can be closed.
    box.items(dict.fromkeys(tried, "closed"))
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert box.processes() == {}


def restartable(box: Box, refs: list[str]) -> str:
    """Their agents have ended by themselves."""
    box.start(refs)
    for pid in box.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for row in box.records():
        box.wait_dead(row["pane_id"])
    return "start.yml"


def reapable(box: Box, refs: list[str]) -> str:
    """They have ended, and their panes are to go."""
    box.start(refs)
    box.items(dict.fromkeys(refs, "closed"))
    assert box.run("apply", "close.yml", "-y").code == 0
    rule = {"name": "retained", "match": {"session": {"phase": "retained"}}, "ensure": {"session": "gone"}}
    limits = {"max_changes": 1000, "max_fraction": 1}
    return box.playbook("reap.yml", json.dumps([{"name": "reap", "limits": limits, "rules": [rule]}]))


def startable(box: Box, refs: list[str]) -> str:
    box.items(dict.fromkeys(refs, "open"))
    return "start.yml"


def closable(box: Box, refs: list[str]) -> str:
    box.start(refs)
    box.items(dict.fromkeys(refs, "closed"))
    return "close.yml"


@pytest.mark.skipif(not os.environ.get("FAULTS_REPORT"), reason="make faults tries it")
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("make", [closable, startable, restartable, reapable])
def test_a_signal_around_any_run_of_tmux_is_made_good_by_the_next_apply(
    box: Box, make: Callable[[Box, list[str]], str], signum: signal.Signals, record_property: pytest.RecordProperty
) -> None:
    refs = [f"demo/app#{number}" for number in range(1, 31)]
    book = make(box, refs)
    codes = frozenset({KILLED}) if signum == signal.SIGKILL else frozenset({0, 1})
    tried = crashed(box, Saboteur(box, signum=signum), book, refs, codes)
    record_property("signals", (make.__name__, signum.name, len(tried) - 2))
    done = box.run("apply", book, "-y")
    assert done.code == 0, done
    plan = box.run("plan", book, "--detailed-exitcode")
    assert plan.code == 0, plan
    live = box.tmux("list-panes", "-a", "-F", "#{pane_dead} #{@loopctl_ref}").split("\n")
    alive = sorted(row[2:] for row in live if row.startswith("0 "))
    runs = make in {startable, restartable}
    assert alive == (sorted(f"items:{ref}" for ref in refs) if runs else [])
    open_ones = sorted(row["ref"] for row in box.records() if row["status"] != "closed")
    assert open_ones == alive
    for row in box.records():
        if row["status"] == "closed":
            assert f"first line of {row['ref']}" in Path(row["transcript"]).read_text()


def test_a_pane_that_comes_after_loopctl_was_killed_is_the_only_one(box: Box) -> None:
    """The tmux that loopctl had called may do its work later, before the next run or after it: one pane in any case."""
    saboteur, late = Saboteur(box), box.folder / "late"
    (saboteur.folder / "tmux").write_text(
        f'#!/bin/sh\ncase "$*" in *start-server*) cat >{late}; kill -9 $PPID;; *) exec {shutil.which("tmux")} "$@";; esac\n'
    )

    def begin(*refs: str) -> None:
        box.items(dict.fromkeys(refs, "open"))
        assert box.run("apply", "start.yml", "-y", env=saboteur.env).code == KILLED
        assert box.record(f"items:{refs[-1]}")["pane_id"] == ""

    def come() -> None:
        box.tmux("-f", "/dev/null", "start-server", ";", "source-file", str(late))

    def panes() -> list[str]:
        return sorted(box.tmux("list-panes", "-a", "-F", "#{@loopctl_id}").split())

    begin("demo/app#1")
    come()
    assert box.session("items:demo/app#1")["phase"] == "running"
    assert box.run("apply", "start.yml", "-y").code == 0
    assert panes() == [box.record("items:demo/app#1")["id"]]
    begin("demo/app#1", "demo/app#2")
    assert box.run("apply", "start.yml", "-y").code == 0
    come()
    assert panes() == sorted(row["id"] for row in box.records())
    assert len(panes()) == 2


def test_a_kill_during_the_grace_is_repaired(box: Box) -> None:
    box.start(["demo/app#1", "demo/app#2"], "stubborn")
    box.start(["demo/app#3"], "nasty")
    box.items(dict.fromkeys([f"demo/app#{number}" for number in (1, 2, 3)], "closed"))
    box.playbook("close.yml", close_rule(1000))
    with (box.folder / "err").open("wb") as err, box.popen("apply", "close.yml", "-y", stderr=err) as apply:
        wait_until(lambda: b"waiting" in (box.folder / "err").read_bytes(), what="it waits for the agents")
        pane = box.record("items:demo/app#3")["pane_id"]
        wait_until(lambda: box.pane(pane, "pane_dead") == "1" or box.tmux("run-shell", "-b", "true"), what="#3 ended")
        apply.kill()
    assert {row["status"] for row in box.records()} == {"active"}
    box.playbook("close.yml", close_rule(0.4))
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert box.processes() == {}
    assert {row["status"] for row in box.records()} == {"closed"}
    for row in box.records():
        assert "ready" in Path(row["transcript"]).read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_grace_stops_in_order(box: Box, number: signal.Signals) -> None:
    box.start(["demo/app#1", "demo/app#2"], "stubborn")
    box.start(["demo/app#3"])
    box.items(dict.fromkeys([f"demo/app#{number}" for number in (1, 2, 3)], "closed"))
    box.playbook("close.yml", close_rule(1000))
    out, err = box.folder / "out", box.folder / "err"
    polite = box.record("items:demo/app#3")["pane_pid"]
    with out.open("wb") as one, err.open("wb") as two:
        apply = box.popen("apply", "close.yml", "-y", stdout=one, stderr=two)
        wait_until(lambda: b"waiting" in err.read_bytes(), what="it waits for the agents")
        wait_until(lambda: polite not in box.processes(), what="the polite one has ended")
        # Twice is no more than once.
        apply.send_signal(number)
        apply.send_signal(number)
        assert apply.wait(60) == 1
    assert "Apply (interrupted): " in out.read_text()
    assert "still alive sh (" in out.read_text()
    statuses = {row["ref"]: row["status"] for row in box.records()}
    assert (statuses["items:demo/app#1"], statuses["items:demo/app#2"]) == ("active", "active")
    box.settings["lock"] = {"timeoutSeconds": 0}
    box.write_config()
    box.playbook("close.yml", close_rule(0.4))
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert box.processes() == {}
    assert {row["status"] for row in box.records()} == {"closed"}
