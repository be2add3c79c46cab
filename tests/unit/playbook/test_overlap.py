from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopctl.model.rules import Ensure, ItemMatch, Match, Play, Position, Rule, SessionMatch
from loopctl.playbook.overlap import conflicts
from tests.unit.playbook.support import compiled, problems_of

BOOK = "- rules:\n    - name: a\n      {one}\n      ensure: {{{first}}}\n    - name: b\n      {two}\n      ensure: {{{second}}}\n"
RUN, KEEP, GONE = "session: running", "session: retained", "session: gone"
OPEN = "match: {item: {state: open}}"


def book(one: str, two: str, first: str = RUN, second: str = KEEP) -> str:
    return BOOK.format(one=one, two=two, first=first, second=second)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (OPEN, OPEN),
        (OPEN, "match: {item: {state: [open, closed]}}"),
        (OPEN, "match: {item: {labels: x1}}"),
        (OPEN, "match: {session: {phase: running}}"),
        ("match: {item: {repo: 'octo/*'}}", "match: {item: {repo: Octo/app}}"),
        ("match: {item: {repo: octo/app}}", "match: {item: {repo: [other/x1, octo/app]}}"),
        ("match: {item: {labels: x1}}", "match: {item: {labels: [X1, x2]}}"),
        ("match: {item: {labels_any: [x1, x2]}}", "match: {item: {labels_any: [x2, x3]}}"),
        ("match: {item: {labels: x1}}", "match: {item: {labels_any: [x1, x2]}}"),
        ("match: {item: {author: Ann}}", "match: {item: {author: ann}}"),
        ("match: {item: {closed_for: 1d}}", "match: {item: {closed_for: 2d}}"),
        ("match: {item: {closed_for: 1d}}", "match: {item: {state: merged}}"),
        ("match: {session: {older_than: 1d}}", "match: {session: {attached: true}}"),
    ],
)
def test_rules_that_contradict_each_other(tmp_path: Path, one: str, two: str) -> None:
    problems = problems_of(lambda: compiled(tmp_path, book(one, two)))
    source = tmp_path / "book.yml"
    assert [(p.line, p.column, p.text) for p in problems] == [(5, 7, "    - name: b")]
    message = f"rule \"b\" contradicts rule \"a\" ({source}:2) on session: 'retained' here, 'running' there"
    assert problems[0].message == message


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (OPEN, "match: {item: {state: closed}}"),
        (OPEN, "match: {item: {closed_for: 14d}}"),
        (OPEN, "match: {item: {reason: completed}}"),
        (OPEN, "match: {item: {state: open}}\n      when: 'true'"),
        ("match: {item: {kind: issue}}", "match: {item: {state: merged}}"),
        ("match: {item: {kind: issue}}", "match: {item: {kind: pull_request}}"),
        ("match: {item: {repo: 'octo/*'}}", "match: {item: {repo: 'other/*'}}"),
        ("match: {item: {number: 1}}", "match: {item: {number: [2, 3]}}"),
        ("match: {item: {labels: x1}}", "match: {item: {labels: x2}}"),
        ("match: {item: {author: ann}}", "match: {item: {author: bob}}"),
        ("match: {item: {provider: github}}", "match: {item: {provider: items}}"),
        ("match: {session: {phase: running}}", "match: {session: {phase: [lost, exited]}}"),
        ("match: {session: {phase: absent}}", "match: {session: {older_than: 1d}}"),
        ("match: {session: {phase: absent}}", "match: {session: {harness: claude}}"),
        ("match: {session: {attached: true}}", "match: {session: {attached: false}}"),
        ("match: {session: {harness: claude}}", "match: {session: {harness: codex}}"),
        (OPEN, "match: {session: {phase: [undead, retained, gone]}}"),
        (OPEN, "match: {session: {closed_for: 14d}}"),
    ],
)
def test_rules_that_are_disjoint_or_not_provably_at_odds(tmp_path: Path, one: str, two: str) -> None:
    assert len(compiled(tmp_path, book(one, two)).plays[0].rules) == 2


