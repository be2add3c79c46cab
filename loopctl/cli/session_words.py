"""How a session is named on the command line, and how a person gets to it."""

from __future__ import annotations

from loopctl.cli.options import parse_ref
from loopctl.errors import LoopctlError, UsageError
from loopctl.model.facts import Known
from loopctl.model.observed import Observation, Subject
from loopctl.model.rules import REMOVE, RETAIN, Ensure, ItemMatch, Match, Play, Playbook, Position, Rule
from loopctl.model.sessions import ABSENT_PANE, CLOSED_STATUS, GONE, NO_PANE, SessionView


def one_rule(view: SessionView, *, gone: bool, kill: bool | None, grace: float | None) -> Playbook:
    """A playbook of one rule about one item."""
    ref = view.record.ref
    where = Position("command line")
    match = Match(item=ItemMatch(provider=(ref.provider,), repo=(ref.repository,), number=(ref.number,)))
    ensure = Ensure(session=REMOVE if gone else RETAIN, kill_harness=kill, grace=grace)
    return Playbook((Play("sessions close", where, ("all",), (Rule("sessions close", where, match, ensure),)),))


def find(observation: Observation, text: str) -> tuple[Subject, SessionView]:
    """The session that a word names: an id's first letters, or an item (its newest session). Raises LoopctlError."""
    views = [(s, s.session) for s in observation.subjects if s.session]
    if "#" not in text and len(text) >= 4:
        by_id = [(s, v) for s, v in views if v.record.id.startswith(text.lower())]
        if len(by_id) == 1:
            return by_id[0]
        if by_id:
            msg = f"{text} begins the ids of {len(by_id)} sessions"
            raise UsageError(msg)
    ref = parse_ref(text) if "#" in text else None
    by_ref = [(s, v) for s, v in views if v.record.ref == ref]
    if by_ref:
        return next(((s, v) for s, v in by_ref if v.record.status != CLOSED_STATUS), by_ref[-1])
    near = sorted({str(v.record.ref) for _, v in views})
    msg = f"no session for {ref or text}"
    raise LoopctlError(
        msg, hint=f"there are {', '.join(near[:5])}" if near else "loopctl sessions list shows what there is"
    )


def attach_command(view: SessionView) -> str:
    """What a person types to see the pane, or "" when there is none."""
    known = view.sighting.value.state if isinstance(view.sighting, Known) else ""
    if known in {ABSENT_PANE, NO_PANE, ""} or view.phase == GONE:
        return ""
    return f"loopctl sessions attach {view.record.ref}"
