from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from loopctl import data
from loopctl.model.encode import plan_to_dict
from loopctl.model.plan import VERBS, Action, After, Before, Guard, Held, Plan, PlayScope
from loopctl.model.processes import ProcessId
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Limits, Position
from loopctl.model.sessions import PHASES, ServerId
from loopctl.playbook.document import parse_text
from loopctl.playbook.plans import plan_of
from loopctl.playbook.schema import schema, validate
from tests.unit.playbook.support import problems_of

PLAY = "- name: p\n  rules:\n    - name: r\n      match:\n        item:\n          state: closed\n      ensure:\n        session: closed\n"


def nodes(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(inner)


@pytest.mark.parametrize("name", data.schema_names())
def test_schemas_are_valid_and_described(name: str) -> None:
    root = json.loads(data.schema_text(name))
    Draft202012Validator.check_schema(root)
    assert root["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for node in nodes(root):
        assert not {"anyOf", "oneOf"} & node.keys()
        described = [*node.get("properties", {}).values()] if isinstance(node.get("properties"), dict) else []
        if "if" not in node and "title" not in node:
            described = []
        for inner in described:
            assert "$ref" in inner or {"title", "description"} <= inner.keys()
        if node.get("type") == "object" and "properties" in node:
            assert node["additionalProperties"] is False


def test_the_schemas_know_the_words_of_the_model() -> None:
    plan, playbook = schema("plan"), schema("playbook")
    assert plan["$defs"]["action"]["properties"]["verb"]["enum"] == list(VERBS)
    assert plan["$defs"]["before"]["properties"]["phase"]["enum"] == list(PHASES)
    assert playbook["$defs"]["session"]["properties"]["phase"]["items"]["enum"] == list(PHASES)
    assert set(plan["$defs"]["guard"]["properties"]) == set(Guard.__dataclass_fields__)
    assert set(plan["$defs"]["before"]["properties"]) == set(Before.__dataclass_fields__)
    assert set(plan["$defs"]["after"]["properties"]) == set(After.__dataclass_fields__)
    limits = playbook["$defs"]["play"]["properties"]["limits"]["properties"]
    assert limits["max_changes"]["default"] == Limits().max_changes
    assert limits["max_fraction"]["default"] == Limits().max_fraction


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "message", "hint"),
    [
        ("ensure:", "ensrue:", 7, 7, "unknown key 'ensrue'", "did you mean 'ensure'?"),
        ("name: r", "actoin: r", 3, 7, "unknown key 'actoin'", "known here: name, tags, match, when, ensure"),
        ("state:", "States:", 6, 11, "unknown key 'States'", "did you mean 'state'?"),
        ("state: closed", "state: clsoed", 6, 11, "state is 'clsoed', not one of: open, closed, merged, missing, moved, forbidden", "did you mean 'closed'?"),
        ("state: closed", "state: [closed, merge]", 6, 27, "an item of state is 'merge', not one of: open, closed, merged, missing, moved, forbidden", "did you mean 'merged'?"),
        ("state: closed", "state: []", 6, 11, "state must not be empty", ""),
        ("state: closed", 'author: ""', 6, 11, "author must not be empty", ""),
        ("state: closed", "labels: 3.10", 6, 11, "labels must be text or a list, not a number", "quote it"),
        ("state: closed", "labels: [true]", 6, 20, "an item of labels must be text, not true or false", "quote it"),
        ("state: closed", "number: '7'", 6, 11, "number must be a whole number or a list, not text", ""),
        ("state: closed", "number: 0", 6, 11, "number must be at least 1", ""),
        ("state: closed", "reason:", 6, 11, "reason has no value; it must be text or a list", ""),
        ("state: closed", "closed_for: soon", 6, 11, "closed_for must be a duration: seconds, or 5s, 10m, 2h, 14d", ""),
        ("state: closed", "closed_for: -1", 6, 11, "closed_for must be at least 0", ""),
        ("session: closed", "session: 7", 8, 9, "session must be text, not a number", "quote it"),
        ("session: closed", "kill_harness: 'true'", 8, 9, "kill_harness must be true or false, not text", ""),
        ("session: closed", "session: [gone]", 8, 9, "session must be text, not a list", ""),
        ("name: p", "hosts: {a: b}", 1, 3, "hosts must be text or a list, not a mapping", ""),
        ("name: p", "vars: {a-b: 1}", 1, 10, "the key 'a-b' is not a name of letters, digits and _", ""),
        ("name: p", "limits: {max_fraction: 2}", 1, 12, "max_fraction must be at most 1", ""),
        ("name: p", "limits: {max_changes: 1.5}", 1, 12, "max_changes must be a whole number, not a number", ""),
    ],
)  # fmt: skip
def test_each_fault_of_a_playbook(old: str, new: str, line: int, column: int, message: str, hint: str) -> None:
    text = PLAY.replace(old, new)
    assert text != PLAY
    first = next(p for p in validate(parse_text(text, "f.yml"), "playbook") if p.message == message)
    assert (first.where, first.hint, first.text) == (f"f.yml:{line}:{column}", hint, text.splitlines()[line - 1])


