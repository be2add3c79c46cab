"""Say on the item what has been reached, after all else: a comment that fails undoes nothing, and is tried again by itself.

What is about to be said of an ending is written down before the session ends, and the provider finds its own comment by its hidden
mark: a crash anywhere neither forgets a comment nor makes a second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopctl.errors import StateError
from loopctl.model.facts import REFUSED, Fact, Unknown
from loopctl.model.plan import CHANGED, COMMENT, DELIVER, FAILED, OK, RESUME, STALE, START, Action, Result
from loopctl.model.sessions import CLOSED_STATUS, SessionRecord
from loopctl.model.talk import (
    DELIVERED,
    ENDED_KEY,
    FAILED_DELIVERY,
    Posted,
    comment_id,
    digest_of,
    mark_of,
    speaker_of,
)
from loopctl.ports import World


def promise(actions: Sequence[Action], world: World) -> None:
    """Write down durably what will be said of sessions that are about to end. Raises StateError: nothing was done yet."""
    for action in actions:
        if action.after.comment_key == ENDED_KEY:
            world.ledger.claim(action.guard.record_id, comment_id(ENDED_KEY, action.after.comment))


def comment_all(actions: Sequence[Action], done: Sequence[Result], world: World) -> list[Result]:
    """Make or update these comments where their state was reached; `done` is what became of the plan's other actions.

    Results in the order of actions. Never raises for the world's own trouble.
    """
    if not actions:
        return []
    try:
        records = {record.id: record for record in world.registry.all()}
    except StateError as error:
        return [Result(action, FAILED, error.message) for action in actions]
    return [_comment(action, _own(action, done), records, world) for action in actions]


@dataclass(frozen=True, slots=True)
class _Note:
    """One comment on its way: whose it is, of which state, and its text."""

    session: str
    key: str
    text: str

    @property
    def id(self) -> str:
        return comment_id(self.key, self.text)


def _own(action: Action, done: Sequence[Result]) -> Result | None:
    """What the plan did about the very session that the comment is about."""
    whose = (action.ref, action.guard.record_id)
    others = (result for result in done if result.action.verb not in {COMMENT, DELIVER})
    return next((r for r in others if (r.action.ref, r.action.guard.record_id) == whose and _is_about(action, r)), None)


def _is_about(action: Action, result: Result) -> bool:
    """A closed session can be removed while its item gets a new one: two things of one record."""
    return result.action.after.phase == action.after.phase


def _comment(action: Action, own: Result | None, records: dict[str, SessionRecord], world: World) -> Result:
    if own and own.status not in {CHANGED, OK}:
        return Result(action, STALE, f"nothing to tell: the {own.action.verb} is {own.status}")
    if own is None and action.before.phase != action.after.phase:
        return Result(action, STALE, "nothing to tell: what it tells of was not done")
    if world.interrupted():
        return Result(action, FAILED, "interrupted before it was posted")
    id_ = _session_of(action, own, records, world)
    if not id_:
        return Result(action, STALE, "its session is not there any more")
    key = action.after.comment_key
    note = _Note(speaker_of(id_, key, records), key, action.after.comment)
    try:
        return _post(action, note, world)
    except StateError as error:
        return Result(action, FAILED, error.message)


def _session_of(action: Action, own: Result | None, records: dict[str, SessionRecord], world: World) -> str:
    """The session's id: of a new one by its item, since it had none when the plan was made."""
    if own is None or own.action.verb not in {START, RESUME}:
        return action.guard.record_id
    new = (r for r in records.values() if (r.machine, r.ref) == (world.machine, action.ref))
    return next((record.id for record in new if record.status != CLOSED_STATUS), "")


def _post(action: Action, note: _Note, world: World) -> Result:
    # Where it was claimed before, it may have been posted: the mark tells.
    world.ledger.claim(note.session, note.id)
    answer = _say(action, note, world)
    if isinstance(answer, Unknown):
        world.ledger.settle(note.session, note.id, FAILED_DELIVERY, answer.reason)
        world.journal.emit(
            "comment.failed",
            "warning",
            ref=str(action.ref),
            session=note.session,
            key=note.key,
            reason=answer.reason,
        )
        return Result(action, FAILED, answer.reason)
    world.ledger.posted(Posted(note.session, note.key, digest_of(note.text), answer.value))
    world.ledger.settle(note.session, note.id, DELIVERED)
    world.journal.emit("comment.posted", ref=str(action.ref), session=note.session, key=note.key, url=answer.value)
    return Result(action, CHANGED, answer.value)


def _say(action: Action, note: _Note, world: World) -> Fact[str]:
    provider = next((provider for provider in world.providers if provider.owns(action.ref)), None)
    if provider is None:
        return Unknown(f"no source answers for {action.ref}", REFUSED)
    world.progress(f"commenting on {action.ref}")
    return provider.comment(action.ref, mark_of(note.session, note.key), note.text)
