"""What is: everything a plan is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from loopctl.model.facts import UNASKED, Fact, Known, Unknown
from loopctl.model.items import WorkItem
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import ABSENT, PAUSED, RUNNING, UNDEAD, Pane, SessionRecord, SessionView
from loopctl.model.talk import Comment, Talk
from loopctl.model.workspaces import Workspace

#: How many of its newest questions a provider remembers: more than one plan needs, and no more however long it runs.
QUESTIONS_KEPT = 100
NOT_ASKED = Unknown("not asked", UNASKED)


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing a rule may apply to: a work item, one of its sessions, or both.

    `session` is None for an item without a session. `latest` says that this is the newest record of its item: only that one
    can be asked to run. `listed` says that a source lists the item (open, with the source's label) or a pull request that
    delivers it.
    """

    ref: WorkItemRef
    item: Fact[WorkItem]
    session: SessionView | None = None
    latest: bool = True
    listed: bool = False

    @property
    def record(self) -> SessionRecord | None:
        """The registry's row, if there is one."""
        return self.session.record if self.session else None

    @property
    def phase(self) -> str | None:
        """The phase, or None while what tmux shows is unknown."""
        return self.session.phase if self.session else ABSENT

    @property
    def is_alive(self) -> bool:
        """Whether it is known to have something that could be ended: its agent, or what that left behind."""
        return self.phase in {RUNNING, PAUSED, UNDEAD} or bool(self.session and self.session.tree.members)


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked of a provider and what it cost: calls made and, where the answers say so, points spent and left."""

    provider: str
    what: str
    calls: int = 0
    items: int = 0
    remaining: int | None = None
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """A pane with no record of ours: listed, never touched."""

    socket: str
    pane: Pane


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the registry, tmux, the process table and the providers. `now` is the time of the look (UTC).

    `problems` are things that could not be read whole and that hold every item they could concern: name -> reason.
    `foreign` are records of other machines, which are out of scope. `alive_beside` counts the live sessions that a limit
    left out: fractions are measured against them too. `in_session` are all items with an open session, those included.
    `threads` are the comments on the items that were asked about, the oldest first; `workspaces` by path what the worktrees show.
    `mute` are items on which nobody can comment, and why. `keep_checkouts` is whether a worktree stays where no rule says.
    """

    machine: str
    registry: str
    now: datetime
    subjects: tuple[Subject, ...] = ()
    unmanaged: tuple[Unmanaged, ...] = ()
    foreign: tuple[SessionRecord, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    in_session: frozenset[WorkItemRef] = frozenset()
    alive_beside: int = 0
    talk: Talk = field(default_factory=Talk)
    threads: Mapping[WorkItemRef, Fact[tuple[Comment, ...]]] = field(default_factory=dict)
    workspaces: Mapping[str, Fact[Workspace]] = field(default_factory=dict)
    mute: Mapping[WorkItemRef, str] = field(default_factory=dict)
    keep_checkouts: bool = True


def known_item(subject: Subject) -> WorkItem | None:
    """The item where it is known."""
    return subject.item.value if isinstance(subject.item, Known) else None
