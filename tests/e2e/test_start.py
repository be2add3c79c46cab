"""Starting: what the agent gets, what it does not get, and panes that outlive it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.kit import Box

pytestmark = pytest.mark.tmux


def test_an_agent_that_ends_at_once_leaves_its_pane_a_hundred_times_of_a_hundred(box: Box) -> None:
    box.harness("brief", "sh", "-c", "exit 3")
    box.settings["routing"]["defaultHarness"] = "brief"
    box.write_config()
    refs = [f"demo/app#{number}" for number in range(1, 101)]
    box.items(dict.fromkeys(refs, "open"))
    box.run("apply", "start.yml", "-y")
    rows = box.records()
    assert len(rows) == 100
    for row in rows:
        box.wait_dead(row["pane_id"])
    seen = box.tmux("list-panes", "-a", "-F", "#{pane_id} #{@loopctl_id} #{pane_dead_status}").splitlines()
    assert {line.rsplit(" ", 1)[0] for line in seen} == {f"{row['pane_id']} {row['id']}" for row in rows}
    # A server that missed an exit knows no status.
    assert {line.rsplit(" ", 1)[1] for line in seen} <= {"3", ""}
    # The first failure is answered at once, in a fresh pane.
    plan = box.run("plan", "start.yml", "--format", "json")
    assert (plan.code, plan.json["held"]) == (0, [])
    assert {(a["verb"], a["before"]["phase"]) for a in plan.json["actions"]} == {("start", "exited")}
    # And they end like any other, their transcript kept.
    box.items(dict.fromkeys(refs, "closed"))
    done = box.run("apply", "close.yml", "-y", "--format", "json")
    assert (done.code, done.json["summary"]["changed"]) == (0, 100), done
    assert all(Path(row["transcript"]).is_file() for row in box.records())


def test_what_an_agent_gets_of_the_callers_world(box: Box) -> None:
    """HOME, PATH and its own marks; no token of the job, and nothing that $TMUX or the user's tmux.conf says."""
    home = Path(box.env["HOME"])
    (home / ".tmux.conf").write_text("set -g base-index 7\nset -g default-shell /bin/false\nset -g exit-empty on\n")
    config = home / ".config" / "tmux"
    config.mkdir(parents=True)
    (config / "tmux.conf").write_text("set -g destroy-unattached on\n")
    box.harness("polite", *box.settings["harnesses"]["polite"]["argv"])
    box.settings["harnesses"]["polite"]["passEnv"] = ["AGENT_KEY"]
    box.settings["lock"] = {"timeoutSeconds": 0}
    box.write_config()
    box.items({"demo/app#1": "open"})
    elsewhere = box.folder / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    caller = {
        "GITHUB_TOKEN": "ghp_job",
        "GH_TOKEN": "ghp_job2",
        "ACTIONS_RUNTIME_TOKEN": "job",
        "SOME_SECRET": "job",
        "THE_LOOP_GH_WEBHOOK_SECRET": "job",
        "GH_ENTERPRISE_TOKEN": "job",
        "GH_CONFIG_DIR": str(elsewhere),
        "LOOPCTL_CONFIG": box.env["LOOPCTL_CONFIG"],
        "AGENT_KEY": "asked-for",
        "TMUX": f"{elsewhere}/default,1,0",
        "TMUX_PANE": "%77",
        "TMUX_TMPDIR": str(elsewhere),
    }
    done = box.run("apply", "start.yml", "-y", env=caller)
    assert done.code == 0, done
    box.wait_ready(["items:demo/app#1"])
    row = box.record("items:demo/app#1")
    environ = dict(
        pair.split("=", 1)
        for pair in Path(f"/proc/{row['pane_pid']}/environ").read_bytes().decode().split("\0")
        if "=" in pair
    )
    not_theirs = caller.keys() - {"AGENT_KEY", "TMUX", "TMUX_PANE"}
    assert not not_theirs & environ.keys()
    assert (environ["HOME"], environ["PATH"]) == (box.env["HOME"], box.env["PATH"])
    assert (environ["LOOPCTL_SESSION"], environ["LOOPCTL_REF"]) == (row["id"], "items:demo/app#1")
    assert environ["AGENT_KEY"] == "asked-for"
    assert environ["TMUX"].startswith(f"{box.socket},{row['server_pid']},")
    assert environ["TMUX_PANE"] == row["pane_id"]
    server = Path(f"/proc/{row['server_pid']}/environ").read_bytes()
    assert b"ghp_job" not in server
    assert b"asked-for" not in server
    assert list(elsewhere.iterdir()) == []
    assert box.tmux("show-options", "-gv", "base-index") == "0\n"
    # The server was started by an apply that held the lock, and does not hold it: nobody waits now.
    box.items({"demo/app#1": "closed"})
    done = box.run("apply", "close.yml", "-y", env=caller)
    assert done.code == 0, done
    assert box.session("items:demo/app#1")["phase"] == "retained"
    locked = {
        Path(link).name for link in Path(f"/proc/{row['server_pid']}/fd").iterdir() if "lock" in str(link.readlink())
    }
    assert locked == set()


def test_one_that_cannot_be_started_is_named_and_leaves_no_record(box: Box) -> None:
    box.harness("missing", "no-such-program-here")
    box.playbook(
        "start.yml",
        json.dumps(
            [
                {
                    "name": "start",
                    "rules": [
                        {"name": "one", "match": {"item": {"number": 1}}, "ensure": {"session": "running"}},
                        {
                            "name": "two",
                            "match": {"item": {"number": 2}},
                            "ensure": {"session": "running", "harness": "missing"},
                        },
                        {
                            "name": "three",
                            "match": {"item": {"number": 3}},
                            "ensure": {"session": "running", "cwd": "/no/such/folder"},
                        },
                    ],
                }
            ]
        ),
    )
    box.items(dict.fromkeys(["demo/app#1", "demo/app#2", "demo/app#3"], "open"))
    done = box.run("apply", "start.yml", "-y")
    assert done.code == 1, done
    assert "no-such-program-here" in done.out
    assert "/no/such/folder" in done.out
    assert [row["ref"] for row in box.records()] == ["items:demo/app#1"]
    assert len(box.tmux("list-panes", "-a", "-F", "#{pane_id}").split()) == 1
