"""Plans and outcomes as GitHub Markdown, for a comment on a pull request or a job summary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from loopctl.model import markdown
from loopctl.model.plan import Action, Held, Outcome, Plan
from loopctl.model.refs import WorkItemRef
from loopctl.render.clean import shown
from loopctl.render.text import plan_text
from loopctl.render.view import View, outcome_counts, phases, plan_counts, remarks

_WIDTH = 200
#: A comment on GitHub holds 65,536 characters.
_DETAILS_LIMIT = 40_000


def plan_markdown(plan: Plan, view: View) -> str:
    """A heading, a table of changes and held items, the text form folded away, and the counts last."""
    rows = [
        (action.verb, _ref(action.ref), _transition(action), escape(action.why), _origin(action))
        for action in plan.actions
    ]
    rows += [("held", _ref(held.ref), "", escape(held.reason), "") for held in plan.held]
    lines = ["### loopctl plan", ""]
    lines += _table(("Change", "Item", "From, to", "Why", "Rule"), rows) if rows else ["No changes.", ""]
    if view.refusal:
        lines += [f"**Refused:** {escape(view.refusal)}", ""]
    lines += _bullets((*plan.problems, *remarks(plan)))
    details = plan_text(plan, View(now=view.now, transcripts=view.transcripts))
    if plan.actions and len(details) < _DETAILS_LIMIT:
        lines += ["<details><summary>Details</summary>", "", *_block(details), "", "</details>", ""]
    return "\n".join([*lines, plan_counts(plan)]) + "\n"


def outcome_markdown(outcome: Outcome, view: View) -> str:
    """A heading, a table of results and held items, and the counts last."""
    rows: list[tuple[str, ...]] = [
        (result.status, result.action.verb, _ref(result.action.ref), escape(result.detail))
        for result in outcome.results
    ]
    rows += [_held(held) for held in outcome.held]
    lines = ["### loopctl apply", ""]
    lines += _table(("Result", "Change", "Item", "Detail"), rows) if rows else ["No changes.", ""]
    lines += _bullets(outcome.notes)
    return "\n".join([*lines, outcome_counts(outcome)]) + "\n"


def escape(text: str, width: int = _WIDTH) -> str:
    """Foreign text as plain text inside Markdown."""
    return markdown.escape(shown(text, width))


def _code(text: str) -> str:
    return f"<code>{escape(text).replace(markdown.BREAK, '')}</code>"


def _ref(ref: WorkItemRef) -> str:
    # A code span, so that a plan in a comment does not show up as a mention on every item it names.
    return f"`{ref}`"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines] + [""]


def _bullets(texts: Sequence[str]) -> list[str]:
    return [*(f"- {escape(text)}" for text in texts), *([""] if texts else [])]


def _block(text: str) -> list[str]:
    # Longer than any run of backticks inside, so that nothing in it can end the block.
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *text.rstrip("\n").split("\n"), fence]


def _transition(action: Action) -> str:
    return " to ".join(map(escape, phases(action)))


def _origin(action: Action) -> str:
    return _code(str(action.position)) + " " + escape(action.rule)


def _held(held: Held) -> tuple[str, ...]:
    return ("held", "", _ref(held.ref), escape(held.reason))
