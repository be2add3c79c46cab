"""How an item gets its session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from loopctl.model.facts import Known, Unknown
from loopctl.model.observed import Observation, Subject
from loopctl.model.plan import START, Action, After, Before, Held
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Policy
from loopctl.model.sessions import (
    ABSENT,
    ACTIVE,
    EXITED,
    LIVE,
    LOST,
    PAUSED_STATUS,
    RUNNING,
    UNDEAD,
    SessionRecord,
)
from loopctl.planner.actions import action_of
from loopctl.planner.facts import facts_of
from loopctl.planner.links import Stays, is_delivered, moved_sessions, served
from loopctl.planner.resolve import Desired, Resolution
from loopctl.planner.strays import agent_elsewhere
from loopctl.planner.words import DRIFT, why


@dataclass(frozen=True, slots=True)
class Starts:
    """What a start depends on beside its own item: names in use, items with a session, and where items moved to."""

    taken: set[str]
    served: frozenset[WorkItemRef]
    moved: Mapping[str, WorkItemRef]

    @classmethod
    def of(cls, resolutions: Sequence[Resolution], observation: Observation) -> Starts:
        """Gathered once for a plan."""
        return cls(_names_in_use(observation), served(resolutions, observation), moved_sessions(observation))


def start_of(
    subject: Subject, desired: Desired, observation: Observation, policy: Policy, starts: Starts
) -> Action | Held | Stays | None:
    """What gives an item its session, or None where it has one or needs none."""
    phase, record = subject.phase, subject.record
    if not subject.latest or phase == RUNNING:
        return None
    if record and record.status == PAUSED_STATUS:
        drift = DRIFT.get(phase or "")
        note = f"{subject.ref} is paused and {drift}: nothing starts it again before `loopctl sessions resume`"
        return Stays(subject.ref, note) if drift else None
    if alive := _still_alive(subject, observation) or agent_elsewhere(subject.ref, observation):
        return Held(subject.ref, alive)
    begun = _only_begun(subject)
    if phase in {EXITED, LOST} and begun is None:
        hint = f"loopctl sessions close {subject.ref}"
        return Held(
            subject.ref,
            f"its agent has {'exited' if phase == EXITED else 'lost its pane'}: `{hint}` lets it start anew",
        )
    if is_delivered(subject, starts.served):
        return None
    if old := starts.moved.get(subject.ref.key):
        way = f"loopctl sessions move {old} {subject.ref}"
        return Held(subject.ref, f"{old} moved here and has a session: `{way}` takes it along")
    facts = facts_of(subject, observation)
    ensure = desired.ensure
    # Under its old name: had the pane come after all, tmux would refuse a second one.
    name = begun.name if begun else _free_name(subject, starts.taken)
    after = After(
        phase=RUNNING,
        status=ACTIVE,
        pane=LIVE,
        harness=ensure.harness or policy.default_harness,
        cwd=str(ensure.cwd(facts)) if ensure.cwd else policy.spawn_workdir,
        prompt=str(ensure.prompt(facts)) if ensure.prompt else "",
        name=name,
    )
    before = Before(phase=phase or ABSENT)
    return action_of(START, subject, desired, before, after, why(subject, observation), observation)


def _still_alive(subject: Subject, observation: Observation) -> str:
    """Why a new agent might be a second one: a closed session of the item, the last or an earlier one, is not proved dead."""
    for other in observation.subjects:
        if other.ref == subject.ref and other.session:
            if other.phase == UNDEAD:
                return "its session is closed but its agent is alive: end it first"
            if isinstance(other.session.sighting, Unknown):
                return f"whether an earlier session of it is alive cannot be told: {other.session.sighting.reason}"
    return ""


def _only_begun(subject: Subject) -> SessionRecord | None:
    """The record of a start that was cut off before there was a pane: the next one goes on with it."""
    view = subject.session
    if view is None or view.phase != LOST or view.tree.members or not view.record.only_begun:
        return None
    return view.record


def _free_name(subject: Subject, taken: set[str]) -> str:
    base = f"loop-{subject.ref.slug}"
    name = next(name for n in count(1) if (name := base if n == 1 else f"{base}-r{n}") not in taken)
    taken.add(name)
    return name


def _names_in_use(observation: Observation) -> set[str]:
    names = {stray.pane.session for stray in observation.unmanaged}
    for subject in observation.subjects:
        if subject.record:
            names.add(subject.record.name)
        if subject.session and isinstance(subject.session.sighting, Known):
            pane = subject.session.sighting.value.pane
            names |= {pane.session} if pane else set()
    return names
