"""Rules that contradict each other for the same subject, as far as `match` alone shows it.

Sound rather than complete: two rules are reported only where every criterion of one can hold together with every
criterion of the other. What `when` decides is left to the planner, which then holds that one subject.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from itertools import combinations, islice
from operator import attrgetter

from loopctl.errors import Problem
from loopctl.model.items import CLOSED, ISSUE, KINDS, MERGED, STATES
from loopctl.model.rules import ENDS, RUN, Ensure, ItemMatch, Play, Rule, SessionMatch
from loopctl.model.sessions import ABSENT, GONE, PHASES, RETAINED, UNDEAD
from loopctl.model.talk import COMMENT_KEYS
from loopctl.playbook.document import MAX_PROBLEMS

_EVERY_HOST = frozenset({"all", "*"})


_WILD = frozenset("*?[")
_KEYS = tuple(field.name for field in fields(Ensure) if field.name != "keep_last")
_SESSION = _KEYS.index("session")
#: Of a session that is closed: its item's next session and its own end are two things.
_CLOSED = frozenset({UNDEAD, RETAINED, GONE})
_EXACT_ITEM = attrgetter("provider", "number", "reason", "author", "assignee", "milestone")


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a rule applies to, in the form in which two are compared quickly.

    `items` are the (kind, state) pairs it allows, `exact` criteria of which any two must share a value.
    """

    rule: Rule
    hosts: frozenset[str]
    items: frozenset[tuple[str, str]]
    phases: frozenset[str]
    exact: tuple[frozenset[str], ...]
    repos: frozenset[str]
    labels: frozenset[str]
    labels_any: frozenset[str]
    attached: bool | None

    @classmethod
    def of(cls, rule: Rule, hosts: Sequence[str]) -> _Scope:
        item, session = rule.match.item, rule.match.session
        return cls(
            rule,
            _folded(hosts),
            _items(item),
            _phases(session),
            tuple(map(_folded, (*_EXACT_ITEM(item), session.harness))),
            _folded(item.repo),
            _folded(item.labels),
            _folded(item.labels_any),
            session.attached,
        )


def conflicts(plays: Sequence[Play]) -> list[Problem]:
    """Every pair of rules without `when` that want different things of the same subject."""
    groups: dict[Ensure, list[_Scope]] = {}
    for play in plays:
        for rule in play.rules:
            if rule.match.when is None:
                groups.setdefault(rule.ensure, []).append(_Scope.of(rule, play.hosts))
    return list(islice(_pairs(groups), MAX_PROBLEMS))


def _pairs(groups: dict[Ensure, list[_Scope]]) -> Iterator[Problem]:
    # Rules that want the same cannot conflict, and most rules of a large playbook do.
    wanted = [(tuple(getattr(ensure, key) for key in _KEYS), scopes) for ensure, scopes in groups.items()]
    for (one, ours), (two, theirs) in combinations(wanted, 2):
        for first in ours:
            for second in theirs:
                # The criterion that most often tells two rules apart goes first: this is the inner loop.
                if not _globs(first.repos, second.repos):
                    continue
                difference = _difference(one, two)
                if difference and _overlap(first, second):
                    yield _problem(first.rule, second.rule, difference)


def _difference(one: Sequence[object], two: Sequence[object]) -> str:
    """The first key of which two rules want different values. Paused, retained and gone compose, and what belongs to its
    rule alone is no key."""
    states = (one[_SESSION], two[_SESSION])
    for key, a, b in zip(_KEYS, one, two, strict=True):
        if a is not None and b is not None and a != b and _contradict(key, states):
            return key
    return ""


def _contradict(key: str, states: tuple[object, object]) -> bool:
    if key == "session":
        return RUN in states and bool(set(states) & {*ENDS})
    # Each comment tells of the state that its own rule wants.
    return key != "comment" or len({COMMENT_KEYS.get(str(state)) for state in states}) == 1


def _problem(one: Rule, two: Rule, key: str) -> Problem:
    first, second = sorted((one, two), key=lambda rule: rule.position)
    wants = [getattr(rule.ensure, key) for rule in (first, second)]
    values = (
        f": {wants[1]!r} here, {wants[0]!r} there"
        if all(isinstance(w, str | bool | int | float) for w in wants)
        else ""
    )
    at = second.position
    return Problem(
        at.source,
        at.line,
        at.column,
        f'rule "{second.name}" contradicts rule "{first.name}" ({first.position}) on {key}{values}',
        "make the two matches disjoint, or let one of the rules say nothing of it",
    )


def _overlap(one: _Scope, two: _Scope) -> bool:
    if one.items.isdisjoint(two.items) or not _share_a_phase(one, two):
        return False
    for a, b in zip(one.exact, two.exact, strict=True):
        if not _meet(a, b):
            return False
    together = one.attached is None or two.attached is None or one.attached == two.attached
    every = not _EVERY_HOST.isdisjoint(one.hosts | two.hosts)
    return together and (every or _globs(one.hosts, two.hosts)) and _labels(one, two)


def _share_a_phase(one: _Scope, two: _Scope) -> bool:
    wanted = {one.rule.ensure.session, two.rule.ensure.session}
    apart = RUN in wanted and not wanted.isdisjoint(ENDS)
    return bool((one.phases & two.phases) - (_CLOSED if apart else frozenset()))


def _items(match: ItemMatch) -> frozenset[tuple[str, str]]:
    kinds, states = set(match.kind or KINDS), set(match.state or STATES)
    if match.closed_for is not None or match.reason:
        states &= {CLOSED, MERGED}
    pairs = {(kind, state) for kind in kinds for state in states}
    return frozenset(pairs - {(ISSUE, MERGED)})


def _phases(match: SessionMatch) -> frozenset[str]:
    phases = frozenset(match.phase or PHASES)
    if match.closed_for is not None:
        phases &= _CLOSED
    of_a_session = match.harness or match.attached is not None or match.older_than is not None
    return phases - {ABSENT} if of_a_session else phases


def _folded(values: Sequence[object]) -> frozenset[str]:
    return frozenset(str(value).lower() for value in values)


def _meet(one: frozenset[str], two: frozenset[str]) -> bool:
    """Whether two criteria can hold together; an empty one is none."""
    return not one or not two or not one.isdisjoint(two)


def _globs(one: frozenset[str], two: frozenset[str]) -> bool:
    if _meet(one, two):
        return True
    wild = any(map(_WILD.intersection, one)) or any(map(_WILD.intersection, two))
    return wild and any(fnmatchcase(a, b) or fnmatchcase(b, a) for a in one for b in two)


def _labels(one: _Scope, two: _Scope) -> bool:
    """Whether the labels show no intention to tell the two apart: an item can carry any labels at once."""
    nested = one.labels <= two.labels or two.labels <= one.labels
    return (
        nested
        and _meet(one.labels_any, two.labels_any)
        and _meet(one.labels, two.labels_any)
        and _meet(two.labels, one.labels_any)
    )
