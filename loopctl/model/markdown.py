"""Foreign text inside GitHub's Markdown.

It must not become a link, an image, HTML or a table cell of its own, and must not notify anybody: GitHub finds @mentions
and #references after it has decoded entities, so these get an invisible break as well.
"""

from __future__ import annotations

import re

from loopctl.model.plain import plain

_SPECIAL = re.compile(r"[&<>|`*_~\[\]\\$@#]|://|(?<=www)\.|(?<=\bGH)-(?=\d)", re.IGNORECASE)
_BROKEN = "@#-"
#: An invisible character at which a mention or a reference ends.
BREAK = "&#8203;"


class Markdown(str):
    """Text that stands in Markdown as it is: it was made here, or escaped already."""

    __slots__ = ()


def escape(text: str) -> Markdown:
    """Text as text, whatever it looks like."""
    return Markdown(_SPECIAL.sub(_entity, text))


def line(value: object) -> Markdown:
    """What others wrote, as one line without anything hidden; Markdown stays as it is."""
    return value if isinstance(value, Markdown) else escape(_one_line(value))


def code(value: object) -> Markdown:
    """A code span: shown letter by letter, however many backticks are in it."""
    text = _one_line(value)
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    room = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return Markdown(f"{fence}{room}{text}{room}{fence}")


def _one_line(value: object) -> str:
    return " ".join(plain(str(value)).split())


def _entity(found: re.Match[str]) -> str:
    character = found[0][0]
    entity = f"&#{ord(character)};" + found[0][1:]
    return entity + BREAK if character in _BROKEN else entity
