"""The GitHub provider through real gh, against the fake GitHub."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.model.facts import OUTSIDE, UNOBSERVED, Fact, Known, Unknown
from loopctl.model.items import WorkItem
from loopctl.model.refs import WorkItemRef
from tests.fake_github import FakeGitHub, faults

pytestmark = pytest.mark.gh

Make = Callable[..., GitHub]


def ref(text: str) -> WorkItemRef:
    return WorkItemRef.parse(text, "github")


@pytest.fixture
def make(fake_github: FakeGitHub, gh: str) -> Make:
    def make(*repos: str, label: str = "", host: str = "github.com", **options: object) -> GitHub:
        monitors = {name: options.pop(name) for name in list(options) if name.startswith("monitor")}
        options = {"gh": gh, "timeout": 60, "env": dict(os.environ) | fake_github.env()} | options
        api = GitHubApi(host, **options)  # type: ignore[arg-type]
        return GitHub(api, repos or ("octo/app",), label, **monitors)  # type: ignore[arg-type]

    return make


@pytest.fixture
def world(fake_github: FakeGitHub) -> FakeGitHub:
    fake_github.issue("octo/app", 1)
    fake_github.issue("octo/app", 2, "CLOSED", state_reason="COMPLETED")
    fake_github.issue("octo/app", 3, "CLOSED", state_reason="NOT_PLANNED")
    fake_github.issue("octo/app", 4, "CLOSED", state_reason="DUPLICATE")
    fake_github.issue("octo/app", 5, "CLOSED", state_reason=None)
    fake_github.issue("octo/app", 6, "CLOSED", state_reason="WONTFIX_2027")
    fake_github.issue("octo/app", 7, "OPEN", author=None)
    fake_github.pull("octo/app", 11)
    fake_github.pull("octo/app", 12, "CLOSED")
    fake_github.pull("octo/app", 13, "MERGED", closes=("octo/app#2", "octo/web#8"))
    fake_github.issue("octo/web", 8, "CLOSED")
    return fake_github


def one(provider: GitHub, text: str) -> Fact[WorkItem]:
    return provider.get([ref(text)])[ref(text)]


def known(fact: Fact[WorkItem]) -> WorkItem:
    assert isinstance(fact, Known), fact
    return fact.value


def unknown(fact: Fact[object]) -> str:
    assert isinstance(fact, Unknown), fact
    assert fact.kind == UNOBSERVED
    return fact.reason


@pytest.mark.parametrize(
    ("number", "kind", "state", "reason"),
    [
        (1, "issue", "open", ""),
        (2, "issue", "closed", "completed"),
        (3, "issue", "closed", "not_planned"),
        (4, "issue", "closed", "duplicate"),
        (5, "issue", "closed", ""),
        (6, "issue", "closed", "wontfix_2027"),
        (7, "issue", "open", ""),
        (11, "pull_request", "open", ""),
        (12, "pull_request", "closed", ""),
        (13, "pull_request", "merged", ""),
        (99, "", "missing", "not_found"),
    ],
)
def test_what_is_said_of_an_item(
    world: FakeGitHub, make: Make, number: int, kind: str, state: str, reason: str
) -> None:
    item = known(one(make(), f"octo/app#{number}"))
    assert (item.kind, item.state, item.reason) == (kind, state, reason)


def test_all_that_is_known_of_an_item(world: FakeGitHub, make: Make) -> None:
    world.pull("octo/app", 13, "MERGED", title="Ünï", labels=("loop", "a b"), author="ann", assignees=("bob",),
               milestone="v1", closes=("octo/app#2", "octo/web#8"), closed_at="2026-03-04T05:06:07Z")  # fmt: skip
    item = known(one(make(), "Octo/APP#13"))
    assert item.ref == ref("octo/app#13")
    assert (item.title, item.author, item.milestone, item.node_id) == ("Ünï", "ann", "v1", "PR_R_1_13")
    assert (item.labels, item.assignees) == ({"loop", "a b"}, {"bob"})
    assert item.links == (ref("octo/app#2"), ref("octo/web#8"))
    assert item.url == "https://github.com/octo/app/pull/13"
    assert item.closed_at is not None
    assert item.closed_at.isoformat() == "2026-03-04T05:06:07+00:00"
    assert item.updated_at is not None


def test_items_of_many_repositories_take_one_call(world: FakeGitHub, make: Make) -> None:
    refs = [ref(f"octo/app#{n}") for n in (1, 2, 13, 99)] + [ref("octo/web#8"), ref("octo/gone#1"), ref("OCTO/app#1")]
    provider = make("octo/app", "octo/web", "octo/gone")
    facts = provider.get(refs)
    assert [request.path for request in world.requests] == ["/graphql", "/repos/octo/app/issues/99"]
    assert set(facts) == set(refs)
    assert [known(facts[r]).state for r in refs[:5]] == ["open", "closed", "merged", "missing", "closed"]
    assert unknown(facts[ref("octo/gone#1")]) == "GitHub: repository octo/gone not found (or not visible)"
    (question,) = provider.asked()
    assert (question.calls, question.items, question.cost, question.remaining) == (2, 6, 1, 4999)


def test_calls_are_one_for_each_hundred_items(fake_github: FakeGitHub, make: Make) -> None:
    for number in range(1, 252):
        fake_github.issue(f"octo/r{number % 7}", number, "CLOSED" if number % 2 else "OPEN")
    refs = [ref(f"octo/r{number % 7}#{number}") for number in range(1, 252)]
    facts = make(*(f"octo/r{n}" for n in range(7))).get(refs)
    assert len(fake_github.requests) == 3
    assert [known(facts[r]).state for r in refs] == ["closed" if r.number % 2 else "open" for r in refs]


def test_one_bad_item_is_one_unknown(world: FakeGitHub, make: Make) -> None:
    world.break_item("octo/app", 1, "SOMETHING_NEW", "Something went wrong.")
    world.break_item("octo/app", 3, "FORBIDDEN", "Resource not accessible by personal access token")
    world.break_field("octo/app", 12, "labels")
    world.impostor("octo/app", 4, 2)
    facts = make().get([ref(f"octo/app#{n}") for n in (1, 2, 3, 4, 12, 13)])
    said = {r.number: fact.reason if isinstance(fact, Unknown) else fact.value.state for r, fact in facts.items()}
    assert said == {
        1: "GitHub: Something went wrong.",
        2: "closed",
        3: "forbidden",
        4: "GitHub: answered with #2 instead of #4",
        12: "GitHub: A part of the answer timed out.",
        13: "merged",
    }


def test_a_repository_that_does_not_answer_proves_nothing_of_its_items(world: FakeGitHub, make: Make) -> None:
    world.hide("octo/app")
    assert "not found (or not visible)" in unknown(one(make(), "octo/app#2"))


def test_a_renamed_repository_has_the_same_items_at_a_new_address(world: FakeGitHub, make: Make) -> None:
    before = known(one(make(), "octo/app#2"))
    world.rename("octo/app", "octo/application")
    item = known(one(make(), "octo/app#2"))
    assert (item.ref, item.state, item.node_id) == (before.ref, "closed", before.node_id)
    assert item.moved_to == "github:octo/application#2"
    assert known(one(make(), "octo/app#99")).state == "missing"
    listed = make().listed()
    assert isinstance(listed, Known)
    assert {str(item.ref): item.moved_to for item in listed.value}["github:octo/app#1"] == "github:octo/application#1"
    both = make("octo/app", "octo/application")
    assert "octo/app is octo/application now: name only one" in unknown(both.listed())


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faults.BAD_GATEWAY, "GitHub: Bad Gateway (HTTP 502)"),
        (faults.UNAVAILABLE, "GitHub: No server is currently available to service your request. (HTTP 503)"),
        (faults.FORBIDDEN, "GitHub: Resource not accessible by personal access token (HTTP 403)"),
        (faults.SECONDARY, "GitHub: You have exceeded a secondary rate limit. Please wait a few minutes. (HTTP 403)"),
        (faults.SECONDARY_WITH_WAIT, "GitHub: You have exceeded a secondary rate limit. (HTTP 403)"),
        (faults.PRIMARY, "GitHub: API limit reached (HTTP 403), rate limit"),
        (faults.TOO_MANY, "GitHub: Too many requests (HTTP 429), rate limit"),
        (faults.RATE_LIMITED, "GitHub: API rate limit exceeded for user ID 1."),
        (faults.BROKEN_QUERY, "GitHub: Something went wrong while executing your query."),
        (faults.BAD_CREDENTIALS, "GitHub: Bad credentials (HTTP 401): run gh auth login --hostname github.com"),
        (
            faults.SSO,
            "authorise the token for single sign-on at https://github.com/orgs/octo/sso?authorization_request=1",
        ),
        (faults.HTML_PAGE, "GitHub: the answer is no JSON, empty or cut short"),
        (faults.EMPTY, "GitHub: the answer is no JSON, empty or cut short"),
        (faults.TRUNCATED, "GitHub: "),
        (faults.CUT_JSON, "GitHub: the answer is no JSON, empty or cut short"),
        (faults.GONE, "GitHub: This issue was deleted (HTTP 410)"),
        (faults.MOVED_PERMANENTLY, "GitHub: "),
    ],
)
def test_a_failure_is_unknown_for_all_and_says_why(
    world: FakeGitHub, make: Make, fault: faults.Fault, reason: str
) -> None:
    world_time = [0.0]
    world.fail(fault)
    provider = make(label="loop", clock=lambda: world_time[0])
    facts = provider.get([ref("octo/app#1"), ref("octo/app#2")])
    assert reason in unknown(facts[ref("octo/app#1")])
    assert facts[ref("octo/app#1")] == facts[ref("octo/app#2")]
    assert reason in unknown(provider.listed())
    # A failed call is not made again, and after a rate limit none is.
    assert len(world.requests) == (1 if "rate limit" in reason else 2)
    world.recover()
    world_time[0] += 3600
    assert known(one(provider, "octo/app#2")).state == "closed"


def test_no_answer_in_time_is_unknown(world: FakeGitHub, make: Make) -> None:
    world.fail(faults.HANG)
    assert unknown(one(make(timeout=2), "octo/app#2")) == "GitHub: no answer within 2 s"


def test_a_batch_that_fails_in_passing_leaves_the_others_and_a_limit_ends_the_asking(
    fake_github: FakeGitHub, make: Make
) -> None:
    refs = [ref(f"octo/app#{number}") for number in range(1, 202)]
    for r in refs:
        fake_github.issue("octo/app", r.number, "CLOSED")
    fake_github.fail(faults.BAD_GATEWAY, times=1)
    facts = make().get(refs)
    assert len(fake_github.requests) == 3
    assert sum(isinstance(fact, Unknown) for fact in facts.values()) == 100
    fake_github.requests.clear()
    fake_github.fail(faults.SECONDARY)
    assert {unknown(fact) for fact in make().get(refs).values()} == {
        "GitHub: You have exceeded a secondary rate limit. Please wait a few minutes. (HTTP 403)"
    }
    assert len(fake_github.requests) == 1


def test_no_gh_at_all_is_unknown_with_the_remedy(world: FakeGitHub, make: Make, tmp_path: Path) -> None:
    provider = make(gh="gh", env={"PATH": str(tmp_path)})
    assert unknown(one(provider, "octo/app#2")) == "GitHub: gh was not found. Install gh, or put it on PATH."
    assert "gh was not found" in unknown(provider.listed())


def test_not_logged_in_is_unknown_with_the_remedy(world: FakeGitHub, make: Make, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GH_CONFIG_DIR": str(tmp_path)}
    reason = unknown(one(make(env=env), "octo/app#2"))
    assert reason == "gh is not logged in to github.com: run gh auth login --hostname github.com"
    assert not world.requests


def test_no_network_is_unknown(world: FakeGitHub, make: Make, tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text(f'version: "1"\nhttp_unix_socket: {tmp_path}/none\n')
    env = dict(os.environ) | world.env() | {"GH_CONFIG_DIR": str(tmp_path)}
    assert unknown(one(make(env=env), "octo/app#2")).startswith("GitHub: ")


@pytest.mark.parametrize(
    "output", ["", "no json", "HTTP/1.1 200 OK\n\r\n", 'HTTP/2.0 200 OK\nA: b\r\n\r\n{"data": {}}', "{}"]
)
def test_a_gh_that_prints_something_else_is_unknown(make: Make, tmp_path: Path, output: str) -> None:
    fake = tmp_path / "gh"
    fake.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    assert unknown(one(make(gh=str(fake)), "octo/app#2")).startswith("GitHub: ")
    assert unknown(make(gh=str(fake)).listed()).startswith("GitHub: ")


def test_variables_that_would_mislead_gh_do_not(world: FakeGitHub, make: Make) -> None:
    foreign = {"GH_HOST": "ghe.example.test", "GH_REPO": "evil/repo", "GH_FORCE_TTY": "200", "CLICOLOR_FORCE": "1",
               "GH_DEBUG": "api", "DEBUG": "api", "GH_PAGER": "cat >/dev/null", "PAGER": "cat >/dev/null"}  # fmt: skip
    provider = make(env=dict(os.environ) | world.env() | foreign)
    assert known(one(provider, "octo/app#2")).state == "closed"
    assert {request.host for request in world.requests} == {"api.github.com"}


def test_an_item_of_an_enterprise_host_is_asked_there_and_nowhere_else(make: Make, gh: str) -> None:
    with FakeGitHub("ghe.example.test") as ghe:
        ghe.issue("octo/app", 2, "CLOSED")
        provider = make(host="ghe.example.test", env=dict(os.environ) | ghe.env())
        here, there = ref("ghe.example.test/octo/app#2"), ref("octo/app#2")
        facts = provider.get([here, there])
        assert known(facts[here]).state == "closed"
        assert facts[there] == Unknown("no source answers for github:octo/app#2", OUTSIDE)
        (request,) = ghe.requests
        assert (request.host, request.path) == ("ghe.example.test", "/api/graphql")
        assert request.authorization == "token fake-enterprise-token"


def test_an_answer_from_another_host_is_unknown(make: Make, world: FakeGitHub) -> None:
    provider = make(host="ghe.example.test")  # the fake answers as github.com
    assert "stands at https://github.com" in unknown(one(provider, "ghe.example.test/octo/app#2"))


def test_a_listing_is_read_to_its_end(fake_github: FakeGitHub, make: Make) -> None:
    for number in range(1, 251):
        fake_github.issue("octo/app", number, labels=("Loop",))
    fake_github.issue("octo/app", 900, "CLOSED", labels=("loop",))
    fake_github.issue("octo/app", 901, labels=("other",))
    fake_github.pull("octo/web", 300, labels=("loop", "x"))
    provider = make("octo/app", "octo/web", label="loop")
    listed = provider.listed()
    assert isinstance(listed, Known)
    expected = [f"octo/app#{n}" for n in range(1, 251)] + ["octo/web#300"]
    assert sorted(item.ref.number for item in listed.value) == [ref(text).number for text in expected]
    assert len(fake_github.requests) == 3
    assert provider.asked()[0].calls == 3


def test_small_pages_many_repositories_and_kinds(fake_github: FakeGitHub, make: Make) -> None:
    fake_github.page_size = 30
    repos = [f"octo/r{n}" for n in range(9)]
    for repo in repos:
        for number in range(1, 36):
            (fake_github.issue if number % 2 else fake_github.pull)(repo, number)
    listed = make(*repos).listed()
    assert isinstance(listed, Known)
    assert len({item.ref for item in listed.value}) == 9 * 35
    only_pulls = make(*repos, monitor_issues=False).listed()
    assert isinstance(only_pulls, Known)
    assert {item.kind for item in only_pulls.value} == {"pull_request"}
    nothing = make(monitor_issues=False, monitor_pulls=False).listed()
    assert nothing == Known(())


@pytest.mark.parametrize("page", [1, 2, 3])
def test_a_listing_that_fails_on_any_page_is_unknown(fake_github: FakeGitHub, make: Make, page: int) -> None:
    for number in range(1, 251):
        fake_github.issue("octo/app", number)
    right = fake_github.next_fault
    fake_github.next_fault = lambda: faults.BAD_GATEWAY if len(fake_github.requests) == page else right()  # type: ignore[method-assign]
    assert unknown(make().listed()) == "GitHub: Bad Gateway (HTTP 502)"


def test_a_listing_with_a_gap_or_a_hidden_repository_is_unknown(world: FakeGitHub, make: Make) -> None:
    world.break_field("octo/app", 1, "labels")
    assert "timed out" in unknown(make().listed())
    world.hide("octo/web")
    assert "octo/web not found" in unknown(make("octo/web").listed())


def test_the_query_is_not_in_the_arguments(
    world: FakeGitHub, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPCTL_TRACE_CALLS", str(tmp_path / "trace"))
    one(make(), "octo/app#2")
    (line,) = (tmp_path / "trace").read_text().splitlines()
    assert '"api", "--hostname", "github.com", "--include", "graphql"' in line
    assert "repository" not in line
