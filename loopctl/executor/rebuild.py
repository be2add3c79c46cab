"""Restore a lost registry from the marks in tmux: first as a plan, then record by record.

No process and no pane is touched, and the apply lock is not taken. What the marks do not tell (the conversation, the folder,
a pause) stays lost; what they tell twice, or not for certain, is named and left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from re import compile as pattern

from loopctl.errors import StateError
from loopctl.executor.seen import Seen, look
from loopctl.executor.take_over import announce, bind
from loopctl.model.facts import Known, Unknown
from loopctl.model.observed import NOT_ASKED, Observation, Subject
from loopctl.model.plan import CHANGED, FAILED, OK, RECORD, STALE, Action, After, Before, Held, Outcome, Plan, Result
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Position
from loopctl.model.sessions import (
    ABSENT,
    ACTIVE,
    CLOSED_STATUS,
    REGISTERED,
    STARTED,
    Pane,
    ServerView,
    SessionRecord,
    SessionView,
)
from loopctl.observe import view_of
from loopctl.planner import guard_of
from loopctl.ports import World

REBUILT = "rebuilt"
UNKNOWN_HARNESS = "unknown"
_COMMAND = "sessions rebuild"
_WORD = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class Rebuild:
    """What the marks of one tmux server tell: the plan to show, and the record that each of its actions writes."""

    socket: str
    plan: Plan
    records: tuple[SessionRecord, ...]


def survey(socket: str, world: World) -> Rebuild:
    """Read the marks of a server and compare them with the registry. Changes nothing.

    Raises StateError when the server does not answer or the registry cannot be trusted.
    """
    # The registry last: a start writes its record before there is a pane.
    seen = look(socket, world)
    known = {record.id: record for record in world.registry.all()}
    views: list[SessionView] = []
    problems: list[str] = []
    for mark, panes in sorted(_marked(seen).items()):
        if mark in known and known[mark].machine == world.machine:
            continue
        problem = _problem(mark, panes, known)
        found = problem or _view(mark, panes, seen, world)
        if isinstance(found, str):
            problems.append(f"{_where(panes[0])} {found}")
        else:
            views.append(found)
    clashes = _clashes(views, known.values(), world.machine)
    good = sorted((v for v in views if v.record.id not in clashes), key=lambda v: (v.record.ref.sort_key, v.record.id))
    plan = Plan(
        created_at=world.now(),
        machine=world.machine,
        registry=world.registry.identity,
        actions=tuple(_action(view, world) for view in good),
        held=tuple(Held(view.record.ref, clashes[view.record.id]) for view in views if view.record.id in clashes),
        unchanged=sum(mark in known and known[mark].machine == world.machine for mark in _marked(seen)),
        problems=tuple(problems),
    )
    return Rebuild(socket, plan, tuple(view.record for view in good))


def restore(shown: Rebuild, world: World) -> Outcome:
    """Write the records of a plan that was shown, each if the marks still tell the same. Raises StateError."""
    now = {record.id: record for record in survey(shown.socket, world).records}
    known = {record.id for record in world.registry.all()}
    results = []
    for action, record in zip(shown.plan.actions, shown.records, strict=True):
        results.append(_add(action, record, now, known, world))
    return Outcome(tuple(results), shown.plan.held)


def _add(
    action: Action, record: SessionRecord, now: Mapping[str, SessionRecord], known: set[str], world: World
) -> Result:
    if record.id in known:
        return Result(action, OK, "in the registry by now")
    if record.id not in now or replace(now[record.id], closed_at=record.closed_at) != record:
        return Result(action, STALE, "its session has changed meanwhile")
    try:
        announce(world.registry.add(record), world)
    except StateError as error:
        return Result(action, FAILED, error.message)
    return Result(action, CHANGED, f"{record.status}, pane {record.pane_id} of {record.name}")


def _marked(seen: Seen) -> dict[str, list[Pane]]:
    """The panes of each mark, the oldest first."""
    marked: dict[str, list[Pane]] = {}
    for pane in sorted(seen.panes, key=lambda pane: int(pane.pane_id[1:])):
        if pane.mark:
            marked.setdefault(pane.mark, []).append(pane)
    return marked


def _where(pane: Pane) -> str:
    return f"session {pane.session} ({pane.pane_id})"


def _problem(mark: str, panes: Sequence[Pane], known: Mapping[str, SessionRecord]) -> str:
    """Why nothing can be made of a mark, or ""."""
    if mark in known:
        return f"carries the mark of a session of machine {known[mark].machine}"
    names = {pane.session_id: pane.session for pane in panes}
    if len(names) > 1:
        return f"carries the same mark as {', '.join(list(names.values())[1:])}: {mark}"
    try:
        ours = str(uuid.UUID(mark)) == mark
    except ValueError:
        ours = False
    if not ours:
        return f"carries a mark that loopctl does not give: {mark}"
    try:
        WorkItemRef.parse(panes[0].ref_mark)
    except ValueError:
        return f"is marked for no work item: {panes[0].ref_mark or 'nothing'!r}"
    return ""


def _view(mark: str, panes: Sequence[Pane], seen: Seen, world: World) -> SessionView | str:
    """The session as it will be seen once its record is there, or why it cannot be told."""
    processes = {pane.pane_id: seen.table.get(pane.pid) for pane in panes if not pane.dead}
    carriers = [pane for pane in panes if (row := processes.get(pane.pane_id)) and row.mark == mark]
    if len(panes) > 1 and not carriers:
        return f"has {len(panes)} panes: `loopctl sessions register {panes[0].ref_mark} --pane %ID` chooses one"
    pane = (carriers or panes)[0]
    closed = pane.dead and pane.input_off
    record = SessionRecord(
        id=mark,
        ref=WorkItemRef.parse(pane.ref_mark),
        machine=world.machine,
        harness=pane.command if _WORD.match(pane.command) else UNKNOWN_HARNESS,
        status=CLOSED_STATUS if closed else ACTIVE,
        # Without the mark in its environment it may have been taken over: then other panes of the session are not ours.
        origin=STARTED if carriers else REGISTERED,
        reason=REBUILT if closed else "",
        created_at=datetime.fromtimestamp(pane.since, UTC) if pane.since else None,
        closed_at=world.now() if closed else None,
    )
    try:
        record = bind(record, pane, seen)
        saved = world.transcripts.load(record) if closed else b""
    except StateError as error:
        return error.message
    record = replace(record, transcript=world.transcripts.path(record)) if saved else record
    servers = {seen.socket: Known(ServerView(seen.socket, seen.server, panes=seen.panes))}
    view = view_of(record, servers, Known(seen.table), world.policy.spare)
    return view.sighting.reason if isinstance(view.sighting, Unknown) else view


def _clashes(views: Iterable[SessionView], known: Iterable[SessionRecord], machine: str) -> dict[str, str]:
    """Sessions that would be a second open one of their item, by mark."""
    open_now = {r.ref for r in known if r.status != CLOSED_STATUS and r.machine == machine}
    active: dict[WorkItemRef, list[SessionRecord]] = {}
    for view in views:
        if view.record.status != CLOSED_STATUS:
            active.setdefault(view.record.ref, []).append(view.record)
    clashes = {}
    for ref, records in active.items():
        names = " and ".join(f"{record.name} ({record.pane_id})" for record in records)
        for record in records:
            if ref in open_now:
                clashes[record.id] = f"it has an open session beside {record.name} ({record.pane_id})"
            elif len(records) > 1:
                clashes[record.id] = f"{names} would both be its open session: `sessions register` takes one of them"
    return clashes


def _action(view: SessionView, world: World) -> Action:
    record, sighting = view.record, view.sighting
    pane = sighting.value.pane if isinstance(sighting, Known) else None
    observation = Observation(world.machine, world.registry.identity, world.now())
    before = Before(
        phase=ABSENT,
        pane=sighting.value.state if isinstance(sighting, Known) else "",
        input="off" if pane and pane.input_off else "on",
        harness=record.harness,
        pane_id=record.pane_id,
        since=record.created_at,
        attached=pane.attached if pane else 0,
        processes=tuple(process.label for process in view.tree.members),
    )
    return Action(
        verb=RECORD,
        ref=record.ref,
        before=before,
        after=After(phase=view.phase or "", status=record.status, reason=record.reason, kill_harness=False),
        play=_COMMAND,
        rule=_COMMAND,
        position=Position("command line"),
        why=f"{record.name} carries loopctl's marks",
        guard=guard_of(Subject(record.ref, NOT_ASKED, view), observation),
    )
