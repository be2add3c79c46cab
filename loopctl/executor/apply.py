"""Carry a plan out: look again, drop what moved, do the rest, say what happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopctl.errors import StaleError
from loopctl.executor import limits
from loopctl.executor.close import close_all
from loopctl.executor.comment import comment_all, promise
from loopctl.executor.deliver import deliver_all
from loopctl.executor.guard import doubt, moved, of_another_world
from loopctl.executor.mend import mend_all
from loopctl.executor.pause import pause_all
from loopctl.executor.restart import restart_all
from loopctl.executor.start import start_all
from loopctl.executor.workspace import free_after, free_alone, is_all_that_goes
from loopctl.model.observed import NOT_ASKED, Observation, Subject
from loopctl.model.plan import (
    BEGINNINGS,
    CHANGED,
    COMMENT,
    DELIVER,
    ENDINGS,
    FAILED,
    RECORD,
    STALE,
    Action,
    Held,
    Outcome,
    Plan,
    Result,
)
from loopctl.model.sessions import PAUSED_STATUS, SessionView
from loopctl.observe import ask, observe
from loopctl.planner import ended_by_itself, room, running
from loopctl.ports import World

#: How old an answer of a provider may be when its plan is applied by the process that made it, in seconds.
FRESH_SECONDS = 5.0


def execute(plan: Plan, world: World, max_changes: int | None = None, asked_at: float | None = None) -> Outcome:
    """Apply a plan. The caller holds the apply lock.

    Each action is compared with a fresh look first, singly: what moved is stale, what can no longer be seen is held, the
    rest is done. Raises RefusedError over limits, StaleError for a plan of another world, StateError before anything was done.
    """
    limits.check(plan, max_changes)
    observation = _with_new_items(plan, observe(world))
    for action in plan.actions[:1]:
        reason = of_another_world(action.guard, observation)
        if reason:
            msg = f"this plan is stale: {reason}"
            raise StaleError(msg, hint="make a new plan")
    refs = [action.ref for action in plan.actions if action.guard.item_state]
    fresh = asked_at is not None and world.clock() - asked_at < FRESH_SECONDS
    observation = ask(world, observation, refs) if refs and not fresh else observation
    world.journal.emit("apply.started", counts=_counts(plan.summary))
    results, held = _carry_out(plan, observation, world)
    outcome = Outcome(
        tuple(results),
        (*plan.held, *held),
        interrupted=world.interrupted() and any(r.status == FAILED for r in results),
    )
    for result in outcome.results:
        _journal(result, world)
    for item in outcome.held:
        world.journal.emit("item.held", "warning", ref=str(item.ref), reason=item.reason)
    world.journal.emit("apply.finished", counts=_counts(outcome.summary))
    return outcome


def _carry_out(plan: Plan, observation: Observation, world: World) -> tuple[list[Result], list[Held]]:
    results: dict[int, Result] = {}
    held: list[Held] = []
    endings: dict[int, tuple[Action, SessionView]] = {}
    records: dict[int, tuple[Action, SessionView]] = {}
    starts: dict[int, tuple[Action, Subject]] = {}
    comments: dict[int, Action] = {}
    deliveries: dict[int, tuple[Action, SessionView]] = {}
    for index, action in enumerate(plan.actions):
        subject = _subject(action, observation)
        reason = "its record is not there any more" if subject is None else ""
        unsure = doubt(action, subject, observation) if subject else ""
        if subject is None or (not unsure and (reason := moved(action, subject, observation, world.policy))):
            results[index] = Result(action, STALE, reason)
        elif unsure:
            held += [] if (doubtful := Held(action.ref, unsure)) in held else [doubtful]
        elif action.verb in {*ENDINGS, DELIVER} and subject.session:
            (deliveries if action.verb == DELIVER else endings)[index] = (action, subject.session)
        elif action.verb == RECORD and subject.session:
            records[index] = (action, subject.session)
        elif action.verb in BEGINNINGS:
            starts[index] = (action, subject)
        elif action.verb == COMMENT:
            comments[index] = action
        else:
            results[index] = Result(action, FAILED, f"this version cannot carry out {action.verb!r}")
    promise(list(comments.values()), world)
    results |= _end(endings, world)
    results |= _record(records, world)
    results |= zip(deliveries, deliver_all(list(deliveries.values()), world), strict=True)
    starts, waiting = _admitted(starts, results, plan, observation, world)
    held += waiting
    if starts and world.interrupted():
        results |= {
            index: Result(action, FAILED, "interrupted before it began") for index, (action, _) in starts.items()
        }
    elif starts:
        results |= _begin(starts, world)
    results |= zip(comments, comment_all(list(comments.values()), list(results.values()), world), strict=True)
    return [results[index] for index in sorted(results)], held


def _end(endings: Mapping[int, tuple[Action, SessionView]], world: World) -> dict[int, Result]:
    """Sessions first; their worktrees go when that is done, with those of sessions that ended before."""
    alone = {index: action for index, (action, _) in endings.items() if is_all_that_goes(action)}
    closing = {index: pair for index, pair in endings.items() if index not in alone}
    closed = dict(zip(closing, close_all(list(closing.values()), world), strict=True)) if closing else {}
    return free_after(closed, world) | free_alone(alone, world)


def _admitted(
    starts: dict[int, tuple[Action, Subject]],
    results: Mapping[int, Result],
    plan: Plan,
    observation: Observation,
    world: World,
) -> tuple[dict[int, tuple[Action, Subject]], list[Held]]:
    """Those that still find a free place: where an ending failed, or somebody started one meanwhile, there is none."""
    gone = {r.action.guard.record_id for r in results.values() if r.action.verb in ENDINGS and r.status == CHANGED}
    count = running(observation, gone)
    going: dict[int, tuple[Action, Subject]] = {}
    for index, pair in starts.items():
        if room(plan.plays, pair[0].play, world.policy, count + len(going)):
            going[index] = pair
    return going, [Held(pair[0].ref, "waits for a free place") for index, pair in starts.items() if index not in going]


def _record(records: Mapping[int, tuple[Action, SessionView]], world: World) -> dict[int, Result]:
    """Sessions that are to rest, and those that something was left undone of."""
    pausing = {
        i: (action, view.record) for i, (action, view) in records.items() if action.after.status == PAUSED_STATUS
    }
    mending = {index: pair for index, pair in records.items() if index not in pausing}
    results = dict(zip(pausing, pause_all(list(pausing.values()), world), strict=True)) if pausing else {}
    return results | dict(zip(mending, mend_all(list(mending.values()), world), strict=True))


def _begin(starts: Mapping[int, tuple[Action, Subject]], world: World) -> dict[int, Result]:
    """Those that take the place of an agent that ended by itself, then those that are new."""
    again = {index: pair for index, pair in starts.items() if ended_by_itself(pair[1])}
    new = {index: pair for index, pair in starts.items() if index not in again}
    results = dict(zip(again, restart_all(list(again.values()), world), strict=True)) if again else {}
    return results | (dict(zip(new, start_all(list(new.values()), world), strict=True)) if new else {})


def _with_new_items(plan: Plan, observation: Observation) -> Observation:
    """Items that are to be started have no record yet: they are subjects too."""
    known = {subject.ref for subject in observation.subjects}
    new = {a.ref: Subject(a.ref, NOT_ASKED) for a in plan.actions if not a.guard.record_id and a.ref not in known}
    return replace(observation, subjects=(*observation.subjects, *new.values()))


def _subject(action: Action, observation: Observation) -> Subject | None:
    """The subject of an action now: by its record, or for an item without one by its ref (and its newest record)."""
    if action.guard.record_id:
        return next((s for s in observation.subjects if s.record and s.record.id == action.guard.record_id), None)
    return next((s for s in observation.subjects if s.ref == action.ref and s.latest), None)


def _journal(result: Result, world: World) -> None:
    action = result.action
    event = {CHANGED: "action.changed", STALE: "action.stale", FAILED: "action.failed"}.get(result.status)
    if event:
        level = {CHANGED: "info", STALE: "warning"}.get(result.status, "error")
        record = action.guard.record_id or None
        world.journal.emit(
            event,
            level,
            ref=str(action.ref),
            session=record,
            verb=action.verb,
            detail=result.detail,
            rule=str(action.position),
        )


def _counts(summary: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in summary.items() if count}
