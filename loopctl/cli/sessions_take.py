"""loopctl sessions register and import: take over sessions that exist."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopctl.cli.options import config_option, parse_ref, table_format_option
from loopctl.cli.output import out, say
from loopctl.cli.where import here
from loopctl.errors import EXIT_INCOMPLETE, EXIT_OK, UsageError
from loopctl.model.text import is_text

if TYPE_CHECKING:
    from loopctl.cli.wiring import Setup
    from loopctl.executor.import_loop import Imported
    from loopctl.executor.take_over import TakeOver
    from loopctl.model.sessions import SessionRecord
    from loopctl.model.the_loop import LoopFolder

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@click.command(short_help="Put a session that exists into the registry.")
@click.argument("ref")
@config_option
@click.option("--harness", required=True, metavar="NAME", help="The agent program that runs in it.")
@click.option("--name", metavar="SESSION", help="The tmux session: its exact name, or its $ID.")
@click.option("--pane", metavar="%ID", help="The pane, where the session has several.")
@click.option("--socket", metavar="PATH", help="The tmux socket, where it is not loopctl's own.")
@click.option("--harness-session-id", default="", metavar="ID", help="The conversation, as the agent program names it.")
@click.option("--cwd", metavar="DIR", help="The folder that the agent works in.")
@click.option(
    "--runner",
    type=click.Choice(["tmux", "process"]),
    default="tmux",
    show_default=True,
    help="How it runs. A process without tmux is never ended: only its record is closed.",
)
@table_format_option
def register(
    ref: str,
    config: str | None,
    harness: str,
    name: str | None,
    pane: str | None,
    socket: str | None,
    harness_session_id: str,
    cwd: str | None,
    runner: str,
    form: str,
) -> None:
    """Put a session that exists into the registry, and mark it as loopctl's.

    Without --name and --pane the pane that this command runs in is meant. Nothing in the session is disturbed; from now on
    playbooks apply to it. Doing it again changes nothing.
    """
    from loopctl.cli.wiring import Setup
    from loopctl.executor.take_over import TakeOver, take_over

    for option, value in (("--harness", harness), ("--harness-session-id", harness_session_id)):
        if value and not _WORD.fullmatch(value):
            msg = f"{option} {value!r}: letters, digits, '.', '_' and '-' only, and no '-' in front"
            raise UsageError(msg)
    setup = Setup.load(config, "sessions register")
    if harness not in setup.world.harnesses:
        near = get_close_matches(harness, setup.world.harnesses, 1)
        msg = f"no harness is called {harness!r}{f': did you mean {near[0]!r}?' if near else ''}"
        raise UsageError(msg, hint=f"there are {', '.join(sorted(setup.world.harnesses))}; the config can name more")
    request = TakeOver(parse_ref(ref), harness, harness_session_id=harness_session_id, cwd=absolute(cwd), runner=runner)
    if runner == "tmux":
        request = _located(request, name, pane, socket, setup.world.socket)
    elif name or pane or socket:
        msg = f"--name, --pane and --socket say where a tmux session is; --runner {runner} has none"
        raise UsageError(msg)
    if not is_text(request.cwd):
        raise UsageError("the folder's name is not UTF-8, and a record is: say another one with --cwd")
    _show(setup, take_over(request, setup.world), form)


adopt = copy(register)
adopt.name, adopt.short_help = "adopt", "Another name of register."


@click.command("import", short_help="Take over the sessions of the-loop.")
@click.argument("folder", metavar="DIR")
@config_option
@click.option(
    "--socket", metavar="PATH", help="The tmux socket that they live on [default: the user's default server]."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be taken.")
@table_format_option
def import_(folder: str, config: str | None, socket: str | None, dry_run: bool, form: str) -> int:
    """Take over the sessions of the-loop from its registry folder (or the state root or `.the-loop` that it lies in).

    What is certain is taken; the rest is skipped, each with the reason. Nothing in the folder is changed. Stop the-loop
    first: two who end the same sessions only confuse people. Doing it again takes nothing twice.
    """
    from loopctl.cli.wiring import Setup, read_the_loop
    from loopctl.executor.import_loop import import_records

    setup = Setup.load(config, "sessions import")
    found = read_the_loop(folder)
    where = absolute(socket) or default_server(os.environ, os.getuid())
    rows = import_records(found.records, where, setup.world, dry_run=dry_run)
    if form == "json":
        from loopctl.render.json import json_text

        out(json_text(_report(rows, found, dry_run)))
    else:
        out(_text(rows, found, dry_run))
    return EXIT_INCOMPLETE if any(row.unseen for row in rows) else EXIT_OK


def default_server(environ: Mapping[str, str], uid: int) -> str:
    """The socket of a user's default tmux server, as tmux itself finds it."""
    bases = (base for base in (environ.get("TMUX_TMPDIR"), "/tmp") if base and Path(base).exists())
    return str(Path(next(bases, "/tmp")).resolve() / f"tmux-{uid}" / "default")


