"""What the core needs of the outside. Adapters implement these; `loopctl.testing` has fakes of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from loopctl.model.facts import Fact
from loopctl.model.items import WorkItem
from loopctl.model.observed import Question
from loopctl.model.processes import ProcessId, ProcessTable
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Policy
from loopctl.model.sessions import Pane, ServerId, ServerView, SessionRecord
from loopctl.model.talk import Comment, Posted, Talk
from loopctl.model.workspaces import Prepared, Removal, Workspace


class Provider(Protocol):
    """Where work items live. A provider fails, it does not omit: what it could not read whole is Unknown."""

    def owns(self, ref: WorkItemRef) -> bool:
        """Whether this provider answers for the item. One that never does is never reconciled."""
        ...

    def get(self, refs: Sequence[WorkItemRef]) -> Mapping[WorkItemRef, Fact[WorkItem]]:
        """The closure question, in bulk: an answer for every ref that was asked. Never raises for an item."""
        ...

    def listed(self) -> Fact[tuple[WorkItem, ...]]:
        """All open items that carry the source's label; Unknown when the listing could not be read to its end."""
        ...

    def threads(self, refs: Sequence[WorkItemRef]) -> Mapping[WorkItemRef, Fact[tuple[Comment, ...]]]:
        """The comments on these items, the oldest first, whole or Unknown; an answer for every ref that was asked. Never raises."""
        ...

    def mute(self) -> str:
        """Why nobody can comment on the items of this provider, "" where one can."""
        ...

    def comment(self, ref: WorkItemRef, key: str, text: str) -> Fact[str]:
        """Leave one comment on the item, or update the one of ours that carries this key; its URL.

        The hidden mark is put in here. An Unknown of kind REFUSED says that certainly nothing was posted.
        """
        ...

    def describe(self) -> str:
        """One line for people: what is looked at."""
        ...

    def asked(self) -> tuple[Question, ...]:
        """What was asked since this provider was made, and what it cost; the newest questions, not without end."""
        ...


@dataclass(frozen=True, slots=True)
class PaneRef:
    """A pane that was proved to be the one meant: acting on it needs all of these to hold still.

    A text goes only to the process `pid`, where that is named, and with `no_shell` not while a shell shows, which would run it.
    """

    pane_id: str
    session_id: str
    mark: str = ""
    pid: int = 0
    no_shell: bool = False


@dataclass(frozen=True, slots=True)
class StartSpec:
    """A pane to be made: a name in `[A-Za-z0-9_-]+`, the harness's argv, an absolute folder, its environment and marks."""

    id: str
    ref: WorkItemRef
    name: str
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Started:
    """The identities of a pane that was made."""

    server: ServerId
    pane: Pane


class TerminalHost(Protocol):
    """The tmux servers of this machine, each named by its absolute socket path.

    Every method that changes something takes the server's identity and does nothing on another server. Errors come back as
    text, by pane; none of them raises for a pane that is not there.
    """

    def look(self, socket: str) -> Fact[ServerView]:
        """All panes of a server in one call. No server is a ServerView without identity; a doubt is Unknown."""
        ...

    def secure(self, socket: str, server: ServerId, panes: Sequence[PaneRef]) -> str:
        """Turn input off and remain-on-exit on for these panes, and mark each. Returns an error text, or ""."""
        ...

    def release(self, socket: str, server: ServerId, panes: Sequence[PaneRef]) -> str:
        """Turn the input of these panes on again and take the mark off that `secure` put on them: their close is not going on."""
        ...

    def capture(self, socket: str, server: ServerId, panes: Sequence[Pane]) -> Mapping[str, Fact[bytes]]:
        """The whole scrollback of each pane by pane id, with the alternate screen where one is shown."""
        ...

    def remove(self, socket: str, server: ServerId, panes: Sequence[PaneRef]) -> str:
        """Kill these panes (a session goes with its last one). Returns an error text, or ""."""
        ...

    def paste(self, socket: str, server: ServerId, pane: PaneRef, text: str) -> Fact[None]:
        """Give a live pane a text as one bracketed paste and submit it, unless it is dead, takes no input or is not the one meant.

        An Unknown of kind REFUSED says that certainly nothing arrived; any other that it cannot be told.
        """
        ...

    def nudge(self, socket: str, server: ServerId) -> None:
        """Make the server look again for children that ended."""
        ...

    def start(self, socket: str, specs: Sequence[StartSpec]) -> Mapping[str, Fact[Started]]:
        """Make panes in one invocation, remain-on-exit and marks included; by spec id.

        An Unknown of kind REFUSED says that certainly no pane was made; any other that it cannot be told.
        """
        ...

    def mark(self, socket: str, server: ServerId, pane: PaneRef, ref: WorkItemRef) -> str:
        """Put our marks (`pane.mark` and the ref) on a session that is taken over, unless it carries another mark.

        Returns an error text, or "" (which proves nothing: read the mark back).
        """
        ...


class Processes(Protocol):
    """The process table and signals."""

    def look(self) -> Fact[ProcessTable]:
        """All processes of the machine with their marks, in one pass."""
        ...

    def signal(self, targets: Iterable[ProcessId], signum: int) -> Mapping[ProcessId, str]:
        """Signal each process after comparing its identity; returns what failed, by process (a gone one has not failed)."""
        ...

    def wait(self, targets: Iterable[ProcessId], seconds: float) -> frozenset[ProcessId]:
        """Wait until one of them ends or the time is over; returns those still alive. A zombie has ended."""
        ...


