"""Give sessions their item's new address: the records, then the marks that tmux carries. No process is touched.

A crash in between leaves records at the new address and old marks; moving again mends those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopctl.errors import StateError
from loopctl.model.facts import Known
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS, TMUX_RUNNER, SessionRecord
from loopctl.observe import observe
from loopctl.ports import PaneRef, World


@dataclass(frozen=True, slots=True)
class Moved:
    """One record at its new address; `problem` is why its tmux session could not be marked."""

    record: SessionRecord
    problem: str = ""


def move(old: WorkItemRef, new: WorkItemRef, node_id: str, world: World) -> tuple[Moved, ...]:
    """Move every session of an item, closed ones too, to another address; `node_id` is the item's there ("": unknown).

    Raises StateError, with nothing changed, when there is none, when the new address has an open session of its own, or
    when a record changed meanwhile.
    """
    mine = [record for record in world.registry.all() if record.machine == world.machine]
    moving = [record for record in mine if record.ref == old]
    if not moving:
        there = [record for record in mine if record.ref == new]
        if not there:
            raise StateError(f"no session for {old}", hint="loopctl sessions list shows what there is")
        return _mark(there, world)
    _refuse_two(moving, [record for record in mine if record.ref == new], new)
    written = world.registry.replace_all([replace(record, ref=new, node_id=node_id) for record in moving])
    done = [record for record in written.values() if record]
    for record in done:
        world.journal.emit(
            "session.moved",
            ref=str(new),
            session=record.id,
            **{"from": str(old), "to": str(new), "status": record.status},
        )
    moved = _mark(done, world)
    if len(done) < len(moving):
        raise StateError(f"a session of {old} changed meanwhile: {len(done)} of {len(moving)} moved", hint="try again")
    return moved


def _refuse_two(moving: Sequence[SessionRecord], there: Sequence[SessionRecord], new: WorkItemRef) -> None:
    both = [[r for r in records if r.status != CLOSED_STATUS] for records in (moving, there)]
    if all(both):
        raise StateError(
            f"{new} already has an open session", hint=f"end one of the two: `loopctl sessions close {moving[0].ref}`"
        )


def _mark(records: Sequence[SessionRecord], world: World) -> tuple[Moved, ...]:
    """Mark the sessions whose pane is proved to be theirs; where there is none, there is nothing to mark."""
    ids = {record.id for record in records}
    views = {s.record.id: s.session for s in observe(world).subjects if s.session and s.record and s.record.id in ids}
    moved = []
    for record in records:
        view = views.get(record.id)
        if record.runner != TMUX_RUNNER or view is None:
            moved.append(Moved(record))
        elif not isinstance(view.sighting, Known):
            moved.append(Moved(record, view.sighting.reason))
        else:
            sighting = view.sighting.value
            problem = ""
            if sighting.pane and sighting.server:
                pane = PaneRef(sighting.pane.pane_id, sighting.pane.session_id, record.id)
                problem = world.terminals.mark(record.socket, sighting.server, pane, record.ref)
            moved.append(Moved(record, problem))
    return tuple(moved)
