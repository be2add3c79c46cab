"""Which issues a pull request's branch and text name. Pure; that they exist is for others to prove."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopctl.model.refs import WorkItemRef

#: More than a person would write; what comes after them is not read.
MOST_HINTS = 20
_MOST_TEXT = 100_000

_BRANCH = re.compile(r"(?<![A-Za-z0-9])issue[-/]([1-9][0-9]{0,8})(?![0-9A-Za-z])", re.IGNORECASE)
_NAME = r"[A-Za-z0-9._-]+"
_KEYWORD = re.compile(
    r"(?<![\w-])(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)(?::[ \t]*|[ \t]+)"
    rf"(?:https?://(?P<host>[A-Za-z0-9.:-]+)/(?P<url>{_NAME}/{_NAME})/issues/"
    rf"|(?P<repo>{_NAME}/{_NAME})?\#|GH-)(?P<number>[1-9][0-9]{{0,8}})(?![0-9A-Za-z])",
    re.IGNORECASE,
)
# GitHub finds no keywords in these either.
_NOT_TEXT = re.compile(r"<!--.*?(?:-->|\Z)|^(```|~~~).*?(?:^\1|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def hints(pull: WorkItemRef, branch: str, body: str) -> tuple[WorkItemRef, ...]:
    """The issues that the head branch (`issue-5`, `issue/5`), then closing keywords in the body name; each once.

    A keyword may be followed by `#5`, `owner/repo#5`, `GH-5` or the issue's URL on the same host.
    """
    found = dict.fromkeys(ref for ref in (*_of_branch(pull, branch), *_of_body(pull, body)) if ref != pull)
    return tuple(found)[:MOST_HINTS]


def _of_branch(pull: WorkItemRef, branch: str) -> Iterator[WorkItemRef]:
    for match in _BRANCH.finditer(branch[:1000]):
        yield WorkItemRef(pull.provider, pull.host, pull.owner, pull.repo, int(match[1]))


def _of_body(pull: WorkItemRef, body: str) -> Iterator[WorkItemRef]:
    for match in _KEYWORD.finditer(_NOT_TEXT.sub(" ", body[:_MOST_TEXT])):
        if match["host"] and match["host"].lower() != pull.host.lower():
            continue
        owner, _, repo = (match["url"] or match["repo"] or f"{pull.owner}/{pull.repo}").partition("/")
        try:
            yield WorkItemRef.parse(f"{pull.host}/{owner}/{repo}#{match['number']}", pull.provider)
        except ValueError:
            continue
