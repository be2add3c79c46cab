"""How an action is made: whole before and after, the rule that wants it and the identities it relies on."""

from __future__ import annotations

from dataclasses import replace

from loopctl.model.observed import Observation, Subject
from loopctl.model.plan import Action, After, Before
from loopctl.model.sessions import NO_PANE, SessionView, Sighting
from loopctl.planner.identity import guard_of
from loopctl.planner.resolve import Desired


def action_of(
    verb: str, subject: Subject, desired: Desired, before: Before, after: After, reason: str, observation: Observation
) -> Action:
    """One change, relying on all that the subject shows now."""
    guard = guard_of(subject, observation, desired.reads)
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


def before_of(view: SessionView, sighting: Sighting) -> Before:
    """What the session is now, as far as an action changes it."""
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
