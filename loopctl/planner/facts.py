"""The facts that templates and `when` can read. Values only; foreign text stays data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from loopctl.model.items import WorkItem
from loopctl.model.markdown import Markdown
from loopctl.model.observed import Observation, Subject, known_item
from loopctl.model.refs import WorkItemRef

_NAME = re.compile(r"[A-Za-z0-9_-]+")


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


def item_facts(item: WorkItem) -> str:
    """A short digest of what a rule can ask of an item: equal as long as every rule would say the same of it."""
    closed_at = item.closed_at.timestamp() if item.closed_at else None
    named = (item.kind, item.state, item.reason, item.author, item.milestone, closed_at)
    text = json.dumps([*named, sorted(item.labels), sorted(item.assignees)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
