"""The git worktree that a session may have for itself: where it is, on which branch, and what would be lost with it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from loopctl.model.refs import DEFAULT_HOSTS, WorkItemRef
from loopctl.model.text import plural

#: `ensure.workspace` of a running session: the common folder, or a worktree of its own.
SHARED = "shared"
WORKTREE = "worktree"
#: `ensure.workspace` of one that ends.
KEPT_WORKSPACE = "kept"
REMOVED = "removed"

#: The folders below the root.
CLONES = "clones"
WORKTREES = "worktrees"

#: Names of a worktree's changes that people are shown.
_NAMED = 3
_LONGEST_BRANCH = 120
_NO_BRANCH = re.compile(r"[^A-Za-z0-9._/-]+")
_PLAIN = re.compile(r"[a-z0-9_]+\Z")
_HASHED = re.compile(r".*-x[0-9a-f]{8}\Z")


@dataclass(frozen=True, slots=True)
class Workspace:
    """What a worktree shows. `exists` is False where the folder has vanished, which is a fact and no error.

    `ours` says that it is a worktree that loopctl made, below its workspace root; `reason` why it is not. `uncommitted` are paths
    with changes or untracked files, `unpushed` the number of commits that no remote branch has, `stashed` that of the stashes
    that were made on its branch.
    """

    path: str
    exists: bool
    ours: bool = False
    branch: str = ""
    uncommitted: tuple[str, ...] = ()
    unpushed: int = 0
    stashed: int = 0
    reason: str = ""

    @property
    def has_work(self) -> bool:
        """Whether something would be lost with it."""
        return bool(self.uncommitted or self.unpushed or self.stashed)

    @property
    def work(self) -> tuple[str, ...]:
        """What would be lost with it, in words: `2 uncommitted files (a.py, b.py)`, `1 unpushed commit`, `1 stash`."""
        words = []
        if self.uncommitted:
            more = ["..."] if len(self.uncommitted) > _NAMED else []
            names = ", ".join([*self.uncommitted[:_NAMED], *more])
            words.append(f"{plural(len(self.uncommitted), 'uncommitted file')} ({names})")
        words += [plural(self.unpushed, "unpushed commit")] if self.unpushed else []
        words += [plural(self.stashed, "stash")] if self.stashed else []
        return tuple(words)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A worktree that is ready, the branch that it is on, and what is worth saying of it."""

    path: str
    branch: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Removal:
    """What became of a worktree that was to go: why it stays (""), whether that is because of its work, and where that was saved."""

    problem: str = ""
    has_work: bool = False
    saved: str = ""


def worktree_path(root: str, ref: WorkItemRef) -> str:
    """Where an item's worktree is below the absolute workspace root; two items never share one."""
    return f"{root.rstrip('/')}/{WORKTREES}/{ref.slug}"


def repository_name(ref: WorkItemRef) -> str:
    """A folder name for the clone of an item's repository, `[a-z0-9_-]+`; two repositories never share one.

    Whatever would not be unique or would lose a character has a hash of the identity behind it.
    """
    provider, host, owner, repo = (part.lower() for part in (ref.provider, ref.host, ref.owner, ref.repo))
    if all(map(_PLAIN.match, (provider, owner, repo))) and host == DEFAULT_HOSTS.get(provider, ""):
        return "-".join([*([] if provider == "github" else [provider]), owner, repo])
    words = re.sub(r"[^a-z0-9_]+", "-", f"{ref.owner}-{ref.repo}".lower()).strip("-")[:60]
    # Plain names hold no two dashes in a row.
    return f"{words}--{hashlib.sha256('/'.join((provider, host, owner, repo)).encode()).hexdigest()[:12]}"


def is_branch(text: str) -> bool:
    """Whether a text is a branch name as we make them: harmless as an argument, valid for git, `[A-Za-z0-9._/-]+`."""
    return text == _cleaned(text) and text.upper() != "HEAD"


def safe_branch(text: str) -> str:
    """A branch name made from any text; two texts never give the same. Whatever was rewritten has a hash behind it."""
    if is_branch(text) and not _HASHED.match(text):
        return text
    # No component may end in .lock, nor the whole in a slash or a dot: the hash sees to that.
    return f"{_cleaned(text)[:_LONGEST_BRANCH]}-x{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _cleaned(text: str) -> str:
    parts = [_component(part) for part in _NO_BRANCH.sub("-", text).split("/")]
    return "/".join(part for part in parts if part)[: _LONGEST_BRANCH + 10].rstrip("/.") or "work"


def _component(text: str) -> str:
    """One part between two slashes: no dot or dash in front, no two dots in a row, no .lock behind."""
    text = re.sub(r"\.{2,}", ".", text).lstrip(".-")
    while text.endswith((".lock", ".")):
        text = text.removesuffix(".lock").rstrip(".")
    return text
