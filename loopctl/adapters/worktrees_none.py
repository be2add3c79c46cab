"""No worktrees: what stands for them where the config names no root."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from loopctl.errors import StateError
from loopctl.model.facts import Fact, Known
from loopctl.model.refs import WorkItemRef
from loopctl.model.workspaces import Prepared, Removal, Workspace

_OFF = "the config names no root for worktrees (routing.workspace.root)"


class NoWorkspaces:
    """ports.Workspaces where config names no root for them."""

    def look(self, paths: Sequence[str]) -> Mapping[str, Fact[Workspace]]:
        """None is ours."""
        return {path: Known(Workspace(path, os.path.lexists(path), reason=_OFF)) for path in paths}

    def prepare(self, ref: WorkItemRef, branch: str) -> Prepared:
        """Refused."""
        raise StateError(f"no worktree for {ref}: {_OFF}", hint="set routing.workspace.root")

    def remove(self, path: str, *, force: bool) -> Removal:
        """Refused, unless there is nothing."""
        return Removal(_OFF) if os.path.lexists(path) else Removal()
