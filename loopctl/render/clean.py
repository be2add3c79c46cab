"""Foreign text, made safe to show: no control characters, no secrets, no more than fits."""

from __future__ import annotations

import re

from loopctl.model.plain import plain
from loopctl.model.secrets import mask
from loopctl.model.text import cut

__all__ = ["clean", "cut", "encodable", "mask", "shown"]

_SPACES = re.compile(r"\s+")


def clean(text: str, width: int = 0) -> str:
    """One line of plain text: terminal sequences, control and invisible characters gone, white space collapsed.

    It is cut to `width`. `##[` is broken up: the GitHub Actions runner takes `##[name]` for a command anywhere in a line
    that is printed.
    """
    line = _SPACES.sub(" ", plain(text))
    return cut(line.replace("##[", "# #[").strip(), width)


def shown(text: str, width: int = 0) -> str:
    """`clean` and `mask`: cleaned first, since an invisible character could split a secret, and cut last."""
    return cut(mask(clean(text)), width)


def encodable(text: str, encoding: str | None) -> str:
    """The text with `?` for what a stream of this encoding cannot carry, so that a print never fails."""
    name = encoding or "ascii"
    return text.encode(name, "replace").decode(name)
