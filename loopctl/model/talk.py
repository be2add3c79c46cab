"""What is said: comments on an item, what is passed on to an agent, and what we posted ourselves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from loopctl.model.rules import PAUSE, REMOVE, RETAIN, RUN
from loopctl.model.sessions import SessionRecord

#: In every comment that we post, so that nobody takes it for a person's. Invisible where Markdown is rendered.
OUR_MARK = "<!-- loopctl:"

#: What `ensure.deliver` may name.
COMMENTS = "comments"

#: Written before the text is pasted: after a crash it is not known whether it arrived, and it is not sent again by itself.
SENDING = "sending"
DELIVERED = "delivered"
FAILED_DELIVERY = "failed"
DELIVERY_STATES = (SENDING, DELIVERED, FAILED_DELIVERY)

#: The states that a comment on the item can tell of (its key), by what `ensure.session` says. Retained and gone are one ending.
RUNNING_KEY = "running"
PAUSED_KEY = "paused"
ENDED_KEY = "ended"
COMMENT_KEYS = {RUN: RUNNING_KEY, PAUSE: PAUSED_KEY, RETAIN: ENDED_KEY, REMOVE: ENDED_KEY}
#: What a delivery's id begins with that is our own comment on its way to the item.
COMMENT_ID = "comment:"

#: What the id of a message begins with that a person sent: its text is kept nowhere.
SENT_ID = "sent:"

#: Where a comment stands: in the conversation, in the text of a review, or beside a line of the change.
CONVERSATION = "comment"
REVIEW = "review"
INLINE = "review_comment"


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment as its provider gave it. `id` is the provider's own; `published_at` is the provider's clock, and for a part of a
    review the time when the review was submitted. `ours` says that it carries our mark and was written by the account
    that we post as."""

    id: str
    author: str
    body: str
    published_at: datetime
    url: str = ""
    kind: str = CONVERSATION
    path: str = ""
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """A text for an agent: `id` says what it is made from (a comment's id), so that it is passed on once. `excerpt` is what people are
    shown of it."""

    id: str
    author: str
    text: str
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of one message to one session; `attempts` counts the times it was tried."""

    id: str
    session: str
    status: str
    attempts: int = 1
    detail: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Posted:
    """A comment of ours on an item: for which session and which of its states (`key`), and the digest of its text."""

    session: str
    key: str
    digest: str
    url: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Talk:
    """All that the ledger remembers. `cursors` say by session up to which time (the provider's clock) a thread is not passed on;
    `armed` by the key of a ref when somebody last asked to try again what was given up."""

    deliveries: Mapping[str, tuple[Delivery, ...]] = field(default_factory=dict)
    cursors: Mapping[str, datetime] = field(default_factory=dict)
    posted: Mapping[str, tuple[Posted, ...]] = field(default_factory=dict)
    armed: Mapping[str, datetime] = field(default_factory=dict)


def digest_of(text: str) -> str:
    """What tells a comment's text from another one."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def mark_of(session: str, key: str) -> str:
    """The hidden mark's own part: the same for one session and state each time, and it gives away neither."""
    return hashlib.sha256(f"{session} {key}".encode()).hexdigest()[:16]


def comment_id(key: str, text: str) -> str:
    """The id under which the ledger counts how often this text was tried."""
    return f"{COMMENT_ID}{key}:{digest_of(text)}"


def speaker_of(id_: str, key: str, records: Mapping[str, SessionRecord]) -> str:
    """The session whose comment it is: agents that take one another's place keep one comment, and each ending is its own."""
    seen: set[str] = set()
    while key != ENDED_KEY and id_ in records and records[id_].resumes and id_ not in seen:
        seen.add(id_)
        id_ = records[id_].resumes
    return id_