@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        (RUN, GONE, "session"),
        ("grace: 1s", "grace: 2s", "grace"),
        ("transcript: kept", "transcript: discarded", "transcript"),
        ("kill_harness: true", "kill_harness: false", "kill_harness"),
        ("harness: claude", "harness: codex", "harness"),
        ("prompt: one", "prompt: two", "prompt"),
        (RUN, "session: paused", ""),
        (KEEP, "session: paused", ""),
        (GONE, "session: paused", ""),
        (KEEP, GONE, ""),
        (KEEP, KEEP, ""),
        (KEEP, "grace: 1s", ""),
        ("grace: 60s", "grace: 1m", ""),
        ("prompt: 'a {{ item.title }}'", "prompt: 'a {{ item.title }}'", ""),
    ],
)
def test_what_composes_and_what_does_not(tmp_path: Path, first: str, second: str, key: str) -> None:
    text = book(OPEN, OPEN, first, second)
    if key:
        assert f" on {key}" in problems_of(lambda: compiled(tmp_path, text))[0].message
    else:
        assert compiled(tmp_path, text).plays


@pytest.mark.parametrize(("hosts", "other", "meet"), [("all", "web1", True), ("web*", "web1", True), ("web1", "web1", True), ("web1", "web2", False), ("localhost", "web1", False)])  # fmt: skip
def test_plays_for_other_machines_do_not_meet(tmp_path: Path, hosts: str, other: str, meet: bool) -> None:
    text = f"- hosts: {hosts}\n  rules: [{{{OPEN}, ensure: {{{RUN}}}}}]\n- hosts: {other}\n  rules: [{{{OPEN}, ensure: {{{KEEP}}}}}]\n"
    if meet:
        assert len(problems_of(lambda: compiled(tmp_path, text))) == 1
    else:
        assert len(compiled(tmp_path, text).plays) == 2


def test_only_rules_that_were_asked_for_are_compared(tmp_path: Path) -> None:
    text = book(OPEN + "\n      tags: one", OPEN + "\n      tags: two")
    assert compiled(tmp_path, text, tags="one").plays


def some(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), unique=True, max_size=2).map(tuple)


ITEMS = st.builds(
    ItemMatch,
    repo=some("o/a", "o/b", "o/*"),
    kind=some("issue", "pull_request"),
    state=some("open", "closed", "merged"),
    author=some("ann", "bob"),
    labels=some("x", "y"),
    closed_for=st.sampled_from([None, 60.0]),
)
SESSIONS = st.builds(
    SessionMatch, phase=some("absent", "running", "gone"), attached=st.sampled_from([None, True, False])
)


def play(one: Match, two: Match) -> Play:
    rules = tuple(
        Rule(name, Position("f.yml", line, 1), match, Ensure(session=state))
        for name, line, match, state in (("a", 1, one, "running"), ("b", 2, two, "gone"))
    )
    return Play("p", Position("f.yml", 1, 1), ("all",), rules)


@given(ITEMS, ITEMS, SESSIONS, SESSIONS)
def test_the_order_of_rules_does_not_matter(a: ItemMatch, b: ItemMatch, c: SessionMatch, d: SessionMatch) -> None:
    one, two = Match(a, c), Match(b, d)
    assert len(conflicts([play(one, two)])) == len(conflicts([play(two, one)]))


@given(ITEMS, SESSIONS)
def test_a_match_that_can_hold_at_all_overlaps_itself(item: ItemMatch, session: SessionMatch) -> None:
    possible = not (item.kind == ("issue",) and item.state == ("merged",))
    possible &= not (item.closed_for and item.state == ("open",))
    possible &= not (item.closed_for and item.kind == ("issue",) and set(item.state) == {"merged", "open"})
    # Nothing is attached to an absent session; of a closed one, its end and what its item gets next are two things.
    nowhere = {"gone"} | ({"absent"} if session.attached is not None else set())
    possible &= not session.phase or not nowhere >= set(session.phase)
    assert bool(conflicts([play(Match(item, session), Match(item, session))])) == possible
