"""Panes and people that come near a session of ours: none of them is touched, and none of them stops its end."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from tests.e2e.kit import LOOPCTL, Box, close_rule
from tests.support import wait_until


def panes(box: Box, field: str) -> dict[str, str]:
    rows = box.tmux("list-panes", "-a", "-F", f"#{{pane_id}} #{{{field}}}").splitlines()
    return {row.split(" ")[0]: row.partition(" ")[2] for row in rows}


def new_pane(box: Box, *command: str) -> str:
    """Run a tmux command that makes one pane; returns its id."""
    before = set(panes(box, "pane_pid"))
    box.tmux(*command)
    (made,) = wait_until(lambda: set(panes(box, "pane_pid")) - before, what="a new pane")
    return made


def test_a_persons_view_of_a_session_is_not_the_session(box: Box) -> None:
    """`new-session -t` and a window of one's own in it: the usual way to watch an agent."""
    box.start(["demo/app#1"])
    name = box.session("items:demo/app#1")["session"]
    box.tmux("new-session", "-d", "-t", f"={name}:", "-s", "view")
    own = new_pane(box, "new-window", "-d", "-t", "=view:", "--", "sleep", "100000")
    box.items({"demo/app#1": "closed"})
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert box.session("items:demo/app#1")["phase"] == "retained"
    assert panes(box, "pane_dead")[own] == "0"
    assert panes(box, "pane_input_off")[own] == "0"
    again = box.run("plan", "close.yml", "--detailed-exitcode")
    assert again.code == 0, again


def test_panes_that_were_moved_or_linked_into_a_session_stay(box: Box) -> None:
    box.start(["demo/app#1", "demo/app#2"])
    rows = {row["ref"]: row for row in box.sessions()}
    first, second = rows["items:demo/app#1"], rows["items:demo/app#2"]
    live = new_pane(box, "new-session", "-d", "-s", "mine", "--", "sleep", "100000")
    box.tmux("new-session", "-d", "-s", "other", "--", "sleep", "100000")
    dead = new_pane(box, "new-session", "-d", "-s", "log", "--", "sh", "-c", "echo my build log; exit 3")
    wait_until(lambda: panes(box, "pane_dead")[dead] == "1", what="the log is dead")
    target = f"={first['session']}:"
    box.tmux("link-window", "-d", "-s", "=log:", "-t", target)
    box.tmux("link-window", "-d", "-s", f"={second['session']}:", "-t", target)
    box.tmux("join-pane", "-d", "-s", live, "-t", first["pane"])
    box.items({"demo/app#1": "closed", "demo/app#2": "open"})
    box.playbook("gone.yml", close_rule(session="gone"))
    done = box.run("apply", "gone.yml", "-y")
    assert done.code == 0, done
    assert box.session("items:demo/app#1")["phase"] == "gone"
    assert box.session("items:demo/app#2")["phase"] == "running"
    left = panes(box, "pane_input_off")
    assert first["pane"] not in left
    assert [left[pane] for pane in (live, dead, second["pane"])] == ["0", "0", "0"]
    assert "my build log" in box.screen(dead)
    assert panes(box, "pane_dead")[live] == "0"


def test_a_pane_of_the_agents_own_goes_with_it_and_its_words_are_kept(box: Box) -> None:
    agent = box.folder / "splits.sh"
    agent.write_text('tmux split-window -d -- sh -c "echo SECOND PANE WORDS; sleep 100000"; echo ready; sleep 100000\n')
    box.harness("splits", "sh", str(agent))
    box.start(["demo/app#1"], "splits")
    wait_until(lambda: any("SECOND" in box.screen(pane) for pane in panes(box, "pane_pid")), what="the second pane")
    box.items({"demo/app#1": "closed"})
    box.playbook("gone.yml", close_rule(session="gone"))
    plan = box.run("plan", "gone.yml", "--format", "json").json
    assert len(plan["actions"][0]["before"]["panes"]) == 1
    done = box.run("apply", "gone.yml", "-y")
    assert done.code == 0, done
    assert "SECOND PANE WORDS" in Path(box.session("items:demo/app#1")["transcript"]).read_text()
    assert box.processes() == {}
    assert panes(box, "pane_pid") == {}


def test_a_close_that_is_refused_from_inside_leaves_the_input_on(box: Box) -> None:
    box.harness("shell", "sh")
    box.settings["routing"]["defaultHarness"] = "shell"
    box.write_config()
    box.items({"demo/app#1": "open"})
    assert box.run("apply", "start.yml", "-y").code == 0
    box.items({"demo/app#1": "closed"})
    saved = box.folder / "p.json"
    assert box.run("plan", "close.yml", "--out", str(saved)).code == 0
    pane = box.session("items:demo/app#1")["pane"]
    words = [sys.executable, LOOPCTL, "apply", str(saved), "-c", str(box.config)]
    box.tmux("send-keys", "-t", pane, f"{shlex.join(words)}; echo code $?", "Enter")
    wait_until(lambda: "code 1" in box.screen(pane), what="the answer")
    assert "loopctl itself runs inside this session" in " ".join(box.screen(pane).split())
    assert box.pane(pane, "pane_input_off") == "0"


def test_a_close_that_cannot_save_leaves_the_agent_as_it_was(box: Box) -> None:
    box.start(["demo/app#1"])
    row = box.session("items:demo/app#1")
    box.items({"demo/app#1": "closed"})
    (box.state / "transcripts").mkdir()
    # A folder stands where the transcript should go.
    (box.state / "transcripts" / f"items-demo-app-1-{box.record('items:demo/app#1')['id'][:8]}.txt").mkdir()
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 1, done
    assert "transcript" in done.out
    assert box.pane(row["pane"], "pane_input_off") == "0"
    assert box.session("items:demo/app#1")["phase"] == "running"


def test_a_program_put_into_the_pane_meanwhile_is_not_signalled(box: Box) -> None:
    """`respawn-pane -k` between the look and the first signal."""
    box.start(["demo/app#1"])
    box.items({"demo/app#1": "closed"})
    row = box.session("items:demo/app#1")
    tmux = box.folder / "bin" / "tmux"
    tmux.parent.mkdir()
    real = json.dumps(box.run_which("tmux"))
    count = box.folder / "count"
    # The fifth run of tmux is the one that captures the transcript: before it, somebody else's program takes the pane.
    tmux.write_text(
        f"#!/bin/sh\necho x >> {count}\n"
        f'if [ "$(wc -l < {count})" -eq 5 ]; then {real} -S {box.socket} respawn-pane -k -t {row["pane"]} -- sleep 77777; fi\n'
        f'exec {real} "$@"\n'
    )
    tmux.chmod(0o755)
    done = box.run("apply", "close.yml", "-y", env={"PATH": f"{tmux.parent}:{box.env['PATH']}"})
    assert done.code == 1, done
    assert "another process runs in" in done.out
    assert box.pane(row["pane"], "pane_dead") == "0"
    assert any("77777" in line for line in box.processes().values())


def test_an_agent_that_a_cut_off_close_left_deaf_is_named(box: Box) -> None:
    box.start(["demo/app#1"])
    pane = box.session("items:demo/app#1")["pane"]
    box.tmux("select-pane", "-d", "-t", pane)
    plan = box.run("plan", "close.yml")
    assert plan.code == 0, plan
    assert f"items:demo/app#1: pane {pane} takes no input" in plan.out
    box.tmux("select-pane", "-e", "-t", pane)
    assert "takes no input" not in box.run("plan", "close.yml").out
