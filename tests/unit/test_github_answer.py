"""What GitHub's answers become, those included that the fake server would never give."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopctl.adapters.github import GitHub
from loopctl.adapters.github_answer import NOT_FOUND, Page, item_facts, listing_page
from loopctl.adapters.github_api import GitHubApi
from loopctl.adapters.github_gh import gh_env
from loopctl.adapters.github_lookup import lookup_fact
from loopctl.adapters.github_query import Want, batches, items_query, listing_query
from loopctl.adapters.github_reply import Answer, Failure, Http, PathError, clean, read_http, read_reply
from loopctl.model.facts import UNOBSERVED, Fact, Known, Unknown
from loopctl.model.items import WorkItem
from loopctl.model.refs import WorkItemRef, repository

REF = WorkItemRef.parse("github:octo/app#15")


def node(**changes: object) -> dict[str, Any]:
    """A good answer for REF, changed; a value of ... takes the field out."""
    good: dict[str, object] = {
        "__typename": "Issue",
        "id": "I_15",
        "number": 15,
        "url": "https://github.com/octo/app/issues/15",
        "title": "t",
        "state": "CLOSED",
        "stateReason": "COMPLETED",
        "updatedAt": "2026-01-01T00:00:00Z",
        "closedAt": "2026-01-01T00:00:00Z",
        "repository": {"nameWithOwner": "octo/app"},
        "author": None,
        "milestone": None,
        "labels": {"nodes": []},
        "assignees": {"nodes": []},
    }
    return {key: value for key, value in (good | changes).items() if value is not ...}


def pull(**changes: object) -> dict[str, Any]:
    url, links = "https://github.com/octo/app/pull/15", {"nodes": []}
    own = {"__typename": "PullRequest", "state": ..., "stateReason": ..., "url": url, "closingIssuesReferences": links}
    return node(**(own | {"pullState": "MERGED"} | changes))


def fact(item: object, *errors: PathError, **repo: object) -> Fact[WorkItem]:
    _, places = items_query([REF])
    data = {"r0": {"nameWithOwner": "octo/app", "i15": item} | repo}
    return item_facts(places, Answer(data, errors))[REF]


@pytest.mark.parametrize(
    "item",
    [
        None,
        {},
        [],
        "open",
        node(__typename="Discussion"),
        node(__typename=...),
        node(state="LOCKED"),
        node(state="MERGED"),
        node(state=None),
        node(state=...),
        pull(pullState="DRAFT"),
        pull(pullState=..., state="CLOSED"),
        node(number=16),
        node(number=16, url="https://github.com/octo/app/issues/16"),
        node(number="15"),
        node(number=True),
        node(url="https://github.com/octo/app/issues/16"),
        node(url="https://github.com/octo/other/issues/15"),
        node(url="https://ghe.example.test/octo/app/issues/15"),
        node(url="https://github.com/octo/app/pull/15"),
        node(repository=None),
        node(repository={"nameWithOwner": "octo"}),
        node(repository={"nameWithOwner": "a/b/c"}),
        node(id=None),
        node(labels=None),
        node(labels={"nodes": [None]}),
        node(labels={"nodes": [{"name": None}]}),
        node(assignees={"nodes": None}),
        node(closedAt="yesterday"),
        node(closedAt="0001-01-01T00:00:00+23:59"),
        node(url="https://[::1"),
        node(stateReason=3),
        node(author={"login": 3}),
        pull(closingIssuesReferences=None),
        pull(closingIssuesReferences={"nodes": [None]}),
    ],
)
def test_what_is_not_said_outright_is_unknown(item: object) -> None:
    assert isinstance(fact(node()), Known)
    assert isinstance(fact(pull()), Known)
    found = fact(item)
    assert isinstance(found, Unknown)
    assert found.kind == UNOBSERVED
    assert found.reason.startswith("GitHub: ")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PathError(("r0", "i15"), "NOT_FOUND", "no"), NOT_FOUND.reason),
        (PathError(("r0", "i15"), "FORBIDDEN", "protected by organization SAML enforcement"), "GitHub: protected by"),
        (
            PathError(("r0", "i15", "x"), "INSUFFICIENT_SCOPES", "no"),
            "GitHub: no: run gh auth refresh --hostname github.com",
        ),
        (PathError(("r0", "i15"), "FORBIDDEN", "no"), "forbidden"),
        (PathError(("r0",), "FORBIDDEN", "no"), "forbidden"),
        (PathError(("r0",), "NOT_FOUND", "no"), "GitHub: repository octo/app not found (or not visible)"),
        (PathError(("r0",), "INTERNAL", "no"), "GitHub: no"),
        (PathError(("r0", "i15"), "", "no"), "GitHub: no"),
        (PathError(("r0", "i15"), "", ""), "GitHub: the item could not be read"),
        (PathError(("r0", "i15", "labels"), "NOT_FOUND", "no"), "GitHub: no"),
        (PathError(("r0", "i15", "labels"), "FORBIDDEN", "no"), "GitHub: no"),
        (PathError(("r0", "i16"), "NOT_FOUND", "no"), "GitHub: no answer (i15 is missing)"),
        (PathError(("r1",), "NOT_FOUND", "no"), "GitHub: no answer (i15 is missing)"),
    ],
)
def test_an_error_within_an_answer(error: PathError, expected: str) -> None:
    found = fact(None, error)
    assert (found.value.state if isinstance(found, Known) else found.reason).startswith(expected)


def test_not_found_proves_nothing_when_the_repository_did_not_answer() -> None:
    error = PathError(("r0", "i15"), "NOT_FOUND", "no")
    assert fact(None, error) is NOT_FOUND
    assert fact(None, error, nameWithOwner=None) != NOT_FOUND
    assert fact(None, error, nameWithOwner="octo/renamed") is NOT_FOUND
    _, places = items_query([REF])
    assert isinstance(item_facts(places, Answer({"r0": None}, (error,)))[REF], Unknown)


@pytest.mark.parametrize(
    ("name", "number"), [("octo/elsewhere", 15), ("octo/elsewhere", 3), ("other/app", 15), ("octo/app2", 15)]
)
def test_an_item_that_stands_elsewhere_has_moved(name: str, number: int) -> None:
    found = fact(
        node(repository={"nameWithOwner": name}, number=number, url=f"https://github.com/{name}/issues/{number}")
    )
    assert isinstance(found, Known)
    assert (found.value.ref, found.value.state, found.value.moved_to) == (REF, "moved", f"github:{name}#{number}")


def test_letter_case_is_no_move() -> None:
    item = node(repository={"nameWithOwner": "Octo/App"}, url="https://GitHub.com/Octo/App/issues/15")
    found = fact(item, nameWithOwner="Octo/App")
    assert isinstance(found, Known)
    assert found.value.state == "closed"


def reply(status: str, body: object, code: int = 0, headers: str = "", stderr: str = "") -> Answer | Failure:
    text = body if isinstance(body, str) else json.dumps(body)
    http = read_http(f"HTTP/2.0 {status}\n{headers}\r\n{text}".encode())
    assert http
    return read_reply(http, code, stderr, "github.com")


@pytest.mark.parametrize(
    "body",
    [
        [],
        "null",
        {},
        {"data": None},
        {"data": []},
        {"data": {}, "errors": "bad"},
        {"data": {}, "errors": ["bad"]},
        {"data": {}, "errors": [{"message": "no path"}]},
        {"data": {}, "errors": [{"message": "odd path", "path": "r0"}]},
        {"data": {}, "errors": [{"message": "odd path", "path": [None]}]},
        {"data": {}, "errors": [{"message": "limit", "type": "RATE_LIMIT", "path": ["r0"]}]},
        {"errors": [{"message": "gone", "type": "NOT_FOUND", "path": ["r0"]}]},
        "[" * 100_000,
        '{"data": {}}\n{"data": {}}',
        '[{"data": {}}]',
    ],
)
def test_an_answer_of_another_shape_is_a_failure(body: object) -> None:
    assert isinstance(reply("200 OK", {"data": {}}), Answer)
    assert isinstance(reply("200 OK", body, code=1), Failure)


def test_a_good_answer_of_a_gh_that_failed_is_a_failure_unless_the_errors_explain_it() -> None:
    assert isinstance(reply("200 OK", {"data": {}}, code=1, stderr="unexpected EOF"), Failure)
    partial = reply("200 OK", {"data": {}, "errors": [{"path": ["r0"], "type": "X", "message": "m"}]}, code=1)
    assert partial == Answer({}, (PathError(("r0",), "X", "m"),))


@pytest.mark.parametrize(
    ("status", "headers", "message", "stop", "transient", "wait"),
    [
        ("403 Forbidden", "", "no access", True, False, None),
        ("403 Forbidden", "Retry-After: 30\r\n", "slow down", True, False, 30),
        ("403 Forbidden", "X-Ratelimit-Remaining: 0\r\n", "limit", True, False, None),
        ("403 Forbidden", "X-Ratelimit-Remaining: 7\r\n", "secondary rate limit", True, False, None),
        ("403 Forbidden", "", "You have triggered an abuse detection mechanism", True, False, None),
        ("429 Too Many Requests", "Retry-After: soon\r\n", "x", True, False, None),
        ("401 Unauthorized", "", "Bad credentials", True, False, None),
        ("500 Internal Server Error", "", "x", False, True, None),
        ("502 Bad Gateway", "", "x", False, True, None),
        ("504 Gateway Timeout", "", "x", False, True, None),
        ("301 Moved Permanently", "", "x", False, False, None),
        ("404 Not Found", "", "x", False, False, None),
        ("410 Gone", "", "x", False, False, None),
    ],
)
def test_what_a_status_means(
    status: str, headers: str, message: str, stop: bool, transient: bool, wait: int | None
) -> None:
    failure = reply(status, {"message": message}, code=1, headers=headers)
    assert isinstance(failure, Failure)
    assert (failure.stop, failure.transient, failure.retry_after) == (stop, transient, wait)
    assert f"(HTTP {status[:3]})" in failure.reason
    limited = "rate limit" in failure.reason
    assert limited == (status[:3] == "429" or headers != "" or "secondary" in message or "abuse" in message)


def test_foreign_text_becomes_one_short_printable_line() -> None:
    assert clean("\n gh: a\x1b[31m\tb\u2028c\ud800 \n next") == "a [31m b"
    assert len(clean("x" * 1000)) == 200
    assert clean("") == ""


def connection(*nodes: object, total: object = None, more: object = False, cursor: object = "c") -> dict[str, object]:
    info = {"hasNextPage": more, "endCursor": cursor}
    return {"totalCount": len(nodes) if total is None else total, "pageInfo": info, "nodes": list(nodes)}


def page(answer: object, want: Want | None = None) -> Page | Unknown:
    data = {"r0": {"nameWithOwner": "octo/app", "issues": answer}}
    return listing_page(want or Want("octo/app", "issues"), "r0", "github.com", Answer(data))


OPEN = node(state="OPEN", stateReason=None, closedAt=None)


def test_what_github_repeats_is_not_repeated() -> None:
    found = page(connection(OPEN, total={"nodes": ["x" * 5000]}))
    assert found == Unknown("GitHub: listing of octo/app: cut at 1 of an unknown number")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        connection(OPEN, total=2),
        connection(OPEN, total="1"),
        connection(OPEN, more=None),
        connection(OPEN, more=True, cursor=None),
        connection(total=5, more=True),
        connection(None, OPEN),
        connection(node()),
        connection(pull(pullState="OPEN", closedAt=None)),
        connection(
            node(state="OPEN", repository={"nameWithOwner": "octo/x"}, url="https://github.com/octo/x/issues/15")
        ),
        {**connection(OPEN), "pageInfo": None},
        {**connection(OPEN), "nodes": None},
    ],
)
def test_a_page_with_a_gap_or_a_surprise_is_unknown(answer: object) -> None:
    good = page(connection(OPEN))
    assert isinstance(good, Page)
    assert good.next is None
    assert isinstance(page(answer), Unknown)


def test_a_listing_that_goes_in_circles_is_unknown() -> None:
    first = page(connection(OPEN, total=9, more=True))
    assert isinstance(first, Page)
    assert first.next == Want("octo/app", "issues", "c", 1)
    assert isinstance(page(connection(OPEN, total=9, more=True), first.next), Unknown)


def test_batches_ask_for_each_item_once_whatever_its_letter_case() -> None:
    refs = [WorkItemRef.parse(f"github:octo/app#{n}") for n in range(1, 151)]
    again = [WorkItemRef.parse(f"github:OCTO/app#{n}") for n in range(1, 151)]
    assert [len(batch) for batch in batches(refs + again)] == [100, 50]
    assert batches([]) == []
    query, places = items_query([refs[0], WorkItemRef.parse("github:OCTO/App#2")])
    assert query.text.count("repository(owner") == 1
    assert [place.item for place in places] == ["i1", "i2"]


def test_a_label_and_a_cursor_cannot_change_the_query() -> None:
    label = 'a") { viewer { login } } #"'
    query, _ = listing_query([Want("octo/app", "issues", '"} evil')], label)
    assert label not in query.text
    assert query.variables == {"labels": [label]}
    assert r'after: "\"} evil"' in query.text


def test_repositories_are_owned_by_host_without_letter_case() -> None:
    provider = GitHub(GitHubApi("ghe.example.test", {}), ["Octo/App", "GHE.example.test/octo/web"])
    assert provider.owns(WorkItemRef.parse("github:GHE.example.test/octo/APP#1"))
    assert provider.owns(WorkItemRef.parse("github:ghe.example.test/octo/web#1"))
    assert not provider.owns(WorkItemRef.parse("github:octo/app#1"))
    assert not provider.owns(WorkItemRef.parse("github:ghe.example.test/octo/other#1"))
    assert not provider.owns(WorkItemRef.parse("items:octo/app#1"))
    assert provider.describe() == "ghe.example.test: Octo/App, octo/web"
    with pytest.raises(ValueError, match=r"is not on github\.com"):
        GitHub(GitHubApi("github.com", {}), ["ghe.example.test/octo/app"])


def test_repository_names_are_read_with_or_without_a_host() -> None:
    assert repository("octo/app") == ("github.com", "octo/app")
    assert repository("octo/app", "ghe.example.test") == ("ghe.example.test", "octo/app")
    assert repository("ghe.example.test/octo/app") == ("ghe.example.test", "octo/app")
    for wrong in ("octo", "", "a/b/c/d", "octo/a b", "octo/app#1", "https://github.com/octo/app"):
        with pytest.raises(ValueError, match="is no repository"):
            repository(wrong)


def test_the_environment_of_gh() -> None:
    kept = {"GH_TOKEN": "a", "GITHUB_TOKEN": "b", "GH_ENTERPRISE_TOKEN": "c", "GH_CONFIG_DIR": "/c", "HTTPS_PROXY": "p"}
    env = gh_env(kept | {"GH_HOST": "h", "GH_REPO": "r", "GH_DEBUG": "api", "GH_FORCE_TTY": "1", "GH_PAGER": "less"})
    assert env.items() >= kept.items()
    assert not env.keys() & {"GH_HOST", "GH_REPO", "GH_DEBUG", "GH_FORCE_TTY"}
    assert (env["GH_PAGER"], env["GH_PROMPT_DISABLED"], env["GH_TELEMETRY"]) == ("cat", "1", "false")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_says_that_an_item_is_elsewhere(status: int) -> None:
    ref = WorkItemRef.parse("github:octo/app#1")
    found = lookup_fact(ref, Http(status, "", {}, b""))
    assert isinstance(found, Known)
    assert (found.value.state, found.value.moved_to) == ("moved", "")


def test_single_sign_on_without_its_header_has_a_remedy() -> None:
    said = reply("403 Forbidden", {"message": "Resource protected by organization SAML enforcement."})
    assert isinstance(said, Failure)
    assert "authorise the token for single sign-on" in said.reason


@pytest.mark.parametrize(
    "said", [None, [], {}, {"cost": -1, "remaining": 2, "limit": 3}, {"cost": "1", "remaining": 2, "limit": 3}]
)
def test_a_server_without_rate_limits_has_no_budget(said: object) -> None:
    answer = reply("200 OK", {"data": {"rateLimit": said}})
    assert isinstance(answer, Answer)
    assert answer.budget is None


def test_a_status_line_is_not_repeated_at_length() -> None:
    failure = reply("999 " + "9" * 3000, {}, code=1)
    assert isinstance(failure, Failure)
    assert len(failure.reason) < 250


def test_half_a_character_in_an_answer_can_be_stored() -> None:
    body = rb'{"data": {"id": "I\ud800", "\uDFFF": [["\ud83e\udd80 \\ud800"]]}}'
    answer = read_reply(Http(200, "OK", {}, body), 0, "", "github.com")
    assert isinstance(answer, Answer)
    assert answer.data == {"id": "I\ufffd", "\ufffd": [["\U0001f980 \\ud800"]]}
