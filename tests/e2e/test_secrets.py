"""What is secret is masked wherever something is shown, saved or logged; the agent still gets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.kit import Box

pytestmark = pytest.mark.tmux

SECRET = "ghp_EXAMPLEexampleEXAMPLEexample012345"


def test_no_secret_is_shown_saved_or_logged(box: Box) -> None:
    agent = box.settings["harnesses"]["polite"]["argv"]
    box.harness("polite", *agent, f"--token={SECRET}", "--password", "hunter2hunter2")
    box.harness("broken", "no-such-agent", f"--token={SECRET}")
    box.settings["harnesses"]["polite"]["env"]["API_KEY"] = SECRET
    box.write_config()
    shown = []

    def show(*args: str) -> None:
        done = box.run(*args)
        shown.append(f"{args}: {done.out}{done.err}")

    box.items({"demo/app#1": {"state": "open", "title": f"use {SECRET}"}, "demo/app#2": "open"})
    book = box.playbook(
        "start.yml",
        "[{name: start, rules: [{name: open, match: {item: {number: 1}}, ensure: {session: running}}, "
        "{name: broken, match: {item: {number: 2}}, ensure: {session: running, harness: broken}}]}]",
    )
    for form in ("json", "markdown"):
        show("plan", book, "--format", form)
    show("apply", book, "-y", "-v")
    row = box.record("items:demo/app#1")
    box.wait_ready([row["ref"]])
    # The agent got what it needs.
    given = [pid for pid, line in box.processes().items() if SECRET in line]
    assert given
    assert all(SECRET in Path(f"/proc/{pid}/environ").read_text() for pid in given)
    box.items({"demo/app#1": "closed"})
    show("plan", "close.yml", "--out", "p.json", "-v")
    shown.append((box.folder / "p.json").read_text())
    show("apply", "close.yml", "-y", "--format", "json")
    for args in (["sessions", "list"], ["sessions", "show", row["ref"]], ["events"], ["events", "--format", "json"]):
        show(*args)
    shown.append((box.state / "events.jsonl").read_text())
    shown.append(box.trace.read_text())
    for text in shown:
        assert SECRET not in text, text
        assert "hunter2" not in text, text


def test_what_an_error_repeats_is_masked(box: Box) -> None:
    box.playbook("bad.yml", f"[{{name: bad, vars: {{token: {SECRET}, token: again}}, ruls: []}}]")
    done = box.run("plan", "bad.yml")
    assert done.code == 65, done
    assert SECRET not in done.out + done.err, done


CANARY = "tweety-0123-bird"


def test_a_secret_of_the_environment_gets_nowhere(box: Box) -> None:
    """It looks like nothing; only the name of its variable tells."""
    seen = box.folder / "gh-environ"
    gh = box.folder / "gh"
    gh.write_text(f'#!/bin/sh\nenv >>{seen}\necho "gh: token $GH_TOKEN is bad" >&2\nexit 1\n')
    gh.chmod(0o755)
    github = {"provider": "github", "repos": ["octo/app"], "label": "agent", "ghBinary": str(gh)}
    box.settings["polling"]["sources"].append(github)
    box.settings["harnesses"]["polite"]["env"]["MY_API_KEY"] = "harness-canary-1"
    box.settings["webhooks"] = {"ghWebhook": {"secretEnv": "HOOK"}}
    box.write_config()
    canaries = {"GH_TOKEN": CANARY, "DEPLOY_PASSWORD": "another-canary-2", "HOOK": "hook-canary-3"}
    said = " ".join((*canaries.values(), "harness-canary-1"))
    box.items({"demo/app#1": {"state": "open", "title": said}})
    book = box.playbook(
        "start.yml",
        f"[{{name: start {CANARY}, rules: [{{name: open, match: {{item: {{state: open}}}}, "
        f"ensure: {{session: running, prompt: '{{{{ item.title }}}} {CANARY}'}}}}]}}]",
    )
    shown = []
    for args in (
        ["plan", book, "--format", "json", "--out", "p.json"],
        ["plan", book, "--format", "github", "-v"],
        ["plan", book, "-e", f"{CANARY}=1"],
        ["apply", book, "-y", "--format", "json"],
        ["sessions", "show", "items:demo/app#1"],
        ["doctor"],
    ):
        done = box.run(*args, env=canaries)
        shown.append(f"{args[0]}: {done.out}{done.err}")
    box.wait_ready(["items:demo/app#1"])
    shown += [(box.folder / "p.json").read_text(), (box.state / "events.jsonl").read_text(), box.trace.read_text()]
    row = box.record("items:demo/app#1")
    shown.append(Path(f"/proc/{row['server_pid']}/environ").read_text())
    for text in shown:
        assert not [word for word in said.split() if word in text], text
    environ = seen.read_text()
    assert f"GH_TOKEN={CANARY}" in environ
    assert not {"another-canary-2", "hook-canary-3"} & {line.partition("=")[2] for line in environ.splitlines()}
    pane = Path(f"/proc/{row['pane_pid']}/environ").read_text()
    assert not [word for word in canaries.values() if word in pane]
