"""What GitHub's answers say of work items. Pure: values in, values out.

Only what is said outright is believed: an item that is not there, is half there or is another one is Unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

from loopctl.adapters.github_query import ISSUES, Place, Want
from loopctl.adapters.github_reply import Answer, PathError, clean
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.items import CLOSED, FORBIDDEN, ISSUE, MERGED, MISSING, MOVED, OPEN, PULL_REQUEST, WorkItem
from loopctl.model.refs import WorkItemRef

_KINDS = {"Issue": ISSUE, "PullRequest": PULL_REQUEST}
_STATES = {
    ISSUE: {"OPEN": OPEN, "CLOSED": CLOSED},
    PULL_REQUEST: {"OPEN": OPEN, "CLOSED": CLOSED, "MERGED": MERGED},
}

PROVIDER = "github"

Node = Mapping[str, object]


class _Unexpected(Exception):
    """The answer does not have the shape, or does not concern the item, that was asked for."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, and what to ask for next (None at the end)."""

    items: tuple[WorkItem, ...]
    next: Want | None


def item_facts(places: Sequence[Place], answer: Answer) -> dict[WorkItemRef, Fact[WorkItem]]:
    """A fact for every item that was asked for. One item's error concerns that item only."""
    return {place.ref: _item_fact(place, answer) for place in places}


def listing_page(want: Want, alias: str, host: str, answer: Answer) -> Page | Unknown:
    """One page of a listing; any error, gap or surprise in it makes the whole listing Unknown."""
    if error := next((error for error in answer.errors if error.path[0] == alias), None):
        if error.type == "NOT_FOUND" and len(error.path) == 1:
            return Unknown(f"GitHub: repository {want.repository} not found (or not visible)")
        return Unknown(f"GitHub: {want.repository}: {error.message or error.type}")
    try:
        repository = _node(answer.data, alias)
        name = _text(repository, "nameWithOwner")
        if name.lower() != want.repository.lower():
            return Unknown(f"GitHub: repository {want.repository} is {clean(name)} now")
        return _page(_node(repository, want.connection), want, host)
    except _Unexpected as error:
        return Unknown(f"GitHub: listing of {want.repository}: {error}")


def _page(connection: Node, want: Want, host: str) -> Page:
    items = tuple(_listed_item(node, want, host) for node in _nodes(connection))
    info, total = _node(connection, "pageInfo"), connection.get("totalCount")
    more, cursor = info.get("hasNextPage"), info.get("endCursor")
    seen = want.seen + len(items)
    if more is False and isinstance(total, int) and seen >= total:
        return Page(items, None)
    if more is True and isinstance(cursor, str) and cursor != want.after and items:
        return Page(items, replace(want, after=cursor, seen=seen))
    msg = f"cut at {seen} of {total}"
    raise _Unexpected(msg)


def _listed_item(node: Node, want: Want, host: str) -> WorkItem:
    owner, _, repo = want.repository.partition("/")
    item = _item(node, WorkItemRef(PROVIDER, host, owner, repo, _number(node)))
    if item.state != OPEN or item.kind != (ISSUE if want.connection == ISSUES else PULL_REQUEST):
        msg = f"{item.ref} is a {item.state} {item.kind}, which was not asked for"
        raise _Unexpected(msg)
    return item


def _item_fact(place: Place, answer: Answer) -> Fact[WorkItem]:
    errors = [error for error in answer.errors if error.path[0] == place.repository]
    for error in errors:
        if fact := _error_fact(place, error):
            return fact
    try:
        repository = _node(answer.data, place.repository)
        name = _text(repository, "nameWithOwner")
        if any(error.path[1:] == (place.item,) for error in errors):  # NOT_FOUND, as _error_fact let it through
            if name.lower() != f"{place.ref.owner}/{place.ref.repo}".lower():
                return Unknown(f"GitHub: repository {place.ref.repository} is {clean(name)} now, without this number")
            return Known(WorkItem(place.ref, "", MISSING))
        return Known(_item(_node(repository, place.item), place.ref))
    except _Unexpected as error:
        return Unknown(f"GitHub: {error}")


def _error_fact(place: Place, error: PathError) -> Fact[WorkItem] | None:
    """What an error within this repository says of the item; None when that is nothing, or that it is not there."""
    whole_repository = len(error.path) == 1
    own = error.path[1:2] == (place.item,)
    if not (whole_repository or own):
        # Another item's error; one of the repository's own fields leaves those that were answered as they are.
        return None
    whole_item = own and len(error.path) == 2
    if error.type == "FORBIDDEN" and (whole_repository or whole_item):
        return Known(WorkItem(place.ref, "", FORBIDDEN))
    if error.type == "NOT_FOUND" and whole_repository:
        return Unknown(f"GitHub: repository {place.ref.repository} not found (or not visible)")
    if error.type == "NOT_FOUND" and whole_item:
        return None
    return Unknown(f"GitHub: {error.message or error.type or 'the item could not be read'}")


