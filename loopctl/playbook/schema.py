"""A document against its schema: every problem, in words, at the key that is at fault."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from loopctl.data import schema_text
from loopctl.errors import Problem
from loopctl.playbook.document import MAX_PROBLEMS, Document, Path_, shown
from loopctl.playbook.verdicts import is_known_valid, remember_valid, verdict_key

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}


@cache
def schema(name: str) -> Mapping[str, Any]:
    """A packaged schema as values."""
    loaded: dict[str, Any] = json.loads(schema_text(name))
    return loaded


@cache
def _validator(name: str) -> Draft202012Validator:
    # Costs 0.1 s: only imported when a document is checked.
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema(name))


def validate(document: Document, schema_name: str) -> list[Problem]:
    """All problems of a document with a schema, in the order of the text."""
    if document.value is None:
        return [Problem(document.source, 0, 0, "is empty")]
    key = verdict_key(schema_text(schema_name), document.value)
    if is_known_valid(key):
        return []
    errors = _validator(schema_name).iter_errors(document.value)
    found = list(islice(_problems(document, errors), MAX_PROBLEMS))
    if not found:
        remember_valid(key)
    unique = dict.fromkeys(sorted(found, key=lambda p: (p.line, p.column)))
    return list(unique)


@dataclass(frozen=True, slots=True)
class _Fault:
    """What jsonschema says of one value, with the types that it really has."""

    path: Path_
    keyword: str
    wanted: Any
    instance: Any
    schema: Mapping[str, Any]
    of_key: bool

    @classmethod
    def of(cls, error: ValidationError) -> _Fault:
        schema: Any = error.schema
        of_key = "propertyNames" in error.absolute_schema_path
        path = tuple(error.absolute_path)
        return cls(path, str(error.validator), error.validator_value, error.instance, schema, of_key)

    @property
    def expected(self) -> str:
        return str(self.schema.get("x-expected", ""))


def _problems(document: Document, errors: Iterable[ValidationError]) -> Iterator[Problem]:
    for fault in map(_Fault.of, errors):
        if fault.of_key:
            message = f"the key {shown(fault.instance)} is not {fault.expected}"
            yield document.problem((*fault.path, fault.instance), message)
        elif fault.keyword == "enum" and not isinstance(fault.instance, str):
            continue  # its type is wrong as well, and that is the better thing to say
        elif fault.keyword == "additionalProperties":
            yield from _unknown_keys(document, fault)
        elif fault.keyword == "required":
            yield from _missing_keys(document, fault)
        else:
            message, hint = _value_problem(fault)
            yield document.problem(fault.path, f"{_name(fault.path)}{message}", hint)


def _unknown_keys(document: Document, fault: _Fault) -> Iterator[Problem]:
    known = list(fault.schema.get("properties", ()))
    for key in fault.instance:
        if key not in known:
            close = did_you_mean(key, known)
            hint = close or ("known here: " + ", ".join(known))
            yield document.problem((*fault.path, key), f"unknown key {shown(key)}", hint)


def _missing_keys(document: Document, fault: _Fault) -> Iterator[Problem]:
    known = fault.schema.get("properties", {})
    strangers = [key for key in fault.instance if key not in known]
    # One error is raised for each missing key; all of them name the same list.
    for key in fault.wanted:
        # A misspelt key is told once, at the misspelling.
        if key not in fault.instance and not any(did_you_mean(other, [key]) for other in strangers):
            hint = str(known.get(key, {}).get("description", ""))
            yield document.problem(fault.path, f"{_name(fault.path)} has no {shown(key)}", hint)


def _value_problem(fault: _Fault) -> tuple[str, str]:
    keyword, wanted = fault.keyword, fault.wanted
    if "x-message" in fault.schema:
        return f": {fault.schema['x-message']}", ""
    if keyword == "type":
        return _type_problem(fault.instance, [wanted] if isinstance(wanted, str) else wanted, fault)
    if keyword in {"enum", "const"}:
        allowed = [str(value) for value in (wanted if keyword == "enum" else [wanted])]
        close = did_you_mean(str(fault.instance), allowed)
        return f" is {_what(fault.instance)}, not one of: {', '.join(allowed)}", close
    if keyword in {"minItems", "minLength", "minProperties"}:
        return " must not be empty", ""
    bounds = {
        "minimum": "must be at least",
        "maximum": "must be at most",
        "exclusiveMinimum": "must be more than",
    }
    if keyword in bounds:
        return f" {bounds[keyword]} {wanted}", ""
    return f" must be {fault.expected}", ""


def _type_problem(value: object, wanted: Sequence[str], fault: _Fault) -> tuple[str, str]:
    words = fault.expected or " or ".join(_TYPES[name] for name in wanted)
    scalar = isinstance(value, bool | int | float)
    hint = "quote it" if scalar and "string" in wanted else ""
    if value is None:
        return f" has no value; it must be {words}", ""
    return f" must be {words}, not {_kind(value)}", hint


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "a mapping"


def _what(value: object) -> str:
    return shown(value) if isinstance(value, str) else _kind(value)


def _name(path: Path_) -> str:
    names = [part for part in path if isinstance(part, str)]
    if not path:
        return "the document"
    return names[-1] if isinstance(path[-1], str) else f"an item of {names[-1]}" if names else f"item {path[-1] + 1}"


def did_you_mean(word: str, candidates: Sequence[str]) -> str:
    """A hint that names the candidate most like a word, or ""."""
    # The comparison is quadratic in the length, and no key of ours is long.
    folded = {candidate.lower(): candidate for candidate in candidates}
    close = get_close_matches(word[:60].lower(), folded, n=1)
    return f"did you mean {shown(folded[close[0]])}?" if close else ""


def ignored_keys(document: Document, schema_name: str) -> tuple[str, ...]:
    """The keys of a valid document that its schema knows and that have no meaning here: `line 4 polling.stateFile`."""
    root = schema(schema_name)
    return tuple(
        f"line {document.position(path).line} {'.'.join(map(str, path))}"
        for path, found in _walk(root, root, document.value, ())
        if found.get("x-ignored")
    )


def _walk(
    root: Mapping[str, Any], here: Mapping[str, Any], value: object, path: Path_
) -> Iterator[tuple[Path_, Mapping[str, Any]]]:
    while "$ref" in here:
        here = root["$defs"][here["$ref"].rpartition("/")[2]]
    yield path, here
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _walk(root, here.get("properties", {}).get(key, {}), inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(root, here.get("items", {}), inner, (*path, index))
