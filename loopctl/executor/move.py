"""Give sessions their item's new address: the records, then the marks that tmux carries. No process is touched.

A crash in between leaves records at the new address and old marks; moving again mends those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopctl.errors import StateError
from loopctl.model.facts import Known, Unknown
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS, TMUX_RUNNER, SessionRecord, SessionView
from loopctl.observe import observe
from loopctl.ports import PaneRef, World


@dataclass(frozen=True, slots=True)
class Moved:
    """One record at its new address; `problem` is why its tmux session could not be marked."""

    record: SessionRecord
    problem: str = ""


def move(old: WorkItemRef, new: WorkItemRef, node_id: str, world: World) -> tuple[Moved, ...]:
    """Move every session of an item, closed ones too, to another address; `node_id` is the item's there, "" keeps what is
    known of it.

    Raises StateError, with nothing changed, when there is none, when the new address has an open session of its own, or
    when a record changed meanwhile.
    """
    mine = [record for record in world.registry.all() if record.machine == world.machine]
    moving = [record for record in mine if record.ref == old]
    if not moving:
        return _mend(old, [record for record in mine if record.ref == new], world)
    _refuse_two(moving, [record for record in mine if record.ref == new], new)
    written = world.registry.replace_all(
        [replace(record, ref=new, node_id=node_id or record.node_id) for record in moving]
    )
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


def _mend(old: WorkItemRef, there: Sequence[SessionRecord], world: World) -> tuple[Moved, ...]:
    """Mark those sessions at the new address whose tmux session still says that it is the old item's."""
    views = _views(there, world)
    moved = [record for record in there if record.id in views and _marked_for(views[record.id]) == str(old).lower()]
    if moved:
        return _mark(moved, world)
    unseen = [view.sighting.reason for view in views.values() if isinstance(view.sighting, Unknown)]
    more = f"; whether one has moved to {there[0].ref} cannot be told: {unseen[0]}" if unseen else ""
    hint = f"{there[0].ref} has a session: it may have been moved before" if there else ""
    raise StateError(f"no session for {old}{more}", hint=hint or "loopctl sessions list shows what there is")


def _marked_for(view: SessionView) -> str:
    pane = view.sighting.value.pane if isinstance(view.sighting, Known) else None
    return pane.ref_mark.lower() if pane else ""


def _views(records: Sequence[SessionRecord], world: World) -> dict[str, SessionView]:
    ids = {record.id for record in records}
    return {s.record.id: s.session for s in observe(world).subjects if s.session and s.record and s.record.id in ids}


def _mark(records: Sequence[SessionRecord], world: World) -> tuple[Moved, ...]:
    """Mark the sessions whose pane is proved to be theirs; where there is none, there is nothing to mark."""
    views = _views(records, world)
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
