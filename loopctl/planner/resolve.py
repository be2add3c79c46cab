"""What should be: the rules that apply to each subject, composed into one desired state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase

from loopctl.model.facts import OUTSIDE, UNASKED, Unknown
from loopctl.model.observed import Observation, Subject
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import REMOVE, RETAIN, RUN, Ensure, Play, Playbook, Rule
from loopctl.model.sessions import GONE, PAUSED, RETAINED, RUNNING, UNDEAD
from loopctl.planner.match import matches

# Ending is a direction: what is further along wins.
_FURTHER = {RETAIN: 1, REMOVE: 2}
# A real doubt outweighs a question that was not asked, and that one a ref that nobody answers for.
_RANK = {UNASKED: 1, OUTSIDE: 2}


@dataclass(frozen=True, slots=True)
class Desired:
    """The composed end state of one subject, and the rule that is named for it (the one that goes furthest)."""

    ensure: Ensure
    rule: Rule
    play: Play


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the rules say of one subject: a desired state, a doubt that holds it, or neither (nothing is wanted)."""

    subject: Subject
    desired: Desired | None = None
    doubt: Unknown | None = None


def resolve(playbook: Playbook, observation: Observation) -> tuple[Resolution, ...]:
    """Apply every rule of the plays for this machine to every subject. The order of rules and subjects is irrelevant."""
    plays = [play for play in playbook.plays if is_for(play, observation.machine)]
    return tuple(_resolve_one(plays, subject, observation) for subject in observation.subjects)


def undecided(playbook: Playbook, observation: Observation) -> tuple[WorkItemRef, ...]:
    """The items that have to be asked about: those whose answer could change something."""
    open_questions = (r for r in resolve(playbook, observation) if r.doubt and r.doubt.kind == UNASKED)
    return tuple({r.subject.ref: None for r in open_questions})


def is_for(play: Play, machine: str) -> bool:
    """Whether a play's hosts name this machine: `localhost`, `all`, its name or a glob."""
    return any(host in {"all", "localhost"} or fnmatchcase(machine.lower(), host.lower()) for host in play.hosts)


def _resolve_one(plays: list[Play], subject: Subject, observation: Observation) -> Resolution:
    wanted: list[tuple[Play, Rule]] = []
    doubts: list[tuple[Rule, Unknown]] = []
    for play, rule in _rules(plays):
        verdict = matches(rule, subject, observation)
        if isinstance(verdict, Unknown):
            doubts.append((rule, verdict))
        elif verdict:
            wanted.append((play, rule))
    acting = any(_matters(rule, subject) for _, rule in wanted)
    # A doubtful rule that could ask for nothing new is idle, unless another acts: then they might disagree.
    weighty = [doubt for rule, doubt in doubts if acting or _matters(rule, subject)]
    if weighty:
        return Resolution(subject, doubt=min(weighty, key=lambda d: (_RANK.get(d.kind, 0), d.reason)))
    if not wanted:
        return Resolution(subject)
    if acting and subject.session and isinstance(subject.session.sighting, Unknown):
        return Resolution(subject, doubt=subject.session.sighting)
    return _compose(subject, wanted)


def _rules(plays: list[Play]) -> Iterator[tuple[Play, Rule]]:
    for play in plays:
        for rule in play.rules:
            yield play, rule


def _matters(rule: Rule, subject: Subject) -> bool:
    """Whether the rule could ask for anything that is not so already: if not, nothing about it needs to be known."""
    wanted, phase = rule.ensure.session, subject.phase
    if wanted == RUN:
        return subject.latest and phase not in {RUNNING, PAUSED}
    if subject.record is None:
        return False
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


def _compose(subject: Subject, wanted: list[tuple[Play, Rule]]) -> Resolution:
    wanted = sorted(wanted, key=lambda pair: (-_FURTHER.get(pair[1].ensure.session or "", 0), pair[1].position))
    states = {rule.ensure.session for _, rule in wanted if rule.ensure.session}
    if RUN in states and len(states) > 1:
        return _conflict(subject, "session", wanted)
    merged: dict[str, object] = {}
    for field in fields(Ensure):
        values: dict[object, None] = {}
        for _, rule in wanted:
            value = getattr(rule.ensure, field.name)
            if value is not None:
                values[getattr(value, "source", value)] = None
                merged.setdefault(field.name, value)
        if len(values) > 1 and field.name != "session":
            return _conflict(subject, field.name, wanted)
    play, rule = wanted[0]
    return Resolution(subject, Desired(Ensure(**merged), rule, play))  # type: ignore[arg-type]


def _conflict(subject: Subject, key: str, wanted: list[tuple[Play, Rule]]) -> Resolution:
    places = " and ".join(
        f'{rule.position} "{rule.name}"' for _, rule in wanted if getattr(rule.ensure, key) is not None
    )
    return Resolution(subject, doubt=Unknown(f"rules disagree on ensure.{key}: {places}"))
