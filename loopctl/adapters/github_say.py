"""Our comment on an item of GitHub: found by its hidden mark and brought up to date, or made.

Whether there is one already is read first, whole: so that one is made once even where nobody remembers it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from loopctl.adapters.github_api import GitHubApi, Tally
from loopctl.adapters.github_node import Node, Unexpected, node_at, nodes_of, number_of, optional_text, text_at
from loopctl.adapters.github_query import Query
from loopctl.adapters.github_reply import REFUSALS, Answer, Failure, PathError
from loopctl.model.facts import REFUSED, Fact, Known, Unknown
from loopctl.model.refs import WorkItemRef
from loopctl.model.talk import OUR_MARK

#: Comments on one page, and pages that are read at most: twice as many as GitHub lets an item have.
PAGE = 100
PAGES = 50

_DOUBT = "whether it was posted is seen the next time"
_TOO_QUICK = "submitted too quickly"
_NODE = "id url body viewerDidAuthor"
ADD = """mutation($subject: ID!, $body: String!) {
  addComment(input: {subjectId: $subject, body: $body}) { commentEdge { node { id url } } }
}"""
UPDATE = """mutation($comment: ID!, $body: String!) {
  updateIssueComment(input: {id: $comment, body: $body}) { issueComment { id url } }
}"""


def comments_query(ref: WorkItemRef, before: str | None = None) -> Query:
    """The newest comments on an item, before a cursor where one is given."""
    page = f"last: {PAGE}" + (f", before: {json.dumps(before)}" if before is not None else "")
    fields = f"id number comments({page}) {{ pageInfo {{ hasPreviousPage startCursor }} nodes {{ {_NODE} }} }}"
    item = f"__typename ... on Issue {{ {fields} }} ... on PullRequest {{ {fields} }}"
    where = f"owner: {json.dumps(ref.owner)}, name: {json.dumps(ref.repo)}"
    return Query(f"query {{ repository({where}) {{ item: issueOrPullRequest(number: {ref.number}) {{ {item} }} }} }}")


def add_mutation(subject: str, body: str) -> Query:
    """Make a comment on an item, which is named by its node id."""
    return Query(ADD, {"subject": subject, "body": body})


def update_mutation(comment: str, body: str) -> Query:
    """Give a comment another text."""
    return Query(UPDATE, {"comment": comment, "body": body})


def say(api: GitHubApi, ref: WorkItemRef, key: str, text: str, tally: Tally) -> Fact[str]:
    """Leave the comment of this key on the item; its URL. An Unknown of kind REFUSED says that certainly nothing was posted."""
    mark = f"{OUR_MARK}{key} -->"
    # In front, where no unfinished block of the text can make it visible.
    body = f"{mark}\n{text}"
    try:
        subject, ours = _look(api, ref, mark, tally)
        if ours is None:
            return _changed(api, add_mutation(subject, body), ("addComment", "commentEdge", "node"), tally)
        if _same(text_at(ours, "body"), body):
            return Known(text_at(ours, "url"))
        mutation = update_mutation(text_at(ours, "id"), body)
        return _changed(api, mutation, ("updateIssueComment", "issueComment"), tally)
    except Unexpected as error:
        return Unknown(f"GitHub: {error}", REFUSED)


def _look(api: GitHubApi, ref: WorkItemRef, mark: str, tally: Tally) -> tuple[str, Node | None]:
    """The item's node id, and our comment on it. Raises Unexpected where that cannot be told."""
    cursor: str | None = None
    for _ in range(PAGES):
        item = _item(api.graphql(comments_query(ref, cursor), tally), ref)
        page = node_at(item, "comments")
        ours = [n for n in nodes_of(page) if n.get("viewerDidAuthor") is True and text_at(n, "body").startswith(mark)]
        info = node_at(page, "pageInfo")
        earlier, start = info.get("hasPreviousPage"), optional_text(info, "startCursor")
        if ours or earlier is False:
            return text_at(item, "id"), ours[0] if ours else None
        if not start or start == cursor:
            raise Unexpected("its comments could not be read to their beginning")
        cursor = start
    raise Unexpected(f"it has more than {PAGE * PAGES:,} comments")


def _item(answer: Answer | Failure, ref: WorkItemRef) -> Node:
    if isinstance(answer, Failure):
        raise Unexpected(answer.reason.removeprefix("GitHub: "))
    if answer.errors:
        raise Unexpected(answer.errors[0].message or answer.errors[0].type)
    item = node_at(node_at(answer.data, "repository"), "item")
    if number_of(item) != ref.number:
        raise Unexpected(f"answered with #{number_of(item)} instead of #{ref.number}")
    return item


def _changed(api: GitHubApi, mutation: Query, path: tuple[str, ...], tally: Tally) -> Fact[str]:
    """Send a mutation, once: what is answered to it, or the doubt that is left."""
    answer = api.graphql(mutation, tally, once=True)
    if isinstance(answer, Failure):
        return Unknown(answer.reason, REFUSED) if answer.refused else Unknown(f"{answer.reason}: {_DOUBT}")
    if answer.errors:
        return _refusal(api, answer.errors[0])
    node: Mapping[str, object] = answer.data
    try:
        for name in path:
            node = node_at(node, name)
        return Known(text_at(node, "url"))
    except Unexpected as error:
        return Unknown(f"GitHub: {error}: {_DOUBT}")


def _refusal(api: GitHubApi, error: PathError) -> Unknown:
    said = f"GitHub: {error.message or error.type or 'it was not posted'}"
    if _TOO_QUICK in error.message:
        # GitHub's own word for a secondary rate limit on what is written.
        return Unknown(api.limited(Failure(said, stop=True, limited=True, refused=True)).reason, REFUSED)
    if "not accessible by" in error.message:
        said += ": give the token write access to issues and pull requests of these repositories"
    return Unknown(said, REFUSED) if error.type in REFUSALS else Unknown(f"{said}: {_DOUBT}")


def _same(one: str, two: str) -> bool:
    """Whether two bodies are the same but for what a server may do to line ends."""
    return one.replace("\r\n", "\n").strip() == two.replace("\r\n", "\n").strip()
