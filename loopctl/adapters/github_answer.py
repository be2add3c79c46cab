"""What GitHub's answers say of work items. Pure: values in, values out.

Only what is said outright is believed: an item that is not there, is half there or is another one is Unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loopctl.adapters.github_links import hints
from loopctl.adapters.github_node import (
    Node,
    Unexpected,
    address_of,
    node_at,
    nodes_of,
    number_of,
    optional_text,
    ref_at,
    text_at,
    text_within,
    time_at,
)
from loopctl.adapters.github_query import ISSUES, Place, Want
from loopctl.adapters.github_reply import Answer, PathError, clean, scopes_remedy, sso_remedy
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.items import CLOSED, FORBIDDEN, ISSUE, MERGED, MOVED, OPEN, PULL_REQUEST, WorkItem
from loopctl.model.refs import WorkItemRef

_KINDS = {"Issue": ISSUE, "PullRequest": PULL_REQUEST}
_STATES = {
    ISSUE: {"OPEN": OPEN, "CLOSED": CLOSED},
    PULL_REQUEST: {"OPEN": OPEN, "CLOSED": CLOSED, "MERGED": MERGED},
}

PROVIDER = "github"

#: GraphQL says this of a deleted item and of a transferred one alike: another question must tell.
NOT_FOUND = Unknown("GitHub: no item has this number; whether it was deleted or transferred could not be told")


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
        return Unknown(f"GitHub: {want.repository}: {error.message or error.type}{_remedy(error, host)}")
    try:
        repository = node_at(answer.data, alias)
        name = text_at(repository, "nameWithOwner")
        return _page(node_at(repository, want.connection), want, host, name)
    except Unexpected as error:
        return Unknown(f"GitHub: listing of {want.repository}: {error}")


def _page(connection: Node, want: Want, host: str, name: str) -> Page:
    items = tuple(_listed_item(node, want, host, name) for node in nodes_of(connection))
    info, total = node_at(connection, "pageInfo"), connection.get("totalCount")
    more, cursor = info.get("hasNextPage"), info.get("endCursor")
    seen = want.seen + len(items)
    if more is False and isinstance(total, int) and seen >= total:
        return Page(items, None)
    if more is True and isinstance(cursor, str) and cursor != want.after and items:
        return Page(items, replace(want, after=cursor, seen=seen))
    msg = f"cut at {seen} of {total if isinstance(total, int) else 'an unknown number'}"
    raise Unexpected(msg)


def _listed_item(node: Node, want: Want, host: str, name: str) -> WorkItem:
    owner, _, repo = want.repository.partition("/")
    ref = WorkItemRef(PROVIDER, host, owner, repo, number_of(node))
    item = _item(node, ref, name)
    if item.state != OPEN or item.kind != (ISSUE if want.connection == ISSUES else PULL_REQUEST):
        msg = f"{item.ref} is a {item.state} {item.kind}, which was not asked for"
        raise Unexpected(msg)
    named = hints(ref, optional_text(node, "headRefName"), optional_text(node, "body"))
    return replace(item, hints=tuple(hint for hint in named if hint not in item.links))


def _item_fact(place: Place, answer: Answer) -> Fact[WorkItem]:
    errors = [error for error in answer.errors if error.path[0] == place.repository]
    for error in errors:
        if fact := _error_fact(place, error):
            return fact
    try:
        repository = node_at(answer.data, place.repository)
        name = text_at(repository, "nameWithOwner")
        if any(error.path[1:] == (place.item,) for error in errors):  # NOT_FOUND, as _error_fact let it through
            return NOT_FOUND
        return Known(_item(node_at(repository, place.item), place.ref, name))
    except Unexpected as error:
        return Unknown(f"GitHub: {error}")


def _error_fact(place: Place, error: PathError) -> Fact[WorkItem] | None:
    """What an error within this repository says of the item; None when that is nothing, or that it is not there."""
    whole_repository = len(error.path) == 1
    own = error.path[1:2] == (place.item,)
    if not (whole_repository or own):
        # Another item's error; one of the repository's own fields leaves those that were answered as they are.
        return None
    whole_item = own and len(error.path) == 2
    if remedy := _remedy(error, place.ref.host):
        return Unknown(f"GitHub: {error.message}{remedy}")
    if error.type == "FORBIDDEN" and (whole_repository or whole_item):
        return Known(WorkItem(place.ref, "", FORBIDDEN))
    if error.type == "NOT_FOUND" and whole_repository:
        return Unknown(f"GitHub: repository {place.ref.repository} not found (or not visible)")
    if error.type == "NOT_FOUND" and whole_item:
        return None
    return Unknown(f"GitHub: {error.message or error.type or 'the item could not be read'}")


def _remedy(error: PathError, host: str) -> str:
    """What to do about an error that says more of our token than of the item; "" for any other."""
    if "SAML" in error.message:
        return f": {sso_remedy(host)}"
    return f": {scopes_remedy(host)}" if error.type == "INSUFFICIENT_SCOPES" else ""


def _item(node: Node, ref: WorkItemRef, repository: str) -> WorkItem:
    """Read one issue or pull request of the repository that answers to this name now. Raises Unexpected."""
    kind = _KINDS.get(text_at(node, "__typename"))
    if kind is None:
        msg = f"a {clean(text_at(node, '__typename'))}, which is neither an issue nor a pull request"
        raise Unexpected(msg)
    home = _address(node, kind, ref, repository)
    if home != ref and home.repository.lower() != ref_at(repository, ref.number, ref).repository.lower():
        return WorkItem(ref, kind, MOVED, node_id=text_at(node, "id"), moved_to=str(home), url=text_at(node, "url"))
    state = _state(node, kind)
    return WorkItem(
        ref=ref,
        kind=kind,
        state=state,
        reason="" if state == OPEN else _reason(node),
        labels=frozenset(text_at(label, "name") for label in nodes_of(node_at(node, "labels"))),
        title=text_at(node, "title"),
        author=text_within(node, "author", "login"),  # a deleted account is null
        assignees=frozenset(text_at(user, "login") for user in nodes_of(node_at(node, "assignees"))),
        milestone=text_within(node, "milestone", "title"),
        url=text_at(node, "url"),
        updated_at=time_at(node, "updatedAt"),
        closed_at=time_at(node, "closedAt"),
        links=tuple(_links(node, "closingIssuesReferences", ref)) if kind == PULL_REQUEST else (),
        open_links=tuple(_open_pulls(node, ref)) if kind == ISSUE else (),
        node_id=text_at(node, "id"),
        moved_to="" if home == ref else str(home),
    )


def _state(node: Node, kind: str) -> str:
    said = text_at(node, "state" if kind == ISSUE else "pullState")
    state = _STATES[kind].get(said)
    if state is None:
        msg = f"the state {clean(said)}, which is not known here"
        raise Unexpected(msg)
    return state


def _reason(node: Node) -> str:
    converted = node.get("converted") is not None and nodes_of(node_at(node, "converted"))
    return "converted" if converted else optional_text(node, "stateReason").lower()


def _address(node: Node, kind: str, ref: WorkItemRef, repository: str) -> WorkItemRef:
    """Where the item says that it is. Raises Unexpected when it contradicts itself or is another item."""
    name, number, url = text_at(node_at(node, "repository"), "nameWithOwner"), number_of(node), text_at(node, "url")
    home = ref_at(name, number, ref)
    path = f"/{name}/{'issues' if kind == ISSUE else 'pull'}/{number}"
    parts = address_of(url)
    if parts.path.lower() != path.lower() or parts.netloc.lower() != ref.host.lower():
        msg = f"an item that says it is {clean(name)}#{number} and stands at {clean(url)}"
        raise Unexpected(msg)
    if home.number != ref.number and name.lower() == repository.lower():
        msg = f"answered with #{home.number} instead of #{ref.number}"
        raise Unexpected(msg)
    return home


def _links(node: Node, field: str, ref: WorkItemRef) -> Iterator[WorkItemRef]:
    for other in nodes_of(node_at(node, field)):
        yield ref_at(text_at(node_at(other, "repository"), "nameWithOwner"), number_of(other), ref)


def _open_pulls(node: Node, ref: WorkItemRef) -> Iterator[WorkItemRef]:
    """Open pull requests that deliver the issue; none are told by a server that does not know the field."""
    field = "closedByPullRequestsReferences"
    if field not in node:
        return
    for other, where in zip(nodes_of(node_at(node, field)), _links(node, field, ref), strict=True):
        if text_at(other, "state") == "OPEN":
            yield where
