"""What should be: the rules that apply to each subject, composed into one desired state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase

from loopctl.model.facts import OUTSIDE, UNASKED, Unknown
from loopctl.model.observed import Observation, Subject
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import ENDS, PAUSE, REMOVE, RETAIN, RUN, Ensure, Play, Playbook, Rule
from loopctl.model.sessions import ACTIVE, CLOSED_STATUS, GONE, PAUSED_STATUS, RETAINED, RUNNING, UNDEAD
from loopctl.model.talk import COMMENT_KEYS
from loopctl.planner.checkouts import removal_is_due
from loopctl.planner.facts import texts_of
from loopctl.planner.keep import counted
from loopctl.planner.match import Verdict, matches
from loopctl.planner.said import comment_is_due

# Quieter wins, and ending is a direction: what is further along wins.
_FURTHER = {PAUSE: 1, RETAIN: 2, REMOVE: 3}
# What rules about the same subject have to agree on; `keep_last` is each rule's own.
_KEYS = tuple(field.name for field in fields(Ensure) if field.name != "keep_last")
# A real doubt outweighs a question that was not asked, and that one a ref that nobody answers for.
_RANK = {UNASKED: 1, OUTSIDE: 2}


@dataclass(frozen=True, slots=True)
class Desired:
    """The composed end state of one subject, and the rule that is named for it (the one that goes furthest).

    `reads` is what of the item's texts some rule asks for.
    """

    ensure: Ensure
    rule: Rule
    play: Play
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the rules say of one subject: a desired state, a doubt that holds it, or neither (nothing is wanted)."""

    subject: Subject
    desired: Desired | None = None
    doubt: Unknown | None = None


def resolve(playbook: Playbook, observation: Observation) -> tuple[Resolution, ...]:
    """Apply every rule of the plays for this machine to every subject. The order of rules and subjects is irrelevant.

    A subject whose session is closed has up to two resolutions: one for what becomes of that session, one for the new
    session that its item is to get.
    """
    asked = list(_rules([play for play in playbook.plays if is_for(play, observation.machine)], observation))
    found = [one for subject in observation.subjects for one in _resolve_one(asked, subject, observation)]
    reads = frozenset(name for one in asked if one.rule.match.when for name in texts_of(one.rule.match.when))
    return tuple(replace(one, desired=replace(one.desired, reads=reads)) if one.desired else one for one in found)


def undecided(playbook: Playbook, observation: Observation) -> tuple[WorkItemRef, ...]:
    """The items that have to be asked about: those whose answer could change something."""
    open_questions = (r for r in resolve(playbook, observation) if r.doubt and r.doubt.kind == UNASKED)
    return tuple({r.subject.ref: None for r in open_questions})


