"""Fakes of ports.Provider and ports.Harness."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loopctl.errors import StateError
from loopctl.model.facts import REFUSED, Fact, Known, Unknown
from loopctl.model.items import MISSING, OPEN, WorkItem
from loopctl.model.observed import QUESTIONS_KEPT, Question
from loopctl.model.refs import WorkItemRef
from loopctl.model.talk import Comment
from loopctl.testing.faults import Faults


@dataclass(slots=True)
class FakeProvider:
    """ports.Provider over a mapping of items.

    `silent` items give their reason as Unknown, `omitted` ones no answer at all, `outside` ones are not this provider's.
    `down` is the reason why nothing can be read, `label` what the listing is filtered by.
    """

    faults: Faults
    items: dict[WorkItemRef, WorkItem] = field(default_factory=dict)
    silent: dict[WorkItemRef, str] = field(default_factory=dict)
    omitted: set[WorkItemRef] = field(default_factory=set)
    outside: set[WorkItemRef] = field(default_factory=set)
    down: str = ""
    listing_down: str = ""
    label: str = "loop"
    comments: dict[WorkItemRef, list[Comment]] = field(default_factory=dict)
    posts: dict[tuple[WorkItemRef, str], str] = field(default_factory=dict)
    #: Why nobody can comment at all, and why a comment on these items is refused.
    silence: str = ""
    locked: dict[WorkItemRef, str] = field(default_factory=dict)
    questions: deque[Question] = field(default_factory=lambda: deque(maxlen=QUESTIONS_KEPT))

    def owns(self, ref: WorkItemRef) -> bool:
        """All but `outside`."""
        return ref not in self.outside

    def get(self, refs: Sequence[WorkItemRef]) -> Mapping[WorkItemRef, Fact[WorkItem]]:
        """An answer for each ref, but for those that it was told to omit."""
        doubt = self.faults.enter("provider.get")
        self.questions.append(Question("fake", "items", 1, len(refs)))
        reason = doubt.reason if doubt else self.down
        return {ref: self._one(ref, reason) for ref in refs if ref not in self.omitted}

    def _one(self, ref: WorkItemRef, reason: str) -> Fact[WorkItem]:
        reason = reason or self.silent.get(ref, "")
        return Unknown(reason) if reason else Known(self.items.get(ref, WorkItem(ref, "issue", MISSING)))

    def listed(self) -> Fact[tuple[WorkItem, ...]]:
        """All open items that carry the label."""
        doubt = self.faults.enter("provider.listed")
        self.questions.append(Question("fake", "listing", 1))
        reason = doubt.reason if doubt else self.down or self.listing_down
        if reason:
            return Unknown(reason)
        return Known(tuple(item for item in self.items.values() if item.state == OPEN and self._lists(item)))

    def _lists(self, item: WorkItem) -> bool:
        return self.label in item.labels and item.ref not in self.outside | set(self.silent) | self.omitted

    def threads(self, refs: Sequence[WorkItemRef]) -> Mapping[WorkItemRef, Fact[tuple[Comment, ...]]]:
        """The comments on each item."""
        doubt = self.faults.enter("provider.threads")
        self.questions.append(Question("fake", "comments", 1, len(refs)))
        reason = doubt.reason if doubt else self.down
        return {ref: Unknown(reason) if reason else Known(tuple(self.comments.get(ref, ()))) for ref in refs}

    def mute(self) -> str:
        """Why nobody can comment."""
        return self.silence

    def comment(self, ref: WorkItemRef, key: str, text: str) -> Fact[str]:
        """Post, or write over what was posted under this key."""
        doubt = self.faults.enter("provider.comment")
        if doubt or self.down:
            return doubt or Unknown(self.down)
        if ref in self.locked:
            return Unknown(self.locked[ref], REFUSED)
        self.posts[ref, key] = text
        return Known(f"https://example.invalid/{ref.number}#{key}")

    def describe(self) -> str:
        """For people."""
        return "the fake items"

    def asked(self) -> tuple[Question, ...]:
        """The newest questions."""
        return tuple(self.questions)


@dataclass(slots=True)
class FakeHarness:
    """ports.Harness: a program of this name that gets its prompt as one argument. `missing`: it is not installed."""

    name: str = "claude"
    missing: bool = False
    resumes: bool = True
    started: int = 0
    stop_signal: int = signal.SIGTERM
    #: Why it cannot be started though it is installed.
    broken: str = ""

    def argv(self, prompt: str, session_id: str) -> tuple[str, ...]:
        """The program, its conversation and its prompt."""
        if self.missing:
            raise StateError(f"{self.name} is not installed", hint=f"install {self.name}")
        return (self.name, "--session-id", session_id, *([prompt] if prompt else []))

    def check(self) -> str:
        """Whether it is installed, and works."""
        return f"{self.name} is not installed" if self.missing else self.broken

    def resume_argv(self, prompt: str, session_id: str) -> tuple[str, ...]:
        """The program, the conversation that it goes on with, and its prompt."""
        if self.missing:
            raise StateError(f"{self.name} is not installed", hint=f"install {self.name}")
        return (self.name, "--resume", session_id, *([prompt] if prompt else [])) if self.resumes else ()

    def env(self) -> Mapping[str, str]:
        """Nothing of its own."""
        return {}

    def new_session_id(self) -> str:
        """A new one each time."""
        self.started += 1
        return f"conversation-{self.started}"
