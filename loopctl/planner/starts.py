"""How an item gets its session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from loopctl.model.encode import SHORT_ID
from loopctl.model.facts import Known, Unknown
from loopctl.model.observed import Observation, Subject
from loopctl.model.plan import RESUME, START, Action, After, Before, Held
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import KEPT, Policy
from loopctl.model.sessions import (
    ABSENT,
    ACTIVE,
    CLOSED_STATUS,
    LIVE,
    PAUSED_STATUS,
    RESUME_FAILED,
    RUNNING,
    UNDEAD,
)
from loopctl.planner.actions import action_of, before_of
from loopctl.planner.endings import mend_of
from loopctl.planner.facts import facts_of
from loopctl.planner.links import Stays, is_delivered, moved_sessions, served
from loopctl.planner.resolve import Desired, Resolution
from loopctl.planner.restarts import conversation_of, ended_by_itself, not_yet
from loopctl.planner.strays import agent_elsewhere
from loopctl.planner.words import DRIFT, why
from loopctl.planner.workspaces import folder_of


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
        return mend_of(subject, desired, observation) if subject.latest else None
    if record and record.status == PAUSED_STATUS:
        drift = DRIFT.get(phase or "")
        note = f"{subject.ref} is paused and {drift}: nothing starts it again before `loopctl sessions resume`"
        return Stays(subject.ref, note) if drift else None
    if alive := still_alive(subject.ref, observation.subjects) or agent_elsewhere(subject.ref, observation):
        return Held(subject.ref, alive)
    again = ended_by_itself(subject)
    begun = record if record and record.only_begun and not again else None
    if again and (waits := not_yet(subject, observation, policy)):
        return Held(subject.ref, waits)
    if again and subject.session and subject.session.tree.includes_self:
        return Held(subject.ref, "loopctl itself runs inside this session: run it from elsewhere")
    if is_delivered(subject, starts.served):
        return None
    if old := starts.moved.get(subject.ref.key):
        way = f"loopctl sessions move {old} {subject.ref}"
        return Held(subject.ref, f"{old} moved here and has a session: `{way}` takes it along")
    facts = facts_of(subject, observation)
    ensure = desired.ensure
    harness = ensure.harness or policy.default_harness
    conversation = conversation_of(subject, harness, policy)
    folder = folder_of(subject, ensure, facts, policy, goes_on=bool(conversation))
    if isinstance(folder, Held):
        return folder
    # Under its old name: had the pane come after all, tmux would refuse a second one.
    name = begun.name if begun else _free_name(subject, starts.taken)
    after = After(
        phase=RUNNING,
        status=ACTIVE,
        pane=LIVE,
        harness=harness,
        cwd=folder.cwd,
        workspace=folder.workspace,
        branch=folder.branch,
        prompt=_prompt(desired, facts, policy),
        name=name,
        conversation=conversation,
        # What the last pane shows is written down before it goes.
        transcript=KEPT if again and record and record.status != CLOSED_STATUS else "",
    )
    open_view = subject.session if again and record and record.status != CLOSED_STATUS else None
    sighting = open_view.sighting.value if open_view and isinstance(open_view.sighting, Known) else None
    before = before_of(open_view, sighting) if open_view and sighting else Before(phase=phase or ABSENT)
    reason = why(subject, observation)
    if again and not conversation:
        reason += f"; {harness} begins anew: {_no_way_back(subject, harness, policy)}"
    return action_of(RESUME if conversation else START, subject, desired, before, after, reason, observation)


def _no_way_back(subject: Subject, harness: str, policy: Policy) -> str:
    """Why the conversation of an agent that ended by itself is not taken up again."""
    record = subject.record
    if record and record.reason == RESUME_FAILED:
        return "its conversation could not be taken up"
    if record and record.harness != harness:
        return f"the conversation was with {record.harness}"
    if harness not in policy.resumable:
        return "it cannot take up a conversation"
    return "its conversation is not known" if policy.resume_on_respawn else "routing.tmux.resumeOnRespawn is off"


def _prompt(desired: Desired, facts: Mapping[str, object], policy: Policy) -> str:
    """What the agent is told: the rule's words, else the config's where its command line has a place for them."""
    harness = desired.ensure.harness or policy.default_harness
    template = desired.ensure.prompt or (policy.templates.get("start") if harness in policy.prompted else None)
    return str(template(facts)) if template else ""


def untold(actions: Iterable[Action], policy: Policy) -> tuple[str, ...]:
    """Starts whose rule has a prompt that the agent's command line has no place for."""
    return tuple(
        f"{action.ref}: {action.after.harness} is not told its prompt: its argv has no {{prompt}}"
        for action in actions
        if action.verb == START and action.after.prompt and action.after.harness not in policy.prompted
    )


def still_alive(ref: WorkItemRef, subjects: Iterable[Subject]) -> str:
    """Why a new agent might be a second one: a closed session of the item, the last or an earlier one, is not proved dead. Or ""."""
    for other in subjects:
        if other.ref == ref and other.session:
            if other.phase == UNDEAD:
                name = ref if other.latest or not other.record else other.record.id[:SHORT_ID]
                return f"its session is closed but its agent is alive: `loopctl sessions close {name}` ends it"
            if isinstance(other.session.sighting, Unknown):
                return f"whether an earlier session of it is alive cannot be told: {other.session.sighting.reason}"
    return ""


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
