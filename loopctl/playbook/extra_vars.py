"""`-e`: values from the command line, which are data and never rendered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from loopctl.errors import UsageError
from loopctl.model.foreign_json import parse_json
from loopctl.playbook.document import load_document
from loopctl.playbook.scalars import Surprise, resolve
from loopctl.playbook.schema import did_you_mean
from loopctl.playbook.templates import RESERVED, is_template

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HINT = "write -e name=value, -e '{\"name\": value}' or -e @file.yml"


def parse_extra_vars(arguments: Sequence[str]) -> dict[str, object]:
    """Read `name=value`, a JSON object or `@file`, the later over the earlier.

    Of `name=value`, only true, false and plain decimal numbers are typed; all else, and what is quoted, is text.
    Raises UsageError for an argument that is none of these, and DocumentError for a wrong file.
    """
    values: dict[str, object] = {}
    for argument in arguments:
        values |= _one(argument)
    for name in values:
        if not _NAME.match(name) or name in RESERVED:
            msg = f"-e: {name!r} cannot be the name of a variable"
            raise UsageError(msg, hint="a name has letters, digits and _, and no meaning in templates")
    return values


def check_used(extra: Mapping[str, object], playbooks: Iterable[object]) -> None:
    """Raise UsageError for a variable that none of these documents declares or reads: its name is misspelt."""
    if not extra:
        return
    known = {word for playbook in playbooks for word in _read(playbook)}
    for name in sorted(extra.keys() - known):
        raise UsageError(f"-e: no playbook has a variable {name!r}", hint=did_you_mean(name, sorted(known)))


def _read(value: object, key: object = None) -> Iterator[str]:
    """The names that may be variables: what `vars` declare, and the words of templates and of `when`."""
    if isinstance(value, str):
        yield from _WORD.findall(value) if key == "when" or is_template(value) else ()
    for inner in value if isinstance(value, list) else ():
        yield from _read(inner, key)
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield from inner if name == "vars" and isinstance(inner, dict) else ()
        yield from _read(inner, name)


def _one(argument: str) -> dict[str, object]:
    text = argument.strip()
    if text.startswith("@"):
        value = load_document(text[1:]).value
        return value if isinstance(value, dict) else _wrong(f"{text[1:]} does not hold a mapping")
    if text.startswith("{"):
        return _json(text)
    name, equals, word = text.partition("=")
    if not equals:
        _wrong(f"{argument!r} is no name=value")
    return {name.strip(): _typed(word)}


def _json(text: str) -> dict[str, object]:
    try:
        value = parse_json(text, parse_constant=lambda word: _wrong(f"{word} is no JSON"))
    except (ValueError, RecursionError) as error:
        _wrong(f"no valid JSON: {error}")
    return value if isinstance(value, dict) else _wrong("the JSON is no object")


def _typed(word: str) -> object:
    quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "'\""
    if quoted:
        return word[1:-1]
    value = resolve(word)
    return word if value is None or isinstance(value, Surprise) else value


def _wrong(message: str) -> NoReturn:
    msg = f"-e: {message}"
    raise UsageError(msg, hint=_HINT)
