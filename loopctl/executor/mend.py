"""Put right what a start or a close that was cut off has left of a running session: the record learns which pane is its own, and
people can type again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopctl.errors import StateError
from loopctl.model.facts import Known
from loopctl.model.plan import CHANGED, FAILED, STALE, Action, Result
from loopctl.model.sessions import SessionRecord, SessionView
from loopctl.ports import PaneRef, World


def mend_all(actions: Sequence[tuple[Action, SessionView]], world: World) -> list[Result]:
    """Mend these sessions. The views are fresh and were compared with the guards. Results in the order of actions."""
    return [_mend(action, view, world) for action, view in actions]


def _mend(action: Action, view: SessionView, world: World) -> Result:
    words = []
    if view.record.only_begun or view.unnamed:
        try:
            bound = _bind(view, world)
        except StateError as error:
            return Result(action, FAILED, error.message)
        if not bound:
            return Result(action, STALE, "its record has changed meanwhile")
        words.append("its record names its pane" if view.record.only_begun else "its record names its process")
    if view.silenced:
        if problem := _release(view, world):
            return Result(action, FAILED, problem)
        words.append("input on again")
    return Result(action, CHANGED, ", ".join(words))


def _bind(view: SessionView, world: World) -> bool:
    sighting = view.sighting.value if isinstance(view.sighting, Known) else None
    if sighting is None or sighting.pane is None:
        return False
    record = replace(
        view.record,
        server=sighting.server,
        session_id=sighting.pane.session_id,
        pane_id=sighting.pane.pane_id,
        pane=sighting.process,
        name=sighting.pane.session,
    )
    if world.registry.replace(record) is None:
        return False
    if view.record.only_begun:
        _announce(record, world)
    return True


def _announce(record: SessionRecord, world: World) -> None:
    """Who was cut off did not get to say it."""
    world.journal.emit(
        "session.started",
        ref=str(record.ref),
        session=record.id,
        harness=record.harness,
        pane=record.pane_id,
        resumes=record.resumes or None,
    )


def _release(view: SessionView, world: World) -> str:
    """Turn the input on and read that back. Returns a problem or ""."""
    server = view.sighting.value.server if isinstance(view.sighting, Known) else None
    if server is None:
        return "its tmux server is not there"
    refs = [PaneRef(pane.pane_id, pane.session_id, view.record.id) for pane in view.silenced]
    problem = world.terminals.release(view.record.socket, server, refs)
    now = world.terminals.look(view.record.socket)
    if not isinstance(now, Known):
        return now.reason
    off = {pane.pane_id for pane in now.value.panes if pane.input_off} & {ref.pane_id for ref in refs}
    return f"input is still off on {', '.join(sorted(off))}" + (f": {problem}" if problem else "") if off else ""
