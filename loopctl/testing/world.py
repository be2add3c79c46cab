"""A whole simulated world: build it in a few lines, plan and apply a playbook on it, look at what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from loopctl import run
from loopctl.model.facts import Known
from loopctl.model.items import CLOSED, ISSUE, MERGED, OPEN, PULL_REQUEST, WorkItem
from loopctl.model.plan import Outcome, Plan
from loopctl.model.processes import ProcessId
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Playbook, Policy
from loopctl.model.sessions import (
    ACTIVE,
    CLOSED_STATUS,
    EXITED,
    GONE,
    LOST,
    PAUSED,
    PAUSED_STATUS,
    RETAINED,
    RUNNING,
    STARTED,
    TMUX_RUNNER,
    UNDEAD,
    ServerId,
    SessionRecord,
    SessionView,
)
from loopctl.observe import observe
from loopctl.ports import World
from loopctl.testing.faults import Faults
from loopctl.testing.machine import BEGINNING, POLITE, Habit, Machine, SimProcess
from loopctl.testing.processes import FakeProcesses
from loopctl.testing.servers import Servers, SimPane, SimSession
from loopctl.testing.sources import FakeHarness, FakeProvider
from loopctl.testing.stores import FakeJournal, FakeLedger, FakeRegistry, FakeTranscripts, FakeWorkspaces
from loopctl.testing.terminals import FakeTerminals

SOCKET = "/run/loopctl/tmux.sock"

CHILD = "child"
NOHUP = "nohup"
SETSID = "setsid"
DAEMON = "daemon"
KINDS_OF_CHILDREN = (CHILD, NOHUP, SETSID, DAEMON)

_STATUS = {PAUSED: PAUSED_STATUS, UNDEAD: CLOSED_STATUS, RETAINED: CLOSED_STATUS, GONE: CLOSED_STATUS}


@dataclass(frozen=True, slots=True)
class SimRecord:
    """What `FakeWorld.session` made: the record's id, and the session and pane as they were made (None where none is)."""

    id: str
    ref: WorkItemRef
    session: SimSession | None = None
    pane: SimPane | None = None
    process: ProcessId | None = None


