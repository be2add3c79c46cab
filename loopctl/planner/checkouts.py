"""Whether a session's worktree goes when the session has ended."""

from __future__ import annotations

from dataclasses import dataclass

from loopctl.model.facts import Known, Unknown
from loopctl.model.observed import Observation, Subject
from loopctl.model.rules import ENDS, Ensure, Policy
from loopctl.model.sessions import CLOSED_STATUS, GONE, RETAINED
from loopctl.model.workspaces import KEPT_WORKSPACE, REMOVED


def wants_removal(ensure: Ensure, keep: bool) -> bool:
    """Whether an end state takes the worktree away; `keep` is what holds where it does not say."""
    silent = ensure.workspace is None and not keep
    return ensure.session in ENDS and (ensure.workspace == REMOVED or silent)


def removal_is_due(ensure: Ensure, subject: Subject, observation: Observation) -> bool:
    """Whether the worktree of a session that has ended may still be there and is to go."""
    record = subject.record
    if record is None or not record.workspace or subject.phase not in {RETAINED, GONE}:
        return False
    fact = observation.workspaces.get(record.workspace)
    gone = isinstance(fact, Known) and not fact.value.exists
    return not gone and wants_removal(ensure, observation.keep_checkouts)


@dataclass(frozen=True, slots=True)
class Checkout:
    """What becomes of a session's worktree when the session has ended: `kept` is why it stays though it was to go, `doubt` that
    this is because of what could not be seen."""

    path: str = ""
    goes: bool = False
    work: tuple[str, ...] = ()
    kept: str = ""
    doubt: bool = False

    @property
    def after(self) -> str:
        """Its state in words, "" where nothing is asked of it."""
        return REMOVED if self.goes else KEPT_WORKSPACE if self.kept else ""


def checkout_of(subject: Subject, ensure: Ensure, observation: Observation, policy: Policy, phase: str) -> Checkout:
    """What becomes of the worktree of a session that comes to this phase."""
    record = subject.record
    if record is None or not record.workspace or not wants_removal(ensure, policy.keep_checkout_on_close):
        return Checkout()
    path = record.workspace
    if _is_anothers(subject, path, observation):
        return Checkout()
    if phase not in {RETAINED, GONE}:
        return Checkout(path, kept="its agent runs on there")
    # Where nobody looked, the removal looks itself.
    fact = observation.workspaces.get(path)
    if isinstance(fact, Unknown):
        return Checkout(path, kept=fact.reason, doubt=True)
    if fact is None:
        return Checkout(path, goes=True)
    if not fact.value.exists:
        return Checkout()
    if not fact.value.ours:
        return Checkout(path, kept=f"it is not ours: {fact.value.reason}")
    if fact.value.has_work and not ensure.force:
        return Checkout(path, work=fact.value.work, kept=f"it has {' and '.join(fact.value.work)}")
    return Checkout(path, goes=True, work=fact.value.work)


def _is_anothers(subject: Subject, path: str, observation: Observation) -> bool:
    """Whether another session of the item works there, or was the last to: then it is that one's to say."""
    mine = [s for s in observation.subjects if s.record and s.record.workspace == path]
    last = mine[-1] if mine else subject
    return last.record != subject.record or any(
        s.record and s.record.status != CLOSED_STATUS and s.record != subject.record for s in mine
    )
