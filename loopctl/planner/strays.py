"""Panes that no record of this machine knows and that say whose they are: starting beside one would make a second agent."""

from __future__ import annotations

from collections.abc import Iterable

from loopctl.model.observed import Observation
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS, SessionRecord
from loopctl.model.text import plural


def agent_elsewhere(ref: WorkItemRef, observation: Observation) -> str:
    """Why a start of this item might make a second agent: a pane without a record of this machine is its session's. Or ""."""
    misnamed = [record for record in under_another_name(observation) if record.ref == ref]
    if any(_may_run(record, observation) for record in misnamed):
        return renamed(misnamed)
    for stray in observation.unmanaged:
        if not stray.pane.dead and _is_of(stray.pane.ref_mark, ref):
            return (
                f"pane {stray.pane.pane_id} at {stray.socket} is marked for this item, but no record knows it: "
                "`loopctl sessions rebuild`"
            )
    return ""


def under_another_name(observation: Observation) -> tuple[SessionRecord, ...]:
    """Records of other machines whose panes are here: this machine had another name."""
    here = {(stray.socket, stray.pane.mark) for stray in observation.unmanaged if stray.pane.mark}
    return tuple(record for record in observation.foreign if (record.socket, record.id) in here)


def renamed(records: Iterable[SessionRecord]) -> str:
    """What to say of sessions that were registered under another name of this machine."""
    records = tuple(records)
    names = sorted({record.machine for record in records})
    verb = "was" if len(records) == 1 else "were"
    return (
        f"{plural(len(records), 'session')} {verb} registered under the machine name {' or '.join(names)} "
        f"and {'is' if len(records) == 1 else 'are'} here: set state.machine: {names[0]}"
    )


def _may_run(record: SessionRecord, observation: Observation) -> bool:
    live = {stray.pane.mark for stray in observation.unmanaged if not stray.pane.dead}
    return record.status != CLOSED_STATUS or record.id in live


def _is_of(mark: str, ref: WorkItemRef) -> bool:
    try:
        return WorkItemRef.parse(mark) == ref
    except ValueError:
        return False
