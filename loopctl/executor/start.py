"""Start sessions: the record first, then the pane with its marks, then the identities into the record.

A crash in between leaves a record without ids whose pane, if it was made, is found again by its mark: never two
panes for one item.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from loopctl.errors import LoopctlError, StateError
from loopctl.executor.workspace import prepare
from loopctl.model.facts import REFUSED, Fact, Known, Unknown
from loopctl.model.observed import Subject, known_item
from loopctl.model.plan import CHANGED, FAILED, Action, Result
from loopctl.model.processes import MARK, ProcessId, ProcessTable
from loopctl.model.sessions import ACTIVE, STARTED, TMUX_RUNNER, SessionRecord
from loopctl.model.workspaces import WORKTREE
from loopctl.planner import ended_by_itself
from loopctl.ports import Started, StartSpec, World

_TRIES = 5


def start_all(actions: Sequence[tuple[Action, Subject]], world: World) -> list[Result]:
    """Start all these sessions in one tmux invocation. Results in the order of actions."""
    results: dict[int, Result] = {}
    ready: dict[int, tuple[SessionRecord, StartSpec, str]] = {}
    for index, (action, subject) in enumerate(actions):
        try:
            ready[index] = _prepare(action, subject, world)
        except LoopctlError as error:
            results[index] = Result(action, FAILED, error.message + (f" ({error.hint})" if error.hint else ""))
    started = _start([spec for _, spec, _ in ready.values()], world) if ready else {}
    table = world.processes.look()
    for index, (record, spec, note) in ready.items():
        action = actions[index][0]
        result = _finish(action, record, started.get(spec.id, Unknown("tmux made no pane")), table, world)
        results[index] = replace(result, detail=f"{result.detail}; {note}") if note else result
    return [results[index] for index in range(len(actions))]


def _start(specs: Sequence[StartSpec], world: World) -> Mapping[str, Fact[Started]]:
    """Make the panes. Where somebody has taken a name meanwhile, look again and decide again, once."""
    made = dict(_ask(specs, world))
    taken = [spec for spec in specs if _is_taken(made.get(spec.id))]
    view = world.terminals.look(world.socket) if taken else Unknown("")
    if isinstance(view, Unknown) or view.value.server is None:
        return made
    ours = {pane.mark: pane for pane in view.value.panes if pane.mark}
    found = {spec.id: Known(Started(view.value.server, ours[spec.id])) for spec in taken if spec.id in ours}
    names = {pane.session for pane in view.value.panes}
    again = [replace(spec, name=_another(spec.name, names)) for spec in taken if spec.id not in ours]
    return made | found | (dict(_ask(again, world)) if again else {})


def _ask(specs: Sequence[StartSpec], world: World) -> Mapping[str, Fact[Started]]:
    try:
        return world.terminals.start(world.socket, specs)
    except LoopctlError as error:
        return {spec.id: Unknown(error.message, REFUSED) for spec in specs}


def _is_taken(answer: Fact[Started] | None) -> bool:
    return isinstance(answer, Unknown) and answer.kind == REFUSED and answer.reason.startswith("duplicate session")


def _another(name: str, names: set[str]) -> str:
    """A name that nobody has."""
    free = next(other for n in count(2) if (other := f"{name}-{n}") not in names)
    names.add(free)
    return free


def _prepare(action: Action, subject: Subject, world: World) -> tuple[SessionRecord, StartSpec, str]:
    after = action.after
    harness = world.harnesses.get(after.harness)
    if harness is None:
        msg = f"no harness is called {after.harness!r} (known: {', '.join(sorted(world.harnesses))})"
        raise LoopctlError(msg)
    argv: tuple[str, ...] = ()
    conversation = after.conversation
    if conversation:
        argv = harness.resume_argv(after.prompt, conversation)
    if not argv:
        conversation = harness.new_session_id()
        argv = harness.argv(after.prompt, conversation)
    item = known_item(subject)
    if problem := harness.check():
        raise LoopctlError(problem)
    place = prepare(action, world)
    cut_off = subject.record is not None and subject.record.only_begun and not ended_by_itself(subject)
    begun = subject.record if cut_off else None
    record = SessionRecord(
        id=str(uuid.uuid4()),
        ref=action.ref,
        machine=world.machine,
        harness=after.harness,
        status=ACTIVE,
        runner=TMUX_RUNNER,
        origin=STARTED,
        socket=world.socket,
        name=after.name,
        harness_session_id=conversation,
        cwd=place.path,
        workspace=place.path if after.workspace == WORKTREE else "",
        branch=place.branch,
        # An item that was asked about for this very plan is not asked about again.
        node_id=item.node_id if item else action.guard.item_node,
        created_at=world.now(),
        resumes=_predecessor(subject, begun),
    )
    record = _again(begun, record, world) if begun else world.registry.add(record)
    if record.resumes:
        world.ledger.inherit(record.resumes, record.id)
    if after.cursor:
        world.ledger.set_cursor(record.id, after.cursor)
    env = {**harness.env(), MARK: record.id, "LOOPCTL_REF": str(action.ref)}
    return record, StartSpec(record.id, action.ref, after.name, argv, place.path, env), place.note


def _predecessor(subject: Subject, begun: SessionRecord | None) -> str:
    """The session whose place this one takes: its agent ended though nobody wanted it to."""
    if begun:
        return begun.resumes
    return subject.record.id if subject.record and ended_by_itself(subject) else ""


def _again(begun: SessionRecord, record: SessionRecord, world: World) -> SessionRecord:
    """Go on with a start that was cut off, under the same id: should its pane have come after all, it is found."""
    written = world.registry.replace(replace(record, id=begun.id, generation=begun.generation))
    if written is None:
        msg = "its record has changed meanwhile"
        raise LoopctlError(msg)
    return written


def _finish(
    action: Action, record: SessionRecord, made: Fact[Started], table: Fact[ProcessTable], world: World
) -> Result:
    if isinstance(made, Unknown):
        # Where it cannot be told whether a pane was made, the record stays: the pane is found again by its mark.
        if made.kind == REFUSED and action.guard.record_id != record.id:
            world.registry.remove(record)
        world.journal.emit("session.start_failed", "error", ref=str(record.ref), session=record.id, reason=made.reason)
        return Result(action, FAILED, made.reason)
    pane = made.value.pane
    row = table.value.get(pane.pid) if isinstance(table, Known) else None
    # A process that has just been forked has no environment to show yet; its parent tells as well.
    began = row.id if row and row.ppid == made.value.server.pid else None
    problem = _bind(record, made.value, began, world)
    world.journal.emit(
        "session.started",
        ref=str(record.ref),
        session=record.id,
        harness=record.harness,
        pane=pane.pane_id,
        resumes=record.resumes or None,
    )
    if row is None and isinstance(table, Known):
        world.journal.emit(
            "session.start_failed", "error", ref=str(record.ref), session=record.id, reason="its agent ended at once"
        )
        return Result(
            action, FAILED, f"its agent ended at once: `loopctl sessions log {record.ref}` shows what it said"
        )
    if problem:
        return Result(action, FAILED, f"{record.harness} runs in pane {pane.pane_id} of {pane.session}, but {problem}")
    return Result(action, CHANGED, f"{record.harness} runs in pane {pane.pane_id} of {pane.session}")


def _bind(record: SessionRecord, made: Started, process: ProcessId | None, world: World) -> str:
    """Write the pane's identities into the record, whatever else (a pause) it has become meanwhile. Returns a problem or ""."""
    now: SessionRecord | None = record
    try:
        for _ in range(_TRIES):
            if now is None:
                return "its record has vanished from the registry: see `loopctl sessions rebuild`"
            bound = replace(
                now,
                server=made.server,
                session_id=made.pane.session_id,
                pane_id=made.pane.pane_id,
                pane=process,
                name=made.pane.session,
            )
            if world.registry.replace(bound):
                return ""
            now = next((row for row in world.registry.all() if row.id == record.id), None)
    except StateError as error:
        return error.message
    return "its record keeps changing"
