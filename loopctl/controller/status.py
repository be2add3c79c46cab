"""What is to be seen of a controller from outside: one snapshot, made by the worker, shown by everybody else."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeGuard

from loopctl.controller.cycle import Cycle
from loopctl.model.plan import CHANGED, FAILED
from loopctl.model.secrets import mask, mask_value

#: A snapshot as JSON can hold it.
Snapshot = Mapping[str, Any]

VERSION = 1
OK = "ok"
DEGRADED = "degraded"
STALLED = "stalled"
STARTING = "starting"

_SLACK = 60.0
_MOST_REASONS = 20


@dataclass(slots=True)
class Tally:
    """Counts what the cycles of one controller did. `about` is what never changes: pid, playbooks, and so on."""

    about: Mapping[str, Any]
    interval: float
    queue_depth: int = 0
    dropped: int = 0
    cycles: Counter[str] = field(default_factory=Counter)
    actions: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: float = 0.0
    calls: int = 0
    points: int = 0
    remaining: int | None = None
    sessions: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)
    last: Mapping[str, Any] = field(default_factory=dict)
    turned_at: datetime | None = None
    good_at: datetime | None = None
    whole_is_good: bool = True
    rejected: tuple[str, ...] = ()

    def note(self, cycle: Cycle, now: datetime) -> None:
        """Count one turn."""
        self.cycles["+".join(cycle.work.triggers)] += 1
        self.actions.update((result.action.verb, result.status) for result in cycle.outcome.results)
        self.seconds += cycle.seconds
        self.calls += cycle.cost.calls
        self.points += cycle.cost.points
        self.remaining = self.remaining if cycle.cost.remaining is None else cycle.cost.remaining
        self.turned_at = now
        self.last = {"at": stamp(now), **summary(cycle), "troubles": _troubles(cycle)}
        if cycle.work.everything:
            self.whole_is_good = cycle.is_whole
            self.good_at = now if cycle.is_whole else self.good_at
            self.held = Counter(reason_class(mask(held.reason)) for held in cycle.held)
            self.sessions = dict(cycle.phases) if cycle.plan else self.sessions

    def snapshot(self, now: datetime) -> Snapshot:
        """All of it, without secrets."""
        found = {
            "version": VERSION,
            **self.about,
            "written_at": stamp(now),
            "interval_seconds": self.interval,
            "turned_at": stamp(self.turned_at),
            "good_at": stamp(self.good_at),
            "whole_is_good": self.whole_is_good,
            "rejected": list(self.rejected),
            "queue_depth": self.queue_depth,
            "hints_dropped": self.dropped,
            "cycles": dict(self.cycles),
            "cycle_seconds": round(self.seconds, 3),
            "last_cycle": dict(self.last),
            "sessions": dict(self.sessions),
            "actions": [
                {"verb": verb, "status": status, "count": count} for (verb, status), count in self.actions.items()
            ],
            "held": _most(self.held),
            "github": {"calls": self.calls, "points": self.points, "remaining": self.remaining},
        }
        return {name: mask_value(value, name) for name, value in found.items()}


def summary(cycle: Cycle) -> dict[str, Any]:
    """One cycle in a few words: what the event and the log say of it."""
    results = cycle.outcome.results
    return {
        "trigger": "+".join(cycle.work.triggers),
        "whole": cycle.work.everything,
        "seen": cycle.seen,
        "changed": sum(result.status == CHANGED for result in results),
        "held": len(cycle.held),
        "failed": sum(result.status == FAILED for result in results),
        "closures": cycle.closures,
        "put_off": len(cycle.put_off),
        "told": len(cycle.work.told),
        "cost": asdict(cycle.cost),
        "seconds": round(cycle.seconds, 3),
        "refused": cycle.refused or None,
        "error": cycle.error or None,
        "problems": list(cycle.problems) or None,
        "stopped": cycle.stopped or None,
    }


def _troubles(cycle: Cycle) -> list[str]:
    """What was left alone or failed, and why; the first of many."""
    failed = [f"{result.action.ref}: {result.detail}" for result in cycle.outcome.results if result.status == FAILED]
    return [*failed, *(f"{held.ref}: {held.reason}" for held in cycle.held)][:_MOST_REASONS]


_NUMBER, _TEXT = (int, float), (str, type(None))
_FIELDS: Mapping[str, tuple[type, ...]] = {
    "pid": (int,),
    "interval_seconds": _NUMBER,
    "queue_depth": (int,),
    "playbooks": (list,),
    "rejected": (list,),
    "last_cycle": (dict,),
    "sessions": (dict,),
    "held": (dict,),
}
_LAST: Mapping[str, tuple[type, ...]] = {
    "error": _TEXT,
    "refused": _TEXT,
    "problems": (list, type(None)),
    "troubles": (list,),
}
_TIMES = ("started_at", "turned_at", "good_at")
_LONGEST_INTERVAL = 1e9


def is_snapshot(data: object) -> TypeGuard[Snapshot]:
    """Whether what was read from a file is what a controller writes there, so far as it is looked at."""
    if not isinstance(data, dict):
        return False
    last = data.get("last_cycle")
    mine = [(data, _FIELDS), *([(last, _LAST)] if isinstance(last, dict) else [])]
    if not all(isinstance(of[name], kinds) for of, fields in mine for name, kinds in fields.items() if name in of):
        return False
    of_last = [text for name in ("problems", "troubles") for text in (last or {}).get(name) or ()]
    texts = (*data.get("playbooks", ()), *data.get("rejected", ()), *of_last)
    interval = data.get("interval_seconds", 0)
    return (
        all(isinstance(text, str) for text in texts)
        and 0 <= interval <= _LONGEST_INTERVAL
        and all(_is_time(data.get(name)) for name in _TIMES)
    )


def _is_time(value: object) -> bool:
    try:
        return value is None or (isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None)
    except ValueError:
        return False


def health(snapshot: Snapshot, now: datetime) -> tuple[str, str]:
    """How a controller is (ok, degraded, stalled, starting), and one sentence of it.

    *Stalled* says that its loop does not turn; *degraded* that its last look at everything was not whole, or an edit was refused.
    """
    allowed = 3 * float(snapshot.get("interval_seconds", 60.0)) + _SLACK
    turned, good = age(snapshot.get("turned_at"), now), age(snapshot.get("good_at"), now)
    if math.isinf(turned):
        since = age(snapshot.get("started_at"), now)
        return (
            (STARTING, "it has not looked yet")
            if since < allowed
            else (STALLED, f"it has not looked for {since:.0f} s")
        )
    if turned > allowed:
        return STALLED, f"its last look ended {turned:.0f} s ago"
    if rejected := snapshot.get("rejected"):
        return DEGRADED, f"an edit is wrong: {'; '.join(rejected)}; what was there before stays in force"
    if snapshot.get("whole_is_good"):
        return OK, f"its last look ended {turned:.0f} s ago"
    last = snapshot.get("last_cycle", {})
    why = last.get("error") or last.get("refused") or "; ".join(last.get("problems") or ()) or "see its held items"
    since_good = "never" if math.isinf(good) else f"{good:.0f} s ago"
    return DEGRADED, f"its last look at everything was not whole ({why}); the last whole one ended {since_good}"


def age(text: str | None, now: datetime) -> float:
    """Seconds since a time of a snapshot; infinite for none, and never negative: clocks jump."""
    return max(0.0, (now - datetime.fromisoformat(text)).total_seconds()) if text else math.inf


def stamp(moment: datetime | None) -> str | None:
    """A time as a snapshot holds it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds") if moment else None


def reason_class(reason: str) -> str:
    """A reason without what makes it one of a kind, so that reasons can be counted."""
    return re.sub(r"[0-9]+", "N", reason.partition(":")[0].partition("(")[0]).strip()[:60] or "unknown"


def _most(counts: Mapping[str, int]) -> dict[str, int]:
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    rest = sum(count for _, count in ranked[_MOST_REASONS:])
    return dict(ranked[:_MOST_REASONS]) | ({"other": rest} if rest else {})
