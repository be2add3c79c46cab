"""loopctl sessions move: an item has a new address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from loopctl.cli.options import config_option, parse_ref, table_format_option
from loopctl.cli.output import out, say
from loopctl.errors import EXIT_FAILED, EXIT_OK, StateError

if TYPE_CHECKING:
    from loopctl.model.refs import WorkItemRef
    from loopctl.ports import World


@click.command(short_help="Take sessions along to their item's new address.")
@click.argument("old")
@click.argument("new")
@config_option
@table_format_option
def move(old: str, new: str, config: str | None, form: str) -> int:
    """Take the sessions of OLD along to NEW: a transferred issue, or an item of a renamed repository.

    The records and the marks on the tmux sessions are changed; nothing that runs is touched. The new item is asked for
    where a source covers it. Doing it again finishes one that was cut off.
    """
    from loopctl.cli.wiring import Setup
    from loopctl.executor.move import move as move_sessions
    from loopctl.render.clean import shown
    from loopctl.render.json import json_text

    source, target = parse_ref(old), parse_ref(new)
    setup = Setup.load(config, "sessions move")
    moved = move_sessions(source, target, _node_of(source, target, setup.world), setup.world)
    rows = [{"session": m.record.id, "from": str(source), "to": str(m.record.ref), "problem": m.problem} for m in moved]
    if form == "json":
        out(json_text({"moved": rows}))
    else:
        out("".join(shown(f"{m.record.ref}: session {m.record.id[:8]} ({m.record.status})") + "\n" for m in moved))
    for m in moved:
        if m.problem:
            say(f"loopctl: the tmux session of {m.record.id[:8]} still carries its old mark: {m.problem}; try again")
    return EXIT_FAILED if any(m.problem for m in moved) else EXIT_OK


def _node_of(old: WorkItemRef, ref: WorkItemRef, world: World) -> str:
    """The node id of the item at its new address, "" where it cannot be told.

    Raises StateError when it is known not to be there, and when its source is silent though a session's item has a node id: a
    transferred issue has another one, and with a wrong one its session would be held for ever.
    """
    from loopctl.model.facts import OUTSIDE, Unknown
    from loopctl.model.items import MISSING, MOVED
    from loopctl.observe import ask_about

    fact = ask_about(world, [ref])[ref]
    if isinstance(fact, Unknown):
        if fact.kind != OUTSIDE and any(record.ref == old and record.node_id for record in world.registry.all()):
            raise StateError(f"{ref} could not be asked for: {fact.reason}; nothing was moved", hint="try again later")
        say(f"not checked: {fact.reason}")
        return ""
    if fact.value.state == MISSING:
        raise StateError(f"{ref} is not there; nothing was moved")
    if fact.value.state == MOVED:
        raise StateError(f"{ref} has moved itself, to {fact.value.moved_to or 'another address'}; nothing was moved")
    return fact.value.node_id
