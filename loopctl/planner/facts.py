"""The facts that templates and `when` can read. Values only; foreign text stays data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping

from loopctl.model.items import WorkItem
from loopctl.model.markdown import Markdown
from loopctl.model.observed import Observation, Subject, known_item
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Expression

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_WORD = re.compile(r"\w+")
# Not followed by the name of what is read.
_WHOLE_ITEM = re.compile(r"\bitem\b(?!\s*\.)")
_TEXTS = frozenset({"title", "updated_at", "url"})


def facts_of(subject: Subject, observation: Observation) -> Mapping[str, object]:
    """Facts of one subject: `item`, `session`, `machine`, `now`. What is unknown has no name, so reading it is an error."""
    facts: dict[str, object] = {"machine": observation.machine, "now": observation.now}
    item = known_item(subject)
    if item is not None:
        facts["item"] = _item(item)
    if subject.session is not None:
        facts["session"] = _session(subject)
    return facts


def comment_facts(subject: Subject, session: Mapping[str, object]) -> Mapping[str, object]:
    """The facts that a comment may tell everybody: no paths, ids, machines, and no time that the comment itself would change.

    Only what cannot be Markdown stands as it is; all else is escaped where it is written.
    """
    item = known_item(subject)
    known = {name: value for name, value in _item(item).items() if name != "updated_at"} if item else {}
    ref = {**_ref(subject.ref), "ref": Markdown(subject.ref)}
    name = str(session.get("name", ""))
    return {"item": known | ref, "session": {**session, "name": Markdown(name) if _NAME.fullmatch(name) else name}}


def item_facts(item: WorkItem, reads: Iterable[str] = ()) -> str:
    """A short digest of what rules ask of an item: equal as long as every rule would say the same of it.

    All that `match.item` can ask is in it, and of what else a `when` can ask the names in `reads`, which it begins with: a title
    that was edited is news for those only who read titles.
    """
    closed_at = item.closed_at.timestamp() if item.closed_at else None
    named = [item.kind, item.state, item.reason, item.author, item.milestone, closed_at]
    more = {name: str(getattr(item, name)) for name in sorted(reads)}
    text = json.dumps([*named, sorted(item.labels), sorted(item.assignees), *more.values()])
    return "".join(f"{name}:" for name in more) + hashlib.sha256(text.encode()).hexdigest()[:16]


def read_in(digest: str) -> frozenset[str]:
    """The names that a digest of an item begins with."""
    return _TEXTS.intersection(digest.split(":"))


def texts_of(when: Expression) -> frozenset[str]:
    """What of an item a condition reads that `match.item` cannot ask."""
    if "item" not in when.names:
        return frozenset()
    whole = _WHOLE_ITEM.search(when.source) is not None
    return _TEXTS if whole else _TEXTS.intersection(_WORD.findall(when.source))


def _ref(ref: WorkItemRef) -> dict[str, object]:
    return {
        "ref": str(ref),
        "provider": ref.provider,
        "host": ref.host,
        "owner": ref.owner,
        "repo": ref.repo,
        "number": ref.number,
    }


def _item(item: WorkItem) -> dict[str, object]:
    return _ref(item.ref) | {
        "kind": item.kind,
        "state": item.state,
        "reason": item.reason,
        "labels": sorted(item.labels),
        "title": item.title,
        "author": item.author,
        "assignees": sorted(item.assignees),
        "milestone": item.milestone,
        "url": item.url,
        "updated_at": item.updated_at,
        "closed_at": item.closed_at,
        "links": [str(link) for link in item.links],
        "open_links": [str(link) for link in item.open_links],
    }


def _session(subject: Subject) -> dict[str, object]:
    view = subject.session
    if view is None:
        return {}
    record = view.record
    return {
        "id": record.id,
        "name": record.name,
        "harness": record.harness,
        "status": record.status,
        "phase": view.phase,
        "reason": record.reason,
        "cwd": record.cwd,
        "created_at": record.created_at,
        "closed_at": record.closed_at,
    }
