"""Templates of a playbook: rendered once, strict, from data that is never itself taken for a template."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeVar

from loopctl.errors import DocumentError, Problem
from loopctl.playbook.document import Document, Path_, problem_at, shown
from loopctl.playbook.schema import did_you_mean
from loopctl.playbook.template_words import in_words, known_fields, strange_fields

if TYPE_CHECKING:
    from jinja2 import Template, nodes

    from loopctl.playbook.sandbox import Sandbox

#: The facts of a subject, known when a plan is made.
FACTS = frozenset({"item", "session", "machine", "now"})
#: Facts that no comment can read, and why.
PRIVATE = {
    "machine": "names a machine, and a comment is read by everybody",
    "now": "differs each time, so the comment would be written over without end",
}
_COMMENT_HINT = "a comment knows item, session and the vars"
#: Words that a variable cannot have as its name.
# fmt: off
RESERVED = FACTS | frozenset((
    "and", "or", "not", "in", "is", "if", "else", "elif", "endif", "for", "endfor", "true", "false", "none",
    "True", "False", "None", "range", "loop", "self",
))
# fmt: on

_MAX_SIZE = 64 * 1024

_MARKER = re.compile(r"\{\{|\{%|\{#")
_WHOLE = re.compile(r"\s*\{\{[-+]?(?P<inner>.*?)-?\}\}\s*\Z", re.DOTALL)

T = TypeVar("T")
Evaluate = Callable[[Mapping[str, object]], object]


@cache
def _sandbox(markdown: bool = False) -> Sandbox:
    # Costs 60 ms: only imported where there is a template.
    from loopctl.playbook.sandbox import Sandbox

    return Sandbox(markdown=markdown)


def is_template(value: object) -> bool:
    """Whether a value is text with something to render in it."""
    return isinstance(value, str) and _MARKER.search(value) is not None


class Compiled:
    """An expression or a template with its variables bound; implements model.rules.Expression.

    Two are equal when they say the same of the same variables.
    """

    __slots__ = ("_document", "_evaluate", "_path", "_variables", "names", "source")

    def __init__(
        self,
        document: Document,
        path: Path_,
        evaluate: Evaluate,
        names: frozenset[str],
        variables: Mapping[str, object],
    ) -> None:
        """Made by `compile_when` and `compile_template`. What is no variable is a fact."""
        self.names = names - variables.keys()
        self.source = str(_at(document.value, path))
        self._document, self._path, self._evaluate = document, path, evaluate
        self._variables = {name: variables[name] for name in sorted(names & variables.keys())}

    def __call__(self, facts: Mapping[str, object]) -> object:
        """The value for these facts. Raises DocumentError with the place when something in it is undefined."""
        wanted = {name: facts[name] for name in self.names if name in facts}
        return _guarded(self._document, self._path, lambda: self._evaluate({**self._variables, **wanted}))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Compiled):
            return NotImplemented
        return (self.source, self._variables) == (other.source, other._variables)

    def __hash__(self) -> int:
        return hash(self.source)

    def __repr__(self) -> str:
        return f"Compiled({shown(self.source)})"


def compile_when(document: Document, path: Path_, variables: Mapping[str, object]) -> Compiled:
    """The expression that stands at a path, as a condition. Raises DocumentError for unknown names and bad syntax."""
    source = str(_at(document.value, path))
    if is_template(source):
        hint = "write the expression without {{ }}"
        raise DocumentError([document.problem(path, f"{path[-1]} is an expression, not a template", hint)])
    # Once as it is written, for what is said of it; the brackets keep `a }} b {{ c` from being several.
    _guarded(document, path, lambda: _checked("{{ " + source + " }}"))
    names, _ = _parsed(document, path, "{{ (" + source + ") }}", frozenset(variables), FACTS)
    value = _guarded(document, path, lambda: _native(source))
    return Compiled(document, path, lambda facts: bool(value(facts)), names, variables)


def compile_template(
    document: Document,
    path: Path_,
    variables: Mapping[str, object],
    facts: frozenset[str] = FACTS,
    *,
    markdown: bool = False,
) -> Compiled:
    """The template that stands at a path, giving text (for `markdown`, of Markdown only its own). Raises DocumentError for
    unknown names and bad syntax."""
    source = str(_at(document.value, path))
    if not is_template(source):
        return Compiled(document, path, lambda _: source, frozenset(), {})
    names, tree = _parsed(document, path, source, frozenset(variables), facts, markdown=markdown)
    box = _sandbox(markdown)
    template: Template = _guarded(document, path, lambda: box.from_string(tree))
    return Compiled(document, path, lambda facts: box.text(template, facts), names, variables)


def compile_comment(document: Document, path: Path_, variables: Mapping[str, object]) -> Compiled:
    """The template of a comment, which everybody reads. Raises DocumentError for what has no place there, too."""
    compiled = compile_template(document, path, variables, markdown=True)
    wrong = sorted(compiled.names & PRIVATE.keys())
    if wrong:
        raise DocumentError([document.problem(path, f"{shown(name)} {PRIVATE[name]}", _COMMENT_HINT) for name in wrong])
    return compiled


def render_vars(
    document: Document, path: Path_, extra: Mapping[str, object]
) -> tuple[dict[str, object], list[Problem]]:
    """The variables that stand at a path, in their order, with what is wrong with them.

    A variable sees those before it and `extra`, and `extra` wins. The values of `extra` are data: never rendered.
    """
    written = _at(document.value, path)
    known: dict[str, object] = dict(extra)
    problems: list[Problem] = []
    for name, value in written.items() if isinstance(written, dict) else ():
        if name in RESERVED:
            problems.append(document.problem((*path, name), f"{shown(name)} is taken: it means something in templates"))
        elif name not in extra:
            known[name], wrong = render(document, (*path, name), value, known)
            problems += wrong
    return known, problems


def render(
    document: Document, path: Path_, value: object, variables: Mapping[str, object]
) -> tuple[object, list[Problem]]:
    """A value with every text in it rendered, and what is wrong; a text that is one `{{ }}` keeps the type of its result.

    A text that could not be rendered stays as it is written.
    """
    problems: list[Problem] = []

    def walk(here: object, at: Path_) -> object:
        if isinstance(here, list):
            return [walk(inner, (*at, index)) for index, inner in enumerate(here)]
        if isinstance(here, dict):
            return {key: walk(inner, (*at, key)) for key, inner in here.items()}
        if not isinstance(here, str) or not is_template(here):
            return here
        try:
            return _render_text(document, at, here, variables)
        except DocumentError as error:
            problems.extend(error.problems)
            return here

    return walk(value, path), problems


def _render_text(document: Document, path: Path_, source: str, variables: Mapping[str, object]) -> object:
    _, tree = _parsed(document, path, source, frozenset(variables))

    def evaluate() -> object:
        inner = _single(source)
        if inner is not None:
            return _plain(_native(inner)(variables))
        return _sandbox().text(_sandbox().from_string(tree), variables)

    return _guarded(document, path, evaluate)


@lru_cache(maxsize=1024)
def _single(source: str) -> str | None:
    """The expression of a text that is exactly one `{{ expression }}`."""
    from jinja2 import nodes

    found = _WHOLE.match(source)
    body = _sandbox().parse(source.strip()).body if found else []
    one = len(body) == 1 and isinstance(body[0], nodes.Output) and len(body[0].nodes) == 1
    return found["inner"] if found and one else None


@lru_cache(maxsize=1024)
def _native(expression: str) -> Evaluate:
    from jinja2 import Undefined

    compiled = _sandbox().compile_expression(expression, undefined_to_none=False)

    def evaluate(facts: Mapping[str, object]) -> object:
        value = compiled(**facts)
        if isinstance(value, Undefined):
            str(value)  # raises with the name of what is undefined
        return value

    return evaluate


def _plain(value: object) -> object:
    """Plain data only, and of a bounded size, since the next variable may hold it many times over."""
    room = _MAX_SIZE

    def copy(here: object) -> object:
        nonlocal room
        room -= len(here) if isinstance(here, str) else 1
        if room < 0:
            msg = "the result is too large"
            raise ValueError(msg)
        if here is None or isinstance(here, bool | int | float | str):
            return str(here) if isinstance(here, str) else here
        if isinstance(here, list | tuple | range):
            return [copy(inner) for inner in here]
        if isinstance(here, dict):
            return {str(key): copy(inner) for key, inner in here.items()}
        msg = "the result is no plain value"
        raise ValueError(msg)

    return copy(value)


@lru_cache(maxsize=1024)
def _checked(source: str, markdown: bool = False) -> tuple[frozenset[str], nodes.Template]:
    from jinja2 import meta

    tree = _sandbox(markdown).check(source)
    return frozenset(meta.find_undeclared_variables(tree)) - {"range"}, tree


def _parsed(
    document: Document,
    path: Path_,
    source: str,
    variables: frozenset[str],
    facts: frozenset[str] = frozenset(),
    *,
    markdown: bool = False,
) -> tuple[frozenset[str], nodes.Template]:
    """The names that a template reads and its tree. Raises DocumentError for each name that is not allowed."""
    names, tree = _guarded(document, path, lambda: _checked(source, markdown))
    allowed = variables | facts
    unknown = sorted(names - allowed)
    if unknown:
        whole = not path
        raise DocumentError(
            [_problem(document, path, _line_of(name, tree), *_unknown(name, allowed, whole=whole)) for name in unknown]
        )
    strange = [
        _problem(document, path, line, f"{shown(f'{fact}.{field}')} is not defined", known_fields(fact, field))
        for fact, field, line in strange_fields(tree, names - variables)
    ]
    if strange:
        raise DocumentError(strange)
    return names, tree


def _line_of(name: str, tree: nodes.Template) -> int:
    from jinja2 import nodes

    return min((node.lineno for node in tree.find_all(nodes.Name) if node.name == name), default=1)


def _problem(document: Document, path: Path_, line: int, message: str, hint: str = "") -> Problem:
    """A problem in a template. Where that is the whole document, its line is one of the document's."""
    if path:
        return document.problem(path, message, hint)
    return problem_at(document.source, document.text, (line, 1), message, hint)


