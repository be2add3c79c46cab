"""Take over sessions that somebody else started: look once, store what identifies them, then mark them.

The record is written before the mark, and the mark is only set on a session that carries none, so that two who take
over the same session cannot both succeed. A crash in between leaves a record whose pane is not marked yet: asking for
the same pane again completes it. The apply lock is never taken.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from loopctl.errors import StateError
from loopctl.executor.seen import Seen, look, only_pane, process_of
from loopctl.model.facts import Known
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS, REGISTERED, TMUX_RUNNER, Pane, ServerId, SessionRecord
from loopctl.ports import PaneRef, World


@dataclass(frozen=True, slots=True)
class TakeOver:
    """A session that exists and the item it belongs to.

    `socket` is absolute. `name` is the session's exact name or its `$id`, `pane` a `%id`; one of them is needed unless
    the runner is not tmux. `server_pid` is the server that the pane is known to be of (0: any).
    """

    ref: WorkItemRef
    harness: str
    socket: str = ""
    name: str = ""
    pane: str = ""
    server_pid: int = 0
    harness_session_id: str = ""
    cwd: str = ""
    runner: str = TMUX_RUNNER


def take_over(request: TakeOver, world: World) -> SessionRecord:
    """Put a running (or dead) session into the registry and mark it; returns its record.

    Asking again for the same pane of the same item changes nothing and returns the record that is there. Raises
    StateError, with nothing changed, when the session cannot be found for certain or belongs to another record.
    """
    records = world.registry.all()
    record = SessionRecord(
        id=str(uuid.uuid4()),
        ref=request.ref,
        machine=world.machine,
        harness=request.harness,
        runner=request.runner,
        origin=REGISTERED,
        harness_session_id=request.harness_session_id,
        cwd=request.cwd,
        created_at=world.now(),
    )
    if request.runner != TMUX_RUNNER:
        _refuse_second(open_session(records, record), request.ref)
        added = world.registry.add(record)
        announce(added, world)
        return added
    seen = look(request.socket, world)
    pane = _chosen(request, seen)
    known = open_session(records, record)
    if known is not None:
        return _again(known, pane, seen, world)
    bound = bind(replace(record, id=claim(pane, seen, records)), pane, seen)
    added = world.registry.add(bound)
    problem = settle([added], seen, world).get(added.id)
    if problem:
        world.registry.remove(added)
        raise StateError(f"{request.ref} was not taken over: {problem}", hint="try again")
    announce(added, world)
    return added


def claim(pane: Pane, seen: Seen, records: Iterable[SessionRecord]) -> str:
    """The id that a record for this pane gets. Raises StateError when the pane is another record's.

    A mark that the registry does not know is taken on as it is: it is of a registry that was lost, and the processes of
    the session carry it.
    """
    for record in records:
        same = (record.socket, record.server, record.pane_id) == (seen.socket, seen.server, pane.pane_id)
        if record.id == pane.mark or (same and record.status != CLOSED_STATUS):
            raise StateError(
                f"pane {pane.pane_id} of {pane.session} belongs to {record.ref} already ({record.status})",
                hint=f"see `loopctl sessions show {record.id[:8]}`",
            )
    if not pane.mark:
        return str(uuid.uuid4())
    try:
        if str(uuid.UUID(pane.mark)) == pane.mark:
            return pane.mark
    except ValueError:
        pass
    raise StateError(f"pane {pane.pane_id} of {pane.session} carries a mark that loopctl does not give: {pane.mark}")


def bind(record: SessionRecord, pane: Pane, seen: Seen) -> SessionRecord:
    """The record with all identities of the pane. Raises StateError when its process cannot be told."""
    return replace(
        record,
        socket=seen.socket,
        server=seen.server,
        session_id=pane.session_id,
        pane_id=pane.pane_id,
        pane=process_of(pane, seen),
        name=pane.session,
    )


def settle(records: Sequence[SessionRecord], seen: Seen, world: World) -> Mapping[str, str]:
    """Mark the sessions of these records and read the marks back. Returns what did not hold, by record id."""
    said = {}
    for record in records:
        pane = PaneRef(record.pane_id, record.session_id, record.id)
        said[record.id] = world.terminals.mark(seen.socket, seen.server, pane, record.ref)
    view = world.terminals.look(seen.socket)
    problems = {}
    for record in records:
        doubt = _unmarked(record, view.value.server, view.value.panes) if isinstance(view, Known) else view.reason
        if doubt:
            problems[record.id] = f"{doubt}: {said[record.id]}" if said[record.id] else doubt
    return problems


def half_done(known: SessionRecord, pane: Pane, seen: Seen) -> bool:
    """Whether a record names exactly this pane, which is not marked: whoever took it over was cut short."""
    return not pane.mark and _is_same(known, pane, seen)


def open_session(records: Iterable[SessionRecord], new: SessionRecord) -> SessionRecord | None:
    """The record of the same item on the same machine that is not closed."""
    same = (r for r in records if r.ref == new.ref and r.machine == new.machine)
    return next((r for r in same if r.status != CLOSED_STATUS), None)


def announce(record: SessionRecord, world: World) -> None:
    """Log that a session was taken over."""
    world.journal.emit(
        "session.registered",
        ref=str(record.ref),
        session=record.id,
        origin=record.origin,
        harness=record.harness,
        status=record.status,
        pane=record.pane_id or None,
        socket=record.socket or None,
    )


def _chosen(request: TakeOver, seen: Seen) -> Pane:
    if request.server_pid not in {0, seen.server.pid}:
        raise StateError(
            f"another tmux server answers at {seen.socket}: pid {seen.server.pid}, not {request.server_pid}"
        )
    if not request.pane:
        return only_pane(request.name, seen)
    pane = next((pane for pane in seen.panes if pane.pane_id == request.pane), None)
    if pane is None:
        raise StateError(f"there is no pane {request.pane} at {seen.socket}")
    if request.name and request.name not in {pane.session, pane.session_id}:
        raise StateError(f"pane {request.pane} is in session {pane.session}, not in {request.name}")
    return pane


def _again(known: SessionRecord, pane: Pane, seen: Seen, world: World) -> SessionRecord:
    """An item has one open session. For the same pane, see to it that it is marked."""
    if half_done(known, pane, seen):
        problem = settle([known], seen, world).get(known.id)
        if problem:
            raise StateError(f"{known.ref} could not be marked: {problem}")
    elif pane.mark != known.id or not _is_same(known, pane, seen):
        _refuse_second(known, known.ref)
    return known


def _is_same(known: SessionRecord, pane: Pane, seen: Seen) -> bool:
    same = (known.socket, known.server, known.pane_id) == (seen.socket, seen.server, pane.pane_id)
    return same and (pane.dead or known.pane in {None, process_of(pane, seen)})


def _refuse_second(known: SessionRecord | None, ref: WorkItemRef) -> None:
    if known is not None:
        where = f" in pane {known.pane_id} of {known.name}" if known.pane_id else ""
        raise StateError(f"{ref} already has an open session{where}", hint=f"see `loopctl sessions show {ref}`")


def _unmarked(record: SessionRecord, server: ServerId | None, panes: Iterable[Pane]) -> str:
    if server != record.server:
        return "another tmux server answers now"
    pane = next((pane for pane in panes if pane.pane_id == record.pane_id), None)
    if pane is None:
        return f"pane {record.pane_id} has vanished meanwhile"
    return (
        "" if pane.mark == record.id else f"its session carries {f'the mark {pane.mark}' if pane.mark else 'no mark'}"
    )
