"""What GraphQL does not find, and servers that do not know all that is asked: real gh, fake GitHub."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.adapters.github_lookup import MOST, lookup_fact
from loopctl.adapters.github_reply import Http
from loopctl.model.facts import Known, Unknown
from loopctl.model.refs import WorkItemRef
from tests.fake_github import FakeGitHub, faults

pytestmark = pytest.mark.gh

Make = Callable[..., GitHub]


@pytest.fixture
def make(fake_github: FakeGitHub, gh: str) -> Make:
    def make(*repos: str, **options: object) -> GitHub:
        api = GitHubApi("github.com", os.environ | fake_github.env(), gh, **options)  # type: ignore[arg-type]
        return GitHub(api, repos or ("octo/app",))

    return make


def ref(text: str) -> WorkItemRef:
    return WorkItemRef.parse(text, "github")


def state(provider: GitHub, text: str) -> str:
    fact = provider.get([ref(text)])[ref(text)]
    return f"{fact.value.state} {fact.value.reason}".strip() if isinstance(fact, Known) else fact.reason


def test_a_transfer_is_followed_to_its_end(fake_github: FakeGitHub, make: Make) -> None:
    fake_github.issue("octo/app", 1, "CLOSED")
    fake_github.transfer("octo/app", 1, "octo/b", 2)
    fake_github.transfer("octo/b", 2, "octo/c", 3)
    fact = make().get([ref("octo/app#1")])[ref("octo/app#1")]
    assert isinstance(fact, Known)
    assert (fact.value.state, fact.value.moved_to) == ("moved", "github:octo/c#3")
    # The node id of a transferred issue is a new one, so it says nothing of the old item.
    assert fact.value.node_id == ""


def test_a_transfer_within_an_enterprise_host(fake_github: FakeGitHub, gh: str) -> None:
    ghe = fake_github.at("ghe.example.test")
    ghe.issue("octo/app", 1)
    ghe.transfer("octo/app", 1, "octo/b", 2)
    api = GitHubApi("ghe.example.test", os.environ | fake_github.env(), gh)
    one = WorkItemRef.parse("github:ghe.example.test/octo/app#1")
    fact = GitHub(api, ["octo/app"]).get([one])[one]
    assert isinstance(fact, Known)
    assert (fact.value.state, fact.value.moved_to) == ("moved", "github:ghe.example.test/octo/b#2")
    assert {request.host for request in fake_github.requests} == {"ghe.example.test"}


def test_a_few_are_looked_up_and_each_has_its_turn(fake_github: FakeGitHub, make: Make) -> None:
    refs = [ref(f"octo/app#{number}") for number in range(1, 13)]
    for one in refs:
        fake_github.issue("octo/app", one.number)
        fake_github.delete("octo/app", one.number)
    proved: Counter[WorkItemRef] = Counter()
    for hour in range(3):
        fake_github.requests.clear()
        provider = make(now=lambda hour=hour: hour * 3600.0 + 7)
        first, again = provider.get(refs), provider.get(refs)
        assert first == again
        known = [one for one in refs if isinstance(first[one], Known)]
        assert len(known) == MOST
        assert len(fake_github.requests) == 2 * (1 + MOST)
        (reason,) = {fact.reason for fact in first.values() if isinstance(fact, Unknown)}
        assert reason.startswith("GitHub: 12 items were not found, and 5 an hour are looked up")
        proved.update(known)
    assert set(proved) == set(refs)
    assert state(make(), "octo/app#12") == "missing deleted"


def test_a_limit_during_look_ups_ends_them(fake_github: FakeGitHub, make: Make) -> None:
    refs = [ref(f"octo/app#{number}") for number in range(1, 5)]
    fake_github.issue("octo/app", 100)
    fake_github.fail_later(faults.TOO_MANY, after=2)
    provider = make()
    facts = provider.get(refs)
    assert [isinstance(facts[one], Known) for one in refs] == [True, False, False, False]
    assert len(fake_github.requests) == 3
    assert "rate limit" in state(provider, "octo/app#100")
    assert len(fake_github.requests) == 3


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b""),
        (200, b"[]"),
        (200, b'{"html_url": 3}'),
        (200, b'{"html_url": "https://github.com/octo/new/discussions/4"}'),
        (200, b'{"html_url": "https://ghe.corp/octo/new/issues/4"}'),
        (200, b'{"html_url": "https://github.com/octo/new/issues/0"}'),
        (200, b'{"html_url": "https://github.com/OCTO/app/issues/1"}'),
        (202, b"{}"),
        (403, b"{}"),
        (451, b"{}"),
        (500, b"<html>"),
    ],
)
def test_a_look_up_proves_only_what_it_says(status: int, body: bytes) -> None:
    assert isinstance(lookup_fact(ref("octo/app#1"), Http(410, "", {}, b"")), Known)
    assert isinstance(lookup_fact(ref("octo/app#1"), Http(status, "", {}, body)), Unknown)


def test_a_server_that_knows_less_is_asked_for_less(fake_github: FakeGitHub, make: Make) -> None:
    fake_github.old = True
    fake_github.issue("octo/app", 1, "CLOSED")
    fake_github.issue("octo/app", 2)
    fake_github.pull("octo/app", 3, "MERGED", closes=("octo/app#1",))
    provider = make()
    assert [state(provider, f"octo/app#{number}") for number in (1, 2, 3)] == ["closed completed", "open", "merged"]
    assert len(fake_github.requests) == 4
    assert isinstance(provider.listed(), Known)
    fresh = make()
    listed = fresh.listed()
    assert isinstance(listed, Known)
    assert [item.ref.number for item in listed.value] == [2]


def test_an_error_that_is_no_old_server_is_not_asked_again(fake_github: FakeGitHub, make: Make) -> None:
    fake_github.fail(faults.BROKEN_QUERY)
    assert state(make(), "octo/app#1") == "GitHub: Something went wrong while executing your query."
    assert len(fake_github.requests) == 1


def test_node_ids_are_asked_for_in_one_format(fake_github: FakeGitHub, make: Make) -> None:
    fake_github.issue("octo/app", 1)
    state(make(), "octo/app#1")
    assert fake_github.requests[0].next_global_id == "1"


def test_links_and_hints_of_a_listed_pull_request(fake_github: FakeGitHub, make: Make) -> None:
    fake_github.issue("octo/app", 1)
    fake_github.issue("octo/web", 2)
    fake_github.pull("octo/app", 3, closes=("octo/web#2",), branch="ann/issue-1-x", body="Fixes: octo/web#2, closes #4")
    listed = make().listed()
    assert isinstance(listed, Known)
    (pull,) = [item for item in listed.value if item.kind == "pull_request"]
    assert pull.links == (ref("octo/web#2"),)
    assert pull.hints == (ref("octo/app#1"), ref("octo/app#4"))
