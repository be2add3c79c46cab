"""Which sessions a rule with `keep_last` leaves alone: the newest of those that it matches."""

from __future__ import annotations

from loopctl.model.facts import UNASKED, Unknown
from loopctl.model.observed import Observation, Subject
from loopctl.model.rules import Rule
from loopctl.planner.match import Verdict, matches


def counted(rule: Rule, observation: Observation) -> dict[str, Verdict]:
    """Whether the rule applies to each session by its record's id, once the newest `keep_last` are left alone.

    Who may or may not match never helps to push another out: a session goes only where enough newer ones certainly
    match. Nobody is asked about while there are too few that could match.
    """
    keep = rule.ensure.keep_last or 0
    mine = sorted((subject for subject in observation.subjects if subject.record), key=_age, reverse=True)
    verdicts = {_id(subject): matches(rule, subject, observation) for subject in mine}
    enough = sum(verdict is not False for verdict in verdicts.values()) > keep
    certain = possible = 0
    for subject in mine:
        verdict = verdicts[_id(subject)]
        asked = not (isinstance(verdict, Unknown) and verdict.kind == UNASKED)
        kept = certain < keep if verdict is True else possible < keep and asked
        certain += verdict is True
        possible += verdict is not False
        if kept or not enough:
            verdicts[_id(subject)] = False
    return verdicts


def _id(subject: Subject) -> str:
    return subject.record.id if subject.record else ""


def _age(subject: Subject) -> tuple[float, str]:
    record = subject.record
    since = record.closed_at or record.updated_at if record else None
    return (since.timestamp() if since else 0.0, _id(subject))
