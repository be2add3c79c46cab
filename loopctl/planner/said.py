"""What was said on an item of one of its sessions, as the ledger remembers it."""

from __future__ import annotations

from loopctl.model.observed import Observation, Subject
from loopctl.model.rules import Rule
from loopctl.model.sessions import CLOSED_STATUS, PAUSED, RUNNING, SessionRecord
from loopctl.model.talk import (
    COMMENT_ID,
    COMMENT_KEYS,
    DELIVERED,
    ENDED_KEY,
    PAUSED_KEY,
    RUNNING_KEY,
    Delivery,
    Posted,
    comment_id,
    speaker_of,
)

_LIVE = {RUNNING_KEY: RUNNING, PAUSED_KEY: PAUSED}


def posted_of(record: SessionRecord, key: str, observation: Observation) -> Posted | None:
    """Our comment on this state of the session, if there is one."""
    notes = observation.talk.posted.get(_speaker(record, key, observation), ())
    return next((note for note in notes if note.key == key), None)


def tried(record: SessionRecord, key: str, text: str, observation: Observation) -> Delivery | None:
    """What became of this text so far."""
    lines = observation.talk.deliveries.get(_speaker(record, key, observation), ())
    return next((line for line in lines if line.id == comment_id(key, text)), None)


def is_owed(record: SessionRecord, observation: Observation) -> bool:
    """Whether we ended the session and were kept from saying so: only that ending is told of afterwards."""
    lines = observation.talk.deliveries.get(record.id, ())
    begun = [line for line in lines if line.id.startswith(f"{COMMENT_ID}{ENDED_KEY}:")]
    return any(line.status != DELIVERED for line in begun) and posted_of(record, ENDED_KEY, observation) is None


def holds(subject: Subject, key: str, observation: Observation) -> bool:
    """Whether the session is in this state and its comment is ours to make."""
    record = subject.record
    if key == ENDED_KEY:
        return record is not None and record.status == CLOSED_STATUS and is_owed(record, observation)
    return record is not None and subject.phase == _LIVE[key]


def comment_is_due(rule: Rule, subject: Subject, observation: Observation) -> bool:
    """Whether the rule wants a comment of the present state that is not there: its item has to be known for it.

    Bringing one up to date is no reason to ask.
    """
    key = COMMENT_KEYS.get(rule.ensure.session or "")
    if rule.ensure.comment is None or key is None or subject.record is None:
        return False
    return holds(subject, key, observation) and posted_of(subject.record, key, observation) is None


def _speaker(record: SessionRecord, key: str, observation: Observation) -> str:
    if not record.resumes:
        return record.id
    return speaker_of(record.id, key, {s.record.id: s.record for s in observation.subjects if s.record})
