"""What an unquoted YAML word means here: only what everybody reads the same way has a type."""

from __future__ import annotations

import re
from enum import Enum

Scalar = str | int | float | bool | None

#: More digits than this are a serial number or a mistake, not a quantity.
_MAX_DIGITS = 18

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\.[0-9]+\Z")
_SWITCH = re.compile(r"(?:y|n|yes|no|on|off|true|false)\Z", re.IGNORECASE)
_NULL = re.compile(r"(?:~|null|Null|NULL)\Z")
_OCTAL = re.compile(r"[-+]?0[0-9_]+\Z")
_SIXTY = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z")
_TIME = re.compile(r"\d{4}-\d\d?-\d\d?(?:(?:[Tt]|[ \t]+)\d\d?:\d\d.*)?\Z", re.ASCII)
_OTHER_NUMBER = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0o[0-7_]+|[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))\Z|\.(?:nan|NaN|NAN)\Z"
)


#: How every word begins that one of these patterns matches.
_SUSPECT = frozenset("-+.0123456789~yYnNoOtTfF")


class Surprise(Enum):
    """Why a word is refused; the value completes "is ambiguous: ..."."""

    SWITCH = "some YAML readers take it for true or false"
    NULL = "YAML reads it as no value at all"
    OCTAL = "some YAML readers take it for an octal number"
    SIXTY = "some YAML readers take it for a base-60 number"
    TIME = "some YAML readers take it for a date"
    NUMBER = "YAML readers disagree on this form of a number"
    LONG = "it has too many digits for a number"


_SURPRISES = (
    (_SWITCH, Surprise.SWITCH),
    (_NULL, Surprise.NULL),
    (_OCTAL, Surprise.OCTAL),
    (_SIXTY, Surprise.SIXTY),
    (_TIME, Surprise.TIME),
    (_OTHER_NUMBER, Surprise.NUMBER),
)


def resolve(word: str) -> Scalar | Surprise:
    """The value of an unquoted word: true, false, a decimal number, nothing, or text; a Surprise when readers differ."""
    if not word:
        return None
    if word[0] not in _SUSPECT:
        return word
    if word in {"true", "false"}:
        return word == "true"
    if _INT.match(word) or _DECIMAL.match(word):
        if len(word) > _MAX_DIGITS:
            return Surprise.LONG
        return float(word) if "." in word else int(word)
    for pattern, surprise in _SURPRISES:
        if pattern.match(word):
            return surprise
    return word
