"""What is said where a rule has no words of its own: the packaged templates, and the files that a config names instead."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from loopctl.data import template_path
from loopctl.errors import DocumentError, Problem
from loopctl.model.rules import Expression
from loopctl.playbook.document import Document, decode, read_bytes
from loopctl.playbook.templates import FACTS, PRIVATE, Compiled, compile_template

START = "start"
DELIVERY = "delivery"
COMMENT_RUNNING = "comment_running"
COMMENT_ENDED = "comment_ended"

#: What each template may read.
TEXT_FACTS: Mapping[str, frozenset[str]] = {
    START: FACTS,
    DELIVERY: FACTS | {"comment"},
    COMMENT_RUNNING: FACTS - PRIVATE.keys(),
    COMMENT_ENDED: FACTS - PRIVATE.keys(),
}
#: What the packaged ones do read.
_READ: Mapping[str, frozenset[str]] = {
    START: frozenset({"item"}),
    DELIVERY: frozenset({"item", "comment"}),
    COMMENT_RUNNING: frozenset({"item"}),
    COMMENT_ENDED: frozenset({"item"}),
}


class Packaged:
    """A packaged template; implements model.rules.Expression. Compiled when it is first used: most commands use none, and
    Jinja2 takes a while to import."""

    __slots__ = ("_name", "names", "source")

    def __init__(self, name: str) -> None:
        """One of TEXT_FACTS."""
        self._name = name
        self.names = _READ[name]
        self.source = f"loopctl:{name}"

    def __call__(self, facts: Mapping[str, object]) -> object:
        """Render it. Raises DocumentError when a fact that it reads is not known."""
        return _packaged(self._name)(facts)


def texts(files: Mapping[str, Path]) -> Mapping[str, Expression]:
    """All templates by name (start, delivery, comment_running, comment_ended), those of `files` in place of the packaged ones.

    Raises DocumentError with the problems of all files, each with its line.
    """
    found: dict[str, Expression] = {name: Packaged(name) for name in TEXT_FACTS}
    problems: list[Problem] = []
    for name, path in files.items():
        try:
            found[name] = compile_file(name, path)
        except DocumentError as error:
            problems += error.problems
    if problems:
        raise DocumentError(problems)
    return found


def compile_file(name: str, path: Path) -> Compiled:
    """A file as the template of this name. The newline that ends it is not part of the text. Raises DocumentError.

    What others read as a comment is Markdown, and of that only the file's own.
    """
    text = decode(read_bytes(path, str(path)), str(path)).removesuffix("\n")
    markdown = name in {COMMENT_RUNNING, COMMENT_ENDED}
    return compile_template(Document(str(path), text, text), (), {}, TEXT_FACTS[name], markdown=markdown)


@cache
def _packaged(name: str) -> Compiled:
    return compile_file(name, template_path(name))
