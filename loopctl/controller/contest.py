"""Closed sessions that something else brings back: ended again a few times, later each time, and then only reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from loopctl.model.plan import CHANGED, ENDINGS, Action, Outcome
from loopctl.model.sessions import UNDEAD
from loopctl.model.waiting import wait_after

#: How long a controller remembers that it ended a session, in seconds: so long it leaves one alone that is brought back time and again.
MEMORY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class _Ends:
    """How often a session was ended, the last time, and until when it is left alone."""

    count: int
    last: float
    until: float


@dataclass(slots=True)
class Contests:
    """What this controller has ended. Times are monotonic seconds; a session may be ended `max_retries` times more than once."""

    clock: Callable[[], float]
    interval: float
    max_retries: int
    _ends: dict[str, _Ends] = field(default_factory=dict)

    def note(self, outcome: Outcome) -> None:
        """Count what was ended."""
        now = self.clock()
        self._ends = {id_: ends for id_, ends in self._ends.items() if now - ends.last < MEMORY_SECONDS}
        for result in outcome.results:
            if result.status == CHANGED and result.action.verb in ENDINGS:
                id_ = result.action.guard.record_id
                count = self._ends[id_].count + 1 if id_ in self._ends else 1
                self._ends[id_] = _Ends(count, now, now + self._pause(count))

    def reason(self, action: Action) -> str:
        """Why the session is not ended once more now, or ""."""
        ends = self._ends.get(action.guard.record_id)
        if ends is None or action.before.phase != UNDEAD or self.clock() >= ends.until:
            return ""
        again = "it is left alone now" if ends.count > self.max_retries else "it will be ended again later"
        return (
            f"something else brings it back: it was ended {ends.count} times and is alive again; {again} "
            f"(`loopctl sessions close {action.ref}` ends it at once)"
        )

    def _pause(self, count: int) -> float:
        # Once may be a person's doing, or the rest of an ending that was cut off.
        if count > self.max_retries:
            return MEMORY_SECONDS
        return 0.0 if count == 1 else wait_after(count, self.interval, MEMORY_SECONDS)
