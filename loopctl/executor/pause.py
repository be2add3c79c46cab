"""Pause and resume: the registry alone, one row at a time, compared by generation. No process and no pane is touched.

The apply lock is not taken: who is at work compares generations too, and an ending closes over a pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopctl.errors import StateError
from loopctl.model.plan import CHANGED, FAILED, STALE, Action, Result
from loopctl.model.sessions import ACTIVE, CLOSED_STATUS, PAUSED_STATUS, SessionRecord
from loopctl.ports import World

_TRIES = 5


def pause(record: SessionRecord, world: World) -> bool:
    """Let a session rest: no deliveries, no restart. Returns False when it was paused already. Raises StateError."""
    return _become(PAUSED_STATUS, record, world)


def resume(record: SessionRecord, world: World) -> bool:
    """Make a paused session active again. Returns False when it was not paused. Raises StateError."""
    return _become(ACTIVE, record, world)


def pause_all(actions: Sequence[tuple[Action, SessionRecord]], world: World) -> list[Result]:
    """Pause these sessions; the records are fresh and were compared with the guards. Results in the order of actions."""
    try:
        written = world.registry.replace_all([replace(record, status=PAUSED_STATUS) for _, record in actions])
    except StateError as error:
        return [Result(action, FAILED, error.message) for action, _ in actions]
    results = []
    for action, record in actions:
        if written[record.id]:
            _announce(record, PAUSED_STATUS, world)
            results.append(Result(action, CHANGED, "paused: no deliveries, no restart"))
        else:
            results.append(Result(action, STALE, "its record has changed meanwhile"))
    return results


def _become(status: str, record: SessionRecord, world: World) -> bool:
    """Write the status over whatever else the row has become meanwhile."""
    for _ in range(_TRIES):
        now = next((other for other in world.registry.all() if other.id == record.id), None)
        if now is None:
            raise StateError(f"the session of {record.ref} has vanished from the registry")
        if now.status == CLOSED_STATUS:
            word = "paused" if status == PAUSED_STATUS else "resumed"
            raise StateError(f"the session of {record.ref} is closed: it cannot be {word}")
        if now.status == status:
            return False
        if world.registry.replace(replace(now, status=status)):
            _announce(record, status, world)
            return True
    raise StateError(f"the record of {record.ref} keeps changing", hint="try again")


def _announce(record: SessionRecord, status: str, world: World) -> None:
    event = "session.paused" if status == PAUSED_STATUS else "session.resumed"
    world.journal.emit(event, ref=str(record.ref), session=record.id)
