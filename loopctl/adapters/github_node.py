"""Reading single fields of GitHub's JSON. Pure; whatever is not as it should be raises Unexpected."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import SplitResult, urlsplit

from loopctl.adapters.github_reply import clean
from loopctl.model.refs import WorkItemRef

Node = Mapping[str, object]


class Unexpected(Exception):
    """The answer does not have the shape, or does not concern the item, that was asked for."""


def node_at(parent: Node, key: str) -> Node:
    """An object."""
    value = parent.get(key)
    if not isinstance(value, dict):
        msg = f"no answer ({key} is missing)"
        raise Unexpected(msg)
    return value


def nodes_of(connection: Node) -> list[Node]:
    """All objects on one page, none of them null."""
    value = connection.get("nodes")
    if not isinstance(value, list) or not all(isinstance(node, dict) for node in value):
        msg = "an answer with gaps"
        raise Unexpected(msg)
    return value


def text_at(node: Node, key: str) -> str:
    """A text."""
    value = node.get(key)
    if not isinstance(value, str):
        msg = f"an answer of unknown shape ({key})"
        raise Unexpected(msg)
    return value


def optional_text(node: Node, key: str) -> str:
    """A text, "" for null or nothing."""
    return "" if node.get(key) is None else text_at(node, key)


def text_within(node: Node, key: str, inner: str) -> str:
    """A text in an object, "" where the object is null."""
    return "" if node.get(key) is None else text_at(node_at(node, key), inner)


def number_of(node: Node) -> int:
    """The number of an item."""
    value = node.get("number")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        msg = "an item without a number"
        raise Unexpected(msg)
    return value


def time_at(node: Node, key: str) -> datetime | None:
    """A time in UTC, None for null or nothing."""
    text = optional_text(node, key)
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except (ValueError, OverflowError):
        msg = f"{key} is no time"
        raise Unexpected(msg) from None


def address_of(url: str) -> SplitResult:
    """The parts of an address."""
    try:
        return urlsplit(url)
    except ValueError:
        msg = f"no address ({clean(url)})"
        raise Unexpected(msg) from None


def ref_at(name: str, number: int, beside: WorkItemRef) -> WorkItemRef:
    """An item of the repository `owner/repo` on the host of another one."""
    owner, _, repo = name.partition("/")
    try:
        return WorkItemRef.parse(f"{beside.host}/{owner}/{repo}#{number}", beside.provider)
    except ValueError:
        msg = f"no item can be called {clean(name)}#{number}"
        raise Unexpected(msg) from None
