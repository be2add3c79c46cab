"""What to do about it: actions with whole before and after, and what is held."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from loopctl.model.processes import ProcessId
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Limits, Position
from loopctl.model.sessions import ServerId
from loopctl.model.talk import Message

START = "start"
RESUME = "resume"
CLOSE = "close"
REAP = "reap"
RECORD = "record"
COMMENT = "comment"
DELIVER = "deliver"
VERBS = (START, RESUME, CLOSE, REAP, RECORD, COMMENT, DELIVER)
#: Verbs that bring an agent to life.
BEGINNINGS = (START, RESUME)
#: Verbs that end something; they go through the one close path.
ENDINGS = (CLOSE, REAP)


@dataclass(frozen=True, slots=True)
class Before:
    """What is, as far as the action changes it. `since` is the session's birth, `processes` its live processes
    (labels), `spared` those that will be left alone because others share them. `workspace` is a worktree that was to go with
    the session, `work` what would be lost with it, in words."""

    phase: str
    status: str = ""
    pane: str = ""
    input: str = ""
    remain_on_exit: str = ""
    harness: str = ""
    pane_id: str = ""
    since: datetime | None = None
    attached: int = 0
    processes: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    panes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    workspace: str = ""
    work: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class After:
    """What will be. `transcript` is kept or discarded; `grace` is in seconds; start fields are empty for an ending.

    `conversation` is the harness's session id that a resumed agent goes on with. `cursor` says from which time on (the
    provider's clock) comments are passed on. `workspace` is shared or worktree for a start, removed or kept for an ending. `comment` is the text that the item is to carry once the state (`comment_key`) is reached.
    """

    phase: str
    status: str = ""
    reason: str = ""
    pane: str = ""
    input: str = ""
    kill_harness: bool = True
    grace: float = 0.0
    transcript: str = ""
    harness: str = ""
    cwd: str = ""
    prompt: str = ""
    name: str = ""
    conversation: str = ""
    workspace: str = ""
    branch: str = ""
    force: bool = False
    cursor: datetime | None = None
    messages: tuple[Message, ...] = ()
    comment: str = ""
    comment_key: str = ""


@dataclass(frozen=True, slots=True)
class Guard:
    """The identities and facts an action relies on; each is compared again just before it acts.

    `item_facts` is a short digest of what rules can ask of the item; `attached` is yes or no, "" where the rule does not ask.
    """

    machine: str
    registry: str
    record_id: str = ""
    generation: int = 0
    socket: str = ""
    server: ServerId | None = None
    session_id: str = ""
    pane_id: str = ""
    pane: ProcessId | None = None
    pane_state: str = ""
    item_state: str = ""
    item_node: str = ""
    item_facts: str = ""
    attached: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """One change: the verb, its item, whole before and after, the rule that wants it and why."""

    verb: str
    ref: WorkItemRef
    before: Before
    after: After
    play: str
    rule: str
    position: Position
    why: str
    guard: Guard


@dataclass(frozen=True, slots=True)
class Held:
    """An item left alone because something about it is unknown or contradictory."""

    ref: WorkItemRef
    reason: str


@dataclass(frozen=True, slots=True)
class PlayScope:
    """A play's limits and what they are measured against: the sessions that run and could be ended."""

    name: str
    limits: Limits
    running: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All that differs. `unchanged` counts subjects that are as they should be; `outside` are refs nobody answers for.

    `problems` are observations that failed without naming an item (a listing): the plan is then incomplete.
    """

    created_at: datetime
    machine: str
    registry: str
    playbooks: tuple[tuple[str, str], ...] = ()
    plays: tuple[PlayScope, ...] = ()
    actions: tuple[Action, ...] = ()
    held: tuple[Held, ...] = ()
    unchanged: int = 0
    outside: tuple[WorkItemRef, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def count(self, verb: str) -> int:
        """How many actions have this verb."""
        return sum(action.verb == verb for action in self.actions)

    @property
    def summary(self) -> dict[str, int]:
        """Counts by verb, then held and unchanged: the one source of every count that is shown."""
        return {verb: self.count(verb) for verb in VERBS} | {"held": len(self.held), "unchanged": self.unchanged}


CHANGED = "changed"
OK = "ok"
STALE = "stale"
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one action: changed, ok (was so already), stale (the world moved) or failed."""

    action: Action
    status: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan. `interrupted` says that a signal cut it short."""

    results: tuple[Result, ...] = ()
    held: tuple[Held, ...] = ()
    interrupted: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def summary(self) -> dict[str, int]:
        """Counts by status, then held."""
        counts = {status: sum(r.status == status for r in self.results) for status in (CHANGED, OK, STALE, FAILED)}
        return counts | {"held": len(self.held)}
