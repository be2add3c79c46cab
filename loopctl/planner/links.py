"""Whose session it is, where items belong together: an issue, and the pull requests that deliver it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from loopctl.model.facts import OUTSIDE
from loopctl.model.items import CLOSED, MOVED
from loopctl.model.observed import Observation, Subject, known_item
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import LINKED_ALL, RUN, Policy
from loopctl.model.sessions import CLOSED_STATUS
from loopctl.planner.resolve import Resolution


@dataclass(frozen=True, slots=True)
class Stays:
    """A session that is left as it is although its own item has ended, and why."""

    ref: WorkItemRef
    note: str


def served(resolutions: Iterable[Resolution], observation: Observation) -> frozenset[WorkItemRef]:
    """Items that have an open session (a limit hides none), will get one, or cannot be told about."""
    return observation.in_session | {r.subject.ref for r in resolutions if _is_served(r)}


def _is_served(resolution: Resolution) -> bool:
    if resolution.doubt is not None:
        return resolution.doubt.kind != OUTSIDE
    return resolution.desired is not None and resolution.desired.ensure.session == RUN


def is_delivered(subject: Subject, served_refs: frozenset[WorkItemRef]) -> bool:
    """Whether a pull request is the work of an issue's session, and so needs none of its own."""
    item = known_item(subject)
    return item is not None and any(link in served_refs and link != subject.ref for link in item.links)


def stays(subject: Subject, policy: Policy) -> Stays | None:
    """Why the open session of a closed issue stays: pull requests that deliver it are open."""
    item, record = known_item(subject), subject.record
    if policy.linked_items != LINKED_ALL or item is None or record is None or record.status == CLOSED_STATUS:
        return None
    if item.state != CLOSED or not item.open_links:
        return None
    names = " and ".join(str(link) for link in item.open_links)
    many = len(item.open_links) > 1
    return Stays(
        subject.ref,
        f"{subject.ref} is closed, but its pull request{'s' * many} {names} {'are' if many else 'is'} open: "
        "its session stays until that ends too (routing.linkedItems: all)",
    )


def moved_sessions(observation: Observation) -> Mapping[str, WorkItemRef]:
    """Where items with an open session have moved to: the new address (its key) -> the item's old one."""
    found: dict[str, WorkItemRef] = {}
    for subject in observation.subjects:
        item, record = known_item(subject), subject.record
        if item and record and record.status != CLOSED_STATUS and item.state == MOVED and item.moved_to:
            found[item.moved_to.lower()] = subject.ref
    return found