def current_pane(environ: Mapping[str, str]) -> tuple[str, int, str] | None:
    """The socket, server pid and pane that a command runs in, from $TMUX and $TMUX_PANE; None outside of tmux."""
    socket, _, rest = environ.get("TMUX", "").rpartition(",")[0].rpartition(",")
    pane = environ.get("TMUX_PANE", "")
    return (socket, int(rest), pane) if socket and rest.isdigit() and re.fullmatch(r"%\d+", pane) else None


def _located(request: TakeOver, name: str | None, pane: str | None, socket: str | None, own: str) -> TakeOver:
    """Where the session is: as the options say, else where this command runs."""
    from dataclasses import replace

    if pane and not re.fullmatch(r"%\d+", pane):
        msg = f"--pane {pane!r}: a pane's id is % and a number"
        raise UsageError(msg)
    if name or pane:
        return replace(request, name=name or "", pane=pane or "", socket=absolute(socket) or own)
    mine = current_pane(os.environ)
    if mine is None or (socket and absolute(socket) != mine[0]):
        msg = "which session? name it with --name or --pane, or run this inside its pane"
        raise UsageError(msg, hint="tmux list-panes -a shows sessions and panes")
    say(f"taking the pane that this runs in: {mine[2]} at {mine[0]}")
    return replace(request, socket=mine[0], server_pid=mine[1], pane=mine[2], cwd=request.cwd or str(here()))


def absolute(path: str | None) -> str:
    """A path as the user wrote it, from the root on; "" for none."""
    return os.path.abspath(Path(path).expanduser()) if path else ""  # noqa: PTH100 - without resolving links


def _show(setup: Setup, record: SessionRecord, form: str) -> None:
    from loopctl.cli.session_words import attach_command, find
    from loopctl.model.encode import record_to_dict
    from loopctl.observe import observe
    from loopctl.render.clean import shown
    from loopctl.render.json import json_text

    if form == "json":
        subject, view = find(observe(setup.world), record.id)
        out(json_text(record_to_dict(view, attach_command(subject))))
        return
    where = (
        f"pane {record.pane_id} of {record.name} at {record.socket}" if record.pane_id else f"runner {record.runner}"
    )
    out(shown(f"{record.ref} is session {record.id[:8]}: {record.harness}, {where}") + "\n")


def _report(rows: Sequence[Imported], found: LoopFolder, dry_run: bool) -> dict[str, object]:
    sessions = [
        {"ref": str(row.ref), "outcome": row.outcome, "detail": row.detail, "path": row.path, "session": row.session}
        for row in rows
    ]
    sessions += [
        {"ref": skip.ref, "outcome": "skipped", "detail": skip.reason, "path": skip.path, "session": ""}
        for skip in found.skipped
    ]
    return {"dry_run": dry_run, "summary": _counts(rows, found), "sessions": sessions}


def _counts(rows: Sequence[Imported], found: LoopFolder) -> dict[str, int]:
    from loopctl.executor.import_loop import PRESENT, SKIPPED, TAKEN

    counts = {outcome: sum(row.outcome == outcome for row in rows) for outcome in (TAKEN, PRESENT, SKIPPED)}
    counts[SKIPPED] += len(found.skipped)
    return {name.replace(" ", "_"): count for name, count in counts.items()} | {"ignored": found.ignored}


def _text(rows: Sequence[Imported], found: LoopFolder, dry_run: bool) -> str:
    from loopctl.render.clean import shown

    table = [(row.outcome, str(row.ref), row.detail) for row in rows]
    table += [("skipped", skip.ref or Path(skip.path).name, f"{skip.path}: {skip.reason}") for skip in found.skipped]
    width = max((len(ref) for _, ref, _ in table), default=0)
    lines = [f"{outcome:<12}  {shown(ref):<{width}}  {shown(detail)}".rstrip() for outcome, ref, detail in table]
    counts = _counts(rows, found)
    taken = "would be taken" if dry_run else "taken"
    lines.append(
        f"Import: {counts['taken']} {taken}, {counts['already_here']} already here, {counts['skipped']} skipped"
        + (f"; {counts['ignored']} other files" if counts["ignored"] else "")
        + "."
    )
    return "\n".join(lines) + "\n"
