"""loopctl sessions send and retry: tell an agent something, and try again what was given up."""

from __future__ import annotations

import os
import sys
import uuid
from typing import TYPE_CHECKING

import click

from loopctl.cli.options import config_option, format_option, parse_ref, table_format_option
from loopctl.cli.output import out
from loopctl.errors import EXIT_OK, LoopctlError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loopctl.cli.wiring import Setup
    from loopctl.model.sessions import SessionRecord
    from loopctl.model.talk import Delivery

#: What a person can type in one go and an agent can be expected to read.
_LONGEST = 256 * 1024


@click.command(short_help="Tell a running agent something.")
@click.argument("ref")
@click.argument("text", required=False)
@config_option
@format_option
def send(ref: str, text: str | None, config: str | None, form: str) -> int:
    """Give a running agent a message: it is pasted into its pane and submitted.

    Without TEXT, or with `-`, the message is read from standard input. The agent gets it as it is, but for control characters. A
    paused session is told nothing.
    """
    from loopctl.cli.apply import carry_out
    from loopctl.cli.session_words import find
    from loopctl.cli.wiring import Setup
    from loopctl.model.plan import Held, Plan
    from loopctl.model.rules import RUN, Ensure, Match, Play, Position, Rule
    from loopctl.model.talk import SENT_ID, Message
    from loopctl.observe import observe
    from loopctl.planner import Desired, excerpt_of, tell

    said = _text(text)
    setup = Setup.load(config, "sessions send")
    observation = observe(setup.world)
    subject, _ = find(observation, ref)
    where = Position("command line")
    rule = Rule("sessions send", where, Match(), Ensure(session=RUN))
    desired = Desired(rule.ensure, rule, Play(rule.name, where, ("all",), (rule,)))
    message = Message(f"{SENT_ID}{uuid.uuid4()}", os.environ.get("USER", ""), said, excerpt_of(said))
    action = tell(subject, message, desired, observation)
    if isinstance(action, Held):
        raise LoopctlError(f"{subject.ref}: {action.reason}")
    plan = Plan(observation.now, observation.machine, observation.registry, actions=(action,))
    return carry_out(setup, plan, form, approved=True, max_changes=None)


@click.command(short_help="Try again what was given up for an item.")
@click.argument("ref")
@config_option
@table_format_option
def retry(ref: str, config: str | None, form: str) -> int:
    """Let what was given up for an item be tried again: starts, comments, and what could not be passed on to its agent.

    A message of which it cannot be told whether it arrived is sent again too. It is done by the next apply.
    """
    from loopctl.cli.session_words import pick
    from loopctl.cli.wiring import Setup
    from loopctl.render.json import json_text

    setup = Setup.load(config, "sessions retry")
    records = tuple(r for r in setup.world.registry.all() if r.machine == setup.world.machine)
    item = parse_ref(ref) if "#" in ref else pick(records, ref).ref
    mine = [record for record in records if record.ref == item]
    if not mine:
        pick(records, ref)
    again = _give_back(mine, setup)
    setup.world.ledger.arm(item)
    if form == "json":
        out(json_text({"ref": str(item), "messages": len(again)}))
    else:
        from loopctl.model.text import plural

        messages = f"; {plural(len(again), 'message')} will be sent again" if again else ""
        out(f"{item}: if anything was given up, the next apply tries it again{messages}.\n")
    return EXIT_OK


def _give_back(records: Sequence[SessionRecord], setup: Setup) -> list[Delivery]:
    """Let messages that failed, or that may have, be sent again; those that can be: a person's own text is kept nowhere."""
    from loopctl.model.talk import COMMENT_ID, FAILED_DELIVERY, SENDING, SENT_ID

    world = setup.world
    lines = [line for record in records for line in world.ledger.read().deliveries.get(record.id, ())]
    if any(line.status == SENDING for line in lines):
        # Nobody else may be at it: what is being sent just now is not lost.
        with world.registry.lock():
            lines = [line for record in records for line in world.ledger.read().deliveries.get(record.id, ())]
            for line in lines:
                if line.status == SENDING and not line.id.startswith(COMMENT_ID):
                    world.ledger.settle(line.session, line.id, FAILED_DELIVERY, "asked to be sent again")
    open_ = [line for line in lines if line.status in {SENDING, FAILED_DELIVERY}]
    return [line for line in open_ if not line.id.startswith((COMMENT_ID, SENT_ID))]


def _text(given: str | None) -> str:
    """The message as it was written. Raises UsageError for none."""
    text = given
    if text is None or text == "-":
        if sys.stdin.isatty():
            click.echo("type the message, then Ctrl-D:", err=True)
        text = sys.stdin.buffer.read(_LONGEST + 1).decode("utf-8", "replace")
    text = text.rstrip("\n")
    if not text.strip():
        msg = "there is no message: give it as an argument or on standard input"
        raise UsageError(msg)
    if len(text.encode("utf-8", "replace")) > _LONGEST:
        msg = f"the message is longer than {_LONGEST // 1024} KiB"
        raise UsageError(msg)
    return text
