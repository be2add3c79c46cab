"""What the-loop remembers of a session, and the names that it gives: for taking its sessions over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from loopctl.model.refs import WorkItemRef

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_TMUX_SYNTAX = re.compile(r"[.:]")


@dataclass(frozen=True, slots=True)
class LoopRecord:
    """One session as the-loop wrote it down. `path` is its file, `tmux_target` the tmux session's name or ""."""

    ref: WorkItemRef
    harness: str
    harness_session_id: str
    cwd: str
    status: str
    created_at: datetime | None
    last_event_at: datetime | None
    runner: str
    tmux_target: str
    path: str


@dataclass(frozen=True, slots=True)
class NotRead:
    """A file, or a part of one (named by `ref`, where that is known), that cannot be taken for a record, and why."""

    path: str
    reason: str
    ref: str = ""


@dataclass(frozen=True, slots=True)
class LoopFolder:
    """What a folder of the-loop holds. `ignored` counts JSON files that are not session records."""

    records: tuple[LoopRecord, ...] = ()
    skipped: tuple[NotRead, ...] = ()
    ignored: int = 0


def loop_slug(ref: WorkItemRef) -> str:
    """What the-loop calls the file of an item, without `.json`. Not unique: `a-b/c` and `a/b-c` share theirs."""
    return _UNSAFE.sub("-", f"{ref.provider}-{ref.repository.replace('/', '-')}-{ref.number}")


def loop_session_name(ref: WorkItemRef) -> str:
    """The name that the-loop makes the session of an item with, as tmux before 3.7 spells it."""
    return as_tmux_spells("loop-" + loop_slug(ref))


def as_tmux_spells(name: str) -> str:
    """The name that tmux before 3.7 gives a session which is made with this one: `.` and `:` separate words of targets."""
    return _TMUX_SYNTAX.sub("_", name)