def _item(node: Node, ref: WorkItemRef) -> WorkItem:
    """Read one issue or pull request. Raises _Unexpected for whatever is not as it should be."""
    kind = _KINDS.get(_text(node, "__typename"))
    if kind is None:
        msg = f"a {clean(_text(node, '__typename'))}, which is neither an issue nor a pull request"
        raise _Unexpected(msg)
    home = _address(node, kind, ref)
    if home != ref:
        return WorkItem(ref, kind, MOVED, node_id=_text(node, "id"), moved_to=str(home), url=_text(node, "url"))
    said = _text(node, "state" if kind == ISSUE else "pullState")
    state = _STATES[kind].get(said)
    if state is None:
        msg = f"the state {clean(said)}, which is not known here"
        raise _Unexpected(msg)
    return WorkItem(
        ref=ref,
        kind=kind,
        state=state,
        reason="" if state == OPEN else _optional(node, "stateReason").lower(),
        labels=frozenset(_text(label, "name") for label in _nodes(_node(node, "labels"))),
        title=_text(node, "title"),
        author=_within(node, "author", "login"),  # a deleted account is null
        assignees=frozenset(_text(user, "login") for user in _nodes(_node(node, "assignees"))),
        milestone=_within(node, "milestone", "title"),
        url=_text(node, "url"),
        updated_at=_time(node, "updatedAt"),
        closed_at=_time(node, "closedAt"),
        links=tuple(_links(node, ref)) if kind == PULL_REQUEST else (),
        node_id=_text(node, "id"),
    )


def _address(node: Node, kind: str, ref: WorkItemRef) -> WorkItemRef:
    """Where the item says that it is. Raises _Unexpected when it contradicts itself or is another item."""
    name, number, url = _text(_node(node, "repository"), "nameWithOwner"), _number(node), _text(node, "url")
    home = _at(name, number, ref)
    path = f"/{name}/{'issues' if kind == ISSUE else 'pull'}/{number}"
    parts = urlsplit(url)
    if parts.path.lower() != path.lower() or parts.netloc.lower() != ref.host.lower():
        msg = f"an item that says it is {clean(name)}#{number} and stands at {clean(url)}"
        raise _Unexpected(msg)
    if home.number != ref.number and home.repository.lower() == ref.repository.lower():
        msg = f"answered with #{home.number} instead of #{ref.number}"
        raise _Unexpected(msg)
    return home


def _links(node: Node, ref: WorkItemRef) -> Iterator[WorkItemRef]:
    for issue in _nodes(_node(node, "closingIssuesReferences")):
        yield _at(_text(_node(issue, "repository"), "nameWithOwner"), _number(issue), ref)


def _at(name: str, number: int, beside: WorkItemRef) -> WorkItemRef:
    owner, _, repo = name.partition("/")
    try:
        return WorkItemRef.parse(f"{beside.host}/{owner}/{repo}#{number}", beside.provider)
    except ValueError:
        msg = f"no item can be called {clean(name)}#{number}"
        raise _Unexpected(msg) from None


def _node(parent: Node, key: str) -> Node:
    value = parent.get(key)
    if not isinstance(value, dict):
        msg = f"no answer ({key} is missing)"
        raise _Unexpected(msg)
    return value


def _nodes(connection: Node) -> list[Node]:
    value = connection.get("nodes")
    if not isinstance(value, list) or not all(isinstance(node, dict) for node in value):
        msg = "an answer with gaps"
        raise _Unexpected(msg)
    return value


def _text(node: Node, key: str) -> str:
    value = node.get(key)
    if not isinstance(value, str):
        msg = f"an answer of unknown shape ({key})"
        raise _Unexpected(msg)
    return value


def _optional(node: Node, key: str) -> str:
    return "" if node.get(key) is None else _text(node, key)


def _within(node: Node, key: str, inner: str) -> str:
    return "" if node.get(key) is None else _text(_node(node, key), inner)


def _number(node: Node) -> int:
    value = node.get("number")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        msg = "an item without a number"
        raise _Unexpected(msg)
    return value


def _time(node: Node, key: str) -> datetime | None:
    text = _optional(node, key)
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except ValueError:
        msg = f"{key} is no time"
        raise _Unexpected(msg) from None
