from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import jsonschema
import pytest

from loopctl.model.encode import (
    outcome_to_dict,
    plan_digest,
    plan_from_dict,
    plan_to_dict,
    position_text,
    record_to_dict,
)
from loopctl.model.plan import Held, Outcome, Plan, Result
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Position
from tests.support import ROOT
from tests.unit.render.samples import ID, closing, hostile_plan, outcome, ref, rich_plan, session

SCHEMA = ROOT / "schemas" / "plan.schema.json"


def saved(plan: Plan) -> Any:
    """The plan after a trip through a file."""
    return json.loads(json.dumps(plan_to_dict(plan)))


def test_a_plan_comes_back_as_it_was() -> None:
    assert plan_from_dict(saved(rich_plan())) == rich_plan()


def test_an_empty_plan_comes_back_as_it_was() -> None:
    plan = Plan(rich_plan().created_at, "desk", "")
    assert plan_from_dict(saved(plan)) == plan


def test_a_plan_with_secrets_and_foreign_text_keeps_its_digest() -> None:
    data = saved(hostile_plan())
    assert "ghp_EXAMPLE" not in json.dumps(data)
    assert plan_digest(plan_from_dict(data)) == data["digest"] == plan_digest(hostile_plan())


def test_what_an_apply_relies_on_is_not_masked() -> None:
    action = closing()
    action = replace(action, after=replace(action.after, prompt="set TOKEN=abc first", cwd="/a/token=b"))
    plan = replace(rich_plan(), actions=(action,))
    assert plan_from_dict(saved(plan)) == plan


def test_the_keys_of_a_plan() -> None:
    data = plan_to_dict(rich_plan())
    assert data["version"] == 1
    assert data["created_at"] == "2026-07-25T10:00:00Z"
    assert data["playbooks"] == [{"path": "close-ended-items.yml", "digest": "ab" * 32}]
    assert data["plays"] == [
        {"name": "Ended items", "max_changes": 7, "max_fraction": 0.25, "max_sessions": 0, "running": 9}
    ]
    assert data["summary"] == {
        "start": 1, "resume": 1, "close": 1, "reap": 1, "record": 1, "comment": 1, "deliver": 0, "held": 1, "unchanged": 14,
    }  # fmt: skip
    assert data["held"] == [{"ref": "github:octo/app#22", "reason": "GitHub: Bad Gateway (HTTP 502)"}]
    assert data["outside"] == ["items:demo/app#3"]
    action = data["actions"][0]
    assert set(action) == {"verb", "ref", "before", "after", "play", "rule", "position", "why", "guard"}
    assert action["position"] == "close-ended-items.yml:9:5"
    assert action["guard"]["pane"] == {"pid": 811, "start": "boot:12345"}


@pytest.mark.parametrize("plan", [rich_plan(), hostile_plan(), Plan(rich_plan().created_at, "desk", "")])
def test_plans_are_as_their_schema_says(plan: Plan) -> None:
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(saved(plan))


def changed(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, datetime):
        return value + timedelta(seconds=1)
    if isinstance(value, WorkItemRef):
        return ref(999)
    if isinstance(value, Position):
        return replace(value, column=value.column + 1)
    return f"{value}x"


def variants(value: Any) -> Iterator[tuple[str, Any]]:
    """The value with each of its leaves changed, one at a time, and where."""
    if isinstance(value, tuple):
        for index, inner in enumerate(value):
            for path, variant in variants(inner):
                yield f"[{index}]{path}", (*value[:index], variant, *value[index + 1 :])
        yield "[:]", value[:-1] if value else ("x",)
    elif is_dataclass(value) and not isinstance(value, WorkItemRef | Position | type):
        for f in fields(value):
            for path, variant in variants(getattr(value, f.name)):
                yield f".{f.name}{path}", replace(value, **{f.name: variant})
    elif value is None:
        return
    else:
        yield "", changed(value)


#: Not the time, and not half of a (path, digest) pair, which is none.
VARIANTS = [(path, plan) for path, plan in variants(rich_plan()) if path not in {".created_at", ".playbooks[0][:]"}]


@pytest.mark.parametrize(("path", "plan"), VARIANTS, ids=[path for path, _ in VARIANTS])
def test_the_digest_covers_every_field(path: str, plan: Plan) -> None:
    assert plan_digest(plan) != plan_digest(rich_plan())


def test_the_variants_reach_every_field() -> None:
    paths = {path for path, _ in VARIANTS}
    wanted = {".actions[0].guard.server.start", ".actions[0].guard.pane.pid", ".actions[0].after.grace", ".unchanged"}
    wanted |= {".plays[0].limits.max_fraction", ".held[0].ref", ".actions[0].before.since", ".playbooks[0][1]"}
    assert wanted <= paths
    assert len(paths) > 150


def test_the_digest_does_not_depend_on_the_time() -> None:
    later = replace(rich_plan(), created_at=rich_plan().created_at + timedelta(hours=1))
    assert plan_digest(later) == plan_digest(rich_plan())


def put(path: str, value: object) -> Callable[[Any], None]:
    def edit(data: Any) -> None:
        *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in parents:
            data = data[step]
        data[last] = value

    return edit


