"""What the renderers share: how to show, ages and the lines of counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from loopctl.model import text
from loopctl.model.encode import UNKNOWN_PHASE
from loopctl.model.facts import Known, Unknown
from loopctl.model.items import WorkItem
from loopctl.model.plan import COMMENT, DELIVER, RESUME, VERBS, Action, Outcome, Plan
from loopctl.render.clean import shown

#: Verbs that are rare enough to be counted only when they occur.
_RARE = (RESUME, COMMENT, DELIVER)


@dataclass(frozen=True, slots=True)
class View:
    """How to show it. `now` is what ages are counted from, `refusal` why an apply would refuse the plan, and `transcripts`
    the folder of the transcripts as a person would write it."""

    now: datetime | None = None
    color: bool = False
    refusal: str = ""
    transcripts: str = ""


@dataclass(frozen=True, slots=True)
class Renderer:
    """One output format. Each function returns whole lines, the last one ended too."""

    plan: Callable[[Plan, View], str]
    outcome: Callable[[Outcome, View], str]


def age(since: datetime | None, now: datetime | None) -> str:
    """`12 min`, `3h`; "" where a time is missing."""
    return text.age((now - since).total_seconds()) if since and now else ""


def plan_counts(plan: Plan) -> str:
    """`Plan: 0 to start, 1 to close, ...`: the numbers of the summary, and no others."""
    summary = plan.summary
    verbs = [f"{summary[verb]} to {verb}" for verb in VERBS if verb not in _RARE or summary[verb]]
    return f"Plan: {', '.join(verbs)}, {summary['held']} held, {summary['unchanged']} unchanged."


def outcome_counts(outcome: Outcome) -> str:
    """`Apply: 1 changed, 0 ok, ...`: the numbers of the summary, and no others."""
    counts = ", ".join(f"{count} {status}" for status, count in outcome.summary.items())
    return f"Apply{' (interrupted)' if outcome.interrupted else ''}: {counts}."


def phases(action: Action) -> tuple[str, str]:
    """Where the session stands and where it will."""
    return shown(action.before.phase) or UNKNOWN_PHASE, shown(action.after.phase)


def remarks(plan: Plan) -> tuple[str, ...]:
    """What is worth a line but is no change: items nobody answers for, and the plan's notes; still to be cleaned."""
    refs = ", ".join(str(ref) for ref in plan.outside)
    return (*([f"no source answers for {refs}: left alone"] if refs else []), *plan.notes)


def state_text(item: Known[WorkItem] | Unknown) -> str:
    """`closed (completed)`, or `unknown: GitHub: Bad Gateway`; foreign, so still to be cleaned."""
    if isinstance(item, Unknown):
        return f"unknown: {item.reason}"
    return f"{item.value.state} ({item.value.reason})" if item.value.reason else item.value.state
