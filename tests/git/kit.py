"""A scratch origin, a workspace root over it, and an agent's hands in a worktree."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from loopctl.adapters.worktrees import GitWorktrees
from loopctl.adapters.worktrees_git import Git
from loopctl.model.facts import Known
from loopctl.model.refs import WorkItemRef
from loopctl.model.workspaces import Removal, Workspace

REF = WorkItemRef.parse("github:octo/app#1")
BRANCH = "loop/issue-1"


def git_env(home: Path) -> dict[str, str]:
    """What git gets: nothing of the person who runs the tests."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }


def git(folder: Path, *args: str, env: dict[str, str] | None = None) -> str:
    """Run git as a person or an agent would, in a folder."""
    env = env or git_env(folder)
    done = subprocess.run(["git", *args], cwd=folder, env=env, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


def make_origin(folder: Path, files: dict[str, str] | None = None) -> Path:
    """A bare repository with one commit on its default branch, trunk."""
    origin, work = folder / "origin.git", folder / "seed"
    work.mkdir(parents=True)
    git(work, "init", "-q", "-b", "trunk")
    for name, text in (files or {"a.txt": "one\n", "b.txt": "two\n", ".gitignore": "*.log\n"}).items():
        (work / name).write_text(text)
    git(work, "add", "-A")
    git(work, "commit", "-qm", "first")
    git(work, "clone", "-q", "--bare", ".", str(origin))
    git(work, "remote", "add", "origin", str(origin))
    return origin


class Scratch:
    """Worktrees over a scratch origin."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.origin = make_origin(folder)
        self.root = folder / "root"
        self.saved = folder / "state" / "saved"
        self.env = git_env(folder)
        self.trees = self.open()

    def open(self, **environ: str) -> GitWorktrees:
        """The adapter, as another process would build it."""
        return GitWorktrees(
            self.root,
            self.saved,
            Git("git", self.env | environ),
            lambda _: str(self.origin),
            lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )

    def prepare(self, ref: WorkItemRef = REF, branch: str = BRANCH) -> Path:
        return Path(self.trees.prepare(ref, branch).path)

    def git(self, folder: Path, *args: str) -> str:
        return git(folder, *args, env=self.env)

    def look(self, path: Path) -> Workspace:
        fact = self.trees.look([str(path)])[str(path)]
        assert isinstance(fact, Known), fact
        return fact.value

    def remove(self, path: Path, *, force: bool = False) -> Removal:
        return self.trees.remove(str(path), force=force)

    def commit(self, path: Path, name: str = "c.txt", text: str = "three\n") -> str:
        (path / name).write_text(text)
        self.git(path, "add", "-A")
        self.git(path, "commit", "-qm", f"add {name}")
        return self.git(path, "rev-parse", "HEAD")

    @property
    def clone(self) -> Path:
        return self.root / "clones" / "octo-app.git"

    def inside(self) -> set[str]:
        """What lies in the folder of worktrees, those put aside too."""
        return {
            str(path.relative_to(self.root / "worktrees"))
            for path in (self.root / "worktrees").glob("*")
            if not path.name.startswith(".")
        } | {str(path.relative_to(self.root / "worktrees")) for path in (self.root / "worktrees").glob(".*/*")}
