"""What is asked of everything that reads foreign input: an error of ours that says it in one readable line, or success."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import TypeVar

from loopctl.cli.output import error_text
from loopctl.errors import DocumentError, LoopctlError

T = TypeVar("T")

#: Longer than any sentence that a person would read.
_LONG = 1500


def civil(work: Callable[[], T]) -> T | None:
    """Do something with hostile input; its refusal is None and must be fit to be shown. Any other exception gets out."""
    try:
        return work()
    except LoopctlError as error:
        for message in [p.message for p in error.problems] if isinstance(error, DocumentError) else [error.message]:
            fit_to_show(message)
        shown_safely(error_text(error))
        return None


def fit_to_show(message: str) -> None:
    """One line of some length, no traceback."""
    assert message.strip(), "an error without words"
    assert "Traceback" not in message, message
    assert len(message.splitlines()) == 1, message
    assert len(message) < _LONG, message[:200]


def shown_safely(text: str) -> None:
    """Nothing in it steers a terminal or hides."""
    bad = [c for c in text if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co"}]
    assert not bad, (bad[:5], text[:200])
