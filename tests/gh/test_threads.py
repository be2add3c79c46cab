"""What is said on items of GitHub, read through real gh from the fake GitHub."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from loopctl.adapters import github_threads
from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.model.facts import OUTSIDE, Fact, Known, Unknown
from loopctl.model.refs import WorkItemRef
from loopctl.model.talk import CONVERSATION, INLINE, OUR_MARK, REVIEW, Comment
from tests.fake_github import FakeGitHub, faults
from tests.fake_github.world import Inline

pytestmark = pytest.mark.gh

REPO = "octo/app"


def ref(number: int, repo: str = REPO) -> WorkItemRef:
    return WorkItemRef.parse(f"{repo}#{number}", "github")


def at(minute: int) -> str:
    return f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z"


@pytest.fixture
def provider(fake_github: FakeGitHub, gh: str) -> GitHub:
    fake_github.issue(REPO, 1)
    fake_github.pull(REPO, 2)
    return GitHub(GitHubApi("github.com", gh=gh, timeout=60, env=dict(os.environ) | fake_github.env()), (REPO,))


def known(fact: Fact[tuple[Comment, ...]]) -> tuple[Comment, ...]:
    assert isinstance(fact, Known), fact
    return fact.value


def read(provider: GitHub, number: int) -> tuple[Comment, ...]:
    return known(provider.threads([ref(number)])[ref(number)])


def test_comments_reviews_and_comments_beside_lines_are_read_in_one_call(
    provider: GitHub, fake_github: FakeGitHub
) -> None:
    fake_github.said(REPO, 1, "on the issue", "alice", at(1))
    fake_github.said(REPO, 2, "second", "alice", at(4))
    fake_github.review(REPO, 2, "a review", "bob", at(3), Inline("beside a line", "src/a.py"))
    fake_github.review(REPO, 2, "", "dependabot[bot]", at(5), Inline("only beside a line", "src/b.py"))
    fake_github.review(REPO, 2, "not sent yet", "octocat", at(6), Inline("nor this"), state="PENDING")
    fake_github.review(REPO, 2, " \n", "bob", at(7), state="APPROVED")
    fake_github.said(REPO, 2, "gone", None, at(8))
    threads = provider.threads([ref(1), ref(2)])
    assert [comment.body for comment in known(threads[ref(1)])] == ["on the issue"]
    assert [(c.body, c.author, c.kind, c.path) for c in known(threads[ref(2)])] == [
        ("a review", "bob", REVIEW, ""),
        ("beside a line", "bob", INLINE, "src/a.py"),
        ("second", "alice", CONVERSATION, ""),
        ("only beside a line", "dependabot[bot]", INLINE, "src/b.py"),
        ("gone", "", CONVERSATION, ""),
    ]
    first, beside, *_ = known(threads[ref(2)])
    assert first.published_at == beside.published_at == datetime(2026, 1, 1, 0, 3, tzinfo=UTC)
    assert len({c.id for c in known(threads[ref(2)])}) == 5
    assert first.url == "https://github.com/octo/app/pull/2#pullrequestreview-3"
    assert len(fake_github.requests) == 1
    assert [(q.what, q.calls, q.items) for q in provider.asked()] == [("comments on github.com", 1, 2)]


def test_ours_is_what_carries_our_mark_and_was_written_by_who_asks(provider: GitHub, fake_github: FakeGitHub) -> None:
    for minute, (body, author) in enumerate(
        ((f"{OUR_MARK}running -->\nhello", "octocat"), ("by hand", "octocat"), (f"> {OUR_MARK}running -->", "mallory"))
    ):
        fake_github.said(REPO, 1, body, author, at(minute))
    assert [comment.ours for comment in read(provider, 1)] == [True, False, False]


def test_long_threads_are_read_to_their_beginning(provider: GitHub, fake_github: FakeGitHub) -> None:
    fake_github.page_size = 3
    for minute in range(7):
        fake_github.said(REPO, 1, f"comment {minute}", "alice", at(minute))
        fake_github.review(
            REPO, 2, f"review {minute}", "bob", at(10 * minute), *[Inline(f"{minute}.{n}") for n in range(minute)]
        )
    threads = provider.threads([ref(1), ref(2)])
    assert [comment.body for comment in known(threads[ref(1)])] == [f"comment {minute}" for minute in range(7)]
    bodies = [comment.body for comment in known(threads[ref(2)])]
    assert sorted(bodies) == sorted(
        [f"review {m}" for m in range(7)] + [f"{m}.{n}" for m in range(7) for n in range(m)]
    )
    assert len(fake_github.requests) <= 5


def test_a_thread_without_end_is_unknown_and_not_cut(
    provider: GitHub, fake_github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(github_threads, "ROUNDS", 2)
    fake_github.page_size = 1
    fake_github.said(REPO, 1, "one", "alice", at(1))
    for minute in range(3):
        fake_github.said(REPO, 2, "many", "alice", at(minute))
    threads = provider.threads([ref(1), ref(2)])
    assert len(known(threads[ref(1)])) == 1
    assert threads[ref(2)] == Unknown("GitHub: github:octo/app#2 has too many comments to be read")


def test_what_could_not_be_read_is_unknown_and_concerns_that_item_only(
    provider: GitHub, fake_github: FakeGitHub
) -> None:
    fake_github.said(REPO, 1, "one", "alice", at(1))
    fake_github.break_field(REPO, 2, "reviews")
    threads = provider.threads([ref(1), ref(2), ref(3), ref(1, "octo/other")])
    assert len(known(threads[ref(1)])) == 1
    assert threads[ref(2)] == Unknown("GitHub: A part of the answer timed out.")
    missing, other = threads[ref(3)], threads[ref(1, "octo/other")]
    assert isinstance(missing, Unknown)
    assert "Could not resolve" in missing.reason
    assert isinstance(other, Unknown)
    assert other.kind == OUTSIDE
    fake_github.impostor(REPO, 1, 2)
    fake_github.broken_fields.clear()
    assert "answered with #2 instead of #1" in str(provider.threads([ref(1)]))


def test_a_failure_of_a_later_page_spoils_the_thread(provider: GitHub, fake_github: FakeGitHub) -> None:
    fake_github.page_size = 1
    for minute in range(3):
        fake_github.said(REPO, 1, "many", "alice", at(minute))
    fake_github.fail_later(faults.BAD_GATEWAY)
    (fact,) = provider.threads([ref(1)]).values()
    assert isinstance(fact, Unknown)
    assert "502" in fact.reason
