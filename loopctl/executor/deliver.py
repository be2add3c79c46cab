"""Tell running agents something: each message is written down before it is pasted, so that it is pasted once at most.

Messages of one session go in their order: after one that failed, the later ones wait. What a crash or a silent tmux leaves between
the two writes may have arrived; it is not sent again by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopctl.errors import StateError
from loopctl.model.facts import REFUSED, Fact, Known, Unknown
from loopctl.model.plan import CHANGED, FAILED, OK, Action, Result
from loopctl.model.sessions import STARTED, Pane, ServerId, SessionView
from loopctl.model.talk import DELIVERED, FAILED_DELIVERY, SENDING, Message
from loopctl.model.text import plural
from loopctl.ports import PaneRef, World


def deliver_all(actions: Sequence[tuple[Action, SessionView]], world: World) -> list[Result]:
    """Tell these agents. The views are fresh and were compared with the guards. Results in the order of actions."""
    return [_deliver(action, view, world) for action, view in actions]


def _deliver(action: Action, view: SessionView, world: World) -> Result:
    messages, sent = action.after.messages, 0
    try:
        if action.after.cursor:
            world.ledger.set_cursor(view.record.id, action.after.cursor)
            if not messages:
                return Result(action, CHANGED, "comments are passed on from now on")
        for index, message in enumerate(messages):
            if world.interrupted():
                return Result(action, FAILED, f"interrupted: {_left(messages[index:])}")
            if not world.ledger.claim(view.record.id, message.id):
                continue
            if problem := _send(action, view, message, world):
                rest = f"; {_left(messages[index + 1 :])}" if messages[index + 1 :] else ""
                return Result(action, FAILED, f"{_name(message)}: {problem}{rest}")
            sent += 1
    except StateError as error:
        return Result(action, FAILED, error.message)
    return (
        Result(action, CHANGED, f"{plural(sent, 'message')} delivered") if sent else Result(action, OK, "told already")
    )


def _send(action: Action, view: SessionView, message: Message, world: World) -> str:
    """Paste a claimed message and write down what became of it; a problem or ""."""
    record = view.record
    fact = _paste(view, message.text, world)
    level, event, status, detail = "info", "delivery.sent", DELIVERED, ""
    if isinstance(fact, Unknown):
        certain = fact.kind == REFUSED
        status, detail = (FAILED_DELIVERY if certain else SENDING), fact.reason
        level, event = "warning" if certain else "error", "delivery.failed"
    try:
        world.ledger.settle(record.id, message.id, status, detail)
    except StateError as error:
        # It stays claimed, so that nobody sends it again.
        detail = f"{detail or 'delivered'}, but that could not be written down: {error.message}"
    world.journal.emit(
        event,
        level,
        ref=str(record.ref),
        session=record.id,
        message=message.id,
        author=message.author or None,
        reason=detail or None,
        uncertain=True if status == SENDING else None,
    )
    return f"it cannot be told whether it arrived: {detail}" if status == SENDING else detail


def _paste(view: SessionView, text: str, world: World) -> Fact[None]:
    sighting = view.sighting.value if isinstance(view.sighting, Known) else None
    server: ServerId | None = sighting.server if sighting else None
    pane: Pane | None = sighting.pane if sighting else None
    if server is None or pane is None:
        return Unknown("its pane is not there", REFUSED)
    # What was taken over mostly is a person's shell, in which an agent was started.
    taken_over = view.record.origin != STARTED
    ref = PaneRef(pane.pane_id, pane.session_id, view.record.id, pane.pid, no_shell=taken_over)
    return world.terminals.paste(view.record.socket, server, ref, text)


def _name(message: Message) -> str:
    return f"the message by {message.author}" if message.author else "the message"


def _left(messages: Sequence[Message]) -> str:
    return f"{plural(len(messages), 'message')} not sent"
