"""Plans and outcomes for people: one block a change, then one line of counts. ASCII of our own, colour when asked."""

from __future__ import annotations

from collections.abc import Iterable

from loopctl.model.plan import (
    BEGINNINGS,
    CHANGED,
    CLOSE,
    COMMENT,
    DELIVER,
    FAILED,
    OK,
    REAP,
    RECORD,
    RESUME,
    STALE,
    START,
    Action,
    Held,
    Outcome,
    Plan,
)
from loopctl.model.rules import DISCARDED, KEPT
from loopctl.model.sessions import ABSENT_PANE, DEAD
from loopctl.model.text import plural
from loopctl.model.transcripts import transcript_name
from loopctl.model.workspaces import KEPT_WORKSPACE, REMOVED, WORKTREE
from loopctl.render.clean import shown
from loopctl.render.view import View, age, outcome_counts, phases, plan_counts, remarks

SYMBOLS = {START: "+", RESUME: "~", RECORD: "~", COMMENT: "~", DELIVER: ">", CLOSE: "-", REAP: "-"}
HELD_SYMBOL = "!"

_COLORS = {
    "+": "32",
    "~": "33",
    "-": "31",
    "!": "35",
    ">": "36",
    CHANGED: "32",
    OK: "2",
    STALE: "33",
    FAILED: "31",
    "held": "35",
}
_REASON_WIDTH = 200
_RULE_WIDTH = 60
#: Messages of one delivery that are shown.
_MESSAGES = 5
#: Longer reasons push their own position aside, not everybody's.
_WHY_WIDTH = 56


def plan_text(plan: Plan, view: View) -> str:
    """The plan: a block for each change, a line for each held item, notes, and the counts last."""
    verbs = [*(action.verb for action in plan.actions), *(["held"] if plan.held else [])]
    refs = [*(action.ref for action in plan.actions), *(held.ref for held in plan.held)]
    verb_width, ref_width = _width(verbs, 5), _width(map(str, refs))
    lefts = [
        f"{action.verb:<{verb_width}}  {action.ref!s:<{ref_width}}   {_transition(action)}" for action in plan.actions
    ]
    whys = [shown(action.why, _REASON_WIDTH) for action in plan.actions]
    column = max(_width(lefts) + 2, _width((w for w in whys if len(w) <= _WHY_WIDTH), 0) + 4) + 2
    lines: list[str] = []
    for action, left, why in zip(plan.actions, lefts, whys, strict=True):
        symbol = SYMBOLS[action.verb]
        lines.append(_painted(f"{symbol} {left}".ljust(column) + "  " + _session(action, plan, view), symbol, view))
        lines.append(f"    {why}".ljust(column) + f"  {_origin(action)}")
        lines += [f"    {name:<10}  {value}" for name, value in _changes(action, view) if value]
    held_verb = f"{'held':<{verb_width}}"
    for held in plan.held:
        lines.append(_painted(f"{HELD_SYMBOL} {held_verb}  {_held(held, ref_width)}", HELD_SYMBOL, view))
    lines += _remarks(plan)
    if not plan.actions:
        lines.append(_nothing(plan))
    if view.refusal:
        lines.append(_painted(f"{HELD_SYMBOL} refused  {shown(view.refusal)}", HELD_SYMBOL, view))
    return _finished([*lines, "", plan_counts(plan)])


def outcome_text(outcome: Outcome, view: View) -> str:
    """What became of each action, one line each, and the counts last."""
    refs = [*(result.action.ref for result in outcome.results), *(held.ref for held in outcome.held)]
    ref_width = _width(map(str, refs))
    verb_width = _width((result.action.verb for result in outcome.results), 5)
    lines = []
    for result in outcome.results:
        status = _painted(f"{result.status:<7}", result.status, view)
        what = f"{result.action.verb:<{verb_width}}  {result.action.ref!s:<{ref_width}}"
        lines.append(f"{status}  {what}   {shown(result.detail) or _transition(result.action)}")
    for held in outcome.held:
        status = _painted(f"{'held':<7}", "held", view)
        lines.append(f"{status}  {'':<{verb_width}}  {_held(held, ref_width)}")
    lines += [f"note: {shown(note)}" for note in outcome.notes]
    if outcome.interrupted:
        lines.append("Interrupted: what was done is recorded; the next run finishes the rest.")
    return _finished([*lines, *([""] if lines else []), outcome_counts(outcome)])


def _transition(action: Action) -> str:
    before, after = phases(action)
    return before if action.verb == DELIVER else f"{before} -> {after}"


def _session(action: Action, plan: Plan, view: View) -> str:
    """`%7 claude, up 3h, 4 processes`."""
    before = action.before
    name = f"{before.pane_id} {before.harness or action.after.harness}".strip()
    up = age(before.since, view.now or plan.created_at) if before.processes else ""
    parts = [
        name,
        f"up {up}" if up else "",
        plural(len(before.processes), "process") if before.processes else "",
        f"{plural(before.attached, 'client')} attached" if before.attached else "",
    ]
    return shown(", ".join(part for part in parts if part))


