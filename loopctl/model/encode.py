"""Plans, outcomes and sessions as JSON values, and plans back again. Field names are those of the dataclasses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

from loopctl.model.decode import POSITION, decode, mapping
from loopctl.model.plan import CHANGED, FAILED, OK, STALE, VERBS, Action, Held, Outcome, Plan, PlayScope
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Limits, Position
from loopctl.model.secrets import mask, mask_argv, mask_certain
from loopctl.model.sessions import SessionView
from loopctl.model.talk import Delivery

PLAN_VERSION = 1
UNKNOWN_PHASE = "unknown"
#: As many letters of a session's id as people are shown.
SHORT_ID = 8
_TOLD = frozenset({"play", "prompt", "text", "excerpt", "comment"})

_PLAN_KEYS = frozenset(
    {"version", "created_at", "machine", "registry", "playbooks", "plays", "digest", "summary"}
    | {"actions", "held", "outside", "notes", "problems"}
)


@dataclass(frozen=True, slots=True)
class _Source:
    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class _Scope:
    name: str
    max_changes: int
    max_fraction: float
    max_sessions: int
    running: int

    @classmethod
    def of(cls, play: PlayScope) -> _Scope:
        limits = play.limits
        return cls(
            mask_certain(play.name), limits.max_changes, float(limits.max_fraction), limits.max_sessions, play.running
        )

    @property
    def scope(self) -> PlayScope:
        limits = Limits(self.max_changes, self.max_fraction, self.max_sessions)
        return PlayScope(self.name, limits, self.running)


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The plan as schemas/plan.schema.json describes it.

    Secrets are masked in what is only shown (command lines, rules, reasons, notes), and in prompts where they are known
    for certain; all else that an apply relies on is exact.
    """
    content = _content(plan)
    head = {"version": PLAN_VERSION, "created_at": time_text(plan.created_at)}
    return head | {"digest": _digest(content)} | content


def plan_from_dict(data: object) -> Plan:
    """The plan that `plan_to_dict` described.

    Raises ValueError that begins with the path of what is wrong (`actions[0].guard.pane.pid: ...`), also when the
    content is not what its digest was made from.
    """
    top = mapping(data, "", _PLAN_KEYS)
    if top["version"] != PLAN_VERSION or isinstance(top["version"], bool):
        raise ValueError(f"version: this loopctl reads version {PLAN_VERSION}, not {top['version']!r}")
    actions = decode(tuple[Action, ...], top["actions"], "actions")
    for index, action in enumerate(actions):
        if action.verb not in VERBS:
            raise ValueError(f"actions[{index}].verb: {action.verb!r} is none of {', '.join(VERBS)}")
    summary = mapping(top["summary"], "summary", frozenset({*VERBS, "held", "unchanged"}))
    plan = Plan(
        created_at=decode(datetime, top["created_at"], "created_at"),
        machine=decode(str, top["machine"], "machine"),
        registry=decode(str, top["registry"], "registry"),
        playbooks=tuple((p.path, p.digest) for p in decode(tuple[_Source, ...], top["playbooks"], "playbooks")),
        plays=tuple(p.scope for p in decode(tuple[_Scope, ...], top["plays"], "plays")),
        actions=actions,
        held=decode(tuple[Held, ...], top["held"], "held"),
        unchanged=decode(int, summary["unchanged"], "summary.unchanged"),
        outside=decode(tuple[WorkItemRef, ...], top["outside"], "outside"),
        notes=decode(tuple[str, ...], top["notes"], "notes"),
        problems=decode(tuple[str, ...], top["problems"], "problems"),
    )
    if dict(summary) != plan.summary:
        raise ValueError("summary: the counts are not those of the actions and what is held")
    if top["digest"] != plan_digest(plan):
        raise ValueError("digest: the plan was changed after it was made")
    return plan


def plan_digest(plan: Plan) -> str:
    """`sha256:...` over all of a plan but its time, so that two looks at the same world give the same digest."""
    return _digest(_content(plan))


def outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    """What became of a plan. `status` is ok, changed, incomplete, stale, failed or interrupted: the worst that happened."""
    return {
        "status": _status(outcome),
        "summary": outcome.summary,
        "results": [
            {"verb": r.action.verb, "ref": str(r.action.ref), "status": r.status, "detail": mask(r.detail)}
            for r in outcome.results
        ],
        "held": [_held(held) for held in outcome.held],
        "interrupted": outcome.interrupted,
        "notes": [mask(note) for note in outcome.notes],
    }


def record_to_dict(view: SessionView, attach: str = "") -> dict[str, Any]:
    """One row of `sessions list --format json`; `attach` is the command that shows the session to a person."""
    record = view.record
    return {
        "ref": str(record.ref),
        "id": record.id,
        "phase": view.phase or UNKNOWN_PHASE,
        "status": record.status,
        "reason": mask(record.reason),
        "harness": record.harness,
        "runner": record.runner,
        "socket": record.socket,
        "session": record.name or record.session_id,
        "pane": record.pane_id,
        "created_at": time_text(record.created_at),
        "closed_at": time_text(record.closed_at),
        "transcript": record.transcript,
        "workspace": record.workspace,
        "branch": record.branch,
        "attach": attach,
    }


def deliveries_to_list(lines: Sequence[Delivery]) -> list[dict[str, Any]]:
    """What became of the messages to one session, for `sessions show --format json`."""
    return [
        {
            "id": line.id,
            "status": line.status,
            "attempts": line.attempts,
            "detail": mask(line.detail),
            "at": time_text(line.at),
        }
        for line in lines
    ]


def time_text(moment: datetime | None) -> str | None:
    """`2026-07-25T10:00:00Z`: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def position_text(position: Position) -> str:
    """`file:line:column`, or the file alone where no line is known."""
    ambiguous = POSITION.fullmatch(position.source)
    if position.line or position.column or ambiguous:
        return f"{position.source}:{position.line}:{position.column}"
    return position.source


def _content(plan: Plan) -> dict[str, Any]:
    return {
        "machine": plan.machine,
        "registry": plan.registry,
        "playbooks": [asdict(_Source(path, digest)) for path, digest in plan.playbooks],
        "plays": [asdict(_Scope.of(play)) for play in plan.plays],
        "summary": plan.summary,
        "actions": [_action(action) for action in plan.actions],
        "held": [_held(held) for held in plan.held],
        "outside": [str(ref) for ref in plan.outside],
        "notes": [mask(note) for note in plan.notes],
        "problems": [mask(problem) for problem in plan.problems],
    }


def _action(action: Action) -> dict[str, Any]:
    data: dict[str, Any] = _encode(action)
    data |= {"rule": mask(action.rule), "why": mask(action.why)}
    data["after"]["grace"] = float(action.after.grace)
    return data


def _held(held: Held) -> dict[str, Any]:
    return {"ref": str(held.ref), "reason": mask(held.reason)}


def _status(outcome: Outcome) -> str:
    if outcome.interrupted:
        return "interrupted"
    present = [status for status in (FAILED, STALE) if outcome.summary[status]]
    present += ["incomplete"] if outcome.held else []
    present += [CHANGED] if outcome.summary[CHANGED] else []
    return (*present, OK)[0]


def _digest(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _encode(value: object) -> Any:
    if isinstance(value, WorkItemRef):
        return str(value)
    if isinstance(value, Position):
        return position_text(value)
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, tuple):
        return [_encode(inner) for inner in value]
    if is_dataclass(value):
        return {f.name: _encode(_masked(f.name, getattr(value, f.name))) for f in fields(value)}
    return value


def _masked(name: str, value: Any) -> Any:
    # Command lines are shown only: a start asks its harness for the line anew.
    if name == "argv":
        return mask_argv(value)
    # What an agent or an item is told is exact, but for what nobody should find in a file or in the log of a CI job.
    return mask_certain(value) if name in _TOLD else value