def drop(path: str) -> Callable[[Any], None]:
    def edit(data: Any) -> None:
        *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in parents:
            data = data[step]
        del data[last]

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put("version", 2), "version: this loopctl reads version 1, not 2"),
        (put("version", True), "version: "),
        (put("created_at", "yesterday"), "created_at: must be a time like 2026-07-25T10:00:00Z"),
        (put("created_at", 5), "created_at: must be a time"),
        (put("machine", None), "machine: must be a string, not null"),
        (put("actions", {}), "actions: must be a list, not an object"),
        (put("actions.0", []), "actions[0]: must be an object, not a list"),
        (put("actions.0.verb", "explode"), "actions[0].verb: 'explode' is none of start, resume, close"),
        (put("actions.1.ref", "nonsense"), "actions[1].ref: 'nonsense' is no work item"),
        (put("actions.0.guard.pane.pid", "811"), "actions[0].guard.pane.pid: must be a whole number, not a string"),
        (put("actions.0.guard.pane.pid", True), "actions[0].guard.pane.pid: must be a whole number, not a boolean"),
        (put("actions.0.guard.extra", 1), "actions[0].guard.extra: is no key of a plan"),
        (put("actions.0.after.grace", float("nan")), "actions[0].after.grace: must be a number"),
        (put("actions.0.after.kill_harness", 1), "actions[0].after.kill_harness: must be true or false, not a number"),
        (put("actions.0.before.processes", ["a", 1]), "actions[0].before.processes[1]: must be a string, not a number"),
        (drop("actions.0.guard.server"), "actions[0].guard.server: is missing"),
        (drop("digest"), "digest: is missing"),
        (put("colour", "red"), "colour: is no key of a plan"),
        (put("summary.close", 0), "summary: the counts are not those"),
        (put("actions.0.guard.pane.pid", 812), "digest: the plan was changed"),
        (put("digest", "sha256:0"), "digest: the plan was changed"),
        (put("plays.0.max_changes", 1000), "digest: the plan was changed"),
    ],
)
def test_a_plan_that_is_wrong_says_where(edit: Callable[[Any], None], message: str) -> None:
    data = copy.deepcopy(saved(rich_plan()))
    edit(data)
    with pytest.raises(ValueError) as caught:
        plan_from_dict(data)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("data", [None, [], "plan", 5])
def test_what_is_no_object_is_no_plan(data: object) -> None:
    with pytest.raises(ValueError, match="plan: must be an object"):
        plan_from_dict(data)


def test_a_tool_that_rewrites_numbers_does_not_break_the_digest() -> None:
    data = saved(rich_plan())
    data["actions"][0]["after"]["grace"] = 5
    assert plan_from_dict(data) == rich_plan()


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (Position("a.yml", 9, 5), "a.yml:9:5"),
        (Position("a.yml"), "a.yml"),
        (Position("c:a.yml", 9), "c:a.yml:9:0"),
        (Position("odd:1:2"), "odd:1:2:0:0"),
    ],
)
def test_positions_come_back(position: Position, text: str) -> None:
    assert position_text(position) == text
    action = replace(closing(), position=position)
    plan = replace(rich_plan(), actions=(action,))
    assert plan_from_dict(saved(plan)).actions[0].position == position


def test_an_outcome() -> None:
    data = outcome_to_dict(outcome())
    assert data["summary"] == {"changed": 1, "ok": 0, "stale": 1, "failed": 1, "held": 1}
    assert data["results"][0] == {
        "verb": "close",
        "ref": "github:octo/app#15",
        "status": "changed",
        "detail": "4 processes ended, SIGKILL for node (812)",
    }
    assert data["held"] == [{"ref": "github:octo/app#22", "reason": "GitHub: Bad Gateway (HTTP 502)"}]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (Outcome(), "ok"),
        (Outcome((Result(closing(), "ok"),)), "ok"),
        (Outcome((Result(closing(), "ok"), Result(closing(), "changed"))), "changed"),
        (Outcome((Result(closing(), "changed"),), (Held(ref(), "?"),)), "incomplete"),
        (Outcome((Result(closing(), "changed"), Result(closing(), "stale")), (Held(ref(), "?"),)), "stale"),
        (Outcome((Result(closing(), "stale"), Result(closing(), "failed"))), "failed"),
        (Outcome((Result(closing(), "failed"),), interrupted=True), "interrupted"),
    ],
)
def test_the_status_of_an_outcome_is_the_worst_that_happened(given: Outcome, status: str) -> None:
    assert outcome_to_dict(given)["status"] == status


def test_a_session() -> None:
    assert record_to_dict(session(status="closed", reason="issue-closed"), "loopctl sessions attach x") == {
        "ref": "github:octo/app#15",
        "id": ID,
        "phase": "undead",
        "status": "closed",
        "reason": "issue-closed",
        "harness": "claude",
        "runner": "tmux",
        "socket": "/tmp/lc/tmux.sock",
        "session": "loop-octo-app-15",
        "pane": "%7",
        "created_at": "2026-07-25T07:00:00Z",
        "closed_at": None,
        "transcript": "",
        "workspace": "",
        "branch": "",
        "attach": "loopctl sessions attach x",
    }
