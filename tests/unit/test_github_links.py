"""Which issues a pull request's branch and text name."""

from __future__ import annotations

import pytest

from loopctl.adapters.github_links import MOST_HINTS, hints
from loopctl.model.refs import WorkItemRef

PULL = WorkItemRef.parse("github:octo/app#9")


def named(branch: str = "main", body: str = "") -> list[str]:
    return [str(ref).removeprefix("github:") for ref in hints(PULL, branch, body)]


@pytest.mark.parametrize(
    ("branch", "expected"),
    [
        ("issue-5", ["octo/app#5"]),
        ("issue/5", ["octo/app#5"]),
        ("Issue-5", ["octo/app#5"]),
        ("ann/issue-5-dark-mode", ["octo/app#5"]),
        ("feature_issue/12", ["octo/app#12"]),
        ("issue-5-and-issue-6", ["octo/app#5", "octo/app#6"]),
        ("issue-9", []),
        ("tissue-5", []),
        ("issue5", []),
        ("issue-5a", []),
        ("issue-0", []),
        ("issue-007", []),
        ("issue-99999999999", []),
        ("fix-5", []),
        ("issue-x/5", []),
        ("", []),
    ],
)
def test_a_branch(branch: str, expected: list[str]) -> None:
    assert named(branch=branch) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Closes #5", ["octo/app#5"]),
        ("close #5, closed #6 and fixes #7; RESOLVED #8", ["octo/app#5", "octo/app#6", "octo/app#7", "octo/app#8"]),
        ("Fixes: #5", ["octo/app#5"]),
        ("fixed:#5", ["octo/app#5"]),
        ("Resolves other/repo#5", ["other/repo#5"]),
        ("Resolve GH-5", ["octo/app#5"]),
        ("Fix https://github.com/Octo/Web/issues/5.", ["Octo/Web#5"]),
        ("Fix https://ghe.corp/octo/web/issues/5", []),
        ("Fix https://github.com/octo/web/pull/5", []),
        ("Closes #5\r\n\r\nCloses #5 again, closes octo/APP#5", ["octo/app#5"]),
        ("Closes #9", []),
        ("see #5, or discloses #5, prefix #5, unfixed #5", []),
        ("closes #5abc closes #0 closes#5", []),
        ("Closes ../..#5", []),
        ("<!-- Closes #5 -->", []),
        ("<!-- Closes #5", []),
        ("`Closes #5`", []),
        ("```\nCloses #5\n```\nCloses #6", ["octo/app#6"]),
        ("~~~\nCloses #5", []),
        ("Closes #5 `and`", ["octo/app#5"]),
        ("", []),
    ],
)
def test_a_body(body: str, expected: list[str]) -> None:
    assert named(body=body) == expected


def test_the_branch_comes_first_and_there_is_an_end() -> None:
    many = " ".join(f"closes #{n}" for n in range(100, 200))
    found = named("issue-7", many)
    assert found[:2] == ["octo/app#7", "octo/app#100"]
    assert len(found) == MOST_HINTS


def test_a_hostile_text_takes_no_time() -> None:
    # A pattern that tries every split of these would not end within the test run.
    for text in ("closes " * 50_000, "<!--" * 100_000, "`" * 100_001, "closes " + "a/" * 200_000, "\n```" * 50_000):
        assert named(body=text) == []
