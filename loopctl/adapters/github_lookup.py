"""Items that GraphQL does not find: deleted, transferred or unseen? Only REST tells, one item a call. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from loopctl.adapters.github_reply import Http, clean, http_failure, json_of
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.items import ISSUE, MISSING, MOVED, PULL_REQUEST, WorkItem
from loopctl.model.refs import WorkItemRef

#: How many items one question looks up; the rest is unknown until its turn comes.
MOST = 5

DELETED = "deleted"
#: GitHub's word also for an item that went where these credentials do not reach.
NOT_VISIBLE = "not_found"

# gh follows a redirect; one that stays says only that the item is elsewhere.
_ELSEWHERE = frozenset({301, 302, 307, 308})
_PATH = re.compile(r"/([^/]+/[^/]+)/(issues|pull)/([1-9][0-9]*)")


def turn(absent: Sequence[WorkItemRef], now: float) -> tuple[WorkItemRef, ...]:
    """Whose turn it is: all where they are few, else others in each hour, so that none waits for ever."""
    if len(absent) <= MOST:
        return tuple(absent)
    start = int(now // 3600) * MOST % len(absent)
    return tuple((*absent[start:], *absent[:start])[:MOST])


def lookup_path(ref: WorkItemRef) -> str:
    """What to GET."""
    return f"repos/{ref.owner}/{ref.repo}/issues/{ref.number}"


def lookup_fact(ref: WorkItemRef, http: Http) -> Fact[WorkItem]:
    """What the response says of an item that GraphQL did not find in a repository that answered."""
    if http.status == 410:
        return Known(WorkItem(ref, "", MISSING, DELETED))
    if http.status == 404:
        return Known(WorkItem(ref, "", MISSING, NOT_VISIBLE))
    if http.status in _ELSEWHERE:
        return Known(WorkItem(ref, "", MOVED))
    if http.status != 200:
        return Unknown(http_failure(http, ref.host).reason)
    document = json_of(http.body)
    url = document.get("html_url") if isinstance(document, dict) else None
    home = _address(url, ref) if isinstance(url, str) else None
    if home is None:
        return Unknown("GitHub: an answer of unknown shape to the look-up of a missing item")
    if home[0] == ref:
        return Unknown("GitHub: contradicts itself: one interface finds the item, the other does not")
    return Known(WorkItem(ref, home[1], MOVED, moved_to=str(home[0]), url=clean(str(url))))


def too_many(count: int) -> Unknown:
    """Why the rest was not looked up."""
    return Unknown(
        f"GitHub: {count} items were not found, and {MOST} an hour are looked up to tell deleted from transferred; "
        "`--limit REF` looks at one now"
    )


def _address(url: str, ref: WorkItemRef) -> tuple[WorkItemRef, str] | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    found = _PATH.fullmatch(parts.path)
    if found is None or parts.netloc.lower() != ref.host.lower():
        return None
    try:
        home = WorkItemRef.parse(f"{ref.host}/{found[1]}#{found[3]}", ref.provider)
    except ValueError:
        return None
    return home, ISSUE if found[2] == "issues" else PULL_REQUEST
