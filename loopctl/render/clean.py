"""Foreign text, made safe to show: no control characters, no secrets, no more than fits."""

from __future__ import annotations

import re

from loopctl.model.plain import plain
from loopctl.model.secrets import mask
from loopctl.model.text import cut

__all__ = ["clean", "cut", "encodable", "inert", "mask", "shown"]

_SPACES = re.compile(r"\s+")
_COMMAND = re.compile(r"(\A|[\r\n])(\s*):(?=:)")


def clean(text: str, width: int = 0) -> str:
    """One line of plain text: terminal sequences, control and invisible characters gone, white space collapsed.

    It is cut to `width`. `##[` is broken up: the GitHub Actions runner takes `##[name]` for a command anywhere in a line
    that is printed.
    """
    line = _SPACES.sub(" ", plain(text))
    return cut(line.replace("##[", "# #[").strip(), width)


def inert(text: str) -> str:
    """The text, all else as it is, with no command for the GitHub Actions runner in it: neither `##[name]` nor, at the beginning of a
    line, `::name::`."""
    return _COMMAND.sub(r"\1\2: ", text.replace("##[", "# #["))


def shown(text: str, width: int = 0) -> str:
    """`clean` and `mask`: cleaned first, since an invisible character could split a secret, and cut last."""
    return cut(mask(clean(text)), width)


def encodable(text: str, encoding: str | None) -> str:
    """The text with `?` for what a stream of this encoding cannot carry, so that a print never fails."""
    name = encoding or "ascii"
    return text.encode(name, "replace").decode(name)