def is_for(play: Play, machine: str) -> bool:
    """Whether a play's hosts name this machine: `localhost`, `all`, its name or a glob."""
    return any(host in {"all", "localhost"} or fnmatchcase(machine.lower(), host.lower()) for host in play.hosts)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A rule, and where it counts sessions what came of that, by record id."""

    play: Play
    rule: Rule
    counted: Mapping[str, Verdict] | None

    def verdict(self, subject: Subject, observation: Observation) -> Verdict:
        if self.counted is None:
            return matches(self.rule, subject, observation)
        return self.counted[subject.record.id] if subject.record else False


def _resolve_one(asked: list[_Asked], subject: Subject, observation: Observation) -> list[Resolution]:
    verdicts = [(one, one.verdict(subject, observation)) for one in asked]
    if subject.record is None or subject.record.status != CLOSED_STATUS:
        return [_resolve_side(verdicts, subject, observation)]
    # A new session for the item and the end of its last one are two things: neither waits for the other, nor contradicts it.
    sides = [
        _resolve_side([pair for pair in verdicts if pair[0].rule.ensure.session not in others], subject, observation)
        for others in ((RUN, PAUSE), ENDS)
    ]
    return [side for side in sides if side.doubt or side.desired] or [Resolution(subject)]


def _resolve_side(verdicts: list[tuple[_Asked, Verdict]], subject: Subject, observation: Observation) -> Resolution:
    wanted = [(one.play, one.rule) for one, verdict in verdicts if verdict is True]
    doubts = [(one.rule, verdict) for one, verdict in verdicts if isinstance(verdict, Unknown)]
    acting = any(_matters(rule, subject, observation) for _, rule in wanted)
    composed = _compose(subject, wanted)
    ensure = composed.desired.ensure if acting and composed.desired else None
    # A doubtful rule that could ask for nothing new is idle; where others act, one that could change what they ask for is not.
    weighty = [
        d for rule, d in doubts if (_adds(rule.ensure, ensure) if ensure else _matters(rule, subject, observation))
    ]
    if weighty:
        return Resolution(subject, doubt=min(weighty, key=lambda d: (_RANK.get(d.kind, 0), d.reason)))
    if acting and subject.session and isinstance(subject.session.sighting, Unknown):
        return Resolution(subject, doubt=subject.session.sighting)
    return composed


def _rules(plays: list[Play], observation: Observation) -> Iterator[_Asked]:
    for play in plays:
        for rule in play.rules:
            yield _Asked(play, rule, None if rule.ensure.keep_last is None else counted(rule, observation))


def _matters(rule: Rule, subject: Subject, observation: Observation) -> bool:
    """Whether the rule could ask for anything that is not so already: if not, nothing about it needs to be known."""
    due = comment_is_due(rule, subject, observation) or removal_is_due(rule.ensure, subject, observation)
    return due or _changes(rule, subject)


def _changes(rule: Rule, subject: Subject) -> bool:
    """Whether the rule could ask for another state of the session."""
    wanted, phase = rule.ensure.session, subject.phase
    record = subject.record
    if wanted == RUN:
        # A paused session is not started again, whatever has become of its pane.
        # A running one may have to be told of what was said.
        settled = phase == RUNNING and not (subject.session and subject.session.half_done)
        idle = settled and rule.ensure.deliver is None
        return subject.latest and not idle and not (record and record.status == PAUSED_STATUS)
    if record is None:
        return False
    if wanted == PAUSE:
        return record.status == ACTIVE
    view = subject.session
    if wanted == REMOVE:
        return phase != GONE
    if wanted != RETAIN or view is None or isinstance(view.sighting, Unknown):
        return wanted == RETAIN
    pane = view.sighting.value.pane
    read_only = pane is None or (pane.input_off and pane.remain_on_exit != "off")
    if phase in {RETAINED, GONE}:
        return not read_only
    return not (phase == UNDEAD and rule.ensure.kill_harness is False and read_only)


def _adds(more: Ensure, ensure: Ensure) -> bool:
    """Whether a rule would change this end state, or contradict it."""
    states = (more.session or "", ensure.session or "")
    if RUN in states and not set(ENDS).isdisjoint(states):
        return True
    if _FURTHER.get(states[0], 0) > _FURTHER.get(states[1], 0):
        return True
    return any(
        getattr(more, key) is not None and _value(more, key) != _value(ensure, key) for key in _KEYS if key != "session"
    )


def _value(ensure: Ensure, key: str) -> object:
    """A value that can be compared: of a template its text."""
    value = getattr(ensure, key)
    return getattr(value, "source", value)


def _compose(subject: Subject, wanted: list[tuple[Play, Rule]]) -> Resolution:
    if not wanted:
        return Resolution(subject)
    wanted = sorted(wanted, key=lambda pair: (-_FURTHER.get(pair[1].ensure.session or "", 0), pair[1].position))
    states = {rule.ensure.session for _, rule in wanted if rule.ensure.session}
    if RUN in states and not states.isdisjoint(ENDS):
        return _conflict(subject, "session", wanted)
    merged: dict[str, object] = {}
    for key in _KEYS:
        values: dict[object, None] = {}
        for _, rule in wanted:
            value = getattr(rule.ensure, key)
            # A comment tells of the state that its own rule wants.
            if value is not None and (key != "comment" or _same_state(rule, wanted[0][1])):
                values[_value(rule.ensure, key)] = None
                merged.setdefault(key, value)
        if len(values) > 1 and key != "session":
            return _conflict(subject, key, wanted)
    play, rule = wanted[0]
    return Resolution(subject, Desired(Ensure(**merged), rule, play))  # type: ignore[arg-type]


def _same_state(one: Rule, two: Rule) -> bool:
    return COMMENT_KEYS.get(one.ensure.session or "") == COMMENT_KEYS.get(two.ensure.session or "")


def _conflict(subject: Subject, key: str, wanted: list[tuple[Play, Rule]]) -> Resolution:
    places = " and ".join(
        f'{rule.position} "{rule.name}"' for _, rule in wanted if getattr(rule.ensure, key) is not None
    )
    return Resolution(subject, doubt=Unknown(f"rules disagree on ensure.{key}: {places}"))