class Registry(Protocol):
    """Session records. Writes compare the generation; reads never wait for an apply."""

    @property
    def identity(self) -> str:
        """A name for this registry that no other has ("" while it does not exist yet)."""
        ...

    def all(self) -> tuple[SessionRecord, ...]:
        """Every record, the oldest first. Raises StateError when the file cannot be trusted."""
        ...

    def add(self, record: SessionRecord) -> SessionRecord:
        """Insert a record. Raises StateError when its item already has one that is not closed."""
        ...

    def replace(self, record: SessionRecord) -> SessionRecord | None:
        """Write a record over the row of the same id and generation; None when the row has moved on."""
        ...

    def replace_all(self, records: Sequence[SessionRecord]) -> Mapping[str, SessionRecord | None]:
        """`replace` for many records in one short transaction, each compared by itself; by id."""
        ...

    def remove(self, record: SessionRecord) -> None:
        """Forget a record that never became a session."""
        ...

    def prove_writable(self) -> None:
        """Write something durably and take it back. Raises StateError with what and where."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """The apply lock: one actor at a time. Waits a bounded time, then raises RefusedError naming the holder."""
        ...


class Journal(Protocol):
    """The event log."""

    def emit(self, event: str, level: str = "info", **fields: object) -> None:
        """Append one event; `event` is one of model.events.EVENT_TYPES. Never raises: a log must not stop an ending."""
        ...


class Transcripts(Protocol):
    """Where the scrollback of ended sessions is kept."""

    def path(self, record: SessionRecord) -> str:
        """The file of one session, the same each time."""
        ...

    def save_all(self, texts: Sequence[tuple[SessionRecord, bytes]]) -> Mapping[str, Fact[str]]:
        """Write each whole, durably, readable by the owner only; the path, or why it failed, by record id."""
        ...

    def load(self, record: SessionRecord) -> bytes:
        """What was saved for this session, b"" when nothing was. Raises StateError."""
        ...

    def prove_writable(self) -> None:
        """Raises StateError with what and where."""
        ...


class Ledger(Protocol):
    """What was passed on to agents and posted on items: so that it is done once, however often it is asked for."""

    def read(self) -> Talk:
        """All of it. Raises StateError when the file cannot be trusted."""
        ...

    def claim(self, session: str, message: str) -> bool:
        """Write down durably that a message is about to be sent. False when it was claimed before and has not failed since."""
        ...

    def settle(self, session: str, message: str, status: str, detail: str = "") -> None:
        """Write down what became of a claimed message."""
        ...

    def set_cursor(self, session: str, cursor: datetime) -> None:
        """Comments up to this time are not passed on to the session (any more). A cursor never goes back."""
        ...

    def inherit(self, old: str, new: str) -> None:
        """A session that goes on with another's conversation knows what that one was told."""
        ...

    def posted(self, note: Posted) -> None:
        """Write down a comment of ours."""
        ...

    def arm(self, ref: WorkItemRef) -> None:
        """What was given up for this item is to be tried again."""
        ...


class Workspaces(Protocol):
    """Git worktrees, one for each session that wants one, below one root."""

    def look(self, paths: Sequence[str]) -> Mapping[str, Fact[Workspace]]:
        """What stands at these paths; an answer for each."""
        ...

    def prepare(self, ref: WorkItemRef, branch: str) -> Prepared:
        """Make (or find) the item's worktree on this branch, at the path that `model.workspaces.worktree_path` says. What is in it
        stays. Raises StateError."""
        ...

    def remove(self, path: str, *, force: bool) -> Removal:
        """Take a worktree of ours away. What is not ours stays, and so does what has work that would be lost, unless forced: then
        that work is saved first. A vanished one is no problem. Never raises."""
        ...


class Harness(Protocol):
    """How one agent program is started and ended."""

    name: str
    #: The number of the signal that asks it to end.
    stop_signal: int

    def check(self) -> str:
        """Why it cannot be started (no such program, its version does not answer), in one line, or "". Its own answer is remembered."""
        ...

    def resume_argv(self, prompt: str, session_id: str) -> tuple[str, ...]:
        """The command line that goes on with a conversation, () where the program cannot. Raises StateError like `argv`."""
        ...

    def argv(self, prompt: str, session_id: str) -> tuple[str, ...]:
        """The command line of a fresh start. Raises StateError when the program does not exist."""
        ...

    def env(self) -> Mapping[str, str]:
        """What is added to the environment of the pane."""
        ...

    def new_session_id(self) -> str:
        """A conversation id where the program takes one from us, else ""."""
        ...


@dataclass(frozen=True, slots=True)
class World:
    """Everything a plan is made from and applied to. Built in one place, `cli.wiring`."""

    machine: str
    registry: Registry
    terminals: TerminalHost
    processes: Processes
    providers: Sequence[Provider]
    harnesses: Mapping[str, Harness]
    journal: Journal
    transcripts: Transcripts
    ledger: Ledger
    workspaces: Workspaces
    policy: Policy
    #: The socket that new sessions are started on.
    socket: str
    now: Callable[[], datetime]
    #: Monotonic seconds, and a short wait: tests replace both.
    clock: Callable[[], float]
    pause: Callable[[float], None]
    #: Whether a signal asked to stop.
    interrupted: Callable[[], bool]
    #: Told to a person while waiting; goes to stderr or nowhere.
    progress: Callable[[str], None]
