"""How a session comes to its end, or to rest, and what puts right what an end that was cut off has left."""

from __future__ import annotations

from dataclasses import dataclass, replace

from loopctl.model.facts import Known
from loopctl.model.observed import Observation, Subject, known_item
from loopctl.model.plan import CLOSE, REAP, RECORD, Action, After, Held
from loopctl.model.rules import KEPT, REMOVE, Policy
from loopctl.model.sessions import (
    ABSENT_PANE,
    ACTIVE,
    CLOSED_STATUS,
    DEAD,
    GONE,
    LIVE,
    NO_PANE,
    PAUSED,
    PAUSED_STATUS,
    RETAINED,
    RUNNING,
    UNDEAD,
    SessionView,
    Sighting,
)
from loopctl.planner.actions import action_of, before_of
from loopctl.planner.checkouts import checkout_of
from loopctl.planner.links import Stays, stays
from loopctl.planner.resolve import Desired
from loopctl.planner.words import reason_of, why


@dataclass(frozen=True, slots=True)
class _Ending:
    verb: str
    phase: str
    pane: str


def end_of(
    subject: Subject, desired: Desired, observation: Observation, policy: Policy
) -> Action | Held | Stays | None:
    """What ends a session, or None where it is as it should be."""
    view = subject.session
    if view is None or not isinstance(view.sighting, Known):
        return None
    sighting = view.sighting.value
    remove = desired.ensure.session == REMOVE
    kill = desired.ensure.kill_harness
    kill = policy.kill_harness_on_close if kill is None else kill
    ending = _ending(view, sighting, remove, kill or remove)
    if ending is None:
        return _freed(subject, desired, observation, policy)
    if kept := stays(subject, policy):
        return kept
    ends_something = (kill or remove) and sighting.state != NO_PANE
    if ends_something and view.tree.includes_self:
        return Held(subject.ref, "loopctl itself runs inside this session: run it from elsewhere")
    checkout = checkout_of(subject, desired.ensure, observation, policy, ending.phase)
    after = After(
        phase=ending.phase,
        status=CLOSED_STATUS,
        reason=view.record.reason or reason_of(known_item(subject)),
        pane=ending.pane,
        input="off" if ending.pane in {DEAD, LIVE} else "",
        kill_harness=kill or remove,
        grace=_grace(desired, view.record.harness, policy),
        # Also of a retained pane, which somebody may have brought back since: it is the last time that anybody sees it.
        transcript=desired.ensure.transcript or KEPT,
        workspace=checkout.after,
        force=bool(desired.ensure.force and checkout.goes),
    )
    before = replace(before_of(view, sighting), workspace=checkout.path, work=checkout.work)
    return action_of(ending.verb, subject, desired, before, after, why(subject, observation), observation)


def _freed(subject: Subject, desired: Desired, observation: Observation, policy: Policy) -> Action | Held | None:
    """What takes the worktree of a session away that is as it should be otherwise."""
    view, phase = subject.session, subject.phase
    if view is None or phase not in {RETAINED, GONE} or not isinstance(view.sighting, Known):
        return None
    checkout = checkout_of(subject, desired.ensure, observation, policy, phase)
    if checkout.doubt:
        return Held(subject.ref, checkout.kept)
    if not checkout.goes:
        return None
    now = before_of(view, view.sighting.value)
    before = replace(now, workspace=checkout.path, work=checkout.work)
    after = After(
        phase=phase,
        status=now.status,
        pane=now.pane,
        input=now.input,
        kill_harness=False,
        workspace=checkout.after,
        force=bool(desired.ensure.force),
    )
    return action_of(REAP, subject, desired, before, after, why(subject, observation), observation)


def _grace(desired: Desired, harness: str, policy: Policy) -> float:
    """What the rule says, else what the harness needs, else what holds for all."""
    if desired.ensure.grace is not None:
        return desired.ensure.grace
    return policy.harness_grace.get(harness, policy.harness_kill_grace_seconds)


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


def pause_of(subject: Subject, desired: Desired, observation: Observation) -> Action | None:
    """What lets a session rest, or None where it does."""
    view = subject.session
    if view is None or view.record.status != ACTIVE or not isinstance(view.sighting, Known):
        return None
    phase = PAUSED if view.phase == RUNNING else view.phase or ""
    after = After(phase=phase, status=PAUSED_STATUS, kill_harness=False)
    reason = why(subject, observation)
    return action_of(RECORD, subject, desired, before_of(view, view.sighting.value), after, reason, observation)


def mend_of(subject: Subject, desired: Desired, observation: Observation) -> Action | None:
    """What puts a running session right that a start or a close which was cut off left half done, or None where it is whole."""
    view = subject.session
    if view is None or not view.half_done or not isinstance(view.sighting, Known):
        return None
    after = After(phase=RUNNING, status=ACTIVE, pane=LIVE, input="on" if view.silenced else "", kill_harness=False)
    parts = ["its record does not name its pane"] if view.record.only_begun else []
    parts += ["its record does not name its process"] if view.unnamed else []
    parts += ["a close that was cut off has turned its input off"] if view.silenced else []
    before = before_of(view, view.sighting.value)
    return action_of(RECORD, subject, desired, before, after, " and ".join(parts), observation)
