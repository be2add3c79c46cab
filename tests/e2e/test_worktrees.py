"""Worktrees with the installed command, real tmux and real git over a local origin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.kit import Box
from tests.git.kit import git, make_origin

pytestmark = pytest.mark.tmux

RULES = [
    {
        "name": "worktrees",
        "limits": {"max_changes": 100, "max_fraction": 1.0},
        "rules": [
            {
                "name": "open",
                "match": {"item": {"state": "open"}},
                "ensure": {"session": "running", "workspace": "worktree"},
            },
            {
                "name": "ended",
                "match": {"item": {"state": "closed"}},
                "ensure": {"session": "retained", "workspace": "removed"},
            },
        ],
    }
]


def forced(text: str) -> str:
    return text.replace('"removed"', '"removed", "force": true')


def test_worktrees_from_start_to_end(box: Box) -> None:
    """Two items of one repository: one leaves work behind, one does not. Then one is opened again, and one is forced."""
    origin = make_origin(box.folder / "hub")
    root = box.folder / "trees"
    # {{ item.repo }} comes from the item: no other repository is there.
    box.settings["routing"]["workspace"] = {"root": str(root), "cloneUrl": f"{origin.parent}/origin.git"}
    box.write_config()
    book = box.playbook("worktrees.yml", json.dumps(RULES))
    one, two = "demo/app#1", "demo/app#2"
    box.items({one: "open", two: "open"})
    done = box.run("apply", book, "-y")
    assert done.code == 0, done
    assert "on branch loop/issue-1" in done.out
    box.wait_ready([f"items:{one}", f"items:{two}"])
    rows = {ref: box.record(f"items:{ref}") for ref in (one, two)}
    paths = {ref: Path(row["workspace"]) for ref, row in rows.items()}
    assert len(list((root / "clones").iterdir())) == 1
    for ref, path in paths.items():
        assert path.parent == root / "worktrees"
        assert Path(f"/proc/{rows[ref]['pane_pid']}/cwd").readlink() == path
        assert git(path, "branch", "--show-current") == rows[ref]["branch"] == f"loop/issue-{ref[-1]}"
    shown = box.run("sessions", "show", f"items:{one}").out
    assert f"folder      {paths[one]}" in shown
    assert "branch      loop/issue-1" in shown
    # Both end. One has work: its session ends all the same, and it is told.
    (paths[one] / "precious.txt").write_text("precious\n")
    box.items({one: "closed", two: "closed"})
    done = box.run("apply", book, "-y")
    assert done.code == 0, done
    assert "worktree kept: it has 1 uncommitted file (precious.txt)" in done.out
    assert "worktree removed" in done.out
    assert (paths[one].exists(), paths[two].exists()) == (True, False)
    assert {box.session(f"items:{ref}")["phase"] for ref in paths} == {"retained"}
    plan = box.run("plan", book, "--detailed-exitcode")
    assert plan.code == 0, plan
    assert "force: true" in plan.out
    # Opened again, it goes on in the same place.
    box.items({one: "open", two: "closed"})
    assert box.run("apply", book, "-y").code == 0
    assert box.record(f"items:{one}")["workspace"] == str(paths[one])
    assert (paths[one] / "precious.txt").read_text() == "precious\n"
    # And only who is told to takes it away.
    box.items({one: "closed", two: "closed"})
    assert box.run("apply", book, "-y").code == 0
    assert paths[one].exists()
    force = box.playbook("force.yml", forced(json.dumps(RULES)))
    done = box.run("apply", force, "-y", "--format", "json")
    assert done.code == 0, done
    (result,) = [row for row in done.json["results"] if row["status"] == "changed"]
    assert result["verb"] == "reap"
    assert not paths[one].exists()
    (saved,) = (box.state / "saved-work").iterdir()
    assert str(saved) in result["detail"]
    assert "+precious" in (saved / "changes.patch").read_text()
    assert "No changes" in box.run("plan", force).out
