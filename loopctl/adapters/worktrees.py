"""Git worktrees, one for each session that wants one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopctl.errors import StateError
from loopctl.model.facts import Fact, Known
from loopctl.model.refs import WorkItemRef
from loopctl.model.workspaces import Workspace


class NoWorkspaces:
    """ports.Workspaces where config names no root for them."""

    def look(self, paths: Sequence[str]) -> Mapping[str, Fact[Workspace]]:
        """None is ours."""
        return {path: Known(Workspace(path, exists=False)) for path in paths}

    def prepare(self, ref: WorkItemRef, branch: str) -> str:
        """Refused."""
        raise StateError(f"no worktree for {ref}: the config names no root for them", hint="set routing.workspace.root")

    def remove(self, path: str, *, force: bool) -> str:
        """Refused."""
        return f"{path} is not ours: the config names no root for worktrees (routing.workspace.root)"