def _unknown(name: str, allowed: frozenset[str], *, whole: bool) -> tuple[str, str]:
    if whole:
        known = ", ".join(sorted(allowed))
        return f"{shown(name)} is not defined", did_you_mean(name, sorted(allowed)) or f"this template knows {known}"
    if name in FACTS:
        return f"{shown(name)} is only known when a plan is made", "use it in when, prompt, cwd or comment"
    close = did_you_mean(name, sorted(allowed))
    return f"{shown(name)} is not defined", close or "define it in vars, or give it with -e"


def _guarded(document: Document, path: Path_, work: Callable[[], T]) -> T:
    """Do something with a template; whatever goes wrong in it becomes a problem at its place."""
    from jinja2 import TemplateError, TemplateSyntaxError

    line, hint = 1, ""
    try:
        return work()
    except TemplateError as error:
        reason, hint = in_words(error.message or type(error).__name__)
        line = error.lineno if isinstance(error, TemplateSyntaxError) else 1
        if line > 1 and path:
            reason += f" (line {line} of the text)"
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = str(error)
    except (MemoryError, RecursionError, SyntaxError):
        reason = "is too deeply nested"
    raise DocumentError([_problem(document, path, line, f"template: {reason}", hint)])


def _at(value: object, path: Path_) -> object:
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
        else:
            return None
    return value