def _origin(action: Action) -> str:
    return f'{shown(str(action.position))} "{shown(action.rule, _RULE_WIDTH)}"'


def _changes(action: Action, view: View) -> Iterable[tuple[str, str]]:
    """What changes, part by part; parts that stay as they are are left out."""
    before, after = action.before, action.after
    if after.status and after.status != before.status:
        reason = f" ({after.reason})" if after.reason else ""
        yield "registry", shown(f"{before.status} -> {after.status}{reason}".strip())
    yield "pane", _pane(action)
    if action.verb == CLOSE and not after.kill_harness and before.processes:
        yield "harness", "left running"
    if after.transcript in {KEPT, DISCARDED} and before.pane not in {"", ABSENT_PANE}:
        yield "transcript", "-> " + (_transcript(action, view) if after.transcript == KEPT else "discarded")
    if after.workspace in {REMOVED, KEPT_WORKSPACE} and before.workspace:
        yield "worktree", shown(f"{before.workspace} -> {_worktree(action)}")
    yield from _started(action)
    yield from _told(action)
    if before.spared:
        yield "spares", shown(f"{', '.join(before.spared)}: shared by others")
    if before.panes:
        yield "with", shown(f"{', '.join(before.panes)}: other panes of this session")
    if before.beside:
        yield "beside", shown(f"{', '.join(before.beside)}: other panes of this session, left alone")


def _pane(action: Action) -> str:
    before, after = action.before, action.after
    parts = [shown(f"{before.pane} -> {after.pane}".strip())] if after.pane and after.pane != before.pane else []
    if action.verb in BEGINNINGS and before.pane == DEAD:
        parts = ["dead -> live in a fresh one, the old one goes"]
    parts += [f"input {shown(after.input)}"] if after.input and after.input != before.input else []
    return ", ".join(parts)


def _started(action: Action) -> Iterable[tuple[str, str]]:
    after = action.after
    if after.conversation:
        yield "talk", shown(f"goes on with conversation {after.conversation}")
    if action.verb in BEGINNINGS and action.before.processes:
        yield "ends", shown(f"{', '.join(action.before.processes)}: left by the last agent")
    if after.cwd:
        yield "folder", shown(after.cwd)
    if after.workspace == WORKTREE:
        yield "worktree", shown(f"on branch {after.branch}")
    if after.prompt:
        yield "prompt", shown(after.prompt, _REASON_WIDTH)
    if after.comment:
        first, *more = after.comment.splitlines()
        yield "comment", shown(first, _REASON_WIDTH) + (" ..." if more else "")


def _worktree(action: Action) -> str:
    work = " and ".join(action.before.work)
    if action.after.workspace == REMOVED:
        return f"removed, once saved: {work}" if work else REMOVED
    return f"kept: it has {work}" if work else KEPT_WORKSPACE


def _told(action: Action) -> Iterable[tuple[str, str]]:
    """Who says what to the agent."""
    messages = action.after.messages
    for message in messages[:_MESSAGES]:
        yield "message", shown(f"{message.author or 'you'}: {message.excerpt}", _REASON_WIDTH)
    if len(messages) > _MESSAGES:
        yield "", f"and {len(messages) - _MESSAGES} more"


def _transcript(action: Action, view: View) -> str:
    try:
        name = transcript_name(action.ref, action.guard.record_id)
    except ValueError:
        return KEPT
    return shown(f"{view.transcripts.rstrip('/')}/{name}") if view.transcripts else KEPT


def _held(held: Held, ref_width: int) -> str:
    return f"{held.ref!s:<{ref_width}}   {shown(held.reason, _REASON_WIDTH)}"


def _remarks(plan: Plan) -> Iterable[str]:
    for problem in plan.problems:
        yield f"{HELD_SYMBOL} unseen   {shown(problem, _REASON_WIDTH)}"
    for note in remarks(plan):
        yield f"note: {shown(note, _REASON_WIDTH)}"


def _nothing(plan: Plan) -> str:
    if plan.held or plan.problems:
        return "No changes, but not everything is settled."
    # Without a play nothing was asked for: the restoring of a registry, or plays for other machines.
    return "No changes. Everything is as the playbook says." if plan.unchanged and plan.plays else "No changes."


def _width(texts: Iterable[str], least: int = 0) -> int:
    return max([least, *map(len, texts)])


def _painted(text: str, kind: str, view: View) -> str:
    """The first word or symbol in its colour."""
    if not view.color:
        return text
    head, space, rest = text.partition(" ")
    return f"\x1b[{_COLORS.get(kind, '0')}m{head}\x1b[0m{space}{rest}"


def _finished(lines: Iterable[str]) -> str:
    return "\n".join(line.rstrip() for line in lines) + "\n"
