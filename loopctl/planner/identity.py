"""The identities that a plan relies on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopctl.model.facts import Known
from loopctl.model.observed import Observation, Subject, known_item
from loopctl.model.plan import Guard
from loopctl.planner.facts import item_facts


def guard_of(subject: Subject, observation: Observation, reads: Iterable[str] = ()) -> Guard:
    """The identities that a plan about this subject relies on; `reads` as in `item_facts`."""
    item = known_item(subject)
    guard = Guard(
        machine=observation.machine,
        registry=observation.registry,
        item_state=item.state if item else "",
        item_node=item.node_id if item else "",
        item_facts=item_facts(item, reads) if item else "",
        attached="no",
    )
    view = subject.session
    if view is None:
        return guard
    record = view.record
    sighting = view.sighting.value if isinstance(view.sighting, Known) else None
    return replace(
        guard,
        record_id=record.id,
        generation=record.generation,
        socket=record.socket,
        server=sighting.server if sighting else None,
        session_id=sighting.pane.session_id if sighting and sighting.pane else "",
        pane_id=sighting.pane.pane_id if sighting and sighting.pane else "",
        pane=sighting.process if sighting else None,
        pane_state=sighting.state if sighting else "",
        attached="yes" if sighting and sighting.pane and sighting.pane.attached else "no",
    )
