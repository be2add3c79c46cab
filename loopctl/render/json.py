"""Plans and outcomes for programs. Pure ASCII, so that no stream or locale can break it."""

from __future__ import annotations

import json

from loopctl.model.encode import outcome_to_dict, plan_to_dict
from loopctl.model.plan import Outcome, Plan
from loopctl.render.view import View


def json_text(data: object) -> str:
    """Any JSON value, indented, as `--format json` prints it."""
    return _harmless(json.dumps(data, indent=2, ensure_ascii=True)) + "\n"


def json_line(data: object) -> str:
    """Any JSON value on one line, without its end; what JSON does not know is printed as text."""
    return _harmless(json.dumps(data, ensure_ascii=True, default=str))


def _harmless(text: str) -> str:
    """The GitHub Actions runner takes `##[name]` for a command anywhere in a line. In JSON it stands in strings only."""
    return text.replace("##[", r"##\u005b")


def plan_json(plan: Plan, view: View) -> str:
    """The plan as schemas/plan.schema.json describes it: what `--out` writes and `apply` reads."""
    return json_text(plan_to_dict(plan))


def outcome_json(outcome: Outcome, view: View) -> str:
    """The summary and the result of each action."""
    return json_text(outcome_to_dict(outcome))
