"""The git worktree that a session may have for itself."""

from __future__ import annotations

from dataclasses import dataclass

#: `ensure.workspace` of a running session: the common folder, or a worktree of its own.
SHARED = "shared"
WORKTREE = "worktree"
#: `ensure.workspace` of one that ends.
KEPT_WORKSPACE = "kept"
REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Workspace:
    """What a worktree shows. `exists` is False where the folder has vanished, which is a fact and no error.

    `ours` says that it is a worktree that loopctl made, below its workspace root. `uncommitted` are paths with changes or
    untracked files, `unpushed` the number of commits that no remote branch has.
    """

    path: str
    exists: bool
    ours: bool = False
    branch: str = ""
    uncommitted: tuple[str, ...] = ()
    unpushed: int = 0

    @property
    def has_work(self) -> bool:
        """Whether something would be lost with it."""
        return bool(self.uncommitted or self.unpushed)
