"""Who has to wait because enough sessions run: each start that finds no free place is held, with its place in the queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from loopctl.model.observed import Observation
from loopctl.model.plan import BEGINNINGS, COMMENT, ENDINGS, Action, Held, PlayScope
from loopctl.model.rules import Policy
from loopctl.model.sessions import CLOSED_STATUS, PAUSED, RUNNING


def admitted(
    actions: Sequence[Action], scopes: Sequence[PlayScope], observation: Observation, policy: Policy
) -> tuple[list[Action], list[Held]]:
    """Let as many start as there are places, those first that had one already; the rest waits.

    Places are those of the machine (`policy.max_concurrent_sessions`) and of each play (`limits.max_sessions`). What this plan
    ends gives its place away.
    """
    most = {scope.name: _places(scope, policy) for scope in scopes}
    starts = sorted((a for a in actions if a.verb in BEGINNINGS), key=lambda action: not action.guard.record_id)
    ending = {a.guard.record_id for a in actions if a.verb in ENDINGS and a.after.kill_harness}
    count = running(observation, ending)
    waiting: list[Action] = []
    for action in starts:
        places = most.get(action.play, 0)
        if places and count >= places:
            waiting.append(action)
        else:
            count += 1
    refs = {action.ref for action in waiting}
    kept = [a for a in actions if not (a.ref in refs and a.verb in {*BEGINNINGS, COMMENT})]
    held = [
        Held(
            a.ref,
            f"waits for a free place: {place} of {len(waiting)} in the queue, {most[a.play]} sessions may run at once",
        )
        for place, a in enumerate(waiting, 1)
    ]
    return kept, held


def room(plan_scopes: Sequence[PlayScope], play: str, policy: Policy, count: int) -> bool:
    """Whether one more session of this play may start while so many run."""
    places = next(
        (_places(scope, policy) for scope in plan_scopes if scope.name == play), policy.max_concurrent_sessions
    )
    return not places or count < places


def _places(scope: PlayScope, policy: Policy) -> int:
    """How many may run at once, 0 for no limit: the smaller of two limits."""
    limits = [n for n in (scope.limits.max_sessions, policy.max_concurrent_sessions) if n]
    return min(limits, default=0)


def running(observation: Observation, gone: Collection[str] = ()) -> int:
    """How many sessions run without those that have ended (`gone`, by record id): paused ones too, for their agents live, and those
    that cannot be seen."""
    live = (s.record for s in observation.subjects if s.record and s.phase in {RUNNING, PAUSED, None})
    return observation.alive_beside + sum(r.status != CLOSED_STATUS and r.id not in gone for r in live)
