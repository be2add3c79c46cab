"""What the payload of a webhook says of its own item. Pure; it is read as strictly as an answer, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from loopctl.adapters.github_node import Node, Unexpected, node_at, number_of, optional_text, text_at, time_at
from loopctl.model.items import CLOSED, ISSUE, MERGED, OPEN, PULL_REQUEST, WorkItem
from loopctl.model.refs import WorkItemRef

#: The events that carry the whole item: its kind, where it stands in the payload, and the word of its address.
_WHOLE = {"issues": (ISSUE, "issue", "issues"), "pull_request": (PULL_REQUEST, "pull_request", "pull")}
# What these say is not in the item: that it is somewhere else, or nowhere.
_ELSEWHERE = ("transferred", "deleted")


def told_item(event: str, payload: Mapping[str, object], ref: WorkItemRef) -> WorkItem | None:
    """The item as the payload has it, or None where anything about it is missing, odd or of another item.

    Links are not in a payload: `links` and `open_links` are empty, which says nothing.
    """
    if event not in _WHOLE or payload.get("action") in _ELSEWHERE:
        return None
    kind, name, word = _WHOLE[event]
    try:
        node = node_at(payload, name)
        _check_address(node, ref, word)
        return _item(node, ref, kind)
    except Unexpected:
        return None


def _item(node: Node, ref: WorkItemRef, kind: str) -> WorkItem:
    state, closed_at = _state(node, kind), time_at(node, "closed_at")
    if (state == OPEN) != (closed_at is None):
        raise Unexpected("an item that is open and closed")
    if time_at(node, "updated_at") is None or not text_at(node, "node_id"):
        raise Unexpected("an item without an identity or a time")
    return WorkItem(
        ref=ref,
        kind=kind,
        state=state,
        reason=_reason(node) if kind == ISSUE and state != OPEN else "",
        labels=frozenset(text_at(label, "name") for label in _nodes(node, "labels")),
        title=text_at(node, "title"),
        author=_person(node_at(node, "user")),
        assignees=frozenset(_person(user) for user in _nodes(node, "assignees")),
        milestone="" if _at(node, "milestone") is None else text_at(node_at(node, "milestone"), "title"),
        url=text_at(node, "html_url"),
        updated_at=time_at(node, "updated_at"),
        closed_at=closed_at,
        node_id=text_at(node, "node_id"),
    )


def _check_address(node: Node, ref: WorkItemRef, word: str) -> None:
    """An `issues` event may carry a pull request, and a payload any words: the item's own address decides."""
    try:
        parts = urlsplit(text_at(node, "html_url"))
    except ValueError:
        raise Unexpected("an item without an address") from None
    path = f"/{ref.owner}/{ref.repo}/{word}/{ref.number}"
    if number_of(node) != ref.number or parts.path.lower() != path.lower() or parts.netloc.lower() != ref.host.lower():
        raise Unexpected("an item of another address")


def _state(node: Node, kind: str) -> str:
    state = text_at(node, "state")
    merged = _at(node, "merged") if kind == PULL_REQUEST else False
    if state not in (OPEN, CLOSED) or not isinstance(merged, bool) or (merged and state == OPEN):
        raise Unexpected("a state that is not known here")
    return MERGED if merged else state


def _reason(node: Node) -> str:
    _at(node, "state_reason")  # an older server does not send it; that is no reason of "nothing"
    return optional_text(node, "state_reason").lower()


def _person(user: Node) -> str:
    """A login. Apps and deleted accounts go by other names here than in an answer."""
    if text_at(user, "type") != "User" or text_at(user, "login") == "ghost":
        raise Unexpected("somebody who is no person")
    return text_at(user, "login")


def _nodes(node: Node, key: str) -> list[Node]:
    value = _at(node, key)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise Unexpected("a list with gaps")
    return value


def _at(node: Node, key: str) -> object:
    """A value that must be there, null or not."""
    if key not in node:
        raise Unexpected(f"no {key}")
    return node[key]
