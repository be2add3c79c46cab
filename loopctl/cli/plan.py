"""loopctl plan: look and show."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

import click

from loopctl.cli.files import place_for_plan, write_private
from loopctl.cli.options import (
    command_line,
    config_option,
    format_option,
    limit_of,
    no_empty_words,
    playbook_options,
    tags_of,
)
from loopctl.cli.output import say
from loopctl.errors import EXIT_CHANGES, EXIT_INCOMPLETE, EXIT_OK, UsageError
from loopctl.model.plan import BEGINNINGS, Plan


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan is asked for, as the command line says it."""

    playbooks: tuple[str, ...]
    config: str | None = None
    extra_vars: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


def _out_file(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """A callback for --out: what is no name of a file is refused before anything is looked at."""
    if name == "":
        raise click.BadParameter("an empty word names no file")
    if name == "-":
        raise UsageError("--out names a file", hint="`loopctl plan --format json` writes the plan to standard output")
    return name


@click.command(short_help="Show what differs from the playbooks; change nothing.")
@click.argument("playbooks", nargs=-1, required=True, metavar="PLAYBOOK...", callback=no_empty_words)
@config_option
@playbook_options
@format_option
@click.option(
    "--out",
    metavar="PLAN.json",
    callback=_out_file,
    help="Write the plan to a file, for `loopctl apply PLAN.json`. A file that is no saved plan is never replaced.",
)
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when there are changes.")
def plan(
    playbooks: tuple[str, ...],
    config: str | None,
    extra_vars: tuple[str, ...],
    limit: tuple[str, ...],
    tags: tuple[str, ...],
    verbose: bool,
    form: str,
    out: str | None,
    detailed_exitcode: bool,
) -> int:
    """Show what differs from the playbooks, and change nothing.

    PLAYBOOK is a path, or the name of a packaged playbook such as close-ended-items.
    """
    from loopctl.cli.wiring import Setup

    if out:
        place_for_plan(out)
    setup = Setup.load(config, "plan")
    made = make_plan(setup, Request(playbooks, config, extra_vars, limit, tags), verbose=verbose)
    if out:
        write_plan(made, out)
    setup.show_plan(made, form)
    if out:
        say(f"written to {out}: `{command_line('apply', shlex.quote(out))}` carries it out")
    return plan_exit_code(made, detailed=detailed_exitcode)


def make_plan(setup: object, request: Request, *, verbose: bool = False) -> Plan:
    """Load, observe, resolve and diff."""
    from loopctl.cli.fit import check_harnesses, no_tmux, nothing_seen
    from loopctl.cli.wiring import Setup
    from loopctl.model.text import plural
    from loopctl.playbook.compile import load_playbook
    from loopctl.playbook.extra_vars import parse_extra_vars
    from loopctl.run import look, plan_of

    assert isinstance(setup, Setup)
    world = setup.world
    playbook = load_playbook(
        request.playbooks,
        extra_vars=parse_extra_vars(request.extra_vars),
        tags=tags_of(request.tags),
        policy=world.policy,
    )
    check_harnesses(playbook, world, setup.config.path)
    observation = look(world, playbook, limit_of(request.limit))
    if request.limit and not observation.subjects:
        say(f"warning: --limit {' '.join(request.limit)} matches no session and no listed item")
    made = plan_of(playbook, observation, world)
    if not (request.limit or observation.subjects or made.problems):
        files = [source.items for source in setup.config.sources if source.items]
        made = replace(made, notes=(*made.notes, *nothing_seen(playbook, files)))
    if any(action.verb in BEGINNINGS for action in made.actions) and (missing := no_tmux()):
        made = replace(made, notes=(*made.notes, missing))
    world.journal.emit(
        "plan.created",
        playbooks=list(request.playbooks),
        counts={name: count for name, count in made.summary.items() if count},
    )
    if verbose:
        for question in observation.questions:
            spent = f", {plural(question.cost, 'point')} spent" if question.cost is not None else ""
            left = f", {question.remaining} left" if question.remaining is not None else ""
            say(
                f"asked {question.provider}: {question.what}: {question.items} in {plural(question.calls, 'call')}{spent}{left}"
            )
    return made


def plan_exit_code(made: Plan, *, detailed: bool = False) -> int:
    """0, 2 or 5. What could not be observed outweighs changes: the plan is not whole."""
    if made.held or made.problems:
        return EXIT_INCOMPLETE
    return EXIT_CHANGES if detailed and made.actions else EXIT_OK


def write_plan(made: Plan, name: str) -> None:
    """Write a plan for later, readable by the owner only. Raises RefusedError where something else is in its place."""
    from loopctl.model.encode import plan_to_dict
    from loopctl.render.json import json_text

    write_private(place_for_plan(name), json_text(plan_to_dict(made)))
