"""End sessions. The only module that does, whoever asked; all sessions of a plan go through each step together.

1. (before) what moved since the plan was dropped by the caller;  2. input off and remain-on-exit on, read back;
3. the transcript is saved;  4. and 5. the process tree is taken and ended;  6. the end is verified;
7. the record is closed, last. A crash anywhere leaves a record that is not closed, so that the next run goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from loopctl.errors import StateError
from loopctl.executor.close_processes import Ending, end_processes, snapshot
from loopctl.model.facts import Known, Unknown
from loopctl.model.plan import CHANGED, FAILED, REAP, Action, Result
from loopctl.model.rules import KEPT
from loopctl.model.sessions import (
    CLOSED_STATUS,
    GONE,
    STARTED,
    Pane,
    ServerId,
    ServerView,
    SessionRecord,
    SessionView,
    Sighting,
)
from loopctl.model.text import plural
from loopctl.observe import root_of
from loopctl.ports import PaneRef, World

#: How long tmux may take to show a pane as dead after its process has gone.
VERIFY_WAIT = 5.0
_LATER = b"\n--- later ---\n"


@dataclass(slots=True)
class Case:
    """One session on its way out."""

    action: Action
    record: SessionRecord
    sighting: Sighting
    ending: Ending
    panes: tuple[Pane, ...] = ()
    transcript: str = ""
    problem: str = ""
    remarks: list[str] = field(default_factory=list)

    @property
    def server(self) -> ServerId | None:
        """The server that the sighting was made on."""
        return self.sighting.server

    @property
    def mine(self) -> tuple[Pane, ...]:
        """The panes to close: the record's own, and those beside it where loopctl made the session."""
        beside = self.sighting.beside if self.record.origin == STARTED else ()
        return (*((self.sighting.pane,) if self.sighting.pane else ()), *beside)

    def pane_refs(self) -> list[PaneRef]:
        """The panes to close, as the terminal host wants them."""
        return [PaneRef(pane.pane_id, pane.session_id, self.record.id) for pane in self.mine]


def close_all(actions: Sequence[tuple[Action, SessionView]], world: World) -> list[Result]:
    """End all these sessions. The views are fresh and were compared with the guards. Results in the order of actions."""
    cases = [_case(action, view) for action, view in actions]
    for step in (_secure, _save_transcripts, _end_trees, _verify, _save_last_words, _remove_panes, _record):
        going = [case for case in cases if not case.problem]
        if going:
            step(going, world)
    return [_result(case, world) for case in cases]


def _case(action: Action, view: SessionView) -> Case:
    sighting = view.sighting.value if isinstance(view.sighting, Known) else Sighting("unknown")
    return Case(action, view.record, sighting, Ending(root_of(view.record, sighting), action.after.grace))


def _by_server(cases: Iterable[Case]) -> dict[tuple[str, ServerId], list[Case]]:
    groups: dict[tuple[str, ServerId], list[Case]] = {}
    for case in cases:
        if case.server and case.mine:
            groups.setdefault((case.record.socket, case.server), []).append(case)
    return groups


def _look_again(cases: Sequence[Case], world: World) -> None:
    """Read the panes back; what cannot be read is a problem, a pane that is gone is not."""
    for (socket, server), group in _by_server(cases).items():
        view = world.terminals.look(socket)
        for case in group:
            _read_back(case, view, server)


def _read_back(case: Case, view: Known[ServerView] | Unknown, server: ServerId) -> None:
    if isinstance(view, Unknown):
        case.problem = view.reason
        return
    seen = {pane.pane_id: pane for pane in view.value.panes} if view.value.server == server else {}
    case.panes = tuple(
        seen[pane.pane_id] for pane in case.mine if pane.pane_id in seen and seen[pane.pane_id].mark == case.record.id
    )


def _secure(cases: Sequence[Case], world: World) -> None:
    """Nobody can type any more, and the pane outlives its process: both are read back before anything is signalled."""
    world.registry.prove_writable()
    world.transcripts.prove_writable()
    for (socket, server), group in _by_server(cases).items():
        problem = world.terminals.secure(socket, server, [ref for case in group for ref in case.pane_refs()])
        view = world.terminals.look(socket)
        for case in group:
            _read_back(case, view, server)
            loose = [pane.pane_id for pane in case.panes if not pane.input_off or pane.remain_on_exit == "off"]
            if loose and not case.problem:
                case.problem = f"input-off or remain-on-exit did not hold on {', '.join(loose)}" + (
                    f": {problem}" if problem else ""
                )


def _save_transcripts(cases: Sequence[Case], world: World) -> None:
    wanted = [case for case in cases if case.action.after.transcript == KEPT and case.panes]
    # A retained pane that is only removed was written down when it was closed.
    wanted = [case for case in wanted if not (case.action.verb == REAP and case.record.transcript)]
    for case, text in _capture(wanted, world):
        if isinstance(text, Unknown):
            case.problem = f"the transcript could not be read: {text.reason}"
        else:
            _save(case, text.value, world)


