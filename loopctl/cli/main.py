"""The `loopctl` command: finds the subcommand, imports only that one, and turns every outcome into an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence

import click

from loopctl.errors import EXIT_FAILED, EXIT_USAGE, LoopctlError

# Name -> module under loopctl.cli, its click object, and the one line that `--help` shows without importing it.
COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "plan": ("plan", "plan", "Show what differs from the playbooks; change nothing."),
    "apply": ("apply", "apply", "Make the playbooks true, or carry out a saved plan."),
    "run": ("run", "run", "Keep the playbooks true, from now on: the controller."),
    "status": ("status", "status", "Say how the controller is."),
    "validate": ("documents", "validate", "Check playbooks, configs, items files and saved plans."),
    "sessions": ("sessions", "sessions", "List, show, attach to, close and take over sessions."),
    "events": ("events", "events", "Show what happened."),
    "doctor": ("doctor", "doctor", "Check that everything that loopctl needs is there."),
    "init": ("init", "init", "Write a first config and playbook, or print a unit for the controller."),
    "demo": ("demo", "demo", "See the main job on a scratch world, without any account."),
    "schema": ("documents", "schema", "Print the JSON schema of a kind of file."),
    "version": ("documents", "version", "Print the version."),
}

EPILOG = """\b
Exit codes: 0 done; 1 failed; 2 changes (plan --detailed-exitcode); 3 refused (limits, lock);
4 stale; 5 incomplete, something was held; 64 wrong command line; 65 wrong document.
"""


class Commands(click.Group):
    """A group whose subcommands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import one subcommand."""
        if name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[name]
        command: click.Command = getattr(importlib.import_module(f"loopctl.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand, with a guess for a misspelt one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{guess}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List them from the table, so that help stays quick."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="loopctl", prog_name="loopctl", message="%(prog)s %(version)s")
def cli() -> None:
    """Say which coding agents should be alive, see what differs, make it so.

    Playbooks describe the end state; `plan` shows what differs from it, `apply` makes it so. Try `loopctl demo`.
    """


def _open_streams() -> None:
    """Let standard streams that the caller closed lead nowhere: no file of ours may take their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - as long as we run


def _is_of_click(error: OSError) -> bool:
    """Whether it is click that could not print: help, the version, a question. All else is printed by `output`."""
    last = error.__traceback__
    while last and last.tb_next:
        last = last.tb_next
    return last is not None and str(last.tb_frame.f_globals.get("__name__")).startswith("click.")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    _open_streams()
    try:
        code = cli.main(args=list(argv) if argv is not None else None, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = EXIT_USAGE
    except click.UsageError as error:
        if error.ctx is not None:
            click.echo(error.ctx.get_usage(), err=True)
            click.echo(f"Try '{error.ctx.command_path} --help' for help.\n", err=True)
        click.echo(f"loopctl: {error.format_message()}", err=True)
        code = EXIT_USAGE
    except click.exceptions.Exit as error:
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = EXIT_FAILED
    except LoopctlError as error:
        from loopctl.cli.output import tell_error

        tell_error(error)
        code = error.exit_code
    except OSError as error:
        if not _is_of_click(error):
            raise
        from loopctl.cli.output import lose

        # Were it the other stream, nobody would read that it was this one.
        lose(sys.stdout, error)
        code = EXIT_FAILED
    from loopctl.cli.output import lost_output

    sys.exit(code or (EXIT_FAILED if lost_output() else 0))


if __name__ == "__main__":
    main()