class FakeWorld:
    """A machine, its tmux servers, a registry, a provider and all else that a plan is made from.

    Nothing happens unless somebody asks: the clock stands still but for `pause` and `wait`.

        world = FakeWorld()
        world.item("demo/app#1", state="closed")
        agent = world.session("demo/app#1")
        outcome = world.apply(world.plan(playbook))
        assert world.phase(agent) == "retained"
    """

    def __init__(self, *, machine: str = "desk", policy: Policy | None = None, socket: str = SOCKET) -> None:
        """`policy` is what the config says, `socket` where new sessions are started."""
        self.faults = Faults()
        self.machine = Machine()
        self.servers = Servers(self.machine)
        self.terminals = FakeTerminals(self.servers, self.faults)
        self.processes = FakeProcesses(self.machine, self.faults)
        self.registry = FakeRegistry(self.now, self.faults, self.machine.effects)
        self.transcripts = FakeTranscripts(self.faults, self.machine.effects)
        self.ledger = FakeLedger(self.now, self.faults, self.machine.effects)
        self.workspaces = FakeWorkspaces(self.faults, self.machine.effects)
        self.journal = FakeJournal(self.faults)
        self.provider = FakeProvider(self.faults)
        self.harnesses = {name: FakeHarness(name) for name in ("claude", "codex")}
        self.policy = policy or Policy(
            spawn_workdir="/srv/work",
            workspace_root=FakeWorkspaces.root,
            resumable=frozenset({"claude"}),
            prompted=frozenset(self.harnesses),
            spare=("tmux", "tmux: server", "ssh-agent"),
        )
        self.socket = socket
        self.name = machine
        self.progress: list[str] = []
        self.interrupt_after: int | None = None
        self._made = 0

    def now(self) -> datetime:
        """The wall clock."""
        return BEGINNING + timedelta(seconds=self.machine.time)

    @property
    def world(self) -> World:
        """The ports of this world, for the pipeline."""
        return World(
            machine=self.name,
            registry=self.registry,
            terminals=self.terminals,
            processes=self.processes,
            providers=(self.provider,),
            harnesses=self.harnesses,
            journal=self.journal,
            transcripts=self.transcripts,
            ledger=self.ledger,
            workspaces=self.workspaces,
            policy=self.policy,
            socket=self.socket,
            now=self.now,
            clock=lambda: self.machine.time,
            pause=self.machine.advance,
            interrupted=self._interrupted,
            progress=self.progress.append,
        )

    def _interrupted(self) -> bool:
        return self.interrupt_after is not None and len(self.machine.effects) >= self.interrupt_after

    def item(
        self,
        ref: str,
        state: str = OPEN,
        *,
        kind: str = "",
        labels: Iterable[str] = (),
        reason: str = "",
        closed_for: float = 60,
        node_id: str = "",
        title: str = "",
        silent: str = "",
    ) -> WorkItemRef:
        """A work item. `silent` is why the provider cannot tell its state; `closed_for` are seconds."""
        parsed = WorkItemRef.parse(ref, "items")
        ended = state in {CLOSED, MERGED}
        self.provider.items[parsed] = WorkItem(
            ref=parsed,
            kind=kind or (PULL_REQUEST if state == MERGED else ISSUE),
            state=state,
            reason=reason or ("completed" if state == CLOSED else ""),
            labels=frozenset(labels),
            title=title or f"Item {parsed.number}",
            closed_at=self.now() - timedelta(seconds=closed_for) if ended else None,
            node_id=node_id,
        )
        self.provider.silent.pop(parsed, None)
        if silent:
            self.provider.silent[parsed] = silent
        return parsed

    def session(
        self,
        ref: str,
        phase: str = RUNNING,
        *,
        harness: str = "claude",
        habit: Habit = POLITE,
        socket: str = "",
        origin: str = STARTED,
        machine: str = "",
        runner: str = TMUX_RUNNER,
        up_for: float = 3600,
        **fields: object,
    ) -> SimRecord:
        """A session in this phase, with its record; `fields` overwrite what the record says."""
        parsed = WorkItemRef.parse(ref, "items")
        self._made += 1
        id_ = str(UUID(int=self._made, version=4))
        record = SessionRecord(
            id=id_,
            ref=parsed,
            machine=machine or self.name,
            harness=harness,
            status=_STATUS.get(phase, ACTIVE),
            runner=runner,
            origin=origin,
            socket=socket or self.socket,
            name=f"loop-{parsed.slug}" + (f"-r{self._made}" if self._named(f"loop-{parsed.slug}") else ""),
            harness_session_id=f"conversation-of-{parsed.number}",
            cwd="/srv/work",
            reason="issue-closed" if phase in {UNDEAD, RETAINED, GONE} else "",
            created_at=self.now() - timedelta(seconds=up_for) + timedelta(microseconds=self._made),
            closed_at=self.now() if phase in {UNDEAD, RETAINED, GONE} else None,
        )
        if runner != TMUX_RUNNER:
            self.registry.put(replace(record, socket="", **fields))  # type: ignore[arg-type]
            return SimRecord(id_, parsed)
        record, made = self._pane_of(record, phase, habit)
        self.registry.put(replace(record, **fields))  # type: ignore[arg-type]
        return made

    def _named(self, name: str) -> bool:
        return any(record.name == name for record in self.registry.records.values())

    def _pane_of(self, record: SessionRecord, phase: str, habit: Habit) -> tuple[SessionRecord, SimRecord]:
        mark = record.id if record.origin == STARTED else ""
        session = self.servers.open(record.socket, record.name, mark=record.id, ref=str(record.ref))
        pane = self.servers.split(record.socket, session, (record.harness,), mark=mark, habit=habit, owner=record.id)
        process = self.machine.processes[pane.pid].id
        server = self.servers.ensure(record.socket)
        record = replace(record, server=server.id, session_id=session.session_id, pane_id=pane.pane_id, pane=process)
        made = SimRecord(record.id, record.ref, session, pane, process)
        if phase == RETAINED:
            pane.input_off = True
            path = self.transcripts.path(record)
            self.transcripts.files[path] = pane.text
            record = replace(record, transcript=path)
        if phase in {EXITED, RETAINED}:
            self.machine.end(pane.pid)
        if phase in {LOST, GONE}:
            self.keep_alive(record.socket)
            self.servers.drop(pane)
        return record, made

    def keep_alive(self, socket: str = "") -> SimSession:
        """A foreign session, so that the server does not end with its last session of ours."""
        server = self.servers.ensure(socket or self.socket)
        names = {session.name: session for session in server.sessions}
        return names.get("somebody") or self.foreign("somebody", socket=socket)

    def foreign(self, name: str, *, socket: str = "", mark: str = "", habit: Habit = POLITE) -> SimSession:
        """A session of somebody else, with a program in it."""
        session = self.servers.open(socket or self.socket, name, mark=mark)
        self.servers.split(socket or self.socket, session, ("vim", "notes"), habit=habit)
        return session

    def child(
        self,
        of: SimRecord,
        kind: str = CHILD,
        *,
        name: str = "",
        habit: Habit = POLITE,
        cleared: bool = False,
        argv: Iterable[str] = (),
    ) -> SimProcess:
        """A process that the session's agent started.

        `kind`: child (in its group), nohup (a group of its own), setsid (a session of its own), daemon (forked twice: init's
        child in a session of its own). `cleared`: started with an empty environment.
        """
        if of.pane is None or of.process is None:
            msg = f"{of.ref} has no pane"
            raise ValueError(msg)
        pid = of.process.pid
        orphan = kind == DAEMON or not self.machine.alive(of.process)
        parent = 1 if orphan else pid
        server = self.servers.ensure(self.registry.records[of.id].socket)
        tmux = f"{server.socket},{server.id.pid},{of.session.session_id[1:]}" if of.session else ""
        started = self.registry.records[of.id].origin == STARTED
        return self.machine.spawn(
            name or f"{kind}-tool",
            parent=parent,
            argv=argv,
            session=pid if kind in {CHILD, NOHUP} else 0,
            group=pid if kind == CHILD else 0,
            mark=of.id if started and not cleared else "",
            pane=("", "") if cleared else (tmux, of.pane.pane_id),
            habit=habit,
            owner=of.id,
        )

    def inside(self, of: SimRecord) -> None:
        """Let loopctl itself run below this session's agent."""
        own = self.machine.processes[self.machine.own]
        pid = of.process.pid if of.process else 1
        own.row = replace(own.row, ppid=pid, sid=pid)

    def beside(self, of: SimRecord, *, habit: Habit = POLITE) -> SimPane:
        """A second pane in the session (a split)."""
        if of.session is None:
            msg = f"{of.ref} has no tmux session"
            raise ValueError(msg)
        record = self.registry.records[of.id]
        started = record.origin == STARTED
        return self.servers.split(
            record.socket,
            of.session,
            ("sh",),
            mark=of.id if started else "",
            habit=habit,
            owner=of.id if started else "",
        )

    def record(self, of: SimRecord) -> SessionRecord:
        """The record as it is now."""
        return self.registry.records[of.id]

    def view(self, of: SimRecord) -> SessionView:
        """The session as loopctl sees it now."""
        subjects = observe(self.world).subjects
        return next(s.session for s in subjects if s.session and s.session.record.id == of.id)

    def phase(self, of: SimRecord) -> str | None:
        """The phase as loopctl sees it, None while it is unknown."""
        return self.view(of).phase

    def server_id(self, socket: str = "") -> ServerId | None:
        """The identity of the server at this socket."""
        view = self.terminals.look(socket or self.socket)
        return view.value.server if isinstance(view, Known) else None

    def plan(self, playbook: Playbook) -> Plan:
        """Make a plan."""
        return run.plan_once(playbook, self.world)

    def apply(self, plan: Plan, max_changes: int | None = None) -> Outcome:
        """Apply it under the lock."""
        return run.apply_plan(plan, self.world, max_changes)

    def snapshot(self) -> tuple[object, ...]:
        """All that a plan must not change, as comparable text."""
        return (
            repr(sorted(self.machine.processes.items())),
            repr(self.servers.all),
            repr(self.registry.records),
            self.registry.name,
            repr(self.transcripts.files),
            repr(self.ledger.read()),
            repr(self.workspaces.trees),
            repr(self.provider.items),
            repr(self.machine.effects),
            repr(self.journal.events),
        )
