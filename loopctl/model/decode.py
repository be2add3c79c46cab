"""JSON values as frozen dataclasses: types are checked, keys are exact, and an error names the path."""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Position

#: How a position is written; the file's own name may hold colons.
POSITION = re.compile(r"(.*):(\d+):(\d+)", re.DOTALL)


def decode(kind: Any, value: object, path: str) -> Any:
    """Read a value as the type hint `kind` says. Raises ValueError that begins with the path of what is wrong."""
    if kind in _LEAVES:
        return _LEAVES[kind](value, path)
    if get_origin(kind) in {types.UnionType, Union}:
        inner = next(arg for arg in get_args(kind) if arg is not type(None))
        return None if value is None else decode(inner, value, path)
    if get_origin(kind) is tuple:
        return tuple(decode(get_args(kind)[0], v, f"{path}[{i}]") for i, v in enumerate(sequence(value, path)))
    hints = _hints(kind)
    data = mapping(value, path, frozenset(hints))
    return kind(**{name: decode(hint, data[name], f"{path}.{name}") for name, hint in hints.items()})


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def mapping(value: object, path: str, keys: frozenset[str]) -> Mapping[str, Any]:
    """An object with exactly these keys. Raises ValueError."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{path or 'plan'}: must be an object, not {_kind(value)}")
    prefix = f"{path}." if path else ""
    for key in sorted(keys - set(value)):
        raise ValueError(f"{prefix}{key}: is missing")
    for key in sorted(str(key) for key in set(value) - keys):
        raise ValueError(f"{prefix}{key}: is no key of a plan")
    return value


def sequence(value: object, path: str) -> list[Any]:
    """A list. Raises ValueError."""
    if not isinstance(value, list):
        raise ValueError(f"{path}: must be a list, not {_kind(value)}")
    return value


def _string(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{path}: must be a string, not {_kind(value)}")
    return value


def _integer(value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{path}: must be a whole number, not {_kind(value)}")
    return value


def _number(value: object, path: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{path}: must be a number, not {_kind(value)}")
    return float(value)


def _boolean(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{path}: must be true or false, not {_kind(value)}")
    return value


def _time(value: object, path: str) -> datetime:
    try:
        return datetime.strptime(_string(value, path), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(f"{path}: must be a time like 2026-07-25T10:00:00Z") from None


def _ref(value: object, path: str) -> WorkItemRef:
    try:
        return WorkItemRef.parse(_string(value, path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _position(value: object, path: str) -> Position:
    text = _string(value, path)
    found = POSITION.fullmatch(text)
    return Position(found[1], int(found[2]), int(found[3])) if found else Position(text)


def _kind(value: object) -> str:
    names = {bool: "a boolean", str: "a string", list: "a list", dict: "an object", type(None): "null"}
    return names.get(type(value), "a number")


_LEAVES: Mapping[Any, Callable[[object, str], object]] = {
    str: _string,
    int: _integer,
    float: _number,
    bool: _boolean,
    datetime: _time,
    WorkItemRef: _ref,
    Position: _position,
}
