"""Does a rule apply? Yes, no, or it cannot be told: three-valued, so that silence never reads as an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from loopctl.model.facts import Known, Unknown
from loopctl.model.items import ELSEWHERE, FORBIDDEN, MOVED, WorkItem
from loopctl.model.observed import Observation, Subject
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import ItemMatch, Match, Rule, SessionMatch
from loopctl.model.sessions import CLOSED_STATUS, SessionRecord
from loopctl.planner.facts import facts_of

#: A criterion holds, does not, or depends on something unknown.
Verdict = bool | Unknown


def matches(rule: Rule, subject: Subject, observation: Observation) -> Verdict:
    """Whether the rule applies: False as soon as one criterion fails, else Unknown if any is."""
    doubt: Unknown | None = None
    for verdict in _criteria(rule.match, subject, observation):
        if verdict is False:
            return False
        if isinstance(verdict, Unknown):
            doubt = doubt or verdict
    return doubt or True


def _criteria(match: Match, subject: Subject, observation: Observation) -> Iterator[Verdict]:
    yield _address_matches(match.item, subject.ref)
    yield from _session_criteria(match.session, subject, observation)
    if not _reads_item(match):
        yield from _when(match, subject, observation)
        return
    if isinstance(subject.item, Unknown):
        yield subject.item
        return
    item = subject.item.value
    if item.state in ELSEWHERE and item.state not in match.item.state:
        yield Unknown(_where(item))
        return
    yield from _item_criteria(match.item, item, observation)
    yield from _when(match, subject, observation)


def _where(item: WorkItem) -> str:
    if item.state == FORBIDDEN:
        return "the item may not be read with these credentials"
    if item.state == MOVED:
        to = item.moved_to
        return f"the item has moved{f' to {to}' if to else ''}: `loopctl sessions move {item.ref} {to or 'NEW'}` takes its session along"
    if item.reason == "deleted":
        return "the item was deleted"
    return "the item is not there any more (deleted, or no longer visible)"


def _reads_item(match: Match) -> bool:
    wanted = match.item
    by_item = (wanted.kind, wanted.state, wanted.reason, wanted.labels, wanted.labels_any, wanted.author)
    more = (wanted.assignee, wanted.milestone, wanted.closed_for is not None)
    return any(by_item) or any(more) or (match.when is not None and "item" in match.when.names)


def _address_matches(wanted: ItemMatch, ref: WorkItemRef) -> bool:
    names = {ref.repository.lower(), f"{ref.owner}/{ref.repo}".lower(), f"{ref.host}/{ref.owner}/{ref.repo}".lower()}
    return (
        _one_of(ref.provider, wanted.provider)
        and (not wanted.number or ref.number in wanted.number)
        and (not wanted.repo or any(fnmatchcase(name, glob.lower()) for name in names for glob in wanted.repo))
    )


def _item_criteria(wanted: ItemMatch, item: WorkItem, observation: Observation) -> Iterator[Verdict]:
    labels = {label.lower() for label in item.labels}
    yield _one_of(item.state, wanted.state)
    yield _one_of(item.kind, wanted.kind)
    yield _one_of(item.reason, wanted.reason)
    yield all(label.lower() in labels for label in wanted.labels)
    yield not wanted.labels_any or any(label.lower() in labels for label in wanted.labels_any)
    yield _one_of(item.author.lower(), [name.lower() for name in wanted.author])
    yield not wanted.assignee or bool({a.lower() for a in item.assignees} & {a.lower() for a in wanted.assignee})
    yield _one_of(item.milestone.lower(), [name.lower() for name in wanted.milestone])
    if wanted.closed_for is not None:
        if item.closed_at is None:
            yield False if item.state == "open" else Unknown("when the item was closed is not known")
        else:
            yield (observation.now - item.closed_at).total_seconds() >= wanted.closed_for


def _session_criteria(wanted: SessionMatch, subject: Subject, observation: Observation) -> Iterator[Verdict]:
    view = subject.session
    if wanted.phase:
        yield _one_of(subject.phase, wanted.phase) if subject.phase else _sighting_doubt(subject)
    if wanted.harness:
        yield view is not None and view.record.harness in wanted.harness
    if wanted.attached is not None:
        if view is None:
            yield wanted.attached is False
        elif isinstance(view.sighting, Known):
            pane = view.sighting.value.pane
            yield bool(pane and pane.attached) is wanted.attached
        else:
            yield _sighting_doubt(subject)
    if wanted.older_than is not None:
        born = view.record.created_at if view else None
        yield born is not None and (observation.now - born).total_seconds() >= wanted.older_than
    if wanted.closed_for is not None:
        yield _closed_for(wanted.closed_for, subject.record, observation)


def _closed_for(seconds: float, record: SessionRecord | None, observation: Observation) -> Verdict:
    if record is None or record.status != CLOSED_STATUS:
        return False
    # Where nobody wrote down when it was closed, it was not after the record was last written.
    since = record.closed_at or record.updated_at
    if since is None:
        return Unknown("when the session was closed is not known")
    return (observation.now - since).total_seconds() >= seconds


def _sighting_doubt(subject: Subject) -> Unknown:
    view = subject.session
    return view.sighting if view and isinstance(view.sighting, Unknown) else Unknown("the session was not seen")


def _when(match: Match, subject: Subject, observation: Observation) -> Iterator[Verdict]:
    if match.when is None:
        return
    if "session" in match.when.names and subject.session is None:
        yield False
        return
    yield bool(match.when(facts_of(subject, observation)))


def _one_of(value: str | None, allowed: Iterable[str]) -> bool:
    allowed = tuple(allowed)
    return not allowed or value in allowed
