"""What signed payloads tell of items, and when that is acted on without asking GitHub (`routing.trustWebhookState`).

The signature covers a body for ever, so a body alone proves nothing of now. It is believed of an item that this very
controller has read from GitHub, when it is newer than all that was read and told of that item, and a moment old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from loopctl.model.items import CLOSED, ELSEWHERE, ISSUE, WorkItem
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import LINKED_ALL, Playbook, Policy, Rule

#: How far the time of a payload may be from our clock, either way, in seconds.
RECENT_SECONDS = 120.0
#: Items that are remembered; of one that is forgotten nothing is believed until it has been read again.
MOST_ITEMS = 10_000

_SETS = ("labels", "assignees")
_TIMES = ("updated_at", "closed_at")
_REFS = ("links", "hints", "open_links")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of an item: which one it is, as GitHub answered ("" before it did), and the newest time heard of it."""

    newest: datetime
    kind: str = ""
    node_id: str = ""


@dataclass(slots=True)
class Trust:
    """The memory of one controller. It ends with the process, and belief begins anew with the next reading."""

    _seen: dict[WorkItemRef, _Seen] = field(default_factory=dict)
    _told: dict[WorkItemRef, WorkItem] = field(default_factory=dict)

    def read(self, items: Iterable[WorkItem]) -> None:
        """GitHub answered this."""
        for item in items:
            if item.updated_at is None or item.state in ELSEWHERE:
                self._seen.pop(item.ref, None)
                continue
            before = self._seen.get(item.ref)
            newest = max(item.updated_at, before.newest) if before else item.updated_at
            self._remember(item.ref, _Seen(newest, item.kind, item.node_id))

    def hear(self, item: WorkItem) -> None:
        """A payload says this; its signature was checked and its body is new."""
        before, when = self._seen.get(item.ref), item.updated_at
        if when is None:
            return
        if before and when <= before.newest:
            if when == before.newest:
                # Two states within one second: which of them is the later one is for GitHub to say.
                self._told.pop(item.ref, None)
            return
        self._told.pop(item.ref, None)
        if before and before.node_id and (before.kind, before.node_id) == (item.kind, item.node_id):
            self._told[item.ref] = item
        self._remember(item.ref, _Seen(when, before.kind, before.node_id) if before else _Seen(when))

    def take(self, wanted: Callable[[WorkItemRef], bool], now: datetime) -> dict[WorkItemRef, WorkItem]:
        """What was told of these items and may be believed now. It is taken once: whoever looks again asks."""
        taken = {ref: self._told.pop(ref) for ref in list(self._told) if wanted(ref)}
        return {ref: item for ref, item in taken.items() if _is_recent(item, now)}

    def _remember(self, ref: WorkItemRef, seen: _Seen) -> None:
        self._seen.pop(ref, None)
        self._seen[ref] = seen
        if len(self._seen) > MOST_ITEMS:
            oldest = next(iter(self._seen))
            del self._seen[oldest]
            self._told.pop(oldest, None)


def _is_recent(item: WorkItem, now: datetime) -> bool:
    return item.updated_at is not None and abs((now - item.updated_at).total_seconds()) <= RECENT_SECONDS


def is_enough(item: WorkItem, playbook: Playbook, policy: Policy) -> bool:
    """Whether a payload carries all that these rules could ask of the item.

    It does not say which pull requests are open for an issue, what a pull request delivers, or that an issue was converted.
    """
    if item.kind == ISSUE and item.state == CLOSED and policy.linked_items == LINKED_ALL:
        return False
    return not any(_asks_more(rule, item.kind) for play in playbook.plays for rule in play.rules)


def _asks_more(rule: Rule, kind: str) -> bool:
    when = rule.match.when
    # The words of a comment may be the config's: what they read is not told here.
    reads_item = (when is not None and "item" in when.names) or rule.ensure.comment is not None
    return reads_item or (kind == ISSUE and bool(rule.match.item.reason))


def item_to_json(item: WorkItem) -> dict[str, Any]:
    """An item on its way from the receiver to the worker."""
    shown = {name: value for name, value in asdict(item).items() if name not in _REFS}
    sets = {name: sorted(shown[name]) for name in _SETS}
    times = {name: shown[name] and shown[name].isoformat() for name in _TIMES}
    return shown | sets | times | {"ref": str(item.ref)}


def item_from_json(given: Mapping[str, Any]) -> WorkItem:
    """The item that `item_to_json` described."""
    sets = {name: frozenset(given[name]) for name in _SETS}
    times = {name: given[name] and datetime.fromisoformat(given[name]) for name in _TIMES}
    return WorkItem(**{**given, **sets, **times, "ref": WorkItemRef.parse(given["ref"])})
