"""When an agent that ended by itself is started again, how, and when that is given up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from loopctl.model.facts import Known
from loopctl.model.observed import Observation, Subject, known_item
from loopctl.model.rules import Policy
from loopctl.model.sessions import (
    CLOSED_STATUS,
    EXITED,
    LOST,
    RESTART_REASONS,
    RESUME_FAILED,
    SessionRecord,
)
from loopctl.model.text import plural
from loopctl.model.waiting import wait_after
from loopctl.planner.words import exit_of

#: An agent that ended within this time of its start failed; one that worked longer has earned a new start at once.
BRIEF = timedelta(minutes=10)
_FIRST_WAIT = timedelta(seconds=10)
_LONGEST_WAIT = timedelta(minutes=5)
# An agent's own last comment on its item, by another clock, is no news about it.
_SLACK = timedelta(minutes=1)


def ended_by_itself(subject: Subject) -> bool:
    """Whether its agent ended though nobody wanted it to, and nothing took its place yet."""
    record, view = subject.record, subject.session
    if record is None or view is None:
        return False
    if subject.phase == LOST:
        # Where a start was cut off before there was a pane, the next one goes on with it.
        return not record.only_begun or bool(view.tree.members)
    return subject.phase == EXITED or (record.status == CLOSED_STATUS and record.reason in RESTART_REASONS)


def conversation_of(subject: Subject, harness: str, policy: Policy) -> str:
    """The agent's own session id that the next one goes on with, "" where it begins anew."""
    record = subject.record
    if record is None or not policy.resume_on_respawn or harness not in policy.resumable or record.harness != harness:
        return ""
    goes_on = record.reason != RESUME_FAILED if ended_by_itself(subject) else record.only_begun and record.resumes
    return record.harness_session_id if goes_on else ""


def not_yet(subject: Subject, observation: Observation, policy: Policy) -> str:
    """Why an agent that ended by itself is not started again now, or "".

    What fails again and again waits longer each time, and is given up after `policy.max_retries` new starts; whoever asks for
    it (`sessions retry`), or news on its item since it ended, lets it be tried again.
    """
    chain = _failures(subject, observation)
    if not chain:
        return ""
    if _has_news(subject, observation):
        return ""
    times = f"its agent ended {plural(len(chain), 'time')} in a row within {BRIEF.seconds // 60} min of its start"
    if len(chain) > policy.max_retries:
        way = f"`loopctl sessions retry {subject.ref}` or news on the item lets it be tried again"
        return f"given up: {times}{_last_words(subject)}; {way}"
    born = chain[0].created_at or observation.now
    left = wait_after(len(chain), _FIRST_WAIT, _LONGEST_WAIT) - (observation.now - born)
    # The first failure is answered at once, and so is one from the future: the clock was set back.
    if len(chain) == 1 or left <= timedelta(0) or born > observation.now:
        return ""
    return f"{times}{_last_words(subject)}: tried again in {left.total_seconds():.0f} s"


def _failures(subject: Subject, observation: Observation) -> list[SessionRecord]:
    """The newest sessions of the item that ended soon by themselves, one after the other, the newest first."""
    armed = observation.talk.armed.get(subject.ref.key)
    mine = [
        (other.record.created_at, other) for other in observation.subjects if other.ref == subject.ref and other.record
    ]
    chain: list[SessionRecord] = []
    for born, other in sorted(((born, other) for born, other in mine if born), key=lambda pair: pair[0], reverse=True):
        ended = _end_of(other, observation)
        if other.record is None or not ended_by_itself(other) or ended - born >= BRIEF or (armed and born <= armed):
            break
        chain.append(other.record)
    return chain


def _end_of(subject: Subject, observation: Observation) -> datetime:
    """When its agent ended; now, where nobody knows."""
    record, view = subject.record, subject.session
    if record and record.status == CLOSED_STATUS:
        return record.closed_at or observation.now
    pane = view.sighting.value.pane if view and isinstance(view.sighting, Known) else None
    return datetime.fromtimestamp(pane.dead_since, UTC) if pane and pane.dead_since else observation.now


def _has_news(subject: Subject, observation: Observation) -> bool:
    """Whether somebody did something about the item since its agent ended."""
    item = known_item(subject)
    return bool(item and item.updated_at and item.updated_at > _end_of(subject, observation) + _SLACK)


def _last_words(subject: Subject) -> str:
    exit_ = exit_of(subject)
    return f" (the last one {exit_})" if exit_ else ""
