"""What the registry remembers of a session, what tmux shows of it, and the phase that follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from loopctl.model.facts import Fact, Known
from loopctl.model.processes import ProcessId
from loopctl.model.refs import WorkItemRef
from loopctl.model.trees import Tree

ACTIVE = "active"
PAUSED_STATUS = "paused"
CLOSED_STATUS = "closed"
STATUSES = (ACTIVE, PAUSED_STATUS, CLOSED_STATUS)

LIVE = "live"
DEAD = "dead"
ABSENT_PANE = "absent"
#: The session's runner is not tmux: there is no pane to look at.
NO_PANE = "none"

ABSENT = "absent"
RUNNING = "running"
PAUSED = "paused"
EXITED = "exited"
LOST = "lost"
UNDEAD = "undead"
RETAINED = "retained"
GONE = "gone"
PHASES = (ABSENT, RUNNING, PAUSED, EXITED, LOST, UNDEAD, RETAINED, GONE)

STARTED = "started"
REGISTERED = "registered"
IMPORTED = "imported"

TMUX_RUNNER = "tmux"

#: Why a record was closed whose agent ended though nobody wanted it to: another one takes its place.
AGENT_EXITED = "agent-exited"
PANE_LOST = "pane-lost"
RESUME_FAILED = "resume-failed"
RESTART_REASONS = (AGENT_EXITED, PANE_LOST, RESUME_FAILED)


@dataclass(frozen=True, slots=True)
class ServerId:
    """One run of a tmux server: its pid and start time (seconds since the epoch, tmux's own `start_time`).

    Session, window and pane ids mean something only together with it.
    """

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One row of the registry. Times are aware, in UTC; `""`, None and 0 mean "not known".

    `origin` is how the record came to be: started (by loopctl, so every process carries its mark), registered or imported.
    `generation` grows with each write; a write names the generation it was based on. `workspace` is the worktree that was made
    for it, `resumes` the id of the session whose agent had ended and whose place (and, where the harness can, conversation) it took.
    """

    id: str
    ref: WorkItemRef
    machine: str
    harness: str
    status: str = ACTIVE
    runner: str = TMUX_RUNNER
    origin: str = STARTED
    socket: str = ""
    server: ServerId | None = None
    session_id: str = ""
    pane_id: str = ""
    pane: ProcessId | None = None
    name: str = ""
    harness_session_id: str = ""
    cwd: str = ""
    reason: str = ""
    transcript: str = ""
    node_id: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    closed_at: datetime | None = None
    generation: int = 0
    workspace: str = ""
    branch: str = ""
    resumes: str = ""

    @property
    def only_begun(self) -> bool:
        """Whether a start wrote it down and was cut off before it could write down a pane."""
        return self.origin == STARTED and self.status == ACTIVE and self.server is None and not self.pane_id


@dataclass(frozen=True, slots=True)
class Pane:
    """One pane as tmux lists it. `mark` is the session's @loopctl_id and `ref_mark` its @loopctl_ref, both as they stand there;
    `since` is the session's birth (epoch seconds). `own_mark` is the pane's own mark, which an earlier close put on it. `dead_since` is when its process ended (epoch
    seconds; 0 where tmux does not say)."""

    session_id: str
    window_id: str
    pane_id: str
    pid: int
    dead: bool
    session: str
    mark: str = ""
    input_off: bool = False
    remain_on_exit: str = "off"
    alternate: bool = False
    history: int = 0
    height: int = 0
    width: int = 0
    attached: int = 0
    since: int = 0
    exit_status: int | None = None
    exit_signal: int | None = None
    command: str = ""
    path: str = ""
    ref_mark: str = ""
    own_mark: str = ""
    dead_since: int = 0


@dataclass(frozen=True, slots=True)
class ServerView:
    """All that one tmux server shows. `server` is None when it is proved that none runs at this socket.

    A pane that several sessions show (grouped sessions, linked windows) is listed once for each.
    """

    socket: str
    server: ServerId | None = None
    version: str = ""
    panes: tuple[Pane, ...] = ()


@dataclass(frozen=True, slots=True)
class Sighting:
    """What tmux shows for the pane of one record.

    `state` is live, dead, absent, or none (the runner is not tmux). `process` is the live process of the pane with its
    start time. `kin` are other panes of the session that are proved to be this session's too (their process carries its mark, or
    an earlier close marked them), `beside` are those that are not: left alone.
    """

    state: str
    server: ServerId | None = None
    pane: Pane | None = None
    process: ProcessId | None = None
    kin: tuple[Pane, ...] = ()
    beside: tuple[Pane, ...] = ()

    @property
    def closing(self) -> tuple[Pane, ...]:
        """The panes that are closed with this session: its own first."""
        return (*((self.pane,) if self.pane else ()), *self.kin)


@dataclass(frozen=True, slots=True)
class SessionView:
    """A record with what is seen of it now: its sighting and its live processes."""

    record: SessionRecord
    sighting: Fact[Sighting]
    tree: Tree = field(default_factory=Tree)

    @property
    def phase(self) -> str | None:
        """The phase, or None while the sighting is unknown."""
        return phase_of(self.record, self.sighting.value, self.tree) if isinstance(self.sighting, Known) else None

    @property
    def silenced(self) -> tuple[Pane, ...]:
        """The live panes of an open session whose input a close turned off that was cut off: people who do that leave no mark."""
        if self.record.status == CLOSED_STATUS or not isinstance(self.sighting, Known):
            return ()
        mine = (pane for pane in self.sighting.value.closing if not pane.dead and pane.input_off)
        return tuple(pane for pane in mine if pane.own_mark == self.record.id)

    @property
    def unnamed(self) -> bool:
        """Whether its record names its pane and not the process in it, which has the session's mark."""
        if self.record.origin != STARTED or self.record.pane or not self.record.pane_id:
            return False
        shown = self.sighting.value.process if isinstance(self.sighting, Known) else None
        rows = (*self.tree.members, *self.tree.keepers)
        return any(row.id == shown and row.mark == self.record.id for row in rows)

    @property
    def half_done(self) -> bool:
        """Whether it runs, and a start or a close that was cut off has left something to be put right."""
        shown = isinstance(self.sighting, Known) and self.sighting.value.pane is not None
        broken = self.record.only_begun or self.unnamed or bool(self.silenced)
        return self.phase == RUNNING and shown and broken


def phase_of(record: SessionRecord | None, sighting: Sighting, tree: Tree) -> str:
    """Where a session stands: record x sighting.

    *exited*, *lost* and *undead* are drift. A closed record is undead while its pane lives or any
    process of its tree does, since a dead pane says nothing of children.
    """
    if record is None:
        return ABSENT
    if record.status == CLOSED_STATUS:
        if sighting.state == LIVE or tree.members:
            return UNDEAD
        return RETAINED if sighting.state == DEAD else GONE
    if sighting.state == DEAD:
        return EXITED
    if sighting.state == ABSENT_PANE:
        return LOST
    return PAUSED if record.status == PAUSED_STATUS else RUNNING
