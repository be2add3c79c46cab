"""The clone that the worktrees of one repository share: bare, with remote branches as in any clone."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from loopctl.adapters.worktrees_git import CHECKOUT, CLONE, FETCH, Git, Place
from loopctl.adapters.worktrees_look import Tree, folder_problem
from loopctl.errors import StateError
from loopctl.model.refs import WorkItemRef
from loopctl.model.secrets import mask
from loopctl.model.workspaces import Workspace

_MARK = "loopctl.repository"
_ALL = "+refs/heads/*:refs/remotes/origin/*"
_DEFAULT = "refs/remotes/origin/HEAD"
_HALF = ".new"
#: Seconds.
_STALE = 2 * CLONE


@dataclass(frozen=True, slots=True)
class Clone:
    """One clone by its folder."""

    path: Path
    git: Git

    @property
    def place(self) -> Place:
        """For git commands on it."""
        return Place(self.path)

    def refresh(self, ref: WorkItemRef, url: str) -> str:
        """Make the clone, or bring it up to date; a word on why it could not be. Raises StateError when there is none."""
        whose = f"{ref.provider}:{ref.repository}".lower()
        if not os.path.lexists(self.path):
            self._make(whose, url)
            return ""
        problem = folder_problem(self.path)
        if problem or self.git.said(self.path, _MARK) != whose:
            raise StateError(f"{self.path} is taken: {problem or f'it is no clone of {whose}'}", hint="move it away")
        unlock(self.path)
        try:
            self._fetch(url, FETCH)
        except StateError as error:
            return f"not brought up to date: {error.message}"
        return ""

    def _make(self, whose: str, url: str) -> None:
        half = Clone(self.path.with_suffix(_HALF), self.git)
        if os.path.lexists(half.path):
            # Cut off: nobody has worked there.
            shutil.rmtree(half.path)
        try:
            self.git.make(half.path)
            for name, value in ((_MARK, whose), ("remote.origin.url", url), ("remote.origin.fetch", _ALL)):
                self.git.say(half.path, name, value)
            half._fetch(url, CLONE)
            if not half.has(_DEFAULT):
                raise StateError("it has no default branch with a commit")
        except StateError as error:
            shutil.rmtree(half.path, ignore_errors=True)
            raise StateError(f"no clone of {mask(url)}: {error.message}") from None
        half.path.rename(self.path)

    def _fetch(self, url: str, timeout: float) -> None:
        words = ("--quiet", "--no-write-fetch-head", "--no-recurse-submodules", "origin", _ALL)
        self.git.run(self.place, "fetch", *words, timeout=timeout, origin=url)
        self.git.run(self.place, "remote", "set-head", "origin", "--auto", timeout=timeout, origin=url)

    def has(self, ref: str) -> bool:
        """Whether it has this ref, or commit."""
        return self.git.tried(self.place, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").code == 0

    def add(self, path: Path, branch: str) -> None:
        """A new worktree on this branch: the one that is there, else origin's of the same name, else a new one from origin's
        default branch. Raises StateError."""
        ours, theirs = f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"
        known = self.git.text(self.place, "for-each-ref", "--format=%(refname)", ours, theirs).split("\n")
        if ours in known:
            words: tuple[str, ...] = (str(path), branch)
        elif theirs in known:
            words = ("--no-track", "-b", branch, str(path), theirs)
            self.git.say(self.path, f"branch.{branch}.remote", "origin")
            self.git.say(self.path, f"branch.{branch}.merge", ours)
        else:
            words = ("--no-track", "-b", branch, str(path), _DEFAULT)
        for folder in ("logs", "worktrees"):
            (self.path / folder).mkdir(exist_ok=True)
        self.git.run(self.place, "worktree", "add", "--quiet", *words, timeout=CHECKOUT)

    def rename(self, old: Path, new: Path) -> None:
        """Give a worktree that was just made its place. Its part of the clone is told first: cut off in between, it has vanished."""
        name = Path((old / ".git").read_text("utf-8").rstrip("\n")).name
        admin = Path(os.path.realpath(self.path), "worktrees", name)
        _rewrite(old / ".git", f"gitdir: {admin}\n")
        _rewrite(admin / "gitdir", f"{os.path.realpath(new.parent)}/{new.name}/.git\n")
        old.rename(new)

    def keep(self, admin: Path) -> str:
        """Give commits that stand on no branch a ref, so that they stay in the clone; the commit that the worktree stands on."""
        done = self.git.tried(Place(self.path, admin), "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        commit = done.text.strip() if done.code == 0 else ""
        on_a_branch = (admin / "HEAD").read_text("utf-8", "replace").startswith("ref: ")
        if (
            commit
            and not on_a_branch
            and not self.git.text(self.place, "for-each-ref", "--count=1", "--contains", commit)
        ):
            self.git.run(self.place, "update-ref", f"refs/loopctl/kept/{commit}", commit)
        return commit

    def forget(self, tree: Tree, state: Workspace, commit: str) -> None:
        """Forget a worktree that has gone, and its branch when that is merged into origin's default branch."""
        shutil.rmtree(tree.admin, ignore_errors=True)
        merged = commit and self.git.tried(self.place, "merge-base", "--is-ancestor", commit, _DEFAULT).code == 0
        if state.branch and merged:
            self.git.tried(self.place, "update-ref", "-d", f"refs/heads/{state.branch}", commit)


def unlock(clone: Path) -> None:
    """Take away the locks of refs that a git left behind that was killed. No git of ours takes as long as they are old."""
    found = [Path(folder, name) for folder, _, names in os.walk(clone / "refs") for name in names]
    for file in (*found, clone / "packed-refs.lock", clone / "config.lock", clone / "shallow.lock"):
        with suppress(FileNotFoundError):
            # No ref has a name that ends so.
            if file.suffix == ".lock" and time.time() - file.lstat().st_mtime > _STALE:
                file.unlink()


def mend(clone: Clone, path: Path) -> None:
    """Forget worktrees of the clone that should stand at a path where nothing is, or that were being made. Commits stay."""
    home = clone.path / "worktrees"
    gone = f"{os.path.realpath(path.parent)}/{path.name}/.git"
    begun = f"{os.path.realpath(path.parent)}/.new/"
    for admin in sorted(home.iterdir()) if home.is_dir() else []:
        if admin.is_symlink() or not (admin / "gitdir").is_file():
            continue
        named = (admin / "gitdir").read_text("utf-8", "surrogateescape").rstrip("\n")
        if named == gone or named.startswith(begun):
            clone.keep(admin)
            shutil.rmtree(admin)


def _rewrite(file: Path, text: str) -> None:
    new = file.with_name(f"{file.name}.new")
    new.write_text(text, "utf-8")
    new.replace(file)
