"""A saved plan: JSON text -> values that fit the plan's schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from loopctl.errors import DocumentError, Problem
from loopctl.model.encode import plan_from_dict
from loopctl.model.plan import Plan
from loopctl.playbook.document import MAX_BYTES, Document, decode, positions_of, problem_at, read_bytes, shown
from loopctl.playbook.schema import validate

#: A plan of ten thousand actions has some 20 MB.
MAX_PLAN_BYTES = 64 << 20


def load_plan(path: str) -> Plan:
    """Read a saved plan. Raises DocumentError with all problems; one that was edited is wrong."""
    return plan_of(read_bytes(Path(path), path, MAX_PLAN_BYTES), path)


def plan_of(data: bytes, source: str) -> Plan:
    """The same of what a file holds."""
    document = _document(data, source)
    try:
        return plan_from_dict(document.value)
    except ValueError as error:
        raise DocumentError([Problem(source, 0, 0, str(error), "plans are not edited: make a new one")]) from None


def _document(data: bytes, source: str) -> Document:
    """A document that fits the schema. Raises DocumentError."""
    text = decode(data, source)
    document = Document(source, text, _parse(text, source))
    if not validate(document, "plan"):
        return document
    # Places are only needed where something is wrong, and cost far more than the values.
    places = positions_of(text) if len(text) <= MAX_BYTES else {}
    raise DocumentError(validate(Document(source, text, document.value, places), "plan"))


def _parse(text: str, source: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_constant)
    except json.JSONDecodeError as error:
        problem = problem_at(source, text, (error.lineno, error.colno), f"is not valid JSON: {error.msg}")
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deep"
        problem = problem_at(source, text, (1, 1), f"is not valid JSON: {reason}")
    raise DocumentError([problem])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            msg = f"duplicate key {shown(name)}"
            raise ValueError(msg)
        values[name] = value
    return values


def _constant(word: str) -> NoReturn:
    msg = f"{word} is no number"
    raise ValueError(msg)
