"""End sessions. The only module that does, whoever asked; all sessions of a plan go through each step together.

1. (before) what moved since the plan was dropped by the caller;  2. input off and remain-on-exit on, read back;
3. the transcript is saved;  4. and 5. the process tree is taken and ended;  6. the end is verified;
7. the record is closed, last. A crash anywhere leaves a record that is not closed, so that the next run goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopctl.errors import StateError
from loopctl.executor.close_case import Case, by_server, case_of, emit, read_back
from loopctl.executor.close_processes import end_processes, snapshot
from loopctl.executor.close_transcripts import save_last_words, save_transcripts
from loopctl.model.plan import CHANGED, FAILED, Action, Result
from loopctl.model.sessions import (
    CLOSED_STATUS,
    GONE,
    SessionRecord,
    SessionView,
)
from loopctl.model.text import plural
from loopctl.ports import World

#: How long tmux may take to show a pane as dead after its process has gone.
VERIFY_WAIT = 5.0
_RECORD_TRIES = 5


def close_all(actions: Sequence[tuple[Action, SessionView]], world: World) -> list[Result]:
    """End all these sessions. The views are fresh and were compared with the guards. Results in the order of actions."""
    cases = [case_of(action, view, world) for action, view in actions]
    for step in (_secure, save_transcripts, _end_trees, _verify, save_last_words, _remove_panes, _record):
        going = [case for case in cases if not case.problem]
        if going:
            step(going, world)
    _give_up([case for case in cases if case.problem and not case.ending.signalled], world)
    return [_result(case, world) for case in cases]


def _give_up(cases: Sequence[Case], world: World) -> None:
    """A close that failed before anything was signalled leaves its panes as they were: an agent must not stay deaf."""
    open_ones = [case for case in cases if case.record.status != CLOSED_STATUS and case.secured]
    for (socket, server), group in by_server(open_ones).items():
        refs = [ref for case in group for ref in case.pane_refs() if ref.pane_id in case.secured]
        world.terminals.release(socket, server, refs)


def _look_again(cases: Sequence[Case], world: World) -> None:
    for (socket, server), group in by_server(cases).items():
        read_back(group, socket, server, world)


def _secure(cases: Sequence[Case], world: World) -> None:
    """Nobody can type any more, and the pane outlives its process: both are read back before anything is signalled."""
    world.registry.prove_writable()
    world.transcripts.prove_writable()
    for (socket, server), group in by_server(cases).items():
        problem = world.terminals.secure(socket, server, [ref for case in group for ref in case.pane_refs()])
        read_back(group, socket, server, world)
        for case in group:
            case.secured = frozenset(pane.pane_id for pane in case.mine if not pane.dead and not pane.input_off)
            loose = [pane.pane_id for pane in case.panes if not pane.input_off or pane.remain_on_exit == "off"]
            if loose and not case.problem:
                case.problem = f"input-off or remain-on-exit did not hold on {', '.join(loose)}" + (
                    f": {problem}" if problem else ""
                )


def _end_trees(cases: Sequence[Case], world: World) -> None:
    ending = [case for case in cases if case.action.after.kill_harness and case.sighting.state != "none"]
    problem = snapshot([case.ending for case in ending], world)
    # Its pane's process has gone since: by itself, or because somebody put another one there.
    _look_again([case for case in ending if case.sighting.process and not case.ending.has_pane_process], world)
    ending = [case for case in ending if not case.problem]
    for case in ending:
        if problem:
            case.problem = problem
        elif case.ending.tree.includes_self:
            case.problem = "refused: loopctl itself runs inside this session"
    going = [case for case in ending if not case.problem]
    if world.interrupted():
        for case in going:
            case.problem = "interrupted before it was ended"
        return
    most = max((case.ending.grace for case in going if case.ending.tree.members), default=0)
    if most:
        world.progress(f"waiting up to {most:g} s for {plural(len(going), 'agent')} to end")
    end_processes([case.ending for case in going], world)
    for case in going:
        _judge(case, world)


def _judge(case: Case, world: World) -> None:
    ending = case.ending
    left = [process.label for process in ending.survivors]
    spared = [process.label for process in ending.spared]
    case.remarks += [f"spared {', '.join(spared)}"] if spared else []
    case.remarks += ["not all processes of this machine can be seen (hidepid)"] if ending.partial else []
    if ending.killed:
        case.remarks.append(f"SIGKILL after {ending.grace:g} s")
    if left and not ending.done:
        case.problem = f"interrupted: still alive {', '.join(left)}"
    elif left:
        causes = sorted(set(ending.problems.values()))
        case.problem = f"still alive: {', '.join(left)}" + (f" ({'; '.join(causes)})" if causes else "")
    elif not ending.done:
        case.problem = "interrupted before its end was seen" if world.interrupted() else "its end could not be seen"
    if ending.signalled:
        emit(
            case,
            world,
            "session.harness_terminated",
            "error" if case.problem else "info",
            killed=ending.killed,
            survivors=left,
            signalled=len({process for process, _ in ending.signalled}),
            spared=spared,
        )


def _verify(cases: Sequence[Case], world: World) -> None:
    """The pane must be seen dead, with input off. A server that missed an exit is made to look again."""
    deadline = world.clock() + VERIFY_WAIT
    while True:
        _look_again(cases, world)
        slow = [case for case in cases if not case.problem and _alive_panes(case)]
        if not slow or world.clock() >= deadline:
            break
        for (socket, server), _ in by_server(slow).items():
            world.terminals.nudge(socket, server)
        world.pause(0.02)
    for case in cases:
        alive = _alive_panes(case)
        if alive and not case.problem:
            case.problem = f"tmux still shows {', '.join(alive)} as alive"
        if any(not pane.input_off for pane in case.panes) and not case.problem:
            case.problem = "input is on again"
        if case.sighting.pane and not case.panes and not case.problem:
            case.remarks.append("its pane vanished meanwhile")


def _alive_panes(case: Case) -> list[str]:
    return [pane.pane_id for pane in case.panes if not pane.dead] if case.action.after.kill_harness else []


def _remove_panes(cases: Sequence[Case], world: World) -> None:
    going = [case for case in cases if case.action.after.phase == GONE and case.panes]
    for (socket, server), group in by_server(going).items():
        problem = world.terminals.remove(socket, server, [ref for case in group for ref in case.pane_refs()])
        read_back(group, socket, server, world)
        for case in group:
            if case.panes and not case.problem:
                case.problem = f"its pane could not be removed{f': {problem}' if problem else ''}"


def _record(cases: Sequence[Case], world: World) -> None:
    """Close the records, last of all."""
    for case in _close_records(cases, world):
        if case.record.status != CLOSED_STATUS:
            emit(case, world, "session.closed", reason=case.action.after.reason)
        if case.action.after.phase == GONE and case.sighting.pane:
            emit(case, world, "session.reaped")
        elif case.panes:
            emit(case, world, "session.retained", transcript=case.transcript or None)


def _close_records(cases: Sequence[Case], world: World) -> list[Case]:
    """Close over whatever the records have become meanwhile (paused, touched): the sessions have ended, and that is so.

    Returns the cases whose record is closed now.
    """
    records = {case.record.id: case.record for case in cases}
    left = {case.record.id: case for case in cases}
    done: list[Case] = []
    try:
        for _ in range(_RECORD_TRIES):
            written = world.registry.replace_all(
                [_closed(left[id_], records[id_], world) for id_ in left if id_ in records]
            )
            done += [left.pop(id_) for id_, record in written.items() if record]
            if not left:
                return done
            records = {record.id: record for record in world.registry.all() if record.id in left}
        reason = "its record keeps changing"
    except StateError as error:
        reason = error.message
    for id_, case in left.items():
        case.problem = reason if id_ in records else "its record has vanished from the registry"
    return done


def _closed(case: Case, record: SessionRecord, world: World) -> SessionRecord:
    return replace(
        record,
        status=CLOSED_STATUS,
        reason=record.reason or case.action.after.reason,
        closed_at=record.closed_at or world.now(),
        transcript=case.transcript or record.transcript,
        # Of a session that was taken over, this is the first look at its item that a record could remember.
        node_id=record.node_id or case.action.guard.item_node,
    )


def _result(case: Case, world: World) -> Result:
    if case.problem:
        return Result(case.action, FAILED, case.problem)
    words = [_end_words(case), *case.remarks]
    if case.transcript:
        words.append(f"transcript {case.transcript}")
    return Result(case.action, CHANGED, "; ".join(words))


def _end_words(case: Case) -> str:
    ended = len({process for process, _ in case.ending.signalled})
    after = case.action.after
    if not after.kill_harness:
        return "record closed, agent left running"
    pane = (
        "pane removed" if after.phase == GONE and case.sighting.pane else "pane retained" if case.panes else "no pane"
    )
    return f"{plural(ended, 'process')} ended, {pane}" if ended else f"nothing was running, {pane}"
