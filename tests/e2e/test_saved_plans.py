"""Saved plans: carried out as they are, once, in the world that they were made for; and who has to be asked."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import stat
import subprocess
from collections.abc import Mapping

import pytest

from tests.e2e.kit import LOOPCTL, Box, Done

pytestmark = pytest.mark.tmux


def test_a_saved_plan_is_applied_once_and_only_where_nothing_moved(box: Box) -> None:
    box.start(["demo/app#1", "demo/app#2", "demo/app#3"])
    box.items({"demo/app#1": "closed", "demo/app#2": "closed", "demo/app#3": "open"})
    plan = box.run("plan", "close.yml", "--out", "p.json", "--format", "json")
    assert plan.code == 0, plan
    saved = box.folder / "p.json"
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert json.loads(saved.read_text()) == plan.json

    # By hand: nobody signed that.
    edited = json.loads(saved.read_text())
    edited["actions"][0]["ref"] = "items:demo/app#3"
    (box.folder / "edited.json").write_text(json.dumps(edited))
    done = box.run("apply", "edited.json", "-y")
    assert done.code == 65, done
    assert "digest" in done.err

    # One of two was reopened meanwhile: that one is left alone, the other is done. Nobody is asked.
    box.items({"demo/app#1": "closed", "demo/app#2": "open", "demo/app#3": "open"})
    done = box.run("apply", "p.json", "--format", "json")
    assert done.code == 4, done
    assert [(r["ref"], r["status"]) for r in done.json["results"]] == [
        ("items:demo/app#1", "changed"),
        ("items:demo/app#2", "stale"),
    ]
    assert "the item" in done.json["results"][1]["detail"]
    assert [event["ref"] for event in box.events("action.stale")] == ["items:demo/app#2"]
    assert box.session("items:demo/app#2")["phase"] == "running"

    # Twice is refused, singly for each action, also when the item is closed again.
    box.items({"demo/app#1": "closed", "demo/app#2": "open", "demo/app#3": "open"})
    again = box.run("apply", "p.json", "--format", "json")
    assert again.code == 4, again
    assert {r["status"] for r in again.json["results"]} == {"stale"}
    assert len(box.events("session.closed")) == 1


def test_a_plan_of_no_registry_or_of_another_one_is_stale(box: Box) -> None:
    box.items({"demo/app#1": "open"})
    assert box.run("plan", "start.yml", "--out", "p.json").code == 0
    assert not (box.state / "registry.db").exists()
    box.start(["demo/app#2"])
    done = box.run("apply", "p.json")
    assert done.code == 4, done
    assert "no registry" in done.err
    assert [row["ref"] for row in box.records()] == ["items:demo/app#2"]
    # Made here, carried to another state root.
    assert box.run("plan", "start.yml", "--out", "p.json").code == 0
    box.settings["state"]["root"] = str(box.folder / "state2")
    box.settings["tmux"]["socket"] = str(box.folder / "s2")
    box.write_config()
    done = box.run("apply", "p.json")
    assert done.code == 4, done
    assert not (box.folder / "s2").exists()


def test_without_a_terminal_nobody_is_asked_and_nothing_is_done(box: Box) -> None:
    box.start(["demo/app#1"])
    box.items({"demo/app#1": "closed"})
    for stdin in (None, "y\n"):
        done = box.run("apply", "close.yml", stdin=stdin)
        assert done.code == 64, (stdin, done)
        assert "-y" in done.err
        assert "nothing was done" in done.err
    for shut in ("<&-", "<&- >&- 2>&-"):
        closed = subprocess.run(
            ["sh", "-c", f"{LOOPCTL} apply close.yml {shut}"],
            env=box.env,
            cwd=box.folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert closed.returncode == 64, (shut, closed)
    assert box.record("items:demo/app#1")["status"] == "active"
    # With nothing to do there is nothing to ask.
    box.items({"demo/app#1": "open"})
    assert box.run("apply", "close.yml").code == 0


def on_terminal(box: Box, *args: str, answer: str = "", env: Mapping[str, str] | None = None) -> Done:
    """Run loopctl on a terminal; `answer` is typed once it has asked."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [LOOPCTL, *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**box.env, "TERM": "xterm", **(env or {})},
        cwd=box.folder,
        start_new_session=True,
    )
    os.close(theirs)
    text = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 60)
        assert ready, f"it hangs after {text!r}"
        try:
            part = os.read(ours, 65536)
        except OSError:  # what Linux says when the other side is gone
            break
        if not part:
            break
        text += part
        if answer and b"[y/N]" in text:
            os.write(ours, answer.encode())
            answer = ""
    os.close(ours)
    return Done(process.wait(60), text.decode(errors="replace"), "")


def test_on_a_terminal_it_asks_first(box: Box) -> None:
    box.start(["demo/app#1"])
    box.items({"demo/app#1": "closed"})
    # A terminal changes how a plan looks, not what is planned.
    piped, shown = box.run("plan", "close.yml").out, on_terminal(box, "plan", "close.yml").out
    plain, shown = (re.sub(r"\x1b\[[0-9;]*[mK]|\bup \d+s", "", text) for text in (piped, shown))
    assert "- close  items:demo/app#1 " in plain
    assert set(plain.splitlines()) <= set(shown.splitlines())
    no = on_terminal(box, "apply", "close.yml", answer="n\n")
    assert no.code == 1, no
    assert "Apply this plan?" in no.out
    assert "nothing was done" in no.out
    empty = on_terminal(box, "apply", "close.yml", answer="\n")
    assert empty.code == 1, empty
    unclear = on_terminal(box, "apply", "close.yml", answer="abc\nno\n")
    assert unclear.code == 1 and "y or n?" in unclear.out and "Error" not in unclear.out, unclear
    ci = on_terminal(box, "apply", "close.yml", env={"CI": "1"})
    assert ci.code == 64, ci
    assert "Apply this plan?" not in ci.out
    assert box.record("items:demo/app#1")["status"] == "active"
    yes = on_terminal(box, "apply", "close.yml", answer="y\n")
    assert yes.code == 0, yes
    assert "\x1b[" in yes.out
    assert box.record("items:demo/app#1")["status"] == "closed"
