"""A compiled playbook: plays of rules, each a match and an end state, with the place it was written at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

RUN = "running"
PAUSE = "paused"
RETAIN = "retained"
REMOVE = "gone"
#: The end states that end a session.
ENDS = (RETAIN, REMOVE)

KEPT = "kept"
DISCARDED = "discarded"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a document; line and column count from 1."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


class Expression(Protocol):
    """A compiled Jinja2 expression or template.

    `names` are the top-level facts it reads (`item`, `session`, and the play's vars are resolved already).
    Calling it raises DocumentError with the position when a name is undefined.
    """

    names: frozenset[str]
    source: str

    def __call__(self, facts: Mapping[str, object]) -> object:
        """Evaluate over the facts of one subject."""
        ...


@dataclass(frozen=True, slots=True)
class ItemMatch:
    """Criteria on the work item; an empty one is not a criterion, all that are given must hold.

    `repo` are globs on `owner/repo` (or `host/owner/repo`), `labels` must all be there, one of `labels_any`
    must, `closed_for` is in seconds. `author`, `assignee` and `milestone` compare without letter case.
    """

    provider: tuple[str, ...] = ()
    repo: tuple[str, ...] = ()
    number: tuple[int, ...] = ()
    kind: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    labels_any: tuple[str, ...] = ()
    author: tuple[str, ...] = ()
    assignee: tuple[str, ...] = ()
    milestone: tuple[str, ...] = ()
    closed_for: float | None = None


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """Criteria on the session: its phases, harnesses, whether a client is attached, its age and how long its record has been
    closed, both in seconds."""

    phase: tuple[str, ...] = ()
    harness: tuple[str, ...] = ()
    attached: bool | None = None
    older_than: float | None = None
    closed_for: float | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """What a rule applies to. `when` narrows it further."""

    item: ItemMatch = field(default_factory=ItemMatch)
    session: SessionMatch = field(default_factory=SessionMatch)
    when: Expression | None = None


@dataclass(frozen=True, slots=True)
class Ensure:
    """The end state a rule wants; None means that the rule says nothing of it.

    `session` is running, paused, retained or gone. `grace` is in seconds, 0 = at once. `keep_last` belongs to its own rule: it
    leaves so many of the retained sessions that the rule matches alone, those that were closed last. `workspace` is shared or
    worktree for a running session, kept or removed for one that ends; `force` lets removing take uncommitted work along (saved
    first). `deliver` names what is passed on to a running agent. A comment or prompt is a template.
    """

    session: str | None = None
    harness: str | None = None
    prompt: Expression | None = None
    cwd: Expression | None = None
    workspace: str | None = None
    kill_harness: bool | None = None
    grace: float | None = None
    transcript: str | None = None
    comment: Expression | None = None
    keep_last: int | None = None
    deliver: str | None = None
    branch: Expression | None = None
    force: bool | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One statement: what matches should be so."""

    name: str
    position: Position
    match: Match
    ensure: Ensure
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one apply may change: a count, and endings as a fraction of what runs (from four endings up).

    `max_sessions` is how many sessions may run at once before this play starts no more; 0 is no limit.
    """

    max_changes: int = 10
    max_fraction: float = 0.5
    max_sessions: int = 0


@dataclass(frozen=True, slots=True)
class Play:
    """Rules for the machines that `hosts` names (localhost, all, names, globs)."""

    name: str
    position: Position
    hosts: tuple[str, ...]
    rules: tuple[Rule, ...]
    limits: Limits = field(default_factory=Limits)
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Playbook:
    """All plays of one run. `sources` are (path as given, sha256 hex digest of the text)."""

    plays: tuple[Play, ...]
    sources: tuple[tuple[str, str], ...] = ()


#: When a closed issue's session ends: with its last pull request, or with the issue alone.
LINKED_ALL = "all"
LINKED_OWN = "own"


@dataclass(frozen=True, slots=True)
class Policy:
    """What the config says of a rule that is silent, with the-loop's names and defaults (routing.tmux)."""

    keep_session_on_close: bool = True
    kill_harness_on_close: bool = True
    harness_kill_grace_seconds: float = 5.0
    remain_on_exit: bool = True
    default_harness: str = "claude"
    spawn_workdir: str = ""
    spare: tuple[str, ...] = ()
    linked_items: str = "all"
    #: How many sessions of this machine may run at once; 0 is no limit.
    max_concurrent_sessions: int = 0
    #: How often what failed is tried again before it is given up.
    max_retries: int = 3
    #: Whether an agent that ended by itself goes on with its conversation, and how long a resumed one is watched (seconds).
    resume_on_respawn: bool = True
    resume_probe_seconds: float = 2.0
    #: The harnesses that can take up a conversation again, and those whose command line has a place for a first prompt.
    resumable: frozenset[str] = frozenset()
    prompted: frozenset[str] = frozenset()
    #: What a harness needs to end well (seconds), where it says so.
    harness_grace: Mapping[str, float] = field(default_factory=dict)
    #: Logins whose comments are passed on to agents, in lower case.
    authorized_users: frozenset[str] = frozenset()
    #: Where worktrees are ("": nowhere), the branch of one where no rule says, and whether it stays when its session ends.
    workspace_root: str = ""
    workspace_branch: Expression | None = None
    keep_checkout_on_close: bool = True
    #: What is said where a rule names no words of its own: `start`, `delivery`, `comment_running`, `comment_ended`.
    templates: Mapping[str, Expression] = field(default_factory=dict)
