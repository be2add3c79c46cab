"""What to do about it: one action for each subject that is not as it should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from loopctl.model.facts import OUTSIDE, Known, Unknown
from loopctl.model.observed import Observation, Subject, known_item
from loopctl.model.plan import CLOSE, REAP, RECORD, START, Action, After, Before, Held, Plan, PlayScope
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import KEPT, PAUSE, REMOVE, RUN, Playbook, Policy
from loopctl.model.sessions import (
    ABSENT,
    ABSENT_PANE,
    ACTIVE,
    CLOSED_STATUS,
    DEAD,
    EXITED,
    GONE,
    LIVE,
    LOST,
    NO_PANE,
    PAUSED,
    PAUSED_STATUS,
    RETAINED,
    RUNNING,
    UNDEAD,
    SessionRecord,
    SessionView,
    Sighting,
)
from loopctl.planner.facts import facts_of
from loopctl.planner.identity import guard_of
from loopctl.planner.links import Stays, is_delivered, moved_sessions, served, stays
from loopctl.planner.resolve import Desired, Resolution, is_for
from loopctl.planner.strays import agent_elsewhere
from loopctl.planner.words import DRIFT, deaf, notes_of, reason_of, why


def diff(playbook: Playbook, resolutions: Sequence[Resolution], observation: Observation, policy: Policy) -> Plan:
    """Compare what should be with what is. Pure: the same input gives the same plan, in the order of refs."""
    taken = _names_in_use(observation)
    serving, moved = served(resolutions, observation), moved_sessions(observation)
    actions: list[Action] = []
    held: list[Held] = []
    kept: list[str] = []
    outside = []
    calm: set[tuple[object, ...]] = set()
    busy: set[tuple[object, ...]] = set()
    for resolution in sorted(resolutions, key=_order):
        subject = resolution.subject
        if resolution.doubt is not None and resolution.doubt.kind == OUTSIDE:
            outside.append(subject.ref)
            busy.add(_order(resolution))
            continue
        step = (
            Held(subject.ref, resolution.doubt.reason)
            if resolution.doubt is not None
            else _step(resolution, observation, policy, _Starts(taken, serving, moved))
        )
        if isinstance(step, Action):
            actions.append(step)
        elif isinstance(step, Held):
            held.append(step)
        else:
            kept += [step.note] if step else []
        (busy if isinstance(step, Action | Held) else calm).add(_order(resolution))
    return Plan(
        created_at=observation.now,
        machine=observation.machine,
        registry=observation.registry,
        playbooks=playbook.sources,
        plays=_scopes(playbook, observation),
        actions=tuple(actions),
        held=tuple(held),
        unchanged=len(calm - busy),
        outside=tuple(ref for ref in dict.fromkeys(outside) if ref not in {action.ref for action in actions}),
        notes=(*kept, *deaf(resolutions), *notes_of(observation)),
        problems=tuple(f"{name}: {reason}" for name, reason in sorted(observation.problems.items())),
    )


def _order(resolution: Resolution) -> tuple[object, ...]:
    record = resolution.subject.record
    return (resolution.subject.ref.sort_key, record.id if record else "")


@dataclass(frozen=True, slots=True)
class _Starts:
    """What a start depends on beside its own item: names in use, items with a session, and where items moved to."""

    taken: set[str]
    served: frozenset[WorkItemRef]
    moved: Mapping[str, WorkItemRef]


def _step(
    resolution: Resolution, observation: Observation, policy: Policy, starts: _Starts
) -> Action | Held | Stays | None:
    desired = resolution.desired
    if desired is None or desired.ensure.session is None:
        return None
    if desired.ensure.session == RUN:
        return _start(resolution.subject, desired, observation, policy, starts)
    if desired.ensure.session == PAUSE:
        return _pause(resolution.subject, desired, observation)
    return _end(resolution.subject, desired, observation, policy)


@dataclass(frozen=True, slots=True)
class _Ending:
    verb: str
    phase: str
    pane: str


def _end(subject: Subject, desired: Desired, observation: Observation, policy: Policy) -> Action | Held | Stays | None:
    view = subject.session
    if view is None or not isinstance(view.sighting, Known):
        return None
    sighting = view.sighting.value
    remove = desired.ensure.session == REMOVE
    kill = desired.ensure.kill_harness
    kill = policy.kill_harness_on_close if kill is None else kill
    ending = _ending(view, sighting, remove, kill or remove)
    if ending is None:
        return None
    if kept := stays(subject, policy):
        return kept
    ends_something = (kill or remove) and sighting.state != NO_PANE
    if ends_something and view.tree.includes_self:
        return Held(subject.ref, "loopctl itself runs inside this session: run it from elsewhere")
    grace = desired.ensure.grace
    after = After(
        phase=ending.phase,
        status=CLOSED_STATUS,
        reason=view.record.reason or reason_of(known_item(subject)),
        pane=ending.pane,
        input="off" if ending.pane in {DEAD, LIVE} else "",
        kill_harness=kill or remove,
        grace=policy.harness_kill_grace_seconds if grace is None else grace,
        # What a retained pane shows was written down when it was closed.
        transcript="" if ending.verb == REAP and view.record.transcript else desired.ensure.transcript or KEPT,
    )
    reason = why(subject, observation)
    return _action(ending.verb, subject, desired, _before(view, sighting), after, reason, observation)


def _ending(view: SessionView, sighting: Sighting, remove: bool, kill: bool) -> _Ending | None:
    phase = view.phase
    pane = sighting.pane
    open_input = pane is not None and (not pane.input_off or pane.remain_on_exit == "off")
    if phase == GONE or (phase == RETAINED and not remove and not open_input):
        return None
    if phase == UNDEAD and not kill and not open_input:
        return None
    if sighting.state in {ABSENT_PANE, NO_PANE}:
        return _Ending(CLOSE, GONE, ABSENT_PANE if sighting.state == ABSENT_PANE else "")
    if remove:
        return _Ending(REAP if phase == RETAINED else CLOSE, GONE, ABSENT_PANE)
    if not kill and sighting.state == LIVE:
        return _Ending(CLOSE, UNDEAD, LIVE)
    return _Ending(CLOSE, RETAINED, DEAD)


def _pause(subject: Subject, desired: Desired, observation: Observation) -> Action | None:
    view = subject.session
    if view is None or view.record.status != ACTIVE or not isinstance(view.sighting, Known):
        return None
    phase = PAUSED if view.phase == RUNNING else view.phase or ""
    after = After(phase=phase, status=PAUSED_STATUS, kill_harness=False)
    reason = why(subject, observation)
    return _action(RECORD, subject, desired, _before(view, view.sighting.value), after, reason, observation)


def _start(
    subject: Subject, desired: Desired, observation: Observation, policy: Policy, starts: _Starts
) -> Action | Held | Stays | None:
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
    return _action(START, subject, desired, before, after, why(subject, observation), observation)


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


def _action(
    verb: str, subject: Subject, desired: Desired, before: Before, after: After, reason: str, observation: Observation
) -> Action:
    guard = guard_of(subject, observation)
    return Action(
        verb=verb,
        ref=subject.ref,
        before=before,
        after=after,
        play=desired.play.name,
        rule=desired.rule.name,
        position=desired.rule.position,
        why=reason,
        guard=guard if desired.rule.match.session.attached is not None else replace(guard, attached=""),
    )


def _before(view: SessionView, sighting: Sighting) -> Before:
    pane = sighting.pane
    return Before(
        phase=view.phase or "",
        status=view.record.status,
        pane=sighting.state if sighting.state != NO_PANE else "",
        input="" if pane is None else "off" if pane.input_off else "on",
        remain_on_exit=pane.remain_on_exit if pane else "",
        harness=view.record.harness,
        pane_id=pane.pane_id if pane else "",
        since=view.record.created_at,
        attached=pane.attached if pane else 0,
        processes=tuple(process.label for process in view.tree.members),
        spared=tuple(process.label for process in view.tree.spared),
        panes=tuple(other.pane_id for other in sighting.kin),
        beside=tuple(other.pane_id for other in sighting.beside),
    )


def _scopes(playbook: Playbook, observation: Observation) -> tuple[PlayScope, ...]:
    running = observation.alive_beside + sum(subject.is_alive for subject in observation.subjects)
    return tuple(PlayScope(p.name, p.limits, running) for p in playbook.plays if is_for(p, observation.machine))
