"""Children that cut every tie to their session, and what becomes of them."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from tests.e2e.kit import AGENTS, Box
from tests.support import wait_until

pytestmark = [pytest.mark.tmux, pytest.mark.skipif(sys.platform != "linux", reason="subreapers are Linux's")]

REF = "items:demo/app#1"


def start(box: Box, *argv: str) -> None:
    box.harness("escape", sys.executable, str(AGENTS / "escape.py"), *argv)
    box.settings["routing"]["tmux"] = {"harnessKillGraceSeconds": 0.6}
    box.write_config()
    box.start(["demo/app#1"], "escape")
    assert len(box.processes()) == 3


def test_no_child_gets_away_nor_one_that_is_born_during_the_close(box: Box) -> None:
    start(box)
    box.harness("polite", *box.settings["harnesses"]["polite"]["argv"])
    box.start(["demo/app#2"])
    others = box.processes().keys() - {
        pid for pid, line in box.processes().items() if "-S -c" in line or "escape" in line
    }
    assert "contained" not in box.run("sessions", "show", REF).out
    done = box.run("sessions", "close", REF)
    assert done.code == 0, done
    assert "SIGKILL after 0.6 s" in done.out
    assert box.processes().keys() == others
    assert len(box.keepers()) == 2, "those of the other session"
    assert box.session(REF)["phase"] == "retained"


def test_what_an_agent_that_ended_by_itself_left_behind_ends_with_the_session(box: Box) -> None:
    start(box, "brief")
    pane = box.record(REF)["pane_id"]
    box.tmux("send-keys", "-t", pane, "Enter")
    box.wait_dead(pane)
    assert box.pane(pane, "pane_dead_status") in {"3", ""}
    assert box.session(REF)["phase"] == "exited"
    assert len(box.processes()) == 2
    assert len(box.keepers()) == 1
    done = box.run("sessions", "close", REF)
    assert done.code == 0, done
    assert box.processes() == box.keepers() == {}


def test_without_a_keeper_they_get_away_and_the_limit_is_said(box: Box) -> None:
    box.settings["processes"] = {"contain": False}
    start(box)
    assert box.keepers() == {}
    assert "no: a child that cuts every tie to it cannot be found" in box.run("sessions", "show", REF).out
    done = box.run("sessions", "close", REF)
    assert done.code == 0, done
    left = box.processes()
    assert left, "nothing ties them to the session: else the limit need not be said"
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not box.processes(), what="they have ended")
