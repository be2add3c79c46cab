"""A Jinja2 environment for text that others wrote: no way out, and no way to use up time or memory.

Jinja's own sandbox closes the ways out. What it leaves open is size: `"x" * 10**9`, `ljust`, nested loops, macros that
call themselves. So a template here is output, `if` and plain loops, every step that can grow is bounded, and what is not known
to be harmless is not there.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jinja2 import StrictUndefined, Template, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.filters import do_round
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import htmlsafe_json_dumps

from loopctl.model.markdown import Markdown, code, line
from loopctl.model.plain import plain

#: Characters that a template may have, and its result: a comment on GitHub has up to 64 Ki, and words around it.
MAX_SOURCE = 16 * 1024
MAX_TEXT = 128 * 1024
#: Steps of one loop, and numbers in one range().
MAX_STEPS = 1000
_MAX_NODES = 2000
_MAX_LOOPS = 10
_MAX_NEW = 1000
_MAX_PRECISION = 30
_STEPS = "steps"

_ALLOWED = (
    nodes.Expr,
    nodes.Helper,
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.For,
)
# fmt: off
_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "first", "float", "int", "last", "length", "list", "lower",
    "map", "max", "min", "reject", "rejectattr", "select", "selectattr", "sort", "string", "title", "trim",
    "truncate", "unique", "upper", "wordcount",
)
_TEXT_METHODS = frozenset((
    "capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha", "isascii",
    "isdigit", "islower", "isspace", "isupper", "lower", "lstrip", "partition", "removeprefix",
    "removesuffix", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith",
    "strip", "title", "upper",
))
# fmt: on
_METHODS: Mapping[type, frozenset[str]] = {
    str: _TEXT_METHODS,
    dict: frozenset({"get", "items", "keys", "values"}),
    list: frozenset({"count", "index"}),
    tuple: frozenset({"count", "index"}),
    datetime.datetime: frozenset(
        {"date", "isoformat", "timestamp", "weekday", "year", "month", "day", "hour", "minute"}
    ),
    datetime.timedelta: frozenset({"days", "seconds", "total_seconds"}),
}


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > MAX_STEPS:
        msg = f"range() gives more than {MAX_STEPS} numbers"
        raise SecurityError(msg)
    return numbers


def _replace(text: object, old: str, new: str, count: int = -1) -> str:
    whole = str(text)
    if len(new) > _MAX_NEW or len(whole) + whole.count(old) * len(new) > MAX_TEXT:
        raise SecurityError(_too_long())
    return whole.replace(old, new, count)


def _join(values: Iterable[object], separator: object = "") -> str:
    words: list[str] = []
    between, room = str(separator), MAX_TEXT
    for word in map(str, values):
        room -= len(word) + len(between)
        if room < 0:
            raise SecurityError(_too_long())
        words.append(word)
    return between.join(words)


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    if abs(precision) > _MAX_PRECISION:
        msg = f"round() takes a precision up to {_MAX_PRECISION}"
        raise SecurityError(msg)
    return do_round(value, precision, method)  # type: ignore[arg-type]  # it checks the method itself


def _tojson(value: object) -> str:
    return htmlsafe_json_dumps(value)


def _fenced(text: object) -> str:
    """Foreign text between two lines of backticks, of which it holds no run as long: it cannot end its own block.

    Invisible characters go first: left out later, as of every prompt, they could join two short runs into a long one.
    """
    whole = plain(str(text))
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", whole)), default=0))
    return f"{fence}\n{whole}\n{fence}"


def _steps(values: Iterable[object]) -> Iterator[object]:
    for step, value in enumerate(values):
        if step == MAX_STEPS:
            msg = f"a loop takes more than {MAX_STEPS} steps"
            raise SecurityError(msg)
        yield value


def _too_long() -> str:
    return f"the result is longer than {MAX_TEXT:,} characters"


class Sandbox(ImmutableSandboxedEnvironment):
    """Strict: an undefined name is an error wherever it is used."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, *, markdown: bool = False) -> None:
        """Take nothing from outside: no loader, no globals but `range`.

        `markdown`: what an expression gives is text and never Markdown; Markdown stands in the template around it.
        """
        finalize = line if markdown else None
        super().__init__(
            undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, cache_size=0, finalize=finalize
        )
        self.globals = {"range": _range}
        self.filters = {name: self.filters[name] for name in _FILTERS}
        # All but the first in place of Jinja's own, which let a number or a separator make a result of any size.
        self.filters |= {"fenced": _fenced, "join": _join, "replace": _replace, "round": _round, "tojson": _tojson}
        self.filters |= {_STEPS: _steps}
        if markdown:
            self.filters |= {"code": code, "fenced": lambda text: Markdown(_fenced(text))}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse what grows without bound."""
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if operator == "+" and not numbers:
            if _size(left) + _size(right) > MAX_TEXT:
                raise SecurityError(_too_long())
        elif not numbers:
            msg = f"{operator} works on numbers only"
            raise SecurityError(msg)
        elif operator in {"*", "**"} and max(abs(left), abs(right)) > 1e12:
            msg = "the numbers are too large"
            raise SecurityError(msg)
        elif operator == "**" and abs(right) > 32:
            msg = "the exponent is too large"
            raise SecurityError(msg)
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Plain data shows its known methods only; facts show their public fields."""
        if not super().is_safe_attribute(obj, attr, value):
            return False
        for kind, names in _METHODS.items():
            if isinstance(obj, kind):
                return attr in names
        return not callable(value)

    def wrap_str_format(self, value: Any) -> None:
        """Leave `format` to `is_safe_attribute`, which refuses it: a width in it can be any number."""

    def check(self, source: str) -> nodes.Template:
        """Parse a template, refuse what this module does not allow, bound its loops. Raises jinja2.TemplateError."""
        if len(source) > MAX_SOURCE:
            msg = f"is longer than {MAX_SOURCE:,} characters"
            raise TemplateSyntaxError(msg, 1)
        tree = self.parse(source)
        for count, node in enumerate(tree.find_all(nodes.Node)):
            if not isinstance(node, _ALLOWED):
                msg = f"{type(node).__name__.lower()} is not available here"
                raise TemplateSyntaxError(msg, node.lineno)
            if count == _MAX_NODES:
                msg = "has too many parts"
                raise TemplateSyntaxError(msg, node.lineno)
        self._bound_loops(tree)
        return tree

    def _bound_loops(self, tree: nodes.Template) -> None:
        loops = list(tree.find_all(nodes.For))
        for loop in loops:
            if loop.recursive or len(loops) > _MAX_LOOPS or any(loop.find_all(nodes.For)):
                msg = f"a loop within a loop, or more than {_MAX_LOOPS} of them"
                raise TemplateSyntaxError(msg, loop.lineno)
            loop.iter = nodes.Filter(loop.iter, _STEPS, [], [], None, None, lineno=loop.lineno)

    def text(self, template: Template, facts: Mapping[str, object]) -> str:
        """Render, and stop as soon as the result is too long."""
        return _bounded(template.generate(facts))


def _bounded(pieces: Iterable[str]) -> str:
    result: list[str] = []
    length = 0
    for piece in pieces:
        length += len(piece)
        if length > MAX_TEXT:
            raise SecurityError(_too_long())
        result.append(piece)
    return "".join(result)


def _size(value: object) -> int:
    return len(value) if isinstance(value, str | list | tuple | dict) else 0
