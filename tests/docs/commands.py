"""The commands that the documentation shows, held against the real parser."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from loopctl.cli.main import cli
from tests.docs.pages import fences, prose

_COMMAND = r"(?:[A-Z_]+=\S* )*(?P<command>loopctl .*)$"
_TYPED = re.compile(rf"^\$ {_COMMAND}", re.MULTILINE)
# A line of a script, a step of a workflow, an entry of a crontab.
_WRITTEN = re.compile(rf"^\s*(?:- )?(?:run: |(?:[*/0-9]+ ){{5}})?{_COMMAND}", re.MULTILINE)
_LINES = {"console": _TYPED, "sh": _WRITTEN, "bash": _WRITTEN, "yaml": _WRITTEN, "yml": _WRITTEN}
_INLINE = re.compile(r"`(?P<command>loopctl [^`\n]+)`")
#: Commands that pages name before they exist.
PLANNED: frozenset[str] = frozenset()
_END = {"|", "||", "&&", ";", ">", ">>", "2>", "<", "&", "#"}


def shown(text: str) -> Iterator[tuple[str, bool]]:
    """Each loopctl command of a page, and whether it is complete (from a block) or only named (in a sentence)."""
    for fence in fences(text):
        if fence.language in _LINES:
            for match in _LINES[fence.language].finditer(fence.text.replace("\\\n", " ")):
                yield " ".join(match["command"].split()), True
    for match in _INLINE.finditer(prose(text)):
        yield match["command"], False


def problem(command: str, *, complete: bool) -> str:
    """What the parser has against a command, or "". One that is only named may lack arguments."""
    words = _words(command)
    if not complete and words[0] in PLANNED:
        return ""
    try:
        target, context, rest = _find(words)
        if complete and not isinstance(target, click.Group):
            target.make_context(context.info_name, list(rest), parent=context.parent)
    except click.exceptions.Exit:
        return ""
    except click.ClickException as error:
        return error.format_message()
    known = {option for parameter in target.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= set(target.get_help_option_names(context))
    unknown = [word for word in rest if word.startswith("-") and word.partition("=")[0] not in known and word != "-"]
    return f"no such option: {', '.join(unknown)}" if unknown else ""


def _words(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in lexer:
        if word in _END:
            break
        words.append(word)
    return words[1:]


def _find(words: list[str]) -> tuple[click.Command, click.Context, list[str]]:
    command: click.Command = cli
    context = click.Context(cli, info_name="loopctl")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"no such command: {words[0]}")
        command, words, context = found, words[1:], click.Context(found, info_name=words[0], parent=context)
    return command, context, words