def test_all_faults_come_at_once() -> None:
    text = PLAY.replace("name: p", "nmae: p").replace("closed", "shut").replace("name: r", "name: 12")
    places = [(p.line, p.column) for p in validate(parse_text(text, "f.yml"), "playbook")]
    assert places == [(1, 3), (3, 7), (6, 11), (8, 9)]


def test_a_missing_key_is_told_where_it_is_missing() -> None:
    problems = validate(parse_text("- name: p\n  rules:\n    - name: r\n", "f.yml"), "playbook")
    assert [(p.where, p.message) for p in problems] == [("f.yml:3:7", "an item of rules has no 'ensure'")]


@pytest.mark.parametrize(("text", "message"), [("", "is empty"), ("a: 1", "the document must be a list, not a mapping"), ("[]", "the document must not be empty")])  # fmt: skip
def test_what_is_no_playbook_at_all(text: str, message: str) -> None:
    assert [p.message for p in validate(parse_text(text, "f.yml"), "playbook")] == [message]


def test_a_message_never_shows_a_large_value() -> None:
    text = PLAY.replace("state: closed", "state: " + "x" * 5000).replace("name: p", "y" * 900 + ": 1")
    problems = validate(parse_text(text, "f.yml"), "playbook")
    assert len(problems) == 2
    assert all(len(p.message) < 200 for p in problems)


def a_plan() -> Plan:
    ref = WorkItemRef.parse("github:octo/app#15")
    action = Action(
        "close",
        ref,
        Before("running", since=datetime(2026, 7, 1, tzinfo=UTC), processes=("claude (7)",)),
        After("retained", grace=5.0, transcript="kept"),
        "play",
        "rule",
        Position("book.yml", 9, 7),
        "closed",
        Guard("here", "id", server=ServerId(3, 4), pane=ProcessId(5, "6")),
    )
    start = Action(
        "start", ref, Before("absent"), After("running"), "", "", Position("book.yml"), "", Guard("here", "")
    )
    held = (Held(ref, "Bad Gateway"),)
    return Plan(
        datetime(2026, 7, 1, tzinfo=UTC), "here", "id", (("book.yml", "ab"),), (PlayScope("p", Limits(), 3),),
        (action, start), held, 4, (ref,), ("note",), ("problem",),
    )  # fmt: skip


def test_a_plan_that_we_write_fits_its_schema() -> None:
    assert plan_of(json.dumps(plan_to_dict(a_plan())).encode(), "plan.json") == a_plan()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("version",), 2, "version is a number, not one of: 1"),
        (
            ("actions", 0, "verb"),
            "clsoe",
            "verb is 'clsoe', not one of: start, resume, close, reap, record, comment, deliver",
        ),
        (("actions", 0, "guard", "pane", "pid"), 0, "pid must be at least 1"),
        (("actions", 0, "before", "extra"), 0, "unknown key 'extra'"),
        (("summary", "held"), None, "held has no value; it must be a whole number"),
    ],
)
def test_a_plan_that_was_edited_is_told_where(path: tuple[str | int, ...], value: object, message: str) -> None:
    plan: Any = plan_to_dict(a_plan())
    here = plan
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    text = json.dumps(plan, indent=2)
    problems = problems_of(lambda: plan_of(text.encode(), "plan.json"))
    assert [p.message for p in problems] == [message]
    line = text.splitlines()[problems[0].line - 1]
    assert line[problems[0].column - 1 :].startswith(json.dumps(path[-1]))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"version": 1,\n  "a": }', "plan.json:2:8"),
        ('{"a": 1, "a": 2}', "plan.json:1:1"),
        ('{"a": NaN}', "plan.json:1:1"),
        ("[" * 100_000, "plan.json:1:1"),
        ("", "plan.json:1:1"),
    ],
)
def test_a_plan_that_is_no_json(text: str, where: str) -> None:
    problems = problems_of(lambda: plan_of(text.encode(), "plan.json"))
    assert [p.where for p in problems] == [where]
    assert problems[0].message.startswith("is not valid JSON: ")
