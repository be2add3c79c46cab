from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from loopctl.model.items import WorkItem
from loopctl.model.refs import WorkItemRef
from loopctl.playbook.document import parse_text
from loopctl.playbook.items import items_of, load_items
from tests.unit.playbook.support import problems_of, told


def items(text: str) -> tuple[WorkItem, ...]:
    return items_of(parse_text(text, "items.yml", times=True))


def test_an_items_file(tmp_path: Path) -> None:
    path = tmp_path / "items.yml"
    path.write_text(
        "- {ref: 'demo/app#3', state: open, title: '{{ 7*7 }}', labels: [bug], author: ann, url: 'https://x/3'}\n"
        "- ref: items:demo/app#4\n  state: merged\n  closed_at: 2026-09-01T12:00:00+02:00\n  updated_at: 2026-09-02\n"
        "  links: [demo/app#3, github:octo/app#15]\n"
        "- {ref: 'demo/app#5', state: closed, kind: issue, reason: completed, assignees: [bob], milestone: v1}\n"
    )
    three, four, five = load_items(path)
    assert (str(three.ref), three.kind, three.state, three.title) == ("items:demo/app#3", "issue", "open", "{{ 7*7 }}")
    assert (three.labels, three.author, three.url) == ({"bug"}, "ann", "https://x/3")
    assert (four.kind, four.closed_at) == ("pull_request", datetime(2026, 9, 1, 10, tzinfo=UTC))
    assert four.updated_at == datetime(2026, 9, 2, tzinfo=UTC)
    assert four.links == (three.ref, WorkItemRef.parse("github:octo/app#15"))
    assert (five.reason, five.assignees, five.milestone) == ("completed", {"bob"}, "v1")


def test_a_list_without_items_is_one() -> None:
    assert items("[]") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(0, 0, "is empty")]),
        ("a: 1", [(1, 1, "the document must be a list, not a mapping")]),
        ("- {state: open}", [(1, 3, "item 1 has no 'ref'")]),
        ("- {ref: demo/app, state: open}", [(1, 4, "ref must be an item such as demo/app#3")]),
        ("- {ref: 'demo/..#3', state: open}", [(1, 4, "'demo/..#3' is no work item: write provider:owner/repo#number, e.g. github:octo/app#15")]),
        ("- {ref: 'a/b#1', state: opne}", [(1, 18, "state is 'opne', not one of: open, closed, merged")]),
        ("- {ref: 'a/b#1', state: merged, kind: issue}", [(1, 18, "an issue cannot be merged")]),
        ("- {ref: 'a/b#1', state: open}\n- {ref: 'A/b#1', state: open}", [(2, 4, "duplicate item: it stands on line 1 already")]),
        ("[{ref: 'a/b#1', state: open}, {ref: 'a/b#1', state: open}]", [(1, 32, "duplicate item: it stands on line 1 already")]),
        ("- {ref: 'a/b#1', state: open, links: [x1]}", [(1, 39, "'x1' is no work item: write provider:owner/repo#number, e.g. github:octo/app#15")]),
        ("- {ref: 'a/b#1', state: open, closed_at: 2026-13-45}", [(1, 31, "closed_at is no time that exists")]),
        ("- {ref: 'a/b#1', state: open, closed_at: '0001-01-01T00:00:00+14:00'}", [(1, 31, "closed_at is no time that exists")]),
        ("- {ref: 'a/b#1', state: open, closed_at: yesterday}", [(1, 31, "closed_at must be a time such as 2026-09-01T10:00:00Z")]),
        ("- {ref: 'a/b#1', state: open, title: 3.10}", [(1, 31, "title must be text, not a number")]),
    ],
)  # fmt: skip
def test_each_fault(text: str, expected: list[tuple[int, int, str]]) -> None:
    assert told(problems_of(lambda: items(text))) == expected