def _save_last_words(cases: Sequence[Case], world: World) -> None:
    """What an agent says on its way out belongs to the record."""
    for case, text in _capture([case for case in cases if case.transcript and case.panes], world):
        if isinstance(text, Known):
            _save(case, text.value, world)


def joined(before: bytes, now: bytes, height: int) -> bytes:
    """One text of two captures of a pane, with nothing of the first one lost.

    The later one stands for both where it begins like the first (but for the last screen, which a program repaints);
    else (it was cleared, or the history was full) it is put after it.
    """
    lines = before.splitlines(keepends=True)
    settled = b"".join(lines[: max(0, len(lines) - height)])
    if now.startswith(before.rstrip()) or (settled and now.startswith(settled) and len(now) >= len(before)):
        return now
    if not now.strip() or before.endswith(now):
        return before
    return before + _LATER + now


def _capture(cases: Sequence[Case], world: World) -> Iterable[tuple[Case, Known[bytes] | Unknown]]:
    for (socket, server), group in _by_server(cases).items():
        texts = world.terminals.capture(socket, server, [case.panes[0] for case in group])
        for case in group:
            yield case, texts.get(case.panes[0].pane_id, Unknown("no text"))


def _save(case: Case, text: bytes, world: World) -> None:
    height = max((pane.height for pane in case.panes), default=0)
    try:
        before = world.transcripts.load(case.record)
        whole = joined(before, text, height)
        unchanged = whole == before and before
        case.transcript = (
            world.transcripts.path(case.record) if unchanged else world.transcripts.save(case.record, whole)
        )
    except StateError as error:
        case.problem = error.message


def _end_trees(cases: Sequence[Case], world: World) -> None:
    ending = [case for case in cases if case.action.after.kill_harness and case.sighting.state != "none"]
    problem = snapshot([case.ending for case in ending], world)
    for case in ending:
        if problem:
            case.problem = problem
        elif case.ending.tree.includes_self:
            case.problem = "refused: loopctl itself runs inside this session"
        else:
            spared = [process.label for process in case.ending.tree.spared]
            case.remarks += [f"spared {', '.join(spared)}"] if spared else []
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
    if ending.killed:
        case.remarks.append(f"SIGKILL after {ending.grace:g} s")
    if left and not ending.done:
        case.problem = f"interrupted: still alive {', '.join(left)}"
    elif left:
        causes = sorted(set(ending.problems.values()))
        case.problem = f"still alive: {', '.join(left)}" + (f" ({'; '.join(causes)})" if causes else "")
    elif not ending.done:
        case.problem = "interrupted before its end was seen"
    if ending.signalled:
        _emit(
            case,
            world,
            "session.harness_terminated",
            "error" if case.problem else "info",
            killed=ending.killed,
            survivors=left,
            signalled=len({process for process, _ in ending.signalled}),
            spared=[process.label for process in ending.tree.spared],
        )


def _verify(cases: Sequence[Case], world: World) -> None:
    """The pane must be seen dead, with input off. A server that missed an exit is made to look again."""
    deadline = world.clock() + VERIFY_WAIT
    while True:
        _look_again(cases, world)
        slow = [case for case in cases if not case.problem and _alive_panes(case)]
        if not slow or world.clock() >= deadline:
            break
        for (socket, server), _ in _by_server(slow).items():
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
    for (socket, server), group in _by_server(going).items():
        problem = world.terminals.remove(socket, server, [ref for case in group for ref in case.pane_refs()])
        view = world.terminals.look(socket)
        for case in group:
            _read_back(case, view, server)
            if case.panes and not case.problem:
                case.problem = f"its pane could not be removed{f': {problem}' if problem else ''}"


def _record(cases: Sequence[Case], world: World) -> None:
    for case in cases:
        problem = _close_record(case, world)
        if problem:
            case.problem = problem
            continue
        if case.record.status != CLOSED_STATUS:
            _emit(case, world, "session.closed", reason=case.action.after.reason)
        if case.action.after.phase == GONE and case.sighting.pane:
            _emit(case, world, "session.reaped")
        elif case.panes:
            _emit(case, world, "session.retained", transcript=case.transcript or None)


def _close_record(case: Case, world: World) -> str:
    """Close the record over whatever it has become meanwhile (paused, touched): the session has ended, and that is so."""
    record: SessionRecord | None = case.record
    for _ in range(5):
        if record is None:
            return "its record has vanished from the registry"
        closed = replace(
            record,
            status=CLOSED_STATUS,
            reason=record.reason or case.action.after.reason,
            closed_at=record.closed_at or world.now(),
            transcript=case.transcript or record.transcript,
        )
        try:
            if world.registry.replace(closed):
                return ""
            record = next((r for r in world.registry.all() if r.id == case.record.id), None)
        except StateError as error:
            return error.message
    return "its record keeps changing"


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


def _emit(case: Case, world: World, event: str, level: str = "info", **fields: object) -> None:
    world.journal.emit(event, level, ref=str(case.record.ref), session=case.record.id, **fields)
