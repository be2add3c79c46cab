"""The package's modules as syntax trees, and questions to ask of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support import ROOT


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    tree: ast.Module

    def within(self, *packages: str) -> bool:
        return any(self.name == package or self.name.startswith(package + ".") for package in packages)

    def imports(self) -> Iterator[tuple[int, str]]:
        """Each imported name with its line, in functions and under TYPE_CHECKING too; `from a import b` gives `a.b`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
            elif isinstance(node, ast.Call) and _tail(node.func) in ("import_module", "__import__"):
                yield from ((node.lineno, a.value) for a in node.args[:1] if _is_text(a))

    def attributes(self) -> Iterator[tuple[int, str, str]]:
        """Each `receiver.attribute` as (line, last name of the receiver, attribute), called or not."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute):
                yield node.lineno, _tail(node.value), node.attr

    def words(self) -> Iterator[tuple[int, str]]:
        """The words of each text that is not a docstring."""
        docs = {id(n.value) for n in ast.walk(self.tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(self.tree):
            if _is_text(node) and id(node) not in docs:
                yield from ((node.lineno, word) for word in node.value.split())


def parse(name: str, text: str) -> Module:
    return Module(name, ast.parse(text))


@cache
def package() -> tuple[Module, ...]:
    """Every module of loopctl."""
    return _below("loopctl")


@cache
def tests() -> tuple[Module, ...]:
    """Every module under tests/."""
    return _below("tests")


def _below(folder: str) -> tuple[Module, ...]:
    return tuple(parse(_dotted(path), path.read_text("utf-8")) for path in sorted((ROOT / folder).rglob("*.py")))


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _tail(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
