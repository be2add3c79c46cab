"""loopctl sessions rebuild: a lost registry, from the marks in tmux."""

from __future__ import annotations

import click

from loopctl.cli.options import config_option, format_option
from loopctl.cli.output import out
from loopctl.errors import EXIT_OK


@click.command(short_help="Restore a lost registry from the marks in tmux.")
@config_option
@format_option
@click.option("--socket", metavar="PATH", help="The tmux socket, where it is not loopctl's own.")
@click.option("-y", "--auto-approve", is_flag=True, help="Do not ask.")
@click.option("--check", is_flag=True, help="Only show the plan.")
def rebuild(config: str | None, form: str, socket: str | None, auto_approve: bool, check: bool) -> int:
    """Put sessions back into the registry that carry loopctl's marks in tmux and have no record there.

    The plan is shown first. Nothing that runs is touched; doing it again changes nothing. What cannot be told for certain is
    named and left out. A registry that cannot be read has to be moved away before.
    """
    from loopctl.cli.apply import ask_first, outcome_exit_code
    from loopctl.cli.plan import plan_exit_code
    from loopctl.cli.sessions_take import absolute
    from loopctl.cli.wiring import Setup
    from loopctl.executor.rebuild import restore, survey

    setup = Setup.load(config, "sessions rebuild")
    found = survey(absolute(socket) or setup.world.socket, setup.world)
    if form == "text" and not (found.plan.actions or found.plan.held or found.plan.problems):
        out("Nothing to restore: every session with loopctl's marks is in the registry.\n")
        return EXIT_OK
    to_stderr = form == "json" and not check
    setup.show_plan(found.plan, "text" if to_stderr else form, to_stderr=to_stderr)
    if check:
        return plan_exit_code(found.plan)
    if found.plan.actions and not auto_approve:
        ask_first(len(found.plan.actions))
    outcome = restore(found, setup.world)
    if found.plan.actions or form == "json":
        setup.show_outcome(outcome, form)
    return outcome_exit_code(found.plan, outcome)
