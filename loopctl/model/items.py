"""What a provider says of one work item."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from loopctl.model.refs import WorkItemRef

ISSUE = "issue"
PULL_REQUEST = "pull_request"
KINDS = (ISSUE, PULL_REQUEST)

OPEN = "open"
CLOSED = "closed"
MERGED = "merged"
MISSING = "missing"
MOVED = "moved"
FORBIDDEN = "forbidden"
#: States in which an item does not say anything of itself.
ELSEWHERE = (MISSING, MOVED, FORBIDDEN)
STATES = (OPEN, CLOSED, MERGED, MISSING, MOVED, FORBIDDEN)


@dataclass(frozen=True, slots=True)
class WorkItem:
    """An issue or pull request as its provider described it. Times are aware, in UTC.

    `reason` is the provider's word for why it was closed (`completed`, `not_planned`, `duplicate`, `converted`) or how it
    is known to be missing (`deleted`, `not_found`), or "".
    `links` are the refs that the item delivers (a pull request's linked issues), `hints` those that only its branch or its
    text names: nothing proves that they exist. `open_links` are open pull requests that deliver this issue.
    `moved_to` names the new address: of a moved item, and of one that is the same in a renamed repository (its state is
    then its own).
    """

    ref: WorkItemRef
    kind: str
    state: str
    reason: str = ""
    labels: frozenset[str] = frozenset()
    title: str = ""
    author: str = ""
    assignees: frozenset[str] = frozenset()
    milestone: str = ""
    url: str = ""
    updated_at: datetime | None = None
    closed_at: datetime | None = None
    links: tuple[WorkItemRef, ...] = ()
    hints: tuple[WorkItemRef, ...] = ()
    open_links: tuple[WorkItemRef, ...] = ()
    node_id: str = ""
    moved_to: str = ""
