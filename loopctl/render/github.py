"""Plans and outcomes as GitHub Actions workflow commands, which show as annotations on the playbook's lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopctl.model.plan import CHANGED, FAILED, OK, STALE, Action, Held, Outcome, Plan
from loopctl.model.rules import Position
from loopctl.render.clean import shown
from loopctl.render.view import View, outcome_counts, phases, plan_counts, remarks

_LEVELS = {CHANGED: "notice", OK: "notice", STALE: "warning", FAILED: "error"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


def plan_github(plan: Plan, view: View) -> str:
    """A notice for each change, a warning for each held item, an error for a refusal, and the counts last."""
    lines = [
        _command("notice", f"{action.verb} {action.ref}", f"{_transition(action)}: {action.why}", action.position)
        for action in plan.actions
    ]
    lines += [_held(held) for held in plan.held]
    lines += [_command("warning", "loopctl plan", problem) for problem in plan.problems]
    lines += [_command("notice", "loopctl plan", note) for note in remarks(plan)]
    lines += [_command("error", "loopctl plan refused", view.refusal)] if view.refusal else []
    return _finished(lines, plan_counts(plan))


def outcome_github(outcome: Outcome, view: View) -> str:
    """A notice, warning or error for each result, and the counts last."""
    lines = []
    for result in outcome.results:
        action = result.action
        message = f"{result.status}: {result.detail or _transition(action)}"
        title = f"{action.verb} {action.ref}"
        lines.append(_command(_LEVELS.get(result.status, "error"), title, message, action.position))
    lines += [_held(held) for held in outcome.held]
    lines += [_command("notice", "loopctl apply", note) for note in outcome.notes]
    lines += [_command("error", "loopctl apply", "interrupted")] if outcome.interrupted else []
    return _finished(lines, outcome_counts(outcome))


def _command(level: str, title: str, message: str, position: Position | None = None) -> str:
    properties = {"title": title}
    if position and position.line:
        properties = {
            "file": position.source,
            "line": str(position.line),
            "col": str(position.column or 1),
        } | properties
    written = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in properties.items())
    return f"::{level} {written}::{_escaped(message, _DATA)}"


def _escaped(text: str, table: Mapping[str, str]) -> str:
    return "".join(table.get(character, character) for character in shown(text))


def _held(held: Held) -> str:
    return _command("warning", f"held {held.ref}", held.reason)


def _transition(action: Action) -> str:
    return " -> ".join(phases(action))


def _finished(lines: Iterable[str], counts: str) -> str:
    return "\n".join([*lines, counts]) + "\n"
