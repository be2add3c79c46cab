"""The comment that an item is to carry once the state is reached that its rule ensures.

Of a running or paused session it is kept true; of an ending it is a record: made once, by the plan that ends the session.
"""

from __future__ import annotations

from datetime import UTC, timedelta

from loopctl.errors import DocumentError
from loopctl.model.observed import Observation, Subject
from loopctl.model.plan import COMMENT, ENDINGS, RECORD, RESUME, START, Action, After, Before, Held
from loopctl.model.rules import Policy
from loopctl.model.secrets import mask
from loopctl.model.sessions import ABSENT, CLOSED_STATUS
from loopctl.model.talk import COMMENT_KEYS, ENDED_KEY, FAILED_DELIVERY, PAUSED_KEY, RUNNING_KEY, digest_of
from loopctl.model.waiting import wait_after
from loopctl.planner.actions import action_of
from loopctl.planner.facts import comment_facts
from loopctl.planner.links import Stays
from loopctl.planner.resolve import Desired
from loopctl.planner.said import holds, is_owed, posted_of, tried
from loopctl.planner.words import why

#: `comment: default` stands for the config's words.
DEFAULT = "default"
#: GitHub takes 65,536 characters, and the hidden mark needs some.
MAX_COMMENT = 65_000
_CUT = "\n\n(cut)"
_FIRST_WAIT = timedelta(minutes=1)
_LONGEST_WAIT = timedelta(hours=1)
_BEGINNINGS = (START, RESUME)
_PAUSED_TEXT = "The agent that works on this is paused."


def comment_of(
    subject: Subject, desired: Desired, session: object, observation: Observation, policy: Policy
) -> Action | Held | Stays | None:
    """What is to be said on the item, or None where nothing is. `session` is what the plan does about the session itself."""
    step = session if isinstance(session, Action) else None
    key = COMMENT_KEYS.get(desired.ensure.session or "")
    if desired.ensure.comment is None or key is None or (session is not None and step is None):
        return None
    if not (_reaches(step, subject, key, observation) if step else holds(subject, key, observation)):
        return None
    if reason := observation.mute.get(subject.ref):
        return Stays(subject.ref, f"{reason}: none is planned")
    record = subject.record if step is None or step.verb not in _BEGINNINGS else None
    note = posted_of(record, key, observation) if record else None
    try:
        text = _text(subject, desired, key, step, policy)
    except DocumentError as error:
        return Held(subject.ref, f"its comment cannot be written: {error.problems[0].message}")
    if not text or (note and note.digest == digest_of(text)):
        return None
    if record and (waits := _not_yet(subject, key, text, observation, policy)):
        return Held(subject.ref, waits)
    return _action(subject, desired, step, After(_phase(step, subject), comment=text, comment_key=key), observation)


def _reaches(step: Action, subject: Subject, key: str, observation: Observation) -> bool:
    """Whether the plan's own change brings the session into this state, and does not only tidy it up."""
    if key == RUNNING_KEY:
        return step.verb in _BEGINNINGS
    if key == PAUSED_KEY:
        return step.verb == RECORD
    record = subject.record
    open_yet = record is not None and (record.status != CLOSED_STATUS or is_owed(record, observation))
    return step.verb in ENDINGS and open_yet


def _text(subject: Subject, desired: Desired, key: str, step: Action | None, policy: Policy) -> str:
    template = desired.ensure.comment
    if template is not None and template.source == DEFAULT:
        template = policy.templates.get(f"comment_{key}")
    if template is None:
        return _PAUSED_TEXT if key == PAUSED_KEY else ""
    text = mask(str(template(comment_facts(subject, _session(subject, key, step)))).strip())
    return text if len(text) <= MAX_COMMENT else text[: MAX_COMMENT - len(_CUT)] + _CUT


def _session(subject: Subject, key: str, step: Action | None) -> dict[str, object]:
    """The session as it will be, so that what is said of it is still true when it is."""
    record = subject.record
    begins = step.after if step and step.verb in _BEGINNINGS else None
    ends = step.after.reason if step and step.verb in ENDINGS else record.reason if record else ""
    return {
        "state": key,
        "name": begins.name if begins else record.name if record else "",
        "harness": begins.harness if begins else record.harness if record else "",
        "reason": ends if key == ENDED_KEY else "",
    }


def _not_yet(subject: Subject, key: str, text: str, observation: Observation, policy: Policy) -> str:
    """Why a comment that failed is not tried again now, or ""."""
    line = tried(subject.record, key, text, observation) if subject.record else None
    if line is None or line.status != FAILED_DELIVERY or line.at is None:
        return ""
    armed = observation.talk.armed.get(subject.ref.key)
    if armed and armed >= line.at:
        return ""
    failed = f"its comment could not be posted ({line.detail})"
    if line.attempts > policy.max_retries:
        return f"given up: {failed}; `loopctl sessions retry {subject.ref}` lets it be tried again"
    due = line.at + wait_after(line.attempts, _FIRST_WAIT, _LONGEST_WAIT, factor=4)
    # One from the future is tried at once: the clock was set back.
    if observation.now >= due or line.at > observation.now:
        return ""
    return f"{failed}: tried again after {due.astimezone(UTC):%H:%M:%S} UTC"


def _phase(step: Action | None, subject: Subject) -> str:
    return step.after.phase if step else subject.phase or ABSENT


def _action(subject: Subject, desired: Desired, step: Action | None, after: After, observation: Observation) -> Action:
    reason = step.why if step else why(subject, observation)
    return action_of(COMMENT, subject, desired, Before(phase=subject.phase or ABSENT), after, reason, observation)
