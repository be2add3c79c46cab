"""Nothing is touched that was not proved to be the session that is meant."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.kit import LOOPCTL, Box, close_rule
from tests.support import wait_until

pytestmark = pytest.mark.tmux


@contextmanager
def bystander(box: Box) -> Iterator[subprocess.Popen[bytes]]:
    """An ordinary process of the user's, with nothing of loopctl about it."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def panes(box: Box) -> dict[str, str]:
    """Every pane of the box's server: id -> whether it is dead, its input off, its session's name."""
    lines = box.tmux("list-panes", "-a", "-F", "#{pane_id} #{pane_dead} #{pane_input_off} #{session_name}")
    return dict(line.split(" ", 1) for line in lines.splitlines())


def test_names_that_begin_alike_or_hold_globs_are_not_confused(box: Box) -> None:
    box.start(["demo/app#1", "demo/app#15"])
    one = box.record("items:demo/app#1")
    box.tmux("kill-session", "-t", one["session_id"])
    wait_until(lambda: one["pane_id"] not in panes(box), what="the session of #1 is gone")
    # By hand: what a bare `-t loop-demo-app-1` would have matched, exactly, by prefix and by glob.
    for name in ("loop-demo-app-10", "loop-demo-app-*", "loop-demo-app-1?", "*", "loop-demo-app-[1]"):
        box.tmux("new-session", "-d", "-s", name, "sleep", "1000")
    before = panes(box)
    assert len(before) == 6
    box.items({"demo/app#1": "closed", "demo/app#15": "open"})
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done
    assert panes(box) == before
    assert (box.record("items:demo/app#1")["status"], box.record("items:demo/app#15")["status"]) == ("closed", "active")
    # Also where the record's name is such a glob.
    box.items({"demo/app#1": "closed", "demo/app#15": "closed"})
    fifteen = box.record("items:demo/app#15")
    box.edit("UPDATE sessions SET name = '*' WHERE id = ?", fifteen["id"])
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 5, done
    assert "another session" in done.out
    assert panes(box) == before


#: What is written over the record, and the words that say which identity did not match.
EDITS = {
    "name": "the record's name",
    "session_id": "the record's session is",
    "pane_id": "carries the mark of session",
    "pane_id and session_id": "carries the mark of session",
    "pane_id of a stranger": "carries no mark of ours",
    "pane_pid": "the record's process is",
    "pane_start": "same number, another start time",
    "pane_pid of a bystander": "the record's process is",
    "pane_pid of the tmux server": "the record's process is",
    "server_pid": "the record's tmux server is",
    "socket": "cannot be reached at",
}


def test_an_edited_record_touches_nothing_and_the_mismatch_is_named(box: Box, tmp_path: Path) -> None:
    box.start(["demo/app#1", "demo/app#2"])
    box.tmux("new-session", "-d", "-s", "mine", "sleep", "1000")
    stranger = next(pane for pane, text in panes(box).items() if text.endswith(" mine"))
    other_socket = str(box.folder / "other")
    subprocess.run(
        ["tmux", "-S", other_socket, "-f", "/dev/null", "new-session", "-d", "-s", "theirs", "sleep", "1000"],
        check=True,
        env=box.env,
    )
    own, other = box.record("items:demo/app#1"), box.record("items:demo/app#2")
    box.items({"demo/app#1": "closed", "demo/app#2": "open"})
    before, alive = panes(box), box.processes().keys()
    with bystander(box) as process:
        values: dict[str, dict[str, object]] = {
            "name": {"name": other["name"]},
            "session_id": {"session_id": other["session_id"]},
            "pane_id": {"pane_id": other["pane_id"]},
            "pane_id and session_id": {"pane_id": other["pane_id"], "session_id": other["session_id"]},
            "pane_id of a stranger": {"pane_id": stranger},
            "pane_pid": {"pane_pid": other["pane_pid"], "pane_start": other["pane_start"]},
            "pane_start": {"pane_start": own["pane_start"] + "0"},
            "pane_pid of a bystander": {"pane_pid": process.pid, "pane_start": own["pane_start"]},
            "pane_pid of the tmux server": {"pane_pid": own["server_pid"]},
            "server_pid": {"server_pid": process.pid},
            "socket": {"socket": other_socket},
        }
        for name, words in EDITS.items():
            columns = ", ".join(f"{column} = ?" for column in values[name])
            box.edit(f"UPDATE sessions SET {columns} WHERE id = ?", *values[name].values(), own["id"])
            done = box.run("apply", "close.yml", "-y")
            assert done.code == 5, (name, done)
            assert words in done.out, (name, done)
            assert panes(box) == before, name
            assert box.processes().keys() == alive, name
            assert process.poll() is None, name
            assert box.record("items:demo/app#1")["status"] == "active", name
            back = {column: own[column] for column in values[name]}
            columns = ", ".join(f"{column} = ?" for column in back)
            box.edit(f"UPDATE sessions SET {columns} WHERE id = ?", *back.values(), own["id"])
        theirs = subprocess.run(
            ["tmux", "-S", other_socket, "list-panes", "-a", "-F", "#{pane_dead} #{pane_input_off}"],
            check=True,
            env=box.env,
            capture_output=True,
            text=True,
        )
        assert theirs.stdout == "0 0\n"
        subprocess.run(["tmux", "-S", other_socket, "kill-server"], check=True, env=box.env)
        # As it was, it is ended.
        assert box.run("apply", "close.yml", "-y").code == 0
        assert process.poll() is None
    assert box.session("items:demo/app#2")["phase"] == "running"


