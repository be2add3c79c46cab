"""From a webhook to the items it is about. Pure: (event, payload) -> refs, the linked issues first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from loopctl.adapters.github_links import hints
from loopctl.adapters.github_payload import told_item
from loopctl.model.items import WorkItem
from loopctl.model.refs import WorkItemRef
from loopctl.model.talk import OUR_MARK

#: The events that name a work item; what is listened to when the config says nothing else.
DEFAULT_EVENTS = (
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "workflow_run",
    "check_run",
    "check_suite",
    "status",
)
#: Without these, endings are only found by polling.
_ENDS = {"issues": "a closed issue", "pull_request": "a closed or merged pull request"}
#: Hidden in every comment that loopctl or the-loop writes.
MARKERS = (OUR_MARK, "<!-- the-loop:agent-comment -->")

DISABLED = "disabled-event"
NO_ITEM = "no-work-item"
OWN = "self-authored"
UNAUTHORIZED = "unauthorized-actor"

_API_REPO = re.compile(r"/repos/([^/]+)/([^/]+?)/?\Z")
_MOST_REFS = 50
_PROVIDER = "github"

Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Routed:
    """What a delivery is about. `dropped` is why nobody looks ("" when somebody does).

    `ends` says that it tells of an item's end: anybody may tell of that, and it never starts anything.
    """

    refs: tuple[WorkItemRef, ...] = ()
    actor: str = ""
    ends: bool = False
    dropped: str = ""

    @property
    def may_start(self) -> bool:
        """Whether the look that follows may start a session."""
        return bool(self.refs) and not self.dropped and not self.ends


def route(event: str, payload: Payload, events: frozenset[str], authorized: frozenset[str]) -> Routed:
    """Decide about one delivery, signature and duplicates apart. `authorized` are logins in lower case.

    Never raises, whatever the payload is.
    """
    if event not in events:
        return Routed(dropped=DISABLED)
    refs = tuple(dict.fromkeys(_refs(event, payload)))[:_MOST_REFS]
    actor, ends = _actor(payload), is_end(event, payload)
    routed = Routed(refs, actor, ends)
    if not refs:
        return Routed(actor=actor, ends=ends, dropped=NO_ITEM)
    if _is_own(payload):
        return Routed(refs, actor, ends, OWN)
    if not ends and actor.lower() not in authorized:
        return Routed(refs, actor, ends, UNAUTHORIZED)
    return routed


def told(event: str, payload: Payload, routed: Routed) -> WorkItem | None:
    """What the payload says of its own item, the last of the refs, where it carries the whole of it."""
    return told_item(event, payload, routed.refs[-1]) if routed.refs else None


def is_end(event: str, payload: Payload) -> bool:
    """Exactly issues/closed and pull_request/closed."""
    return event in _ENDS and payload.get("action") == "closed"


def listened_to(configured: tuple[str, ...]) -> frozenset[str]:
    """The events of a config; none means the default ones."""
    return frozenset(configured or DEFAULT_EVENTS)


def missing_events(configured: tuple[str, ...]) -> tuple[str, ...]:
    """A sentence for each event whose absence costs something."""
    return tuple(
        f"webhooks.ghWebhook.events leaves out {name!r}: {what} is noticed by polling only"
        for name, what in _ENDS.items()
        if name not in listened_to(configured)
    )


def _refs(event: str, payload: Payload) -> Iterator[WorkItemRef]:
    home = _repository(payload)
    if home is None:
        return
    issue, pull = _map(payload, "issue"), _map(payload, "pull_request")
    if pull:
        yield from _of_pull(home, pull)
    elif issue and _map(issue, "pull_request"):
        yield from _of_pull(home, issue)
    elif issue:
        yield from _item(home, issue)
    elif event in ("workflow_run", "check_run", "check_suite"):
        yield from _of_run(home, _map(payload, event))
    elif event == "status":
        for branch in _maps(payload.get("branches")):
            yield from hints(home, _text(branch, "name"), "")


def _of_pull(home: WorkItemRef, pull: Payload) -> Iterator[WorkItemRef]:
    for own in _item(home, pull):
        yield from hints(own, _text(_map(pull, "head"), "ref"), _text(pull, "body"))
        yield own


def _of_run(home: WorkItemRef, run: Payload) -> Iterator[WorkItemRef]:
    suite = _map(run, "check_suite") or run
    branch = _text(run, "head_branch") or _text(suite, "head_branch")
    yield from hints(home, branch, "")
    for pull in (*_maps(run.get("pull_requests")), *_maps(suite.get("pull_requests"))):
        at = _API_REPO.search(_text(_map(_map(pull, "base"), "repo"), "url"))
        place = _ref(home.host, at[1], at[2], 1) if at else home
        yield from hints(place or home, _text(_map(pull, "head"), "ref"), "")
        yield from _item(place or home, pull)


def _item(home: WorkItemRef, item: Payload) -> Iterator[WorkItemRef]:
    number = item.get("number")
    if isinstance(number, int) and not isinstance(number, bool):
        ref = _ref(home.host, home.owner, home.repo, number)
        if ref:
            yield ref


def _repository(payload: Payload) -> WorkItemRef | None:
    """The repository, as a ref whose number means nothing."""
    repository = _map(payload, "repository")
    owner, _, name = _text(repository, "full_name").partition("/")
    try:
        host = urlsplit(_text(repository, "html_url")).netloc
    except ValueError:
        return None
    home = _ref(host, owner, name, 1)
    return WorkItemRef(_PROVIDER, home.host, home.owner, home.repo, 0) if home else None


def _ref(host: str, owner: str, name: str, number: int) -> WorkItemRef | None:
    try:
        return WorkItemRef.parse(f"{host}/{owner}/{name}#{number}", _PROVIDER)
    except ValueError:
        return None


def _actor(payload: Payload) -> str:
    """Who said it: the author of the comment or review, else who sent the event."""
    for name in ("comment", "review"):
        if said := _map(payload, name):
            return _text(_map(said, "user"), "login")
    return _text(_map(payload, "sender"), "login")


def _is_own(payload: Payload) -> bool:
    body = _text(_map(payload, "comment"), "body") or _text(_map(payload, "review"), "body")
    return any(marker in body for marker in MARKERS)


def _map(value: Payload, name: str) -> Payload:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _maps(value: object) -> Iterator[Payload]:
    yield from (one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def _text(value: Payload, name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""
