"""What to do about it: the actions for each subject that is not as it should be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopctl.model.facts import OUTSIDE
from loopctl.model.observed import Observation
from loopctl.model.plan import Action, Held, Plan, PlayScope
from loopctl.model.rules import PAUSE, RUN, Playbook, Policy
from loopctl.planner.comments import comment_of
from loopctl.planner.deliveries import deliveries_of, heard_from
from loopctl.planner.endings import end_of, pause_of
from loopctl.planner.links import Stays
from loopctl.planner.queue import admitted
from loopctl.planner.resolve import Resolution, is_for
from loopctl.planner.starts import Starts, start_of, untold
from loopctl.planner.words import deaf, notes_of
from loopctl.planner.workspaces import checkout_note

#: What there is to do about one subject: something, nothing because of a doubt, or a word on why nothing.
Step = Action | Held | Stays


def diff(playbook: Playbook, resolutions: Sequence[Resolution], observation: Observation, policy: Policy) -> Plan:
    """Compare what should be with what is. Pure: the same input gives the same plan, in the order of refs."""
    starts = Starts.of(resolutions, observation)
    actions: list[Action] = []
    held: list[Held] = []
    kept: list[str] = []
    outside = []
    calm: set[tuple[object, ...]] = set()
    busy: set[tuple[object, ...]] = set()
    for resolution in sorted(resolutions, key=_order):
        if resolution.doubt is not None and resolution.doubt.kind == OUTSIDE:
            outside.append(resolution.subject.ref)
            busy.add(_order(resolution))
            continue
        steps = list(_steps(resolution, observation, policy, starts))
        actions += [step for step in steps if isinstance(step, Action)]
        held += [step for step in steps if isinstance(step, Held)]
        kept += [step.note for step in steps if isinstance(step, Stays)]
        (busy if any(isinstance(step, Action | Held) for step in steps) else calm).add(_order(resolution))
    scopes = _scopes(playbook, observation)
    actions, waiting = admitted(actions, scopes, observation, policy)
    return Plan(
        created_at=observation.now,
        machine=observation.machine,
        registry=observation.registry,
        playbooks=playbook.sources,
        plays=scopes,
        actions=tuple(actions),
        held=(*held, *waiting),
        unchanged=len(calm - busy),
        outside=tuple(ref for ref in dict.fromkeys(outside) if ref not in {action.ref for action in actions}),
        notes=(
            *dict.fromkeys(kept),
            *untold(actions, policy),
            *deaf(resolutions),
            *_elsewhere(playbook, scopes, observation),
            *notes_of(observation),
        ),
        problems=tuple(f"{name}: {reason}" for name, reason in sorted(observation.problems.items())),
    )


def _order(resolution: Resolution) -> tuple[object, ...]:
    record = resolution.subject.record
    return (resolution.subject.ref.sort_key, record.id if record else "")


def _steps(resolution: Resolution, observation: Observation, policy: Policy, starts: Starts) -> Iterator[Step]:
    """What there is to do about one subject, in the order in which it is done."""
    if resolution.doubt is not None:
        yield Held(resolution.subject.ref, resolution.doubt.reason)
        return
    session = _session_step(resolution, observation, policy, starts)
    if session is not None:
        yield session
    stays = checkout_note(resolution, session, observation, policy)
    if stays is not None:
        yield stays
    comment = _comment_step(resolution, session, observation, policy)
    if comment is not None:
        yield comment
    yield from deliveries_of(resolution, observation, policy)


def _session_step(resolution: Resolution, observation: Observation, policy: Policy, starts: Starts) -> Step | None:
    desired = resolution.desired
    if desired is None or desired.ensure.session is None:
        return None
    if desired.ensure.session == RUN:
        step = start_of(resolution.subject, desired, observation, policy, starts)
        return heard_from(step, resolution.subject, desired, observation) if isinstance(step, Action) else step
    if desired.ensure.session == PAUSE:
        return pause_of(resolution.subject, desired, observation)
    return end_of(resolution.subject, desired, observation, policy)


def _comment_step(
    resolution: Resolution, session: Step | None, observation: Observation, policy: Policy
) -> Step | None:
    desired = resolution.desired
    return comment_of(resolution.subject, desired, session, observation, policy) if desired else None


def _elsewhere(playbook: Playbook, scopes: Sequence[PlayScope], observation: Observation) -> Iterator[str]:
    if playbook.plays and not scopes:
        yield f"no play is for this machine ({observation.machine})"


def _scopes(playbook: Playbook, observation: Observation) -> tuple[PlayScope, ...]:
    running = observation.alive_beside + sum(subject.is_alive for subject in observation.subjects)
    return tuple(PlayScope(p.name, p.limits, running) for p in playbook.plays if is_for(p, observation.machine))
