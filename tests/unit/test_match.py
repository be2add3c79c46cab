"""Whether a rule applies: yes, no, or it cannot be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.fields import FIELDS
from loopctl.model.items import CLOSED, FORBIDDEN, MISSING, MOVED, OPEN, WorkItem
from loopctl.model.observed import Observation, Subject
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Ensure, ItemMatch, Match, Position, Rule, SessionMatch
from loopctl.model.sessions import SessionRecord, SessionView
from loopctl.planner.facts import facts_of
from loopctl.planner.match import Verdict, matches

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
REF = WorkItemRef.parse("github:Octo/App#15")
ITEM = WorkItem(
    REF,
    "issue",
    CLOSED,
    "completed",
    frozenset({"Loop", "bug"}),
    author="Mona",
    assignees=frozenset({"hubot"}),
    milestone="v1",
    closed_at=NOW - timedelta(minutes=5),
)
SILENT = Unknown("502")
UNSEEN = SessionView(SessionRecord("a-1", REF, "desk", "claude"), Unknown("tmux did not answer"))


def verdict(match: Match, item: Fact[WorkItem], session: SessionView | None = None) -> Verdict:
    rule = Rule("r", Position("p", 1), match, Ensure())
    return matches(rule, Subject(REF, item, session), Observation("desk", "r", NOW))


@pytest.mark.parametrize(
    ("criterion", "holds"),
    [
        (ItemMatch(state=("closed",)), True),
        (ItemMatch(state=("open", "merged")), False),
        (ItemMatch(labels=("loop", "BUG")), True),
        (ItemMatch(labels=("loop", "other")), False),
        (ItemMatch(labels_any=("other", "loop")), True),
        (ItemMatch(labels_any=("other",)), False),
        (ItemMatch(author=("mona",)), True),
        (ItemMatch(assignee=("HUBOT",)), True),
        (ItemMatch(assignee=("mona",)), False),
        (ItemMatch(milestone=("V1",)), True),
        (ItemMatch(repo=("octo/*",)), True),
        (ItemMatch(repo=("github.com/octo/app",)), True),
        (ItemMatch(repo=("octo/ap",)), False),
        (ItemMatch(number=(15,)), True),
        (ItemMatch(number=(1,)), False),
        (ItemMatch(closed_for=300.0), True),
        (ItemMatch(closed_for=301.0), False),
        (ItemMatch(state=("closed",), kind=("pull_request",)), False),
        (ItemMatch(provider=("items",)), False),
    ],
)
def test_each_criterion(criterion: ItemMatch, holds: bool) -> None:
    assert verdict(Match(criterion), Known(ITEM)) is holds


def test_silence_is_neither_yes_nor_no() -> None:
    assert verdict(Match(ItemMatch(state=("closed",))), SILENT) == SILENT


def test_a_criterion_that_fails_needs_no_answer_of_the_others() -> None:
    assert verdict(Match(ItemMatch(number=(1,), state=("closed",))), SILENT) is False
    assert verdict(Match(ItemMatch(state=("open",)), SessionMatch(phase=("running",))), Known(ITEM), UNSEEN) is False


def test_what_the_rule_does_not_read_may_be_silent() -> None:
    assert verdict(Match(ItemMatch(number=(15,))), SILENT) is True


@pytest.mark.parametrize("state", [MISSING, MOVED, FORBIDDEN])
def test_an_item_that_is_elsewhere_is_not_closed_but_unknown(state: str) -> None:
    item = Known(replace(ITEM, state=state))
    assert isinstance(verdict(Match(ItemMatch(state=("closed", "merged"))), item), Unknown)
    assert isinstance(verdict(Match(ItemMatch(labels=("nope",))), item), Unknown)
    assert verdict(Match(ItemMatch(state=(state,))), item) is True


def test_a_close_of_unknown_time_is_unknown_and_an_open_item_has_none() -> None:
    match = Match(ItemMatch(closed_for=1.0))
    assert isinstance(verdict(match, Known(replace(ITEM, closed_at=None))), Unknown)
    assert verdict(match, Known(replace(ITEM, closed_at=None, state=OPEN))) is False


def test_a_phase_that_was_not_seen_is_unknown() -> None:
    assert isinstance(verdict(Match(session=SessionMatch(phase=("running",))), Known(ITEM), UNSEEN), Unknown)
    assert verdict(Match(session=SessionMatch(phase=("absent",))), Known(ITEM)) is True


@pytest.mark.parametrize(
    ("record", "holds"),
    [
        (SessionRecord("a-1", REF, "desk", "claude"), False),
        (SessionRecord("a-1", REF, "desk", "claude", "closed", closed_at=NOW - timedelta(seconds=60)), True),
        (SessionRecord("a-1", REF, "desk", "claude", "closed", closed_at=NOW - timedelta(seconds=59)), False),
        # Nobody wrote down when; it was written last when it was closed, or later.
        (SessionRecord("a-1", REF, "desk", "claude", "closed", updated_at=NOW - timedelta(seconds=60)), True),
        (SessionRecord("a-1", REF, "desk", "claude", "closed", updated_at=NOW - timedelta(seconds=59)), False),
        (SessionRecord("a-1", REF, "desk", "claude", "closed"), Unknown("when the session was closed is not known")),
    ],
)
def test_how_long_a_session_is_closed_is_its_record_s_word(record: SessionRecord, holds: Verdict) -> None:
    match = Match(session=SessionMatch(closed_for=60.0))
    assert verdict(match, SILENT, SessionView(record, Unknown("tmux did not answer"))) == holds
    assert verdict(match, SILENT) is False


@dataclass(frozen=True)
class Expression:
    answer: object
    names: frozenset[str]
    source: str = "x"

    def __call__(self, facts: Mapping[str, object]) -> object:
        assert self.names <= set(facts)
        return self.answer


def test_when_narrows_and_is_not_evaluated_over_what_is_unknown() -> None:
    reads = frozenset({"item"})
    assert verdict(Match(when=Expression(1, reads)), Known(ITEM)) is True
    assert verdict(Match(when=Expression("", reads)), Known(ITEM)) is False
    assert verdict(Match(when=Expression(1, reads)), SILENT) == SILENT
    assert verdict(Match(when=Expression(1, frozenset({"session"}))), Known(ITEM)) is False


def test_what_a_condition_can_read_is_what_the_playbook_was_checked_for() -> None:
    facts = facts_of(Subject(REF, Known(ITEM), UNSEEN), Observation("desk", "r", NOW))
    assert facts["item"].keys() == FIELDS["item"]  # type: ignore[attr-defined]
    assert facts["session"].keys() | {"state"} == FIELDS["session"]  # type: ignore[attr-defined]
