"""loopctl sessions pause and resume."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from loopctl.cli.options import config_option, table_format_option
from loopctl.cli.output import out

if TYPE_CHECKING:
    from loopctl.model.sessions import SessionRecord
    from loopctl.ports import World


@click.command(short_help="Let a session rest: no deliveries, no restart.")
@click.argument("ref")
@config_option
@table_format_option
def pause(ref: str, config: str | None, form: str) -> None:
    """Let a session rest: nothing is delivered to it, and nothing starts it again.

    Only its record changes; the agent runs on. When its item ends, the session is closed like any other. Doing it again changes
    nothing.
    """
    from loopctl.executor import pause as module

    _change(ref, config, form, module.pause, ("paused", "paused already"))


@click.command(short_help="Make a paused session active again.")
@click.argument("ref")
@config_option
@table_format_option
def resume(ref: str, config: str | None, form: str) -> None:
    """Make a paused session active again. Doing it again changes nothing."""
    from loopctl.executor import pause as module

    _change(ref, config, form, module.resume, ("active again", "not paused"))


def _change(
    ref: str,
    config: str | None,
    form: str,
    change: Callable[[SessionRecord, World], bool],
    words: tuple[str, str],
) -> None:
    from loopctl.cli.session_words import attach_command, find
    from loopctl.cli.wiring import Setup
    from loopctl.model.encode import record_to_dict
    from loopctl.observe import observe
    from loopctl.render.json import json_text

    setup = Setup.load(config, "sessions")
    record = find(observe(setup.world), ref)[1].record
    changed = change(record, setup.world)
    if form == "json":
        subject, view = find(observe(setup.world), record.id)
        out(json_text(record_to_dict(view, attach_command(subject)) | {"changed": changed}))
    else:
        out(f"{record.ref} is {words[0] if changed else words[1]}.\n")
