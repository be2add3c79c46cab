"""What a comment may read, and how what others wrote stands in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopctl.errors import DocumentError
from loopctl.model.facts import Known
from loopctl.model.items import WorkItem
from loopctl.model.observed import Subject
from loopctl.model.refs import WorkItemRef
from loopctl.planner.facts import comment_facts
from tests.unit.playbook.support import compiled

HOSTILE = "@octo/all #1 GH-2 <img> [a](b) `c` www.x.example https://y.example/ _d_ **e**\n# f\u202e"
QUOTED = (
    "&#64;&#8203;octo/all &#35;&#8203;1 GH&#45;&#8203;2 &#60;img&#62; &#91;a&#93;(b) &#96;c&#96; www&#46;x.example "
    "https&#58;//y.example/ &#95;d&#95; &#42;&#42;e&#42;&#42; &#35;&#8203; f"
)
ITEM = WorkItem(WorkItemRef.parse("octo/app#1", "github"), "issue", "closed", title=HOSTILE, labels=frozenset({"@me"}))


def book(ensure: str) -> str:
    return f"- vars: {{given: '@var'}}\n  rules:\n    - match: {{item: {{state: closed}}}}\n      ensure: {ensure}\n"


@pytest.mark.parametrize(
    ("ensure", "message"),
    [
        ("{comment: bye}", "a comment tells what state was reached: it needs a `session` beside it"),
        (
            '{session: closed, comment: "on {{ machine }}"}',
            "'machine' names a machine, and a comment is read by everybody",
        ),
        (
            '{session: closed, comment: "at {{ now }}"}',
            "'now' differs each time, so the comment would be written over without end",
        ),
        ('{session: closed, comment: "{{ items }}"}', "'items' is not defined"),
    ],
)
def test_a_comment_that_cannot_be_is_refused(tmp_path: Path, ensure: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        compiled(tmp_path, book(ensure))
    assert [problem.message for problem in caught.value.problems] == [message]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ item.ref }} **is** {{ item.number }}", "github:octo/app#1 **is** 1"),
        ("{{ item.title }}", QUOTED),
        ("{{ item.title | trim }}", QUOTED),
        ("{{ '' + item.title }}", QUOTED),
        ("{{ item.labels }}", "&#91;'&#64;&#8203;me'&#93;"),
        ("{% if '@me' in item.labels %}yes{% endif %}", "yes"),
        ("{{ ('attach ' + item.ref) | code }}", "`attach github:octo/app#1`"),
        ("{{ '`@me`' | code }}", "`` `@me` ``"),
        ("{{ given }}", "&#64;&#8203;var"),
        ("{{ '**' }}", "&#42;&#42;"),
    ],
)
def test_what_a_comment_quotes_is_never_markdown(tmp_path: Path, text: str, expected: str) -> None:
    playbook = compiled(tmp_path, book(f"{{session: closed, comment: {json.dumps(text)}}}"))
    comment = playbook.plays[0].rules[0].ensure.comment
    assert comment is not None
    assert comment(comment_facts(Subject(ITEM.ref, Known(ITEM)), {})) == expected


def test_comments_contradict_each_other_only_where_they_tell_of_one_state(tmp_path: Path) -> None:
    rule = "    - match: {item: {state: closed}}\n      ensure: {session: %s, comment: %s}\n"
    assert compiled(tmp_path, "- rules:\n" + rule % ("paused", "a") + rule % ("retained", "b"))
    with pytest.raises(DocumentError) as caught:
        compiled(tmp_path, "- rules:\n" + rule % ("gone", "a") + rule % ("retained", "b"))
    assert "on comment" in caught.value.problems[0].message
