"""Reads JSON that others wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(data: bytes | str, **hooks: Any) -> Any:
    """The value of a JSON text, in which every string can be written anywhere: half a character (a lone surrogate, which only
    an escape can spell) becomes U+FFFD.

    `hooks` are those of json.loads. Raises ValueError for what is no JSON or no UTF-8, and RecursionError.
    """
    text = data.decode("utf-8") if isinstance(data, bytes) else data
    value = json.loads(text, **hooks)
    return _whole(value) if _HALF.search(text) else value


def _whole(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_whole(name): _whole(inner) for name, inner in value.items()}
    return [_whole(inner) for inner in value] if isinstance(value, list) else value
