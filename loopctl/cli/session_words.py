"""How a session is named on the command line, and how a person gets to it."""

from __future__ import annotations

from collections.abc import Sequence

from loopctl.cli.options import command_line, parse_ref
from loopctl.errors import LoopctlError, UsageError
from loopctl.model.encode import SHORT_ID
from loopctl.model.facts import Known
from loopctl.model.observed import Observation, Subject
from loopctl.model.rules import REMOVE, RETAIN, Ensure, ItemMatch, Match, Play, Playbook, Position, Rule
from loopctl.model.sessions import ABSENT_PANE, CLOSED_STATUS, GONE, NO_PANE, SessionRecord, SessionView

#: Fewer letters of an id are no name.
LEAST_OF_ID = 4


def one_rule(view: SessionView, *, gone: bool, kill: bool | None, grace: float | None) -> Playbook:
    """A playbook of one rule about one item."""
    ref = view.record.ref
    where = Position("command line")
    match = Match(item=ItemMatch(provider=(ref.provider,), repo=(ref.repository,), number=(ref.number,)))
    ensure = Ensure(session=REMOVE if gone else RETAIN, kill_harness=kill, grace=grace)
    return Playbook((Play("sessions close", where, ("all",), (Rule("sessions close", where, match, ensure),)),))


def pick(records: Sequence[SessionRecord], text: str) -> SessionRecord:
    """The record that a word names: at least four letters that its id begins with, or an item (its newest session). Raises LoopctlError."""
    if "#" not in text and len(text) >= LEAST_OF_ID:
        by_id = [record for record in records if record.id.startswith(text.lower())]
        if len(by_id) == 1:
            return by_id[0]
        if by_id:
            msg = f"{text} begins the ids of {len(by_id)} sessions"
            raise UsageError(msg)
    ref = parse_ref(text) if "#" in text else None
    by_ref = [record for record in records if record.ref == ref]
    if by_ref:
        return next((record for record in by_ref if record.status != CLOSED_STATUS), by_ref[-1])
    near = sorted({str(record.ref) for record in records})
    named = f"a session is named by its item, or by at least {LEAST_OF_ID} letters that its id begins with"
    msg = f"no session for {ref}" if ref else f"no session for {text}: {named}"
    raise LoopctlError(
        msg,
        hint=f"there are {', '.join(near[:5])}" if near else f"{command_line('sessions', 'list')} shows what there is",
    )


def find(observation: Observation, text: str) -> tuple[Subject, SessionView]:
    """The session that a word names, as `pick` finds it. Raises LoopctlError."""
    views = {s.session.record.id: (s, s.session) for s in observation.subjects if s.session}
    return views[pick([view.record for _, view in views.values()], text).id]


def name_of(subject: Subject) -> str:
    """What names a session on the command line: its item, or its id's first letters where the item has a newer one."""
    record = subject.record
    return str(subject.ref) if subject.latest or record is None else record.id[:SHORT_ID]


def attach_command(subject: Subject) -> str:
    """What a person types to see the pane, or "" when there is none."""
    view = subject.session
    known = view.sighting.value.state if view and isinstance(view.sighting, Known) else ""
    if view is None or known in {ABSENT_PANE, NO_PANE, ""} or view.phase == GONE:
        return ""
    return command_line("sessions", "attach", name_of(subject))
