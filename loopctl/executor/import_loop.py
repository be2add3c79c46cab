"""Import the sessions of the-loop: what its records say, checked against what its tmux server shows.

A record is taken only where nothing has to be guessed. The rest is left alone, each with the reason.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopctl.errors import StateError
from loopctl.executor.seen import Seen, look, only_pane
from loopctl.executor.take_over import announce, bind, claim, half_done, open_session, settle
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS, IMPORTED, TMUX_RUNNER, Pane, SessionRecord
from loopctl.model.the_loop import LoopRecord, as_tmux_spells, loop_session_name
from loopctl.model.tmux import keeps_dots
from loopctl.ports import World

TAKEN = "taken"
PRESENT = "already here"
SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of one record of the-loop: taken, already here or skipped, and why. `session` is our record's id.

    `unseen` says that it was skipped because its session was not seen, or its tmux server could not be looked at.
    """

    ref: WorkItemRef
    outcome: str
    detail: str
    path: str
    session: str = ""
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class _Choice:
    """What is to be done with one record: take or complete `record`, or nothing."""

    loop: LoopRecord
    outcome: str
    detail: str
    record: SessionRecord | None = None
    half_done: bool = False
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class _Known:
    """What choices are made from: our records (with those chosen so far), who claims which name, and what tmux shows."""

    machine: str
    records: list[SessionRecord]
    claims: Counter[str]
    seen: Seen | None
    doubt: str


def import_records(
    loops: Sequence[LoopRecord], socket: str, world: World, *, dry_run: bool = False
) -> tuple[Imported, ...]:
    """Take over what can be taken over, in the order given. Raises StateError for an unusable registry.

    `socket` is the server that the-loop's sessions live on. With `dry_run` nothing is changed.
    """
    known = _look(loops, socket, world)
    choices = []
    for loop in loops:
        choice = _choose(loop, known)
        if choice.outcome == TAKEN and choice.record:
            known.records.append(choice.record)
        choices.append(choice)
    if not dry_run:
        choices = _carry_out(choices, known.seen, world)
    return tuple(
        Imported(c.loop.ref, c.outcome, c.detail, c.loop.path, c.record.id if c.record else "", c.unseen)
        for c in choices
    )


def _look(loops: Sequence[LoopRecord], socket: str, world: World) -> _Known:
    seen, doubt = None, ""
    if any(loop.runner == TMUX_RUNNER for loop in loops):
        try:
            seen = look(socket, world)
        except StateError as error:
            doubt = _words(error)
    claims = Counter(_name(loop, seen) for loop in loops if loop.tmux_target)
    return _Known(world.machine, list(world.registry.all()), claims, seen, doubt)


def _name(loop: LoopRecord, seen: Seen | None) -> str:
    """What the server calls the session that was made with the record's name."""
    target = loop.tmux_target or loop_session_name(loop.ref)
    return target if seen and keeps_dots(seen.version) else as_tmux_spells(target)


def _choose(loop: LoopRecord, known: _Known) -> _Choice:
    new = _record(loop, known.machine)
    name = _name(loop, known.seen)
    for record in known.records:
        if (record.ref, record.machine, record.harness_session_id) == (new.ref, new.machine, new.harness_session_id):
            return _present(loop, record, known)
    open_one = open_session(known.records, new) if loop.status != CLOSED_STATUS else None
    if open_one:
        taken = known.seen and any(p.mark == open_one.id and p.session == name for p in known.seen.panes)
        return (
            _present(loop, open_one, known) if taken else _Choice(loop, SKIPPED, "the item has an open session already")
        )
    if loop.runner != TMUX_RUNNER:
        return _Choice(loop, TAKEN, f"{loop.status}, runner {loop.runner}", new)
    if as_tmux_spells(loop.tmux_target) != loop_session_name(loop.ref):
        return _Choice(
            loop,
            SKIPPED,
            f"tmuxTarget {loop.tmux_target!r} is not the name the-loop gives {loop.ref}; "
            "use `loopctl sessions register` to take it over by hand",
        )
    if known.seen is None:
        return _Choice(loop, SKIPPED, known.doubt, unseen=True)
    try:
        return _on_server(loop, replace(new, socket=known.seen.socket, name=name), known, known.seen)
    except StateError as error:
        return _Choice(loop, SKIPPED, _words(error))


