"""Rules that contradict each other for the same subject, as far as `match` alone shows it.

Sound rather than complete: two rules are reported only where every criterion of one can hold together with every
criterion of the other. What `when` decides is left to the planner, which then holds that one subject.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from itertools import combinations, islice

from loopctl.errors import Problem
from loopctl.model.items import CLOSED, ISSUE, KINDS, MERGED, STATES
from loopctl.model.rules import RUN, Ensure, ItemMatch, Play, Rule, SessionMatch
from loopctl.model.sessions import ABSENT, PHASES
from loopctl.playbook.document import MAX_PROBLEMS

_EVERY_HOST = frozenset({"all", "*"})


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a rule applies to: its hosts, the (kind, state) pairs and the phases it allows."""

    rule: Rule
    hosts: tuple[str, ...]
    items: frozenset[tuple[str, str]]
    phases: frozenset[str]


def conflicts(plays: Sequence[Play]) -> list[Problem]:
    """Every pair of rules without `when` that want different things of the same subject."""
    groups: dict[Ensure, list[_Scope]] = {}
    for play in plays:
        for rule in play.rules:
            if rule.match.when is None:
                scope = _Scope(rule, play.hosts, _items(rule.match.item), _phases(rule.match.session))
                groups.setdefault(rule.ensure, []).append(scope)
    return list(islice(_pairs(groups), MAX_PROBLEMS))


def _pairs(groups: dict[Ensure, list[_Scope]]) -> Iterator[Problem]:
    # Rules that want the same cannot conflict, and most rules of a large playbook do.
    for (one, ours), (two, theirs) in combinations(groups.items(), 2):
        difference = _difference(one, two)
        if not difference:
            continue
        for first in ours:
            for second in theirs:
                if _overlap(first, second):
                    yield _problem(first.rule, second.rule, difference)


def _difference(one: Ensure, two: Ensure) -> str:
    """The first key of which two rules want different values; retained and gone compose."""
    for field in fields(Ensure):
        a, b = getattr(one, field.name), getattr(two, field.name)
        differ = a is not None and b is not None and a != b
        if differ and (field.name != "session" or RUN in {a, b}):
            return field.name
    return ""


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
    if not (one.items & two.items and one.phases & two.phases):
        return False
    a, b = one.rule.match, two.rule.match
    together = a.session.attached is None or b.session.attached is None or a.session.attached == b.session.attached
    plain = ("provider", "number", "reason", "author", "assignee", "milestone")
    return (
        together
        and _hosts(one.hosts, two.hosts)
        and all(_share(getattr(a.item, name), getattr(b.item, name)) for name in plain)
        and _share(a.session.harness, b.session.harness)
        and _globs(a.item.repo, b.item.repo)
        and _labels(a.item, b.item)
    )


def _items(match: ItemMatch) -> frozenset[tuple[str, str]]:
    kinds, states = set(match.kind or KINDS), set(match.state or STATES)
    if match.closed_for is not None or match.reason:
        states &= {CLOSED, MERGED}
    pairs = {(kind, state) for kind in kinds for state in states}
    return frozenset(pairs - {(ISSUE, MERGED)})


def _phases(match: SessionMatch) -> frozenset[str]:
    phases = frozenset(match.phase or PHASES)
    of_a_session = match.harness or match.attached is not None or match.older_than is not None
    return phases - {ABSENT} if of_a_session else phases


def _folded(values: Sequence[object]) -> set[str]:
    return {str(value).lower() for value in values}


def _share(one: Sequence[object], two: Sequence[object]) -> bool:
    return not one or not two or bool(_folded(one) & _folded(two))


def _globs(one: Sequence[str], two: Sequence[str]) -> bool:
    if not one or not two:
        return True
    return any(fnmatchcase(a, b) or fnmatchcase(b, a) for a in _folded(one) for b in _folded(two))


def _hosts(one: Sequence[str], two: Sequence[str]) -> bool:
    if _EVERY_HOST & {*one, *two}:
        return True
    return _globs(one, two)


def _labels(one: ItemMatch, two: ItemMatch) -> bool:
    """Whether the labels show no intention to tell the two apart: an item can carry any labels at once."""
    a, b = _folded(one.labels), _folded(two.labels)
    any_a, any_b = _folded(one.labels_any), _folded(two.labels_any)
    return (
        (not a or not b or a <= b or b <= a)
        and (not any_a or not any_b or bool(any_a & any_b))
        and (not a or not any_b or bool(a & any_b))
        and (not b or not any_a or bool(b & any_a))
    )
