"""What is said on items of GitHub: comments, reviews and comments beside lines, each thread read to its beginning or not at all.

Every page of everything is one field of a query, so that many items take one call and further pages of many take the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from loopctl.adapters.github_api import GitHubApi, Tally
from loopctl.adapters.github_node import Node, Unexpected, node_at, nodes_of, number_of, optional_text, text_at, time_at
from loopctl.adapters.github_query import Query
from loopctl.adapters.github_reply import Answer, Failure
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.refs import WorkItemRef
from loopctl.model.talk import CONVERSATION, INLINE, OUR_MARK, REVIEW, Comment

#: Pages in one call, and calls that follow one another for one item: as many comments as GitHub lets an item have.
BATCH = 50
ROUNDS = 50
_SIZES = {CONVERSATION: 100, REVIEW: 20, INLINE: 50}

_SAID = "id url body viewerDidAuthor author { __typename login }"
_BACK = "pageInfo { hasPreviousPage startCursor }"
_INLINE = f"pageInfo {{ hasNextPage endCursor }} nodes {{ {_SAID} path }}"
_REVIEW = f"{_SAID} state submittedAt comments(first: {_SIZES[INLINE]}) {{ {_INLINE} }}"
_BUDGET = "rateLimit { limit cost remaining resetAt }"


@dataclass(frozen=True, slots=True)
class Want:
    """A page of what is said on an item, `cursor` says where it begins; of inline comments those of one `review` (its node id),
    which was submitted `at`."""

    ref: WorkItemRef
    kind: str
    cursor: str = ""
    review: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Page:
    comments: tuple[Comment, ...] = ()
    more: tuple[Want, ...] = ()


def threads_query(wants: Sequence[Want]) -> Query:
    """One query for these pages; the answer to the first one stands at `w0`."""
    fields = [f"w{index}: {_inline(want) if want.kind == INLINE else _item(want)}" for index, want in enumerate(wants)]
    return Query("query {\n" + "\n".join([*fields, _BUDGET]) + "\n}")


def read_threads(
    api: GitHubApi, refs: Sequence[WorkItemRef], tally: Tally
) -> dict[WorkItemRef, Fact[tuple[Comment, ...]]]:
    """The whole thread of each item, the oldest first, or why it could not be read."""
    found: dict[WorkItemRef, list[Comment]] = {ref: [] for ref in refs}
    doubts: dict[WorkItemRef, str] = {}
    wants = [Want(ref, kind) for ref in found for kind in (CONVERSATION, REVIEW)]
    for _ in range(ROUNDS):
        more: list[Want] = []
        for page in _pages(api, wants, tally):
            for want, answer in page:
                if isinstance(answer, str):
                    doubts.setdefault(want.ref, answer)
                else:
                    found[want.ref] += answer.comments
                    more += answer.more
        wants = [want for want in more if want.ref not in doubts]
    doubts |= {want.ref: f"GitHub: {want.ref} has too many comments to be read" for want in wants}
    return {
        ref: Unknown(doubts[ref])
        if ref in doubts
        else Known(tuple(sorted(said, key=lambda comment: comment.published_at)))
        for ref, said in found.items()
    }


def _pages(api: GitHubApi, wants: Sequence[Want], tally: Tally) -> Iterator[list[tuple[Want, _Page | str]]]:
    """The answers to these wants, a batch at a time; a text says why there is none."""
    stopped: Failure | None = None
    for start in range(0, len(wants), BATCH):
        batch = wants[start : start + BATCH]
        answer = stopped or api.graphql(threads_query(batch), tally)
        if isinstance(answer, Failure):
            stopped = answer if answer.stop else None
            yield [(want, answer.reason) for want in batch]
        else:
            yield [(want, _page(want, f"w{index}", answer)) for index, want in enumerate(batch)]


def _item(want: Want) -> str:
    page = f"last: {_SIZES[want.kind]}" + (f", before: {json.dumps(want.cursor)}" if want.cursor else "")
    comments = f"comments({page}) {{ {_BACK} nodes {{ {_SAID} createdAt publishedAt }} }}"
    reviews = f"reviews({page}) {{ {_BACK} nodes {{ {_REVIEW} }} }}"
    issue, pull = (comments, comments) if want.kind == CONVERSATION else ("", reviews)
    where = f"owner: {json.dumps(want.ref.owner)}, name: {json.dumps(want.ref.repo)}"
    item = f"__typename ... on Issue {{ number {issue} }} ... on PullRequest {{ number {pull} }}"
    return f"repository({where}) {{ item: issueOrPullRequest(number: {want.ref.number}) {{ {item} }} }}"


def _inline(want: Want) -> str:
    page = f"first: {_SIZES[INLINE]}, after: {json.dumps(want.cursor)}"
    return f"node(id: {json.dumps(want.review)}) {{ ... on PullRequestReview {{ comments({page}) {{ {_INLINE} }} }} }}"


def _page(want: Want, alias: str, answer: Answer) -> _Page | str:
    if error := next((error for error in answer.errors if error.path[0] == alias), None):
        return f"GitHub: {error.message or error.type or 'the comments could not be read'}"
    try:
        node = node_at(answer.data, alias)
        if want.kind == INLINE:
            return _inline_page(want, node_at(node, "comments"))
        item = node_at(node, "item")
        if number_of(item) != want.ref.number:
            raise Unexpected(f"answered with #{number_of(item)} instead of #{want.ref.number}")
        if want.kind == CONVERSATION:
            page = node_at(item, "comments")
            return _Page(
                tuple(_comment(node, CONVERSATION, _published(node)) for node in nodes_of(page)), _earlier(want, page)
            )
        return _reviews(want, node_at(item, "reviews")) if text_at(item, "__typename") == "PullRequest" else _Page()
    except Unexpected as error:
        return f"GitHub: comments on {want.ref}: {error}"


def _reviews(want: Want, connection: Node) -> _Page:
    comments: list[Comment] = []
    more = list(_earlier(want, connection))
    for node in nodes_of(connection):
        if text_at(node, "state") == "PENDING":
            continue
        at = time_at(node, "submittedAt")
        if at is None:
            raise Unexpected("a review without a time")
        if text_at(node, "body").strip():
            comments.append(_comment(node, REVIEW, at))
        page = _inline_page(Want(want.ref, INLINE, "", text_at(node, "id"), at), node_at(node, "comments"))
        comments += page.comments
        more += page.more
    return _Page(tuple(comments), tuple(more))


def _inline_page(want: Want, connection: Node) -> _Page:
    comments = tuple(_comment(node, INLINE, want.at) for node in nodes_of(connection))
    return _Page(comments, _next(want, connection, "hasNextPage", "endCursor"))


def _earlier(want: Want, connection: Node) -> tuple[Want, ...]:
    return _next(want, connection, "hasPreviousPage", "startCursor")


def _next(want: Want, connection: Node, flag: str, name: str) -> tuple[Want, ...]:
    """The page that follows, none at the end. Raises Unexpected where that cannot be told."""
    info = node_at(connection, "pageInfo")
    more, cursor = info.get(flag), optional_text(info, name)
    if more is False:
        return ()
    if more is not True or not cursor or cursor == want.cursor:
        raise Unexpected("they could not be read to their end")
    return (replace(want, cursor=cursor),)


def _published(node: Node) -> datetime | None:
    return time_at(node, "publishedAt") or time_at(node, "createdAt")


def _comment(node: Node, kind: str, at: datetime | None) -> Comment:
    if at is None:
        raise Unexpected("a comment without a time")
    body = text_at(node, "body")
    return Comment(
        text_at(node, "id"),
        _author(node),
        body,
        at,
        text_at(node, "url"),
        kind,
        optional_text(node, "path"),
        ours=OUR_MARK in body and node.get("viewerDidAuthor") is True,
    )


def _author(node: Node) -> str:
    """Who wrote it, "" for an account that was deleted. A program is named as everywhere else, `name[bot]`."""
    if node.get("author") is None:
        return ""
    author = node_at(node, "author")
    suffix = "[bot]" if text_at(author, "__typename") == "Bot" else ""
    return text_at(author, "login").removesuffix(suffix) + suffix
