"""What a plan says of its actions, and what is worth a note."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from loopctl.model.facts import Known
from loopctl.model.items import CLOSED, MERGED, MISSING, PULL_REQUEST, WorkItem
from loopctl.model.observed import Observation, Subject, known_item
from loopctl.model.sessions import (
    EXITED,
    LOST,
    RETAINED,
    RUNNING,
    UNDEAD,
    Pane,
)
from loopctl.model.text import ago, plural
from loopctl.planner.resolve import Resolution
from loopctl.planner.strays import renamed, under_another_name


def reason_of(item: WorkItem | None) -> str:
    """What the record says of why it was closed."""
    if item is None or item.state not in {CLOSED, MERGED, MISSING}:
        return "requested"
    if item.state == MERGED:
        return "pr-merged"
    if item.state == MISSING:
        return "item-missing"
    return "pr-closed" if item.kind == PULL_REQUEST else "issue-closed"


DRIFT = {
    EXITED: "its agent has exited",
    LOST: "its pane is gone",
    UNDEAD: "its record is closed but processes are alive",
}


def exit_of(subject: Subject) -> str:
    """`ended with status 1`, `was ended by signal 9`, or "" where the pane does not say."""
    view = subject.session
    pane = view.sighting.value.pane if view and isinstance(view.sighting, Known) else None
    if pane is None or not pane.dead:
        return ""
    if pane.exit_signal:
        return f"was ended by signal {pane.exit_signal}"
    return "" if pane.exit_status is None else f"ended with status {pane.exit_status}"


def why(subject: Subject, observation: Observation) -> str:
    """Why an action is wanted, in words."""
    parts = []
    item = known_item(subject)
    if item is not None:
        noun = "pull request" if item.kind == PULL_REQUEST else "issue"
        reason = f" as {item.reason.replace('_', ' ')}" if item.reason and item.state == CLOSED else ""
        where = f" (now at {item.moved_to})" if item.moved_to else ""
        parts.append(f"{noun} {item.state}{reason} {ago(item.closed_at, observation.now)}".rstrip() + where)
    if subject.phase in DRIFT:
        exit_ = exit_of(subject) if subject.phase == EXITED else ""
        parts.append(f"its agent {exit_}" if exit_ else DRIFT[subject.phase])
    if subject.phase == RETAINED and subject.record:
        parts.append(f"session closed {ago(subject.record.closed_at, observation.now)}".rstrip())
    return "; ".join(parts) or "asked for"


def input_on(socket: str, pane: Pane) -> str:
    """The command that lets people type into a pane again."""
    return f"`tmux -S {shlex.quote(socket)} select-pane -e -t {pane.pane_id}`"


def deaf(resolutions: Sequence[Resolution]) -> tuple[str, ...]:
    """Running agents that nobody can type to: a close was cut off, and then nobody wanted it any more."""
    notes = []
    for resolution in resolutions:
        view = resolution.subject.session
        pane = view.sighting.value.pane if view and isinstance(view.sighting, Known) else None
        if view and pane and pane.input_off and resolution.subject.phase == RUNNING and resolution.desired is None:
            notes.append(
                f"{resolution.subject.ref}: pane {pane.pane_id} takes no input, a close was cut off; "
                f"{input_on(view.record.socket, pane)} turns it on"
            )
    return tuple(dict.fromkeys(notes))


def notes_of(observation: Observation) -> tuple[str, ...]:
    """What the whole observation is worth a note for."""
    here = under_another_name(observation)
    away = [record for record in observation.foreign if record not in here]
    machines = ", ".join(sorted({record.machine for record in away}))
    notes = [renamed(here)] if here else []
    notes += [f"{plural(len(away), 'session')} of other machines are out of scope ({machines})"] if away else []
    return tuple(notes)
