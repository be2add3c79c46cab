"""Sessions that loopctl did not start, and what the-loop remembers of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from loopctl.adapters.shell import clean_env
from loopctl.model.refs import WorkItemRef

REF = WorkItemRef.parse("github:octo/app#15")
NAME = "loop-github-octo-app-15"


class Server:
    """Somebody's tmux server: sessions that loopctl did not start."""

    def __init__(self, socket: str) -> None:
        self.socket = socket

    def run(self, *words: str) -> str:
        argv = ["tmux", "-u", "-S", self.socket, "-f", "/dev/null", *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, env=clean_env(os.environ), check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def session(self, name: str, *argv: str) -> str:
        """Make a session whose program keeps running; returns its pane id."""
        return self.run("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", name, "--", *(argv or ("sleep", "3600")))

    def marks(self) -> dict[str, str]:
        lines = self.run("list-panes", "-a", "-F", "#{pane_id} #{@loopctl_id}").splitlines()
        return {pane: mark for pane, _, mark in (line.partition(" ") for line in lines)}


def write(folder: Path, number: int, repo: str = "octo/app", **changes: object) -> Path:
    """A record as the-loop v0.19 writes it."""
    owner, name = repo.split("/")
    slug = f"github-{owner}-{name}-{number}"
    data = {
        "workItem": {
            "ref": f"github:{repo}#{number}",
            "provider": "github",
            "owner": owner,
            "repo": name,
            "number": number,
        },
        "harness": "claude",
        "harnessSessionId": f"conversation-{name}-{number}",
        "cwd": "/src",
        "status": "active",
        "createdAt": "2026-07-25T10:00:00Z",
        "lastEventAt": None,
        "runner": "tmux",
        "tmuxTarget": f"loop-{slug}",
        "recentDeliveries": [],
    } | changes
    folder.mkdir(exist_ok=True)
    path = folder / f"{slug}.json"
    path.write_text(json.dumps(data, indent=2) + "\n")
    return path
