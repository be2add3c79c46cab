"""Where a session works that is started, and which worktrees have to be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopctl.model.facts import UNASKED
from loopctl.model.observed import Observation, Subject
from loopctl.model.plan import Action, Held
from loopctl.model.rules import ENDS, Ensure, Playbook, Policy
from loopctl.model.sessions import CLOSED_STATUS
from loopctl.model.text import is_text
from loopctl.model.workspaces import SHARED, WORKTREE, safe_branch, worktree_path
from loopctl.planner.checkouts import checkout_of, wants_removal
from loopctl.planner.links import Stays
from loopctl.planner.resolve import Resolution, resolve


@dataclass(frozen=True, slots=True)
class Folder:
    """Where a session that is started works: its folder and, for a worktree, the branch."""

    cwd: str
    workspace: str = ""
    branch: str = ""


def folder_of(
    subject: Subject, ensure: Ensure, facts: Mapping[str, object], policy: Policy, *, goes_on: bool
) -> Folder | Held:
    """The folder that a start needs. One that goes on with a conversation does so where that was held."""
    record = subject.record
    if goes_on and record and record.cwd:
        return Folder(record.cwd, WORKTREE if record.workspace else "", record.branch)
    if ensure.workspace != WORKTREE:
        cwd = str(ensure.cwd(facts)) if ensure.cwd else policy.spawn_workdir
        return _usable(subject, Folder(cwd, SHARED if ensure.workspace == SHARED else ""))
    if ensure.cwd:
        return Held(subject.ref, "rules want both a cwd and a worktree for it")
    if not policy.workspace_root:
        return Held(subject.ref, "its rule wants a worktree, and the config has no routing.workspace.root")
    template = ensure.branch or policy.workspace_branch
    branch = safe_branch(str(template(facts)).strip() if template else f"loop/{subject.ref.number}")
    return _usable(subject, Folder(worktree_path(policy.workspace_root, subject.ref), WORKTREE, branch))


def _usable(subject: Subject, folder: Folder) -> Folder | Held:
    if folder.cwd.startswith("/") and is_text(folder.cwd):
        return folder
    wrong = "records hold UTF-8 only" if folder.cwd.startswith("/") else "that is no absolute path"
    return Held(subject.ref, f"its folder would be {folder.cwd!r}, and {wrong}")


def checkout_note(resolution: Resolution, step: object, observation: Observation, policy: Policy) -> Stays | None:
    """A word on a worktree that stays though it was to go. `step` is what is done about the session."""
    desired = resolution.desired
    if desired is None or desired.ensure.session not in ENDS or isinstance(step, Held | Stays):
        return None
    phase = step.after.phase if isinstance(step, Action) else resolution.subject.phase or ""
    found = checkout_of(resolution.subject, desired.ensure, observation, policy, phase)
    if not found.kept:
        return None
    way = "; commit and push it, or let the rule say `force: true`, which saves it first" if found.work else ""
    ref = resolution.subject.ref
    return Stays(ref, f"{ref}: its worktree {found.path} stays: {found.kept}{way}")


def removable(playbook: Playbook, observation: Observation) -> tuple[str, ...]:
    """The worktrees that have to be looked at: those that could go, as far as is known now."""
    subjects = [s for s in observation.subjects if s.record and s.record.workspace not in {"", *observation.workspaces}]
    rules = [rule for play in playbook.plays for rule in play.rules]
    if not subjects or not any(wants_removal(rule.ensure, observation.keep_checkouts) for rule in rules):
        return ()
    found = [r for r in resolve(playbook, observation) if r.subject in subjects and _may_go(r, observation)]
    return tuple(dict.fromkeys(r.subject.record.workspace for r in found if r.subject.record))


def _may_go(resolution: Resolution, observation: Observation) -> bool:
    record = resolution.subject.record
    if resolution.desired:
        return wants_removal(resolution.desired.ensure, observation.keep_checkouts)
    unasked = resolution.doubt is not None and resolution.doubt.kind == UNASKED
    return unasked and record is not None and record.status == CLOSED_STATUS
