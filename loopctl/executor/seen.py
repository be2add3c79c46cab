"""One look at a tmux server that must answer, for taking over what runs there."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from loopctl.errors import StateError
from loopctl.model.facts import Unknown
from loopctl.model.processes import ProcessId, ProcessTable
from loopctl.model.sessions import Pane, ServerId
from loopctl.ports import World

# A pane whose process ended between the two looks is looked at again.
_LOOKS = 4
_TURN = 0.02


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a server that answered, and at the processes."""

    socket: str
    server: ServerId
    panes: tuple[Pane, ...]
    table: ProcessTable
    version: str = ""


def look(socket: str, world: World) -> Seen:
    """Look at one server and at the process table. Raises StateError unless the server answers."""
    if not socket.startswith("/"):
        raise StateError(f"{socket!r} is no absolute path of a tmux socket")
    for _ in range(_LOOKS):
        view = world.terminals.look(socket)
        if isinstance(view, Unknown):
            raise StateError(view.reason)
        if view.value.server is None:
            raise StateError(f"no tmux server runs at {socket}", hint="--socket names another one")
        table = world.processes.look()
        if isinstance(table, Unknown):
            raise StateError(table.reason)
        seen = Seen(socket, view.value.server, view.value.panes, table.value, view.value.version)
        if all(pane.dead or table.value.get(pane.pid) for pane in view.value.panes):
            break
        world.pause(_TURN)
    return seen


def only_pane(name: str, seen: Seen) -> Pane:
    """The pane of the session with exactly this name (or `$id`). Raises StateError when there is none or a choice."""
    panes = [pane for pane in seen.panes if name in {pane.session, pane.session_id}]
    if not panes:
        names = {pane.session.lower(): pane.session for pane in seen.panes}
        near = [names[word] for word in difflib.get_close_matches(name.lower(), sorted(names), 3)]
        hint = f"there is {' and '.join(near)}" if near else "`loopctl sessions list --unmanaged` shows what there is"
        raise StateError(f"there is no session {name!r} at {seen.socket}", hint=hint)
    if len(panes) > 1:
        # Which of them is the agent's is not for us to guess: the others would lose their input.
        shown = ", ".join(f"{pane.pane_id} ({pane.command or 'dead'})" for pane in panes)
        raise StateError(
            f"session {name} has {len(panes)} panes: {shown}",
            hint="`loopctl sessions register REF --pane %ID` chooses one",
        )
    return panes[0]


def process_of(pane: Pane, seen: Seen) -> ProcessId | None:
    """The live process of a pane, None for a dead one. Raises StateError when it cannot be told."""
    if pane.dead:
        return None
    row = seen.table.get(pane.pid)
    if row is None:
        raise StateError(f"pane {pane.pane_id} shows process {pane.pid}, which is not running", hint="try again")
    return row.id
