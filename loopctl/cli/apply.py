"""loopctl apply: look, show, ask, act."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from loopctl.cli.options import Count, config_option, format_option, no_empty_words, playbook_options
from loopctl.cli.output import say
from loopctl.cli.plan import Request, make_plan, plan_exit_code
from loopctl.errors import (
    EXIT_FAILED,
    EXIT_INCOMPLETE,
    EXIT_OK,
    EXIT_STALE,
    LoopctlError,
    RefusedError,
    UsageError,
)
from loopctl.model.plan import FAILED, STALE, Outcome, Plan

if TYPE_CHECKING:
    from loopctl.cli.wiring import Setup


@click.command(short_help="Make the playbooks true, or carry out a saved plan.")
@click.argument("playbooks", nargs=-1, required=True, metavar="PLAYBOOK...|PLAN.json", callback=no_empty_words)
@config_option
@playbook_options
@format_option
@click.option("-y", "--auto-approve", is_flag=True, help="Do not ask. Never raises a limit.")
@click.option("--check", is_flag=True, help="Only show the plan, as `loopctl plan` does.")
@click.option("--max-changes", type=Count(0), metavar="N", help="Allow this many changes in this run.")
def apply(
    playbooks: tuple[str, ...],
    config: str | None,
    extra_vars: tuple[str, ...],
    limit: tuple[str, ...],
    tags: tuple[str, ...],
    verbose: bool,
    form: str,
    auto_approve: bool,
    check: bool,
    max_changes: int | None,
) -> int:
    """Make the playbooks true: show the plan, ask, carry it out, verify.

    A saved plan (`plan --out PLAN.json`) is carried out exactly as it is, without asking; what moved since is left alone.
    """
    from loopctl.cli.wiring import Setup

    saved = playbooks[0] if len(playbooks) == 1 and is_saved(playbooks[0]) else ""
    if saved and (extra_vars or limit or tags):
        msg = "-e, --limit and --tags shape a plan; a saved plan has its shape already"
        raise UsageError(msg)
    setup = Setup.load(config, "apply")
    asked_at = None if saved or not auto_approve else setup.world.clock()
    if saved:
        from loopctl.playbook.plans import load_plan

        plan = load_plan(saved)
    else:
        plan = make_plan(setup, Request(playbooks, config, extra_vars, limit, tags), verbose=verbose)
    to_stderr = form == "json" and not check
    setup.show_plan(plan, "text" if to_stderr else form, to_stderr=to_stderr, max_changes=max_changes)
    if check:
        return plan_exit_code(plan)
    return carry_out(
        setup, plan, form, approved=auto_approve or bool(saved), max_changes=max_changes, asked_at=asked_at
    )


def carry_out(
    setup: Setup, plan: Plan, form: str, *, approved: bool, max_changes: int | None, asked_at: float | None = None
) -> int:
    """Check the limits, ask, apply, show what happened. Returns the exit code. `asked_at` is as in run.apply_plan."""
    from loopctl.executor.limits import excess, way_on
    from loopctl.run import apply_plan

    reason = excess(plan, max_changes)
    if reason:
        msg = f"over its limits: {reason}; nothing was done"
        raise RefusedError(msg, hint=way_on(plan))
    if plan.actions and not approved:
        ask_first(len(plan.actions))
    with setup.until_interrupted():
        outcome = apply_plan(plan, setup.world, max_changes, asked_at=asked_at)
    setup.progress.clear()
    if plan.actions or form == "json":
        setup.show_outcome(outcome, form)
    # Who asked to stop gets no success, also where nothing was left to do: a script must not go on.
    return EXIT_FAILED if setup.stop.asked else outcome_exit_code(plan, outcome)


def outcome_exit_code(plan: Plan, outcome: Outcome) -> int:
    """1 failed, 4 stale, 5 held, else 0: the worst one counts."""
    statuses = {result.status for result in outcome.results}
    if FAILED in statuses or outcome.interrupted:
        return EXIT_FAILED
    if STALE in statuses:
        return EXIT_STALE
    return EXIT_INCOMPLETE if outcome.held or plan.problems else EXIT_OK


def ask_first(changes: int) -> None:
    """Ask on a terminal. Anywhere else an answer cannot be had: say so at once instead of waiting for one."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or os.environ.get("CI"):
        msg = f"{changes} change{'s' if changes != 1 else ''} to apply, and no terminal to ask on; nothing was done"
        raise UsageError(msg, hint="add -y (--auto-approve) to apply without being asked")
    click.echo("", err=True)
    try:
        yes = confirmed("Apply this plan?")
    except (click.Abort, KeyboardInterrupt):
        say("")
        raise LoopctlError("interrupted; nothing was done") from None
    if not yes:
        msg = "not applied; nothing was done"
        raise LoopctlError(msg)


def confirmed(question: str) -> bool:
    """Ask until the answer is yes or no; no answer is a no."""
    while True:
        answer = click.prompt(f"{question} [y/N]", default="n", show_default=False, err=True).strip().lower()
        if answer in {"y", "yes", "n", "no"}:
            return bool(answer[0] == "y")
        say("y or n?")


def is_saved(path: str) -> bool:
    """Whether a path means a saved plan: by its content, else by its name."""
    from loopctl.playbook.kinds import ITEMS, PLAN, PLAYBOOK, kind_of_file

    kind = kind_of_file(path)
    return kind == PLAN or (path.endswith(".json") and kind not in {PLAYBOOK, ITEMS})
