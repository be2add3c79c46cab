"""The real Claude Code, Codex and Gemini CLIs, not logged in and without a network: started in real panes by a playbook, and
ended by one. Run by `make test-agents`, which installs them."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kit import Box, close_rule
from tests.support import wait_until

pytestmark = pytest.mark.real_agents

#: What each shows once it is up, wherever it got to without an account.
SAYS = {"claude": "Claude|Anthropic", "codex": "Codex", "gemini": "Gemini CLI"}
#: Nothing answers there.
NOWHERE = "http://127.0.0.1:9"
#: A machine that is busy starts three programs of Node slowly.
PATIENCE = 180.0


@pytest.fixture
def box() -> Iterator[Box]:
    path = os.environ.get("REAL_AGENTS")
    if not path:
        pytest.fail("REAL_AGENTS names no folder of programs: run `make test-agents`")
    made = Box({"PATH": f"{path}:{os.environ['PATH']}"})
    work = made.folder / "work"
    work.mkdir()
    made.settings["routing"] |= {"defaultHarness": "claude", "spawnWorkdir": str(work)}
    env = {"LOOPCTL_TEST_BOX": made.tag, "HTTPS_PROXY": NOWHERE, "HTTP_PROXY": NOWHERE}
    made.settings["harnesses"] = {name: {"env": env, "graceSeconds": 15} for name in SAYS}
    made.write_config()
    yield made
    # Codex leaves daemons of the user's, and here this test is the user. They know its tag: nobody else's are touched.
    made.tmux("kill-server")
    wait_until(lambda: not _ended(made), timeout=30, what="no process of the test is left")
    made.close()


def _ended(box: Box) -> list[int]:
    """End every process that carries the box's tag; those that were there."""
    found = [*box.processes(), *box.keepers()]
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def start_rules(box: Box, names: Sequence[str]) -> str:
    rules = [
        {
            "name": name,
            "match": {"item": {"repo": f"demo/{name}", "state": "open"}},
            "ensure": {"session": "running", "harness": name},
        }
        for name in names
    ]
    return box.playbook("agents.yml", json.dumps([{"name": "start", "limits": {"max_changes": 10}, "rules": rules}]))


def items(box: Box, names: Sequence[str], state: str) -> None:
    box.items({f"demo/{name}#1": {"state": state, "title": "Say ``` and `$(id)`"} for name in names})


def up(box: Box, name: str) -> bool:
    return re.search(SAYS[name], box.screen(box.record(f"items:demo/{name}#1")["pane_id"])) is not None


def results(text: str) -> dict[str, Any]:
    return {row["ref"]: row for row in json.loads(text)["results"]}


def test_real_agents_are_started_and_ended(box: Box) -> None:
    book = start_rules(box, list(SAYS))
    items(box, list(SAYS), "open")
    done = box.run("apply", book, "-y", "--format", "json")
    assert done.code == 0, done
    for name in SAYS:
        wait_until(lambda name=name: up(box, name), timeout=PATIENCE, what=f"{name} shows itself")
    rows = {row["harness"]: row for row in box.records()}
    # Codex takes no session id from us.
    assert {name: bool(row["harness_session_id"]) for name, row in rows.items()} == {
        "claude": True,
        "codex": False,
        "gemini": True,
    }

    box.playbook("close.yml", close_rule())
    items(box, list(SAYS), "closed")
    done = box.run("apply", "close.yml", "-y", "--format", "json")
    assert done.code == 0, done
    told = results(done.out)
    for pid, line in box.processes().items():
        # What is left is Codex's own daemon, and it was named.
        assert "app-server" in line
        assert f"({pid})" in told["items:demo/codex#1"]["detail"]
    assert box.keepers() == {}
    for name in SAYS:
        ref = f"items:demo/{name}#1"
        row = box.record(ref)
        assert (row["status"], box.pane(row["pane_id"], "pane_dead")) == ("closed", "1")
        assert box.pane(row["pane_id"], "pane_input_off") == "1"
        log = box.run("sessions", "log", ref)
        assert log.code == 0
        assert re.search(SAYS[name], log.out), (name, log.out)
        assert Path(row["transcript"]).stat().st_mode & 0o777 == 0o600
    for again in ("close.yml", book):
        done = box.run("plan", again, "--detailed-exitcode", "--format", "json")
        assert (done.code, done.json["actions"]) == (0, []), done


def test_doctor_asks_for_their_versions(box: Box) -> None:
    done = box.run("doctor", "--format", "json")
    said = [row["text"] for row in done.json["findings"] if row["what"] == "harness" and row["level"] == "ok"]
    for name in SAYS:
        assert any(re.search(rf"^{name}: .*\d+\.\d+\.\d+", text) for text in said), said


def test_a_real_agent_that_ends_at_once_is_reported(box: Box) -> None:
    codex = box.settings["harnesses"]["codex"]
    box.settings["harnesses"] = {"codex": {**codex, "argv": ["codex", "--no-such-flag"]}}
    box.write_config()
    book = start_rules(box, ["codex"])
    items(box, ["codex"], "open")
    box.run("apply", book, "-y")
    row = box.record("items:demo/codex#1")
    box.wait_dead(row["pane_id"])
    assert box.session(row["ref"])["phase"] == "exited"
    assert "--no-such-flag" in box.screen(row["pane_id"])
    done = box.run("plan", book)
    assert re.search("exited|ended", done.out), done


def test_a_real_agent_that_does_not_answer_is_not_started(box: Box) -> None:
    box.settings["harnesses"]["codex"]["versionArgv"] = ["codex", "--no-such-flag"]
    box.write_config()
    book = start_rules(box, ["codex"])
    items(box, ["codex"], "open")
    done = box.run("apply", book, "-y", "--format", "json")
    assert done.code == 1, done
    assert "failed with 2" in results(done.out)["items:demo/codex#1"]["detail"]
    assert box.records() == []
    assert not Path(box.socket).exists()
