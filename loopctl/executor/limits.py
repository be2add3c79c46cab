"""Too much at once is refused: the plan is shown, and the way on is an explicit count."""

from __future__ import annotations

from collections.abc import Sequence

from loopctl.errors import RefusedError
from loopctl.model.plan import COMMENT, DELIVER, ENDINGS, Action, Plan
from loopctl.model.text import plural

#: Fractions say nothing of small numbers: they are measured from this many endings on.
SMALLEST_FRACTION_SET = 4


def excess(plan: Plan, max_changes: int | None = None) -> str:
    """Why the plan is over a limit, or "". `max_changes` is an explicit count for this run and replaces both limits."""
    count = len(changes(plan.actions))
    if max_changes is not None:
        return f"{plural(count, 'change')}, --max-changes is {max_changes}" if count > max_changes else ""
    for scope in plan.plays:
        mine = [action for action in changes(plan.actions) if action.play == scope.name]
        if len(mine) > scope.limits.max_changes:
            return f'{plural(len(mine), "change")}, max_changes of "{scope.name}" is {scope.limits.max_changes}'
        endings = sum(map(ends_what_runs, mine))
        most = scope.limits.max_fraction
        if endings >= SMALLEST_FRACTION_SET and endings > most * scope.running:
            return (
                f"{endings} of {scope.running} running sessions would end ({endings / max(1, scope.running):.0%}), "
                f'max_fraction of "{scope.name}" is {most:g}'
            )
    return ""


def check(plan: Plan, max_changes: int | None = None) -> None:
    """Raise RefusedError when the plan is over its limits."""
    reason = excess(plan, max_changes)
    if reason:
        msg = f"over its limits: {reason}"
        raise RefusedError(msg, hint=way_on(plan))


def way_on(plan: Plan) -> str:
    """The words that let this very plan pass."""
    return f"if that is what you want, say so with --max-changes {len(changes(plan.actions))}"


def ends_what_runs(action: Action) -> bool:
    """Whether a fraction counts it: a session ends, and something runs in it."""
    return action.verb in ENDINGS and bool(action.before.processes)


def changes(actions: Sequence[Action]) -> list[Action]:
    """What a limit counts: a comment that goes with a change of its session is a part of that one, and to tell an agent something
    changes no session."""
    counted = [a for a in actions if a.verb != DELIVER]
    changed = {(a.ref, a.guard.record_id) for a in counted if a.verb != COMMENT}
    return [a for a in counted if a.verb != COMMENT or (a.ref, a.guard.record_id) not in changed]
