"""One look at the machine: the registry, tmux and the process table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.observed import NOT_ASKED, Observation, Subject, Unmanaged
from loopctl.model.processes import ProcessTable
from loopctl.model.sessions import CLOSED_STATUS, TMUX_RUNNER, ServerView, SessionRecord
from loopctl.observe.sight import others_of, view_of
from loopctl.ports import World


def observe(world: World) -> Observation:
    """Look at the registry, at each tmux server in use (one call a socket) and at the process table.

    Items are not asked about: their facts are Unknown("not asked"). Raises StateError for an untrustworthy registry or ledger.
    """
    records = world.registry.all()
    here = [record for record in records if record.machine == world.machine]
    sockets = {record.socket for record in here if record.runner == TMUX_RUNNER and record.socket} | {world.socket}
    servers, processes = _look_twice(world, sorted(sockets))
    others = others_of(records)
    # An open record is its item's session, even where an imported one is older than a closed one of ours.
    latest = {record.ref: record.id for record in sorted(here, key=lambda r: r.status != CLOSED_STATUS)}
    subjects = tuple(
        Subject(
            record.ref,
            NOT_ASKED,
            view_of(record, servers, processes, world.policy.spare, others),
            latest=latest[record.ref] == record.id,
        )
        for record in here
    )
    return Observation(
        machine=world.machine,
        registry=world.registry.identity,
        now=world.now(),
        subjects=subjects,
        unmanaged=_unmanaged(servers, here),
        foreign=tuple(record for record in records if record.machine != world.machine),
        in_session=frozenset(record.ref for record in here if record.status != CLOSED_STATUS),
        talk=world.ledger.read(),
    )


def _look_twice(world: World, sockets: Sequence[str]) -> tuple[dict[str, Fact[ServerView]], Fact[ProcessTable]]:
    """List the panes, then the processes; again for a pane whose process ended in between."""
    servers = {socket: world.terminals.look(socket) for socket in sockets}
    processes = world.processes.look()
    for _ in range(3):
        torn = [socket for socket, view in servers.items() if _is_torn(view, processes)]
        if not torn:
            break
        world.pause(0.02)
        servers |= {socket: world.terminals.look(socket) for socket in torn}
        processes = world.processes.look()
    return servers, processes


def _is_torn(view: Fact[ServerView], processes: Fact[ProcessTable]) -> bool:
    if isinstance(view, Unknown) or isinstance(processes, Unknown):
        return False
    return any(not pane.dead and processes.value.get(pane.pid) is None for pane in view.value.panes)


def _unmanaged(servers: Mapping[str, Fact[ServerView]], records: Iterable[SessionRecord]) -> tuple[Unmanaged, ...]:
    ours = {(record.socket, record.id) for record in records}
    found: dict[tuple[str, str], Unmanaged] = {}
    managed: set[tuple[str, str]] = set()
    for socket, view in servers.items():
        for pane in view.value.panes if isinstance(view, Known) else ():
            if (socket, pane.mark) in ours:
                managed.add((socket, pane.pane_id))
            found.setdefault((socket, pane.pane_id), Unmanaged(socket, pane))
    # A pane that a session of ours shows too (a person's view of it) is managed.
    return tuple(stray for key, stray in found.items() if key not in managed)
