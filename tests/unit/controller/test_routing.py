from __future__ import annotations

import random
from typing import Any

import pytest

from loopctl.controller.routing import (
    DEFAULT_EVENTS,
    DISABLED,
    MARKERS,
    NO_ITEM,
    OWN,
    UNAUTHORIZED,
    is_end,
    listened_to,
    missing_events,
    route,
)
from loopctl.model.talk import OUR_MARK

ALL = frozenset(DEFAULT_EVENTS)
ME = frozenset({"octocat"})
REPO = {"full_name": "Octo/App", "html_url": "https://github.com/Octo/App"}
HERE = "github:Octo/App#"
RUN_PULL = {
    "number": 6,
    "head": {"ref": "issue-5"},
    "base": {"repo": {"url": "https://api.github.com/repos/Octo/App"}},
}


def said(**fields: Any) -> dict[str, Any]:
    return {"repository": REPO, "sender": {"login": "OctoCat"}, "action": "edited", **fields}


def pull(body: str | None = "", branch: str = "topic", number: int = 6) -> dict[str, Any]:
    return {"number": number, "body": body, "head": {"ref": branch}}


COMMENT = {"body": "hello", "user": {"login": "octocat"}}

TABLE: list[tuple[str, dict[str, Any], list[str]]] = [
    ("issues", said(issue={"number": 5}), ["5"]),
    ("issues", said(issue={"number": 5}, action="transferred", changes={"new_issue": {"number": 9}}), ["5"]),
    ("issue_comment", said(issue={"number": 5}, comment=COMMENT), ["5"]),
    # A comment on a pull request comes as an issue that has one.
    (
        "issue_comment",
        said(issue={"number": 6, "pull_request": {"url": "u"}, "body": "Fixes #5"}, comment=COMMENT),
        ["5", "6"],
    ),
    ("issues", said(issue={"number": 6, "pull_request": {"url": "u"}, "body": "no"}), ["6"]),
    ("pull_request", said(pull_request=pull()), ["6"]),
    ("pull_request", said(pull_request=pull(None)), ["6"]),
    ("pull_request", said(pull_request=pull("closes #5, fixes Octo/App#7; Resolves: GH-8")), ["5", "7", "8", "6"]),
    ("pull_request", said(pull_request=pull("Fixes #6")), ["6"]),
    ("pull_request", said(pull_request=pull("Fixes #5 and closes #5", "issue-5")), ["5", "6"]),
    ("pull_request", said(pull_request=pull("Fixes #7", "feat/issue/5-x")), ["5", "7", "6"]),
    ("pull_request", said(pull_request=pull("fixes https://github.com/octo/app/issues/5")), ["5", "6"]),
    ("pull_request", said(pull_request=pull("fixes https://ghe.corp/octo/app/issues/5")), ["6"]),
    ("pull_request_review", said(pull_request=pull("", "issue-5"), review=COMMENT), ["5", "6"]),
    ("pull_request_review_comment", said(pull_request=pull("Closes #5"), comment=COMMENT), ["5", "6"]),
    ("workflow_run", said(workflow_run={"head_branch": "issue-5", "pull_requests": [RUN_PULL]}), ["5", "6"]),
    ("workflow_run", said(workflow_run={"head_branch": "main", "pull_requests": []}), []),
    ("check_suite", said(check_suite={"head_branch": "issue/5", "pull_requests": []}), ["5"]),
    ("check_suite", said(check_suite={"head_branch": None, "pull_requests": [RUN_PULL]}), ["5", "6"]),
    ("check_run", said(check_run={"pull_requests": [RUN_PULL], "check_suite": {"head_branch": "x"}}), ["5", "6"]),
    ("check_run", said(check_run={"pull_requests": [], "check_suite": {"head_branch": "issue-5"}}), ["5"]),
    ("status", said(branches=[{"name": "issue-5"}, {"name": "main"}, {"name": "Issue/7"}]), ["5", "7"]),
    ("status", said(branches=[]), []),
]


@pytest.mark.parametrize(("event", "payload", "numbers"), TABLE)
def test_an_event_names_its_items_the_linked_ones_first(
    event: str, payload: dict[str, Any], numbers: list[str]
) -> None:
    routed = route(event, payload, ALL, ME)
    lower = [str(ref).lower() for ref in routed.refs]
    assert lower == [f"{HERE}{number}".lower() for number in numbers]
    assert routed.dropped == ("" if numbers else NO_ITEM)


def test_a_link_keeps_its_repository() -> None:
    routed = route("pull_request", said(pull_request=pull("Fixes other/lib#5")), ALL, ME)
    assert [str(ref) for ref in routed.refs] == ["github:other/lib#5", f"{HERE}6"]


def test_a_pull_request_of_another_repository_in_a_run() -> None:
    there = {**RUN_PULL, "base": {"repo": {"url": "https://api.github.com/repos/other/lib"}}}
    routed = route("workflow_run", said(workflow_run={"head_branch": "x", "pull_requests": [there]}), ALL, ME)
    assert [str(ref) for ref in routed.refs] == ["github:other/lib#5", "github:other/lib#6"]


def test_an_enterprise_host_is_told_by_the_payload() -> None:
    payload = said(issue={"number": 5}, repository={"full_name": "octo/app", "html_url": "https://ghe.corp/octo/app"})
    assert [str(ref) for ref in route("issues", payload, ALL, ME).refs] == ["github:ghe.corp/octo/app#5"]


