"""What the payload of a webhook says of its item: all of it, or nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from loopctl.adapters.github_payload import told_item
from loopctl.model.items import WorkItem
from loopctl.model.refs import WorkItemRef
from tests.payloads import issue, payload, pull

REF = WorkItemRef.parse("github:octo/app#6")


def test_an_issue() -> None:
    node = issue(6, "closed", state_reason="not_planned", labels=[{"name": "bug"}], milestone={"title": "1.0"})
    node["assignees"] = [{"login": "hubot", "type": "User"}]
    assert told_item("issues", payload("closed", issue=node), REF) == WorkItem(
        ref=REF,
        kind="issue",
        state="closed",
        reason="not_planned",
        labels=frozenset({"bug"}),
        title="Item 6",
        author="octocat",
        assignees=frozenset({"hubot"}),
        milestone="1.0",
        url="https://github.com/octo/app/issues/6",
        updated_at=datetime(2026, 1, 1, 12, tzinfo=UTC),
        closed_at=datetime(2026, 1, 1, 12, tzinfo=UTC),
        node_id="NODE_6",
    )


@pytest.mark.parametrize(
    ("node", "state"), [(pull(6), "open"), (pull(6, "closed"), "closed"), (pull(6, "closed", merged=True), "merged")]
)
def test_a_pull_request(node: dict[str, Any], state: str) -> None:
    found = told_item("pull_request", payload("closed", pull_request=node), REF)
    assert found
    assert (found.kind, found.state, found.reason, found.links) == ("pull_request", state, "", ())


def test_a_reason_belongs_to_a_closed_issue() -> None:
    reopened = told_item("issues", payload("reopened", issue=issue(6, state_reason="reopened")), REF)
    assert reopened
    assert (reopened.state, reopened.reason) == ("open", "")
    nothing = told_item("issues", payload("closed", issue=issue(6, "closed", state_reason=None)), REF)
    assert nothing
    assert nothing.reason == ""


APP = {"login": "dependabot[bot]", "type": "Bot"}
ODD: list[tuple[str, dict[str, Any]]] = [
    ("another number", {"number": 7}),
    ("another repository", {"html_url": "https://github.com/octo/other/issues/6"}),
    ("another host", {"html_url": "https://ghe.corp/octo/app/issues/6"}),
    ("a pull request in an event of issues", {"html_url": "https://github.com/octo/app/pull/6"}),
    ("no address", {"html_url": "https://[::1"}),
    ("no such state", {"state": "frozen"}),
    ("closed and never closed", {"closed_at": None}),
    ("open and closed", {"state": "open"}),
    ("no time", {"updated_at": None}),
    ("no real time", {"updated_at": "yesterday"}),
    ("no identity", {"node_id": ""}),
    ("an app's other name", {"user": APP}),
    ("a deleted account", {"user": None}),
    ("a deleted account's stand-in", {"user": {"login": "ghost", "type": "User"}}),
    ("an app at work", {"assignees": [APP]}),
    ("a label without a name", {"labels": [{}]}),
    ("labels with gaps", {"labels": [None]}),
    ("a milestone without a name", {"milestone": {}}),
]


@pytest.mark.parametrize(("what", "fields"), ODD, ids=[what for what, _ in ODD])
def test_what_is_odd_says_nothing(what: str, fields: dict[str, Any]) -> None:
    assert told_item("issues", payload("closed", issue=issue(6, "closed")), REF) is not None
    assert told_item("issues", payload("closed", issue={**issue(6, "closed"), **fields}), REF) is None


@pytest.mark.parametrize("name", issue(6, "closed").keys())
def test_what_is_incomplete_says_nothing(name: str) -> None:
    node = issue(6, "closed")
    del node[name]
    assert told_item("issues", payload("closed", issue=node), REF) is None


def test_a_pull_request_that_does_not_say_whether_it_was_merged() -> None:
    for fields in ({"merged": None}, {"merged": "no"}, {"merged": True, "state": "open", "closed_at": None}):
        assert told_item("pull_request", payload("closed", pull_request={**pull(6, "closed"), **fields}), REF) is None


@pytest.mark.parametrize(
    ("event", "action"),
    [
        ("issue_comment", "created"),
        ("pull_request_review", "submitted"),
        ("issues", "transferred"),
        ("issues", "deleted"),
    ],
)
def test_only_events_that_carry_the_whole_item(event: str, action: str) -> None:
    both = payload(action, issue=issue(6, "closed"), pull_request=pull(6, "closed"))
    assert told_item(event, both, REF) is None


@pytest.mark.parametrize("odd", [None, [], "issue", {"issue": None}, {"issue": []}, {"issue": {}, "action": []}])
def test_no_payload_makes_it_fail(odd: Any) -> None:
    assert told_item("issues", odd if isinstance(odd, dict) else {"issue": odd}, REF) is None
