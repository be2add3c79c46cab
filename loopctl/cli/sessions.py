"""loopctl sessions: one session at a time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from loopctl.cli.options import command_line, config_option, format_option, seconds, table_format_option
from loopctl.cli.output import out, say
from loopctl.cli.session_words import attach_command, find, name_of, one_rule, pick
from loopctl.cli.sessions_move import move
from loopctl.cli.sessions_pause import pause, resume
from loopctl.cli.sessions_rebuild import rebuild
from loopctl.cli.sessions_take import adopt, import_, register
from loopctl.cli.sessions_talk import retry, send
from loopctl.errors import EXIT_OK, LoopctlError, StateError, UsageError
from loopctl.model.facts import Unknown
from loopctl.model.observed import Observation
from loopctl.model.sessions import CLOSED_STATUS, SessionRecord, SessionView, Sighting

if TYPE_CHECKING:
    from loopctl.cli.wiring import Setup


@click.group(short_help="List, show, attach to, close and take over sessions.")
def sessions() -> None:
    """List, show, attach to, close and take over sessions.

    A session is named by its work item (github:octo/app#15) or by at least four letters that its id
    begins with.
    """


sessions.add_command(register)
sessions.add_command(adopt)
sessions.add_command(import_)
sessions.add_command(move)
sessions.add_command(pause)
sessions.add_command(resume)
sessions.add_command(rebuild)
sessions.add_command(retry)
sessions.add_command(send)


@sessions.command("list")
@config_option
@click.option("--unmanaged", is_flag=True, help="Also the panes of these servers that are not loopctl's.")
@table_format_option
def list_(config: str | None, unmanaged: bool, form: str) -> None:
    """List all sessions, closed ones too."""
    from loopctl.cli.wiring import Setup
    from loopctl.model.encode import record_to_dict
    from loopctl.observe import observe
    from loopctl.render.json import json_text
    from loopctl.render.sessions import sessions_text, unmanaged_text

    setup = Setup.load(config, "sessions")
    observation = observe(setup.world)
    views = [subject.session for subject in observation.subjects if subject.session]
    attach = {s.session.record.id: attach_command(s) for s in observation.subjects if s.session}
    if form == "json":
        rows = [record_to_dict(view, attach[view.record.id]) for view in views]
        strays = [
            {"socket": s.socket, "session": s.pane.session, "pane": s.pane.pane_id, "marked_for": s.pane.ref_mark}
            for s in observation.unmanaged
        ]
        out(json_text({"sessions": rows} | ({"unmanaged": strays} if unmanaged else {})))
        return
    out(sessions_text(views, attach, setup.view()))
    if unmanaged:
        out(unmanaged_text(observation.unmanaged, command_line("sessions", "rebuild")))


@sessions.command(short_help="Show all that is known of a session.")
@click.argument("ref")
@config_option
@table_format_option
def show(ref: str, config: str | None, form: str) -> None:
    """Show all that is known of a session."""
    from loopctl.cli.wiring import Setup
    from loopctl.model.encode import deliveries_to_list, record_to_dict
    from loopctl.observe import ask, observe
    from loopctl.planner import ended_by_itself, not_yet
    from loopctl.render.json import json_text
    from loopctl.render.session_details import session_details
    from loopctl.render.sessions import session_text

    setup = Setup.load(config, "sessions")
    record = pick(_records(setup), ref)
    item, attach, waits = None, "", ""
    try:
        observation = observe(setup.world)
        subject, view = find(observation, record.id)
        attach = attach_command(subject)
        answered = ask(setup.world, observation, [record.ref])
        subject, _ = find(answered, record.id)
        item = subject.item
        waits = not_yet(subject, answered, setup.world.policy) if ended_by_itself(subject) else ""
    except StateError as error:
        # What was written down can be shown without tmux.
        view = SessionView(record, Unknown(error.message))
    told = setup.world.ledger.read().deliveries.get(record.id, ())
    if form == "json":
        more = {"deliveries": deliveries_to_list(told), "restart": waits}
        out(json_text(record_to_dict(view, attach) | session_details(view, item) | more))
    else:
        out(session_text(view, item, attach, setup.view(), told, waits))


@sessions.command(short_help="Print what a session said.")
@click.argument("ref")
@config_option
def log(ref: str, config: str | None) -> None:
    """Print the saved transcript, or the scrollback of a pane that is still there."""
    from loopctl.cli.wiring import Setup
    from loopctl.observe import observe

    setup = Setup.load(config, "sessions")
    record = pick(_records(setup), ref)
    saved = setup.world.transcripts.load(record) if record.status == CLOSED_STATUS else b""
    if saved:
        out(_transcript(saved))
        return
    sighting = _sighting(find(observe(setup.world), record.id)[1])
    if sighting.pane is None or sighting.server is None:
        msg = f"{record.ref} has no transcript, and its pane is not there"
        raise LoopctlError(msg)
    captured = setup.world.terminals.capture(record.socket, sighting.server, [sighting.pane])[sighting.pane.pane_id]
    if isinstance(captured, Unknown):
        raise LoopctlError(captured.reason)
    out(_transcript(captured.value))


def _transcript(content: bytes) -> str:
    """As it is; what an agent printed is no command for the runner of a pipeline."""
    import os

    from loopctl.render.clean import inert

    text = content.decode(errors="replace")
    return inert(text) if os.environ.get("GITHUB_ACTIONS") == "true" else text


@sessions.command(short_help="Attach this terminal; a closed one read-only.")
@click.argument("ref")
@config_option
@click.option("--read-only", is_flag=True, help="Do not pass keys on (a closed session is always read-only).")
def attach(ref: str, config: str | None, read_only: bool) -> None:
    """Attach this terminal to a session's pane; a closed session is read-only, always."""
    from loopctl.cli.wiring import Setup, attach_terminal
    from loopctl.observe import observe

    setup = Setup.load(config, "sessions")
    subject, view = find(observe(setup.world), ref)
    sighting = _sighting(view)
    whole = command_line("sessions", "log", name_of(subject))
    if sighting.pane is None:
        msg = f"{view.record.ref} has no pane to attach to"
        raise LoopctlError(msg, hint=f"{whole} shows what it said")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        msg = "attaching needs a terminal"
        raise UsageError(msg)
    closed = view.record.status == CLOSED_STATUS
    if closed:
        say(f"{view.record.ref} is closed: attached read-only (detach with C-b d); `{whole}` shows all of it")
    attach_terminal(view.record.socket, sighting.pane.pane_id, read_only=read_only or closed)


@sessions.command(short_help="End one session now.")
@click.argument("ref")
@config_option
@format_option
@click.option("--gone", is_flag=True, help="Remove the pane too.")
@click.option("--keep-harness", is_flag=True, help="Close the record and turn input off, but let the agent run.")
@click.option(
    "--grace",
    callback=seconds(),
    metavar="SECONDS",
    help="How long the agent may take to end.",
)
@click.option("-y", "--auto-approve", is_flag=True, help="Accepted for symmetry: naming the session is approval.")
def close(
    ref: str,
    config: str | None,
    form: str,
    gone: bool,
    keep_harness: bool,
    grace: float | None,
    auto_approve: bool,
) -> int:
    """End one session, whatever its work item says: the same path as a playbook's."""
    from loopctl.cli.apply import carry_out
    from loopctl.cli.wiring import Setup
    from loopctl.observe import observe
    from loopctl.run import plan_of

    if gone and keep_harness:
        msg = "--gone and --keep-harness do not go together: without its pane an agent cannot run on"
        raise UsageError(msg)
    setup = Setup.load(config, "sessions close")
    observation = observe(setup.world)
    subject, view = find(observation, ref)
    rules = one_rule(view, gone=gone, kill=False if keep_harness else None, grace=grace)
    only = Observation(observation.machine, observation.registry, observation.now, (subject,))
    plan = plan_of(rules, only, setup.world)
    if form == "text" and not plan.actions and not plan.held:
        out(f"{view.record.ref} is closed already ({view.phase}).\n")
        return EXIT_OK
    setup.show_plan(plan, "text" if form == "json" else form, to_stderr=form == "json")
    code = carry_out(setup, plan, form, approved=True, max_changes=None)
    if code == EXIT_OK and plan.actions and subject.latest:
        say("note: while its item is open, a rule with `session: running` starts it anew")
    return code


def _records(setup: Setup) -> tuple[SessionRecord, ...]:
    return tuple(record for record in setup.world.registry.all() if record.machine == setup.world.machine)


def _sighting(view: SessionView) -> Sighting:
    if isinstance(view.sighting, Unknown):
        raise LoopctlError(view.sighting.reason)
    return view.sighting.value
