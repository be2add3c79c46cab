"""One session on its way out, and what its steps share."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from loopctl.executor.close_processes import Ending
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.plan import Action
from loopctl.model.processes import ProcessId
from loopctl.model.sessions import Pane, ServerId, ServerView, SessionRecord, SessionView, Sighting
from loopctl.observe import may_live, root_of
from loopctl.ports import PaneRef, World


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
    #: The live panes whose input this close has turned off.
    secured: frozenset[str] = frozenset()

    @property
    def server(self) -> ServerId | None:
        """The server that the sighting was made on."""
        return self.sighting.server

    @property
    def mine(self) -> tuple[Pane, ...]:
        """The panes to close: the record's own, and those that are proved to be its session's too."""
        return self.sighting.closing

    def pane_refs(self) -> list[PaneRef]:
        """The panes to close, as the terminal host wants them."""
        return [PaneRef(pane.pane_id, pane.session_id, self.record.id) for pane in self.mine]


def case_of(action: Action, view: SessionView, world: World) -> Case:
    """Begin with a fresh view."""
    sighting = view.sighting.value if isinstance(view.sighting, Known) else Sighting("unknown")
    harness = world.harnesses.get(view.record.harness)
    stop = harness.stop_signal if harness else signal.SIGTERM
    case = Case(action, view.record, sighting, Ending(root_of(view.record, sighting), action.after.grace, stop))
    if action.after.kill_harness and view.tree.includes_self:
        case.problem = "refused: loopctl itself runs inside this session"
    return case


def by_server(cases: Iterable[Case]) -> dict[tuple[str, ServerId], list[Case]]:
    """The cases that have panes, by the server that they are on."""
    groups: dict[tuple[str, ServerId], list[Case]] = {}
    for case in cases:
        if case.server and case.mine:
            groups.setdefault((case.record.socket, case.server), []).append(case)
    return groups


def read_back(cases: Sequence[Case], socket: str, server: ServerId, world: World) -> None:
    """Note which panes of these cases, all on this server, are still there.

    What cannot be read is a problem, and so is a pane that is no longer where it was. One that is gone is not: its server
    shows it nowhere, or has ended.
    """
    view = world.terminals.look(socket)
    shown = next((case.sighting.process for case in cases if case.sighting.process), None)
    doubt = _doubt(view, socket, server, shown, world)
    for case in cases:
        if doubt or isinstance(view, Unknown):
            case.problem = doubt
        else:
            _read_back(case, view.value.panes if view.value.server == server else ())


def _doubt(view: Fact[ServerView], socket: str, server: ServerId, shown: ProcessId | None, world: World) -> str:
    """Why a look does not tell what became of the panes of this server, which started the process `shown`; or ""."""
    if isinstance(view, Unknown):
        return view.reason
    if view.value.server == server:
        return ""
    table = world.processes.look()
    if isinstance(table, Unknown):
        return table.reason
    return f"its tmux server cannot be reached at {socket} any more" if may_live(server, table.value, shown) else ""


def _read_back(case: Case, rows: Sequence[Pane]) -> None:
    seen = {(pane.pane_id, pane.session_id): pane for pane in rows if pane.mark == case.record.id}
    found = [(then, seen.get((then.pane_id, then.session_id))) for then in case.mine]
    case.panes = tuple(now for _, now in found if now)
    there = {pane.pane_id for pane in rows}
    moved = [then.pane_id for then, now in found if not now and then.pane_id in there]
    changed = [now.pane_id for then, now in found if now and not now.dead and (then.dead or then.pid != now.pid)]
    if moved:
        case.problem = f"{', '.join(moved)} was taken out of its session, or lost its mark, since it was looked at"
    elif changed:
        case.problem = f"another process runs in {', '.join(changed)} than when it was looked at"


def emit(case: Case, world: World, event: str, level: str = "info", **fields: object) -> None:
    """Log an event about the session."""
    world.journal.emit(event, level, ref=str(case.record.ref), session=case.record.id, **fields)
