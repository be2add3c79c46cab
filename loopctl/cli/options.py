"""Options that several commands share, with the same words everywhere."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import click

from loopctl.errors import UsageError
from loopctl.model.refs import WorkItemRef

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

config_option: Decorator = click.option(
    "-c",
    "--config",
    metavar="FILE",
    help="Config file (else $LOOPCTL_CONFIG, ./.loopctl/config.yaml, then the user's).",
)
format_option: Decorator = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown", "github"]),
    default="text",
    show_default=True,
    help="How to print it.",
)
table_format_option: Decorator = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print it."
)


class Count(click.IntRange):
    """A whole number, called so where it is none."""

    name = "whole number"


def seconds(least: float = 0.0) -> Callable[[click.Context, click.Parameter, str | None], float | None]:
    """A callback for times: `nan` and `inf` are numbers to Python, and no wait would ever be over."""

    def read(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not math.isfinite(found) or found < least:
            enough = f", {least:g} or more" if math.isfinite(found) else ""
            msg = f"{text!r} is no number of seconds{enough}"
            raise click.BadParameter(msg)
        return found

    return read


def no_empty_words(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """A callback for paths: an empty word, as an unset shell variable leaves it, is no path."""
    if not all(words):
        msg = "an empty word names no file"
        raise click.BadParameter(msg)
    return words


def playbook_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add -e, --limit, --tags and -v."""
    for option in (
        click.option("-v", "--verbose", is_flag=True, help="Also say what was asked, and what it cost."),
        click.option(
            "--tags",
            metavar="TAGS",
            multiple=True,
            help="Only rules and plays with one of these tags. May be repeated.",
        ),
        click.option(
            "--limit",
            metavar="REF|GLOB",
            multiple=True,
            help="Only these work items, e.g. github:octo/app#15 or '*/app#*'. Without a provider: of any. May be repeated.",
        ),
        click.option(
            "-e", "--extra-vars", metavar="K=V", multiple=True, help="Set a variable of the playbooks. May be repeated."
        ),
    ):
        command = option(command)
    return command


def command_line(*words: str) -> str:
    """A loopctl command to print for a person: with the config that this one was given on its command line."""
    context = click.get_current_context(silent=True)
    config = context.params.get("config") if context else None
    return " ".join(("loopctl", *words, *(("-c", shlex.quote(config)) if config else ())))


def parse_ref(text: str) -> WorkItemRef:
    """Read a work item from the command line; without a provider it is GitHub's. Raises UsageError."""
    try:
        return WorkItemRef.parse(text, "github")
    except ValueError as error:
        raise UsageError(str(error)) from None


def limit_of(patterns: tuple[str, ...]) -> Callable[[WorkItemRef], bool] | None:
    """A test for `--limit`: exact refs, or globs over the written form (with or without the provider)."""
    words = [word.strip().lower() for pattern in patterns for word in pattern.split(",") if word.strip()]
    if not words:
        return None

    def accepts(ref: WorkItemRef) -> bool:
        forms = (ref.key, ref.key.partition(":")[2])
        # Brackets are not part of a ref, so a word without * and ? is meant as it stands.
        return any(
            form == word or (any(c in word for c in "*?") and fnmatchcase(form, word))
            for form in forms
            for word in words
        )

    return accepts


def tags_of(values: tuple[str, ...]) -> frozenset[str]:
    """`--tags a,b --tags c` -> a, b, c."""
    return frozenset(word.strip() for value in values for word in value.split(",") if word.strip())
