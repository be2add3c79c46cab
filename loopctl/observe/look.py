"""One look at everything: local things first, then the providers, asked only about what matters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from loopctl.model.facts import OUTSIDE, Fact, Known, Unknown
from loopctl.model.items import OPEN, WorkItem
from loopctl.model.observed import NOT_ASKED, Observation, Subject, Unmanaged
from loopctl.model.processes import ProcessTable
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS, TMUX_RUNNER, ServerView, SessionRecord
from loopctl.observe.sight import view_of
from loopctl.ports import Provider, World


def observe(world: World) -> Observation:
    """Look at the registry, at each tmux server in use (one call a socket) and at the process table.

    Items are not asked about: their facts are Unknown("not asked"). Raises StateError for an untrustworthy registry.
    """
    records = world.registry.all()
    here = [record for record in records if record.machine == world.machine]
    sockets = {record.socket for record in here if record.runner == TMUX_RUNNER and record.socket} | {world.socket}
    servers, processes = _look_twice(world, sorted(sockets))
    # An open record is its item's session, even where an imported one is older than a closed one of ours.
    latest = {record.ref: record.id for record in sorted(here, key=lambda r: r.status != CLOSED_STATUS)}
    subjects = tuple(
        Subject(
            record.ref,
            NOT_ASKED,
            view_of(record, servers, processes, world.policy.spare),
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
    return tuple(
        Unmanaged(socket, pane)
        for socket, view in servers.items()
        if isinstance(view, Known)
        for pane in view.value.panes
        if (socket, pane.mark) not in ours
    )


def discover(world: World, observation: Observation) -> Observation:
    """Add what the sources list: open items without a session become subjects. A failed listing is a problem, not an end."""
    listed: dict[WorkItemRef, WorkItem] = {}
    problems = dict(observation.problems)
    for provider in world.providers:
        answer = provider.listed()
        if isinstance(answer, Unknown):
            problems[f"listing of {provider.describe()}"] = answer.reason
        else:
            listed |= {item.ref: item for item in answer.value if item.state == OPEN}
    known = {subject.ref for subject in observation.subjects}
    subjects = [
        replace(s, item=Known(listed[s.ref]), listed=True) if s.ref in listed else s for s in observation.subjects
    ]
    subjects += [Subject(ref, Known(item), listed=True) for ref, item in listed.items() if ref not in known]
    return replace(observation, subjects=tuple(subjects), problems=problems)


def ask(world: World, observation: Observation, refs: Iterable[WorkItemRef]) -> Observation:
    """Ask the providers about these items, in bulk, and put their answers into the observation."""
    wanted = list(dict.fromkeys(refs))
    answers: dict[WorkItemRef, Fact[WorkItem]] = {}
    for provider in world.providers:
        mine = [ref for ref in wanted if ref not in answers and provider.owns(ref)]
        if mine:
            answers |= _answers(provider, mine)
    for ref in wanted:
        answers.setdefault(ref, Unknown(f"no source answers for {ref}", OUTSIDE))
    subjects = tuple(
        replace(s, item=_of_record(s, answers[s.ref])) if s.ref in answers else s for s in observation.subjects
    )
    questions = tuple(q for provider in world.providers for q in provider.asked())
    return replace(observation, subjects=subjects, questions=questions)


def _answers(provider: Provider, refs: list[WorkItemRef]) -> Mapping[WorkItemRef, Fact[WorkItem]]:
    given = provider.get(refs)
    # A provider that omits has not answered.
    return {ref: given.get(ref, Unknown(f"{provider.describe()} gave no answer")) for ref in refs}


def _of_record(subject: Subject, fact: Fact[WorkItem]) -> Fact[WorkItem]:
    """Another item under the same number is not the one that the session was made for."""
    record = subject.record
    if record and isinstance(fact, Known) and record.node_id and fact.value.node_id not in {"", record.node_id}:
        return Unknown("another item has this number now (its node id differs)")
    return fact
