"""Masks secrets in text that is shown, logged or saved: those that look like one, and those that are known to be one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

MASK = "***"

_WORD = r"(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)"
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s"',;]+)"""

#: Whole matches that are secrets by their own shape.
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"gh[opusr]_[A-Za-z0-9]{4,}|github_pat_[A-Za-z0-9_]{4,}|glpat-[A-Za-z0-9_-]{8,}|sk-[A-Za-z0-9_-]{16,}"
    r"|xox[a-z]-[A-Za-z0-9-]{4,}|xapp-[A-Za-z0-9-]{8,}|AKIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"
    r")"
)
#: A name or a place that makes what follows it a secret; the first group is kept.
_NAMED = (
    re.compile(rf"(?<![\w-])(--?[a-z0-9-]*{_WORD}(?![a-z])[a-z0-9-]*(?:=|\s+(?!-))){_VALUE}", re.IGNORECASE),
    re.compile(rf"(?<!\w)([a-z0-9_]*{_WORD}(?![a-z])[a-z0-9_]*\s?=\s?){_VALUE}", re.IGNORECASE),
    re.compile(rf"""(["'][a-z0-9_-]*{_WORD}[a-z0-9_-]*["']\s*:\s*){_VALUE}""", re.IGNORECASE),
    re.compile(rf"(x-api-key\s*:\s*|authorization\s*:\s*(?:(?:bearer|basic|token)\s+)?){_VALUE}", re.IGNORECASE),
    re.compile(r"(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
)
_URL = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/:@]*:[^\s/]+@", re.IGNORECASE)
#: Names that hold a secret's place and not the secret.
_PLACE = re.compile(r".*_(?:FILE|DIR|PATH|URL|ID|NAME|ENV|CMD|COMMAND)", re.IGNORECASE)
#: A shorter value is found in words that are none.
_SHORTEST = 8
_known: set[str] = set()

_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_FLAG = re.compile(rf"--?[a-z0-9-]*{_WORD}(?![a-z])[a-z0-9-]*", re.IGNORECASE)
_ASSIGNED = re.compile(rf"\A(-{{0,2}}[a-z0-9_-]*{_WORD}(?![a-z])[a-z0-9_-]*=).+", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(rf"[a-z0-9_-]*{_WORD}(?![a-z])[a-z0-9_-]*", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret: GH_TOKEN, but not GH_TOKEN_FILE."""
    return bool(_NAME.fullmatch(name)) and not _PLACE.fullmatch(name)


def learn(environ: Mapping[str, str], *names: str) -> None:
    """From now on mask, in this process, the values of variables that hold secrets by their name, and of those named here."""
    values = (value for name, value in environ.items() if name in names or is_secret_name(name))
    _known.update(value for value in values if len(value) >= _SHORTEST)


def forget() -> None:
    """Know no secrets any more."""
    _known.clear()


def mask_certain(text: str) -> str:
    """Mask only what is a secret beyond doubt: an agent reads this text, and `token = x` may be what it is about."""
    text = _PRIVATE_KEY.sub(MASK, text)
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, MASK)
    return _TOKENS.sub(MASK, text)


def mask(text: str) -> str:
    """The text with every secret in it replaced by `***`. Masking twice changes nothing more."""
    text = mask_certain(text)
    text = _URL.sub(rf"\1{MASK}@", text)
    for pattern in _NAMED:
        text = pattern.sub(rf"\1{MASK}", text)
    return text


def mask_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line with its secrets masked, also where the flag and its value are two arguments."""
    shown: list[str] = []
    for index, argument in enumerate(argv):
        follows_flag = index > 0 and _FLAG.fullmatch(argv[index - 1]) and not argument.startswith("-")
        shown.append(MASK if follows_flag else mask(_ASSIGNED.sub(rf"\1{MASK}", argument)))
    return tuple(shown)


def mask_value(value: object, name: str = "") -> object:
    """A JSON-like value with its secrets masked; whatever is under a name such as `api_key` is one."""
    if isinstance(value, str):
        return MASK if value and _NAME.fullmatch(name) else mask(value)
    if isinstance(value, Mapping):
        return {str(key): mask_value(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple) and all(isinstance(inner, str) for inner in value) and not _NAME.fullmatch(name):
        return list(mask_argv(value))
    if isinstance(value, list | tuple):
        return [mask_value(inner, name) for inner in value]
    return value
