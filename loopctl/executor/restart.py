"""Put a new agent in the place of one that ended by itself: what is left of the old one goes the one way of every session, then the
next one starts, on the same conversation where its harness can.

A crash in between leaves a closed record that says why, so that the next run goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopctl.executor.close import close_all
from loopctl.executor.start import start_all
from loopctl.model.observed import Subject
from loopctl.model.plan import CHANGED, CLOSE, FAILED, Action, After, Result
from loopctl.model.rules import KEPT
from loopctl.model.sessions import (
    AGENT_EXITED,
    CLOSED_STATUS,
    EXITED,
    GONE,
    LOST,
    PANE_LOST,
    RESUME_FAILED,
    RETAINED,
    STARTED,
    SessionView,
)
from loopctl.observe import observe
from loopctl.ports import World

_TURN = 0.2
_SORRY = "its conversation could not be taken up"


def restart_all(actions: Sequence[tuple[Action, Subject]], world: World) -> list[Result]:
    """Clear away what is left of each session, start the next one, and see whether what was resumed lives. Results in the
    order of actions."""
    results = _clear(actions, world)
    going = [(index, pair) for index, pair in enumerate(actions) if index not in results]
    if going and world.interrupted():
        return [results.get(i) or Result(a, FAILED, "interrupted before it began") for i, (a, _) in enumerate(actions)]
    started = start_all([pair for _, pair in going], world) if going else []
    results |= {index: result for (index, _), result in zip(going, started, strict=True)}
    results |= _watch({i: (results[i], s) for i, (action, s) in going if action.after.conversation}, world)
    return [results[index] for index in range(len(actions))]


def _clear(actions: Sequence[tuple[Action, Subject]], world: World) -> dict[int, Result]:
    """End what is left of the old sessions; the results of those that could not be ended."""
    views = {
        index: s.session
        for index, (_, s) in enumerate(actions)
        if s.session and s.session.record.status != CLOSED_STATUS
    }
    endings = [(_ending(actions[index][0], view), view) for index, view in views.items()]
    ended = close_all(endings, world) if endings else []
    return {
        index: Result(actions[index][0], FAILED, f"what is left of its last agent could not be ended: {result.detail}")
        for index, result in zip(views, ended, strict=True)
        if result.status == FAILED
    }


def _ending(action: Action, view: SessionView, reason: str = "") -> Action:
    """The close of a session whose agent is not there any more. A pane that somebody else made is theirs to remove."""
    after = After(
        phase=GONE if view.record.origin == STARTED else RETAINED,
        status=CLOSED_STATUS,
        reason=reason or (PANE_LOST if view.phase == LOST else AGENT_EXITED),
        grace=action.after.grace,
        transcript=KEPT,
    )
    return replace(action, verb=CLOSE, after=after)


def _watch(resumed: Mapping[int, tuple[Result, Subject]], world: World) -> dict[int, Result]:
    """Look for a while whether agents that took up a conversation stay; one that does not gets one fresh start."""
    lives = {index for index, (result, _) in resumed.items() if result.status == CHANGED}
    deadline = world.clock() + world.policy.resume_probe_seconds
    dead = _dead(resumed, world)
    while lives - dead.keys() and world.clock() < deadline and not world.interrupted():
        world.pause(_TURN)
        dead = _dead(resumed, world)
    return _anew(resumed, dead, world) if dead and not world.interrupted() else {}


def _dead(resumed: Mapping[int, tuple[Result, Subject]], world: World) -> dict[int, SessionView]:
    """The new sessions whose agents are not there any more, by index."""
    if not resumed:
        return {}
    views = {subject.ref: subject.session for subject in observe(world).subjects if subject.latest}
    found = {}
    for index, (result, before) in resumed.items():
        view = views.get(result.action.ref)
        is_next = view is not None and (
            before.record is None or view.record.id != before.record.id or before.record.only_begun
        )
        # Where it cannot be told whether a pane was made, it may still come: the next run goes on with that start.
        if view is None or not is_next or view.record.only_begun:
            continue
        if view.record.status != CLOSED_STATUS and view.phase in {EXITED, LOST}:
            found[index] = view
    return found


def _anew(
    resumed: Mapping[int, tuple[Result, Subject]], dead: Mapping[int, SessionView], world: World
) -> dict[int, Result]:
    """One fresh start for each conversation that could not be taken up."""
    for view in dead.values():
        world.journal.emit("session.resume_failed", "warning", ref=str(view.record.ref), session=view.record.id)
    ended = close_all([(_ending(resumed[i][0].action, view, RESUME_FAILED), view) for i, view in dead.items()], world)
    cleared = [index for index, result in zip(dead, ended, strict=True) if result.status == CHANGED]
    actions = [
        (
            replace(resumed[i][0].action, after=replace(resumed[i][0].action.after, conversation="")),
            replace(resumed[i][1], session=dead[i]),
        )
        for i in cleared
    ]
    started = start_all(actions, world) if actions else []
    results = {
        index: Result(resumed[index][0].action, result.status, f"{_SORRY}: {result.detail}")
        for index, result in zip(cleared, started, strict=True)
    }
    for index, result in zip(dead, ended, strict=True):
        if result.status != CHANGED:
            results[index] = Result(resumed[index][0].action, FAILED, f"{_SORRY}, and {result.detail}")
    return results