def _present(loop: LoopRecord, record: SessionRecord, known: _Known) -> _Choice:
    seen = known.seen
    pane = next((p for p in seen.panes if p.pane_id == record.pane_id), None) if seen else None
    broken = bool(seen and pane and half_done(record, pane, seen))
    return _Choice(loop, PRESENT, f"session {record.id[:8]}, {record.status}", record, broken)


def _on_server(loop: LoopRecord, new: SessionRecord, known: _Known, seen: Seen) -> _Choice:
    name = new.name
    if all(pane.session != name for pane in seen.panes):
        if loop.status == CLOSED_STATUS:
            return _Choice(loop, TAKEN, f"{loop.status}, there is no session {name}", new)
        # It may have ended, have another name, or be on another server: a record would say the first.
        where = "`--socket` names another server, `loopctl sessions register` takes it over by hand"
        return _Choice(
            loop, SKIPPED, f"{loop.status}, but there is no session {name} at {seen.socket}: {where}", unseen=True
        )
    if known.claims[name] > 1:
        return _Choice(loop, SKIPPED, f"session {name} is claimed by {known.claims[name]} records")
    pane = only_pane(name, seen)
    id_ = claim(pane, seen, known.records)
    if pane.mark:
        # the-loop marks nothing: this one is somebody's already.
        detail = f"session {name} carries the mark of another registry; use `loopctl sessions register` to take it over"
        return _Choice(loop, SKIPPED, detail)
    return _Choice(loop, TAKEN, _where(loop, pane), bind(replace(new, id=id_), pane, seen))


def _where(loop: LoopRecord, pane: Pane) -> str:
    if pane.dead:
        return f"{loop.status}, pane {pane.pane_id} of {pane.session} is dead"
    but = "but its agent runs" if loop.status == CLOSED_STATUS else "running"
    return f"{loop.status}, {but} in pane {pane.pane_id} of {pane.session}"


def _words(error: StateError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _record(loop: LoopRecord, machine: str) -> SessionRecord:
    return SessionRecord(
        id=str(uuid.uuid4()),
        ref=loop.ref,
        machine=machine,
        harness=loop.harness,
        status=loop.status,
        runner=loop.runner,
        origin=IMPORTED,
        harness_session_id=loop.harness_session_id,
        cwd=loop.cwd,
        created_at=loop.created_at,
    )


def _carry_out(choices: Sequence[_Choice], seen: Seen | None, world: World) -> list[_Choice]:
    """Add all records, then mark and read back together; whoever fails is skipped, singly."""
    done = [_add(choice, world) for choice in choices]
    to_mark = [c.record for c in done if c.record and c.record.pane_id and (c.outcome == TAKEN or c.half_done)]
    problems = settle(to_mark, seen, world) if to_mark and seen else {}
    return [_finish(choice, problems, world) for choice in done]


def _add(choice: _Choice, world: World) -> _Choice:
    if choice.outcome != TAKEN or choice.record is None:
        return choice
    try:
        return replace(choice, record=world.registry.add(choice.record))
    except StateError as error:
        return _Choice(choice.loop, SKIPPED, _words(error))


def _finish(choice: _Choice, problems: Mapping[str, str], world: World) -> _Choice:
    record = choice.record
    problem = problems.get(record.id, "") if record else ""
    if choice.outcome != TAKEN or record is None:
        return replace(choice, detail=f"{choice.detail}, but not marked: {problem}") if problem else choice
    if problem:
        world.registry.remove(record)
        return _Choice(choice.loop, SKIPPED, problem)
    announce(record, world)
    return choice
