"""Our comment on an item, through real gh, against the fake GitHub."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.model.facts import REFUSED, UNOBSERVED, Known, Unknown
from loopctl.model.refs import WorkItemRef
from tests.fake_github import FakeGitHub, Fault, faults

pytestmark = pytest.mark.gh

REPO = "octo/app"
ISSUE = WorkItemRef.parse(f"{REPO}#1", "github")
PULL = WorkItemRef.parse(f"{REPO}#2", "github")
MARK = "<!-- loopctl:k1 -->"


@pytest.fixture
def hub(fake_github: FakeGitHub) -> FakeGitHub:
    fake_github.issue(REPO, 1)
    fake_github.pull(REPO, 2, "MERGED")
    return fake_github


def provider(hub: FakeGitHub, gh: str = "", **options: object) -> GitHub:
    program = gh or shutil.which("gh") or "gh"
    given = {"gh": program, "timeout": 60, "env": dict(os.environ) | hub.env()} | options
    return GitHub(GitHubApi("github.com", **given), [REPO])  # type: ignore[arg-type]


def bodies(hub: FakeGitHub, number: int = 1) -> list[str]:
    return [remark.body for remark in hub.repository(REPO).remarks.get(number, [])]


def sent(hub: FakeGitHub) -> list[str]:
    """What the requests are about, in order."""
    return ["mutation" if request.query.startswith("mutation") else "query" for request in hub.requests]


def test_a_comment_is_made_once_and_then_brought_up_to_date(hub: FakeGitHub, gh: str) -> None:
    hub.remark(REPO, 1, f"{MARK}\nnot ours", author="mallory")
    hub.remark(REPO, 1, f"> {MARK}\nquoted")
    github = provider(hub, gh)
    url = f"https://github.com/{REPO}/issues/1#issuecomment-3"
    text = 'Zeilen:\n\n    ünï "$(x)" \\ `y`'
    assert github.comment(ISSUE, "k1", text) == Known(url)
    assert bodies(hub)[2:] == [f"{MARK}\n{text}"]
    assert github.comment(ISSUE, "k1", text) == Known(url)
    assert sent(hub) == ["query", "mutation", "query"]
    assert github.comment(ISSUE, "k1", "other words") == Known(url)
    assert github.comment(ISSUE, "k2", "of another state") == Known(url.replace("-3", "-4"))
    assert bodies(hub)[2:] == [f"{MARK}\nother words", "<!-- loopctl:k2 -->\nof another state"]
    assert [question.what for question in github.asked()] == [f"our comment on {ISSUE}"] * 4
    assert github.asked()[0].calls == 2


def test_ours_is_found_however_many_came_after_it(hub: FakeGitHub) -> None:
    hub.page_size = 2
    hub.remark(REPO, 2, f"{MARK}\nold")
    for n in range(4):
        hub.remark(REPO, 2, f"comment {n}")
    assert provider(hub).comment(PULL, "k1", "new") == Known(f"https://github.com/{REPO}/pull/2#issuecomment-1")
    assert bodies(hub, 2)[0] == f"{MARK}\nnew"
    assert (len(bodies(hub, 2)), sent(hub)) == (5, ["query"] * 3 + ["mutation"])


def refused(hub: FakeGitHub, ref: WorkItemRef = ISSUE, text: str = "text") -> str:
    """Why certainly nothing was posted."""
    before = [*bodies(hub)]
    answer = provider(hub).comment(ref, "k1", text)
    assert isinstance(answer, Unknown)
    assert answer.kind == REFUSED
    assert bodies(hub) == before
    return answer.reason


def test_what_takes_no_comment_says_why(hub: FakeGitHub) -> None:
    hub.change(REPO, 1, locked=True)
    hub.may_write = False
    assert refused(hub) == "GitHub: Unable to create comment because issue is locked."
    hub.repository(REPO).archived = True
    assert refused(hub) == "GitHub: Repository was archived so is read-only."
    hub.repository(REPO).archived = False
    hub.change(REPO, 1, locked=False)
    assert refused(hub, text="x" * 65_536) == "GitHub: Body is too long (maximum is 65536 characters)"
    missing = WorkItemRef.parse(f"{REPO}#9", "github")
    assert refused(hub, missing) == "GitHub: Could not resolve to an issue or pull request with the number of 9."
    hub.impostor(REPO, 1, 2)
    assert refused(hub) == "GitHub: answered with #2 instead of #1"


@pytest.mark.parametrize("fault", [faults.BAD_GATEWAY, faults.EMPTY, faults.BROKEN_QUERY])
def test_a_question_that_fails_posts_nothing(hub: FakeGitHub, fault: Fault) -> None:
    hub.fail(fault)
    refused(hub)
    assert sent(hub) == ["query"]


@pytest.mark.parametrize("fault", [faults.SECONDARY, faults.FORBIDDEN, faults.TOO_MANY])
def test_a_mutation_that_is_turned_away_was_not_carried_out(hub: FakeGitHub, fault: Fault) -> None:
    hub.fail_later(fault)
    refused(hub)


def test_a_rate_limit_on_writing_ends_all_calls(hub: FakeGitHub) -> None:
    quick = {"data": {"addComment": None}, "errors": [
        {"type": "UNPROCESSABLE", "path": ["addComment"], "message": "was submitted too quickly"}
    ]}  # fmt: skip
    hub.fail_later(Fault(200, json.dumps(quick).encode(), {"Content-Type": "application/json"}))
    github = provider(hub)
    for _ in range(2):
        answer = github.comment(ISSUE, "k1", "text")
        assert answer == Unknown("GitHub: was submitted too quickly", REFUSED)
    assert len(hub.requests) == 2


@pytest.mark.parametrize("fault", [faults.BAD_GATEWAY, faults.EMPTY, faults.BROKEN_QUERY, faults.TRUNCATED])
def test_where_it_cannot_be_told_it_is_not_sent_again_and_the_next_look_finds_it(hub: FakeGitHub, fault: Fault) -> None:
    hub.fail_later(fault)
    github = provider(hub, patience=600.0, pause=lambda _: pytest.fail("a mutation was about to be sent again"))
    answer = github.comment(ISSUE, "k1", "text")
    assert isinstance(answer, Unknown)
    assert (answer.kind, answer.reason.endswith("whether it was posted is seen the next time")) == (UNOBSERVED, True)
    assert sent(hub) == ["query", "mutation"]
    # A response that was cut off came after the deed.
    assert len(bodies(hub)) == (1 if fault is faults.TRUNCATED else 0)
    assert isinstance(github.comment(ISSUE, "k1", "text"), Known)
    assert bodies(hub) == [f"{MARK}\ntext"]
