"""Worktrees: made before a session starts, taken away after its end was verified and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from loopctl.errors import StateError
from loopctl.model.plan import CHANGED, FAILED, REAP, STALE, Action, Result
from loopctl.model.sessions import CLOSED_STATUS, SessionRecord
from loopctl.model.workspaces import KEPT_WORKSPACE, REMOVED, WORKTREE, Prepared
from loopctl.ports import World


def prepare(action: Action, world: World) -> Prepared:
    """The folder that a start works in: its worktree, made or found, or the folder that the plan names. Raises StateError."""
    after = action.after
    if after.workspace != WORKTREE:
        return Prepared(after.cwd, "")
    world.progress(f"preparing the worktree of {action.ref}")
    made = world.workspaces.prepare(action.ref, after.branch)
    world.journal.emit(
        "workspace.prepared", ref=str(action.ref), path=made.path, branch=made.branch, note=made.note or None
    )
    return made


def is_all_that_goes(action: Action) -> bool:
    """Whether an action takes a worktree away and nothing else: its session has ended before."""
    return action.verb == REAP and action.after.workspace == REMOVED and action.after.phase == action.before.phase


def free_after(closed: Mapping[int, Result], world: World) -> dict[int, Result]:
    """Take away the worktrees of sessions that were ended just now, where that went well. One that stays undoes no end."""
    return {index: _after(result, world) for index, result in closed.items()}


def free_alone(actions: Mapping[int, Action], world: World) -> dict[int, Result]:
    """Take away the worktrees of sessions that ended before."""
    return {index: _alone(action, world) for index, action in actions.items()}


def _after(result: Result, world: World) -> Result:
    after = result.action.after
    if result.status != CHANGED or after.workspace not in {REMOVED, KEPT_WORKSPACE}:
        return result
    if after.workspace == KEPT_WORKSPACE:
        work = " and ".join(result.action.before.work)
        return replace(result, detail=f"{result.detail}; worktree kept{f': it has {work}' if work else ''}")
    freed = _free(result.action, world)
    # Work that came since the plan is respected, as it would have been by the plan; all else is a failure.
    return replace(
        freed, status=CHANGED if freed.status == STALE else freed.status, detail=f"{result.detail}; {freed.detail}"
    )


def _alone(action: Action, world: World) -> Result:
    if world.interrupted():
        return Result(action, FAILED, "interrupted before it began")
    return _free(action, world)


def _free(action: Action, world: World) -> Result:
    """Take one worktree away. Stale where it is in use again or has work that nobody said to take along."""
    path = action.before.workspace
    try:
        records = world.registry.all()
    except StateError as error:
        return Result(action, FAILED, f"worktree kept: {error.message}")
    mine = next((record for record in records if record.id == action.guard.record_id), None)
    if mine is None or mine.workspace != path:
        return Result(action, STALE, "its record names no such worktree any more")
    if any(_works_there(record, path, world) for record in records):
        return Result(action, STALE, "worktree kept: a session of its item works there")
    removal = world.workspaces.remove(path, force=action.after.force)
    if removal.problem:
        status = STALE if removal.has_work else FAILED
        return Result(action, status, f"worktree kept: {removal.problem}")
    # Where nothing is left there is nothing to look at next time. Without that it has vanished, which is fine too.
    with suppress(StateError):
        world.registry.replace(replace(mine, workspace=""))
    world.journal.emit(
        "workspace.cleaned", ref=str(action.ref), session=mine.id, path=path, saved=removal.saved or None
    )
    return Result(
        action, CHANGED, "worktree removed" + (f", its work saved in {removal.saved}" if removal.saved else "")
    )


def _works_there(record: SessionRecord, path: str, world: World) -> bool:
    return record.machine == world.machine and record.workspace == path and record.status != CLOSED_STATUS
