"""Attaching: read-only where the session is closed, whoever asks and however."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.e2e.kit import LOOPCTL, Box, Done

pytestmark = pytest.mark.tmux


def attached_with(box: Box, *args: str, said: bool = False) -> list[str]:
    """Run `sessions attach` on a terminal, with a tmux that says how it would have been attached; with `said`, what the
    person is told instead."""
    folder = box.folder / "bin"
    folder.mkdir(exist_ok=True)
    real = shutil.which("tmux", path=box.env["PATH"])
    script = folder / "tmux"
    attached = box.folder / "attached"
    script.write_text(
        f'#!/bin/sh\ncase " $* " in *" attach-session "*) printf "%s\\n" "$@" >{attached};; *) exec {real} "$@";; esac\n'
    )
    script.chmod(0o755)
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [LOOPCTL, "sessions", "attach", *args],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env=box.env | {"PATH": f"{folder}:{box.env['PATH']}", "TERM": "xterm"},
            cwd=box.folder,
            check=False,
            timeout=60,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0, done
    return (done.stderr.decode() if said else attached.read_text()).splitlines()


def test_a_closed_session_is_always_attached_read_only(box: Box) -> None:
    box.start(["demo/app#1"])
    box.items({"demo/app#1": "closed"})
    assert box.run("apply", "close.yml", "-y").code == 0
    pane = box.record("items:demo/app#1")["pane_id"]
    for args in (("items:demo/app#1",), ("items:demo/app#1", "--read-only")):
        argv = attached_with(box, *args)
        assert argv[argv.index("attach-session") :] == ["attach-session", "-r", "-t", pane]


def test_an_active_session_is_attached_read_only_when_asked(box: Box) -> None:
    box.start(["demo/app#1"])
    pane = box.record("items:demo/app#1")["pane_id"]
    argv = attached_with(box, "items:demo/app#1")
    assert argv[argv.index("attach-session") :] == ["attach-session", "-t", pane]
    assert "-r" in attached_with(box, "items:demo/app#1", "--read-only")


def test_each_session_of_an_item_is_named_by_itself(box: Box) -> None:
    ref = "items:demo/app#1"
    box.start(["demo/app#1"])
    box.items({"demo/app#1": "closed"})
    assert box.run("apply", "close.yml", "-y").code == 0
    box.start(["demo/app#1"])
    old, new = box.sessions()
    assert (old["id"], new["id"]) == tuple(row["id"] for row in box.records())
    assert old["attach"] == f"loopctl sessions attach {old['id'][:8]}"
    assert new["attach"] == f"loopctl sessions attach {ref}"
    for row in (old, new):
        argv = attached_with(box, row["attach"].split()[-1])
        assert argv[-1] == row["pane"] and ("-r" in argv) == (row is old)
        shown = box.run("sessions", "show", row["id"][:8], "--format", "json").json
        assert (shown["item"]["state"], shown["cwd"]) == ("open", str(box.folder))
        assert {name: shown[name] for name in row} == row
    listed = box.run("sessions", "list").out.splitlines()
    assert [line.split()[2] for line in listed] == ["ID", old["id"][:8], new["id"][:8]]


def test_printed_commands_name_the_config_that_was_given(box: Box) -> None:
    box.start(["demo/app#1"])
    odd = box.folder / "my config.yaml"
    odd.write_text(box.config.read_text())
    (row,) = box.run("sessions", "list", "-c", str(odd), "--format", "json").json["sessions"]
    assert row["attach"] == f"loopctl sessions attach items:demo/app#1 -c '{odd}'"


def test_what_was_kept_is_read_without_tmux(box: Box) -> None:
    box.start(["demo/app#1", "demo/app#2"])
    box.items({"demo/app#1": "closed", "demo/app#2": "open"})
    assert box.run("apply", "close.yml", "-y").code == 0
    box.clear_trace()
    whole = box.run("sessions", "log", "items:demo/app#1")
    assert whole.code == 0 and "ready" in whole.out
    assert box.calls("tmux") == 0
    nothing = box.folder / "nothing"
    nothing.mkdir()

    def run(*args: str) -> Done:
        return box.run("sessions", *args, env={"PATH": str(nothing)})

    assert run("log", "items:demo/app#1").out == whole.out
    for form in ("text", "json"):
        shown = run("show", "items:demo/app#1", "--format", form)
        assert shown.code == 0 and "closed" in shown.out and "unknown" in shown.out
    live = run("log", "items:demo/app#2")
    assert live.code == 1 and "tmux" in live.err


def test_a_closed_pane_says_where_all_of_it_is_read(box: Box) -> None:
    box.start(["demo/app#1"])
    closed = box.run("sessions", "close", "items:demo/app#1")
    assert closed.code == 0 and "starts it anew" in closed.err
    assert "starts it anew" not in box.run("sessions", "close", "items:demo/app#1").err
    piped = box.run("sessions", "attach", "items:demo/app#1")
    assert piped.code == 64 and "is closed" not in piped.err
    said = attached_with(box, "items:demo/app#1", said=True)
    assert "`loopctl sessions log items:demo/app#1` shows all of it" in "".join(said)
