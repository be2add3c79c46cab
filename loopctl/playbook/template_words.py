"""What is wrong with a template, in words of somebody who sees that template only and has never heard of Jinja2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from loopctl.model.fields import FIELDS
from loopctl.playbook.document import shown
from loopctl.playbook.schema import did_you_mean

if TYPE_CHECKING:
    from jinja2 import nodes

#: What every mapping can be asked for.
_METHODS = frozenset({"get", "items", "keys", "values"})

#: What Jinja2 says of the text that an expression is wrapped in, and of types that nobody wrote.
_EXPECTED = re.compile(r"expected token '.*', got '(.*)'", re.DOTALL)
_UNCLOSED = re.compile(r"innermost block that needs to be closed is '(.*)'")
_BREAKS_OFF = re.compile(r"(?:unexpected|.*\bgot) '?end of ", re.IGNORECASE | re.DOTALL)
_OPEN = re.compile(r"unexpected '.*', expected '(.*)'", re.DOTALL)
_NO_FIELD = re.compile(r"'\w+ object' has no (?:attribute|element) (.*)", re.DOTALL)
_AT = re.compile(r" at \d+\Z")


def strange_fields(tree: nodes.Template, names: frozenset[str]) -> Iterator[tuple[str, str, int]]:
    """What a template reads of a fact that no fact has: the fact, the field and its line."""
    from jinja2 import nodes

    # A loop can have a variable of the same name.
    facts = names & FIELDS.keys() - {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        inner = getattr(node, "node", None)
        owner = inner.name if isinstance(inner, nodes.Name) else ""
        field = node.attr if isinstance(node, nodes.Getattr) else getattr(getattr(node, "arg", None), "value", None)
        if owner in facts and isinstance(field, str) and field not in FIELDS[owner] | _METHODS:
            yield owner, field, node.lineno


def known_fields(fact: str, field: str) -> str:
    """A hint for a field that a fact has not."""
    known = sorted(FIELDS[fact])
    return did_you_mean(field, known) or f"{fact} knows {', '.join(known)}"


def in_words(message: str) -> tuple[str, str]:
    """What Jinja2 says, in words of somebody who sees the template only, and a hint."""
    if found := _UNCLOSED.search(message):
        return f"{shown(found[1])} is not closed", ""
    if _BREAKS_OFF.match(message):
        return "it breaks off", ""
    if found := _EXPECTED.fullmatch(message):
        return f"{shown(found[1])} has no place here", "== compares" if found[1] == "=" else ""
    if found := _OPEN.fullmatch(message):
        return f"{shown(found[1])} is missing", ""
    if found := _NO_FIELD.fullmatch(message):
        return f"{found[1]} is not defined", ""
    return _AT.sub("", message).removesuffix("."), ""