@pytest.mark.parametrize(
    ("event", "action", "ends"),
    [
        ("issues", "closed", True),
        ("pull_request", "closed", True),
        ("issues", "deleted", False),
        ("issues", "reopened", False),
        ("pull_request", "converted_to_draft", False),
        ("issue_comment", "closed", False),
        ("pull_request_review", "closed", False),
        ("check_suite", "closed", False),
        ("issues", None, False),
        ("issues", ["closed"], False),
    ],
)
def test_the_exemption_covers_exactly_the_two(event: str, action: object, ends: bool) -> None:
    payload = said(issue={"number": 5}, pull_request=pull(), check_suite={"pull_requests": [RUN_PULL]}, action=action)
    assert is_end(event, payload) is ends
    routed = route(event, payload, ALL, frozenset())
    assert (routed.dropped == "") is ends
    # And what it lets pass starts nothing.
    assert not routed.may_start


@pytest.mark.parametrize("event", DEFAULT_EVENTS)
def test_only_those_who_are_named_cause_anything_else(event: str) -> None:
    payload = next(payload for name, payload, numbers in TABLE if name == event and numbers)
    assert route(event, payload, ALL, frozenset()).dropped == UNAUTHORIZED
    assert route(event, payload, ALL, frozenset({"mallory"})).dropped == UNAUTHORIZED
    assert route(event, payload, ALL, ME).may_start


@pytest.mark.parametrize("event", ["issue_comment", "pull_request_review_comment", "pull_request_review"])
def test_the_author_of_a_comment_counts_not_who_sent_it(event: str) -> None:
    what = "review" if event == "pull_request_review" else "comment"
    for user in ({"login": "mallory"}, None, {}):
        payload = said(issue={"number": 5}, **{what: {"body": "x", "user": user}})
        assert route(event, payload, ALL, ME).dropped == UNAUTHORIZED


def test_an_account_without_a_name_is_nobody() -> None:
    assert route("issues", said(issue={"number": 5}, sender=None), ALL, frozenset({""} - {""})).dropped == UNAUTHORIZED


#: What somebody says: the event, the action, where it stands in the payload, and the rest of it.
SAID: list[tuple[str, str, str, dict[str, Any]]] = [
    ("issue_comment", "created", "comment", {"issue": {"number": 5}}),
    ("issue_comment", "edited", "comment", {"issue": {"number": 5}}),
    ("issue_comment", "created", "comment", {"issue": {"number": 6, "pull_request": {"url": "u"}, "body": "Fixes #5"}}),
    ("pull_request_review", "submitted", "review", {"pull_request": pull("Fixes #5")}),
    ("pull_request_review_comment", "created", "comment", {"pull_request": pull("Fixes #5")}),
]


@pytest.mark.parametrize(("event", "action", "name", "rest"), SAID)
def test_what_is_said_is_looked_at_when_somebody_authorized_says_it(
    event: str, action: str, name: str, rest: dict[str, Any]
) -> None:
    """The session of the issue is among the refs, so that the look can pass on what was said."""
    text = {"body": "please go on", "user": {"login": "OctoCat"}}
    routed = route(event, said(action=action, **rest, **{name: text}), ALL, ME)
    assert (routed.dropped, routed.ends, f"{HERE}5" in map(str, routed.refs)) == ("", False, True)
    stranger = said(action=action, **rest, **{name: {**text, "user": {"login": "mallory"}}})
    assert route(event, stranger, ALL, ME).dropped == UNAUTHORIZED


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize(("event", "action", "name", "rest"), SAID)
def test_our_own_comments_are_dropped(marker: str, event: str, action: str, name: str, rest: dict[str, Any]) -> None:
    text = {"body": f"hello\n{marker} -->", "user": {"login": "octocat"}}
    assert route(event, said(action=action, **rest, **{name: text}), ALL, ME).dropped == OWN


def test_the_mark_is_the_one_that_we_write() -> None:
    assert OUR_MARK in MARKERS


def test_events_that_are_not_listened_to() -> None:
    assert route("discussion", said(issue={"number": 5}), ALL, ME).dropped == DISABLED
    assert route("issues", said(issue={"number": 5}), frozenset({"pull_request"}), ME).dropped == DISABLED
    assert listened_to(()) == ALL
    assert len(ALL) == 9


def test_a_list_without_the_endings_warns_what_that_costs() -> None:
    assert missing_events(()) == ()
    assert missing_events(("issues", "pull_request")) == ()
    (one,) = missing_events(("issues", "status"))
    assert "'pull_request'" in one
    assert "noticed by polling only" in one
    assert len(missing_events(("status",))) == 2


STRANGE: list[Any] = [
    None, 0, -1, 1.5, True, "", "x", [], {}, [[]], [None], {"number": 5}, {"number": "5"}, {"number": True},
    {"number": -5}, {"number": 10**30}, {"login": ["octocat"]}, {"full_name": "a/b/c", "html_url": "https://[::1"},
    {"full_name": "../..", "html_url": "https://github.com/../.."}, {"full_name": "a/b", "html_url": 5},
]  # fmt: skip


def test_no_payload_makes_it_fail() -> None:
    chance = random.Random(94)
    keys = ["issue", "pull_request", "repository", "sender", "comment", "review", "action", "branches"]
    keys += ["workflow_run", "check_run", "check_suite", "pull_requests", "head", "base", "number", "user", "body"]

    def value(depth: int) -> Any:
        if depth and chance.random() < 0.6:
            return {key: value(depth - 1) for key in chance.sample(keys, 4)} | chance.choice([{}, {"repository": REPO}])
        return chance.choice(STRANGE)

    for _ in range(3000):
        payload = value(3)
        if not isinstance(payload, dict):
            continue
        routed = route(chance.choice(DEFAULT_EVENTS), payload, ALL, ME)
        assert all(ref.number > 0 and "/" not in ref.owner for ref in routed.refs)