@pytest.mark.parametrize("state", ["dead pane", "no pane"])
def test_a_pid_with_another_start_time_gets_no_signal(box: Box, state: str) -> None:
    """tmux goes on printing the pid of a dead pane, and a record keeps its own: neither is proof."""
    box.start(["demo/app#1"])
    box.tmux("new-session", "-d", "-s", "keep", "sleep", "1000")
    row = box.record("items:demo/app#1")
    box.tmux("send-keys", "-t", row["pane_id"], "C-c")
    wait_until(lambda: not box.processes(), what="the agent has ended")
    box.wait_dead(row["pane_id"])
    if state == "no pane":
        box.tmux("kill-session", "-t", row["session_id"])
    box.items({"demo/app#1": "closed"})
    with bystander(box) as process:
        box.edit("UPDATE sessions SET pane_pid = ? WHERE id = ?", process.pid, row["id"])
        done = box.run("apply", "close.yml", "-y")
        assert done.code == 0, done
        assert process.poll() is None
    assert box.events("session.harness_terminated") == []
    assert box.record("items:demo/app#1")["status"] == "closed"


@pytest.mark.parametrize("pid", [0, -1, 1])
def test_a_pid_that_is_nobodys_is_an_error_and_nothing_is_done(box: Box, pid: int) -> None:
    box.start(["demo/app#1", "demo/app#2"])
    before, alive = panes(box), box.processes().keys()
    box.items({"demo/app#1": "closed", "demo/app#2": "closed"})
    box.edit("UPDATE sessions SET pane_pid = ? WHERE ref = 'items:demo/app#1'", pid)
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 1, done
    assert "registry.db" in done.err
    assert "pane_pid" in done.err
    assert panes(box) == before
    assert box.processes().keys() == alive


def test_the_session_that_loopctl_runs_in_is_refused_and_the_others_are_done(box: Box) -> None:
    box.harness("shell", "sh", "-c", "echo ready; exec sh")
    box.start(["demo/app#1"], "shell")
    box.start(["demo/app#2"])
    box.items({"demo/app#1": "closed", "demo/app#2": "closed"})
    pane = box.record("items:demo/app#1")["pane_id"]
    book = box.folder / "close.yml"
    script = box.folder / "inside.sh"
    script.write_text(
        f"LOOPCTL_CONFIG={box.config}; export LOOPCTL_CONFIG\n"
        f"{LOOPCTL} apply {book} -y >{box.folder}/out 2>&1; echo $? >{box.folder}/code.tmp\n"
        # Also where it has left the session, the group and the terminal.
        f"setsid -w {LOOPCTL} apply {book} -y >{box.folder}/out2 2>&1 </dev/null; echo $? >>{box.folder}/code.tmp\n"
        f"mv {box.folder}/code.tmp {box.folder}/code\n"
    )
    box.tmux("send-keys", "-t", pane, f". {script}", "Enter")
    wait_until((box.folder / "code").exists, timeout=60, what="apply inside the session has ended")
    text = (box.folder / "out").read_text()
    assert (box.folder / "code").read_text().split() == ["5", "5"], text
    assert "loopctl itself runs inside this session" in text
    assert "loopctl itself runs inside this session" in (box.folder / "out2").read_text()
    assert [box.pane(pane, field) for field in ("pane_dead", "pane_input_off")] == ["0", "0"]
    assert (box.record("items:demo/app#1")["status"], box.record("items:demo/app#2")["status"]) == ("active", "closed")
    # From elsewhere, it can be closed. (A shell at its prompt ignores SIGTERM.)
    box.playbook("close.yml", close_rule(0.2))
    assert box.run("apply", "close.yml", "-y").code == 0
    assert box.processes() == {}
