"""Every error that a user can meet, each with the exit code it ends in.

LoopctlError
├── UsageError        64  the command line is wrong
├── DocumentError     65  a playbook, config, items file or plan file is wrong
├── RefusedError       3  over its limits, a lock is held, or a file is in the way
├── StaleError         4  the world moved since the plan
└── StateError         1  the registry, the state folder or a program is unusable
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_CHANGES = 2
EXIT_REFUSED = 3
EXIT_STALE = 4
EXIT_INCOMPLETE = 5
EXIT_USAGE = 64
EXIT_DOCUMENT = 65


class LoopctlError(Exception):
    """Base of all errors that are shown without a traceback."""

    exit_code = EXIT_FAILED

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep the message and, where there is a remedy, the hint that names it."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LoopctlError):
    """The command line asks for something that does not exist or does not fit together."""

    exit_code = EXIT_USAGE


class RefusedError(LoopctlError):
    """Nothing was done: the plan is over its limits, another actor holds the lock, or a file is in the way."""

    exit_code = EXIT_REFUSED


class StaleError(LoopctlError):
    """Nothing was done: the plan does not belong to this world any more."""

    exit_code = EXIT_STALE


class StateError(LoopctlError):
    """The registry, the state folder or a program that loopctl needs is unusable."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in one document. Lines and columns count from 1; 0 means unknown."""

    source: str
    line: int
    column: int
    message: str
    hint: str = ""
    text: str = ""

    @property
    def where(self) -> str:
        """`file:line:column`, as editors and compilers print it."""
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


class DocumentError(LoopctlError):
    """A document is wrong; carries all its problems, not only the first."""

    exit_code = EXIT_DOCUMENT

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Take at least one problem."""
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{p.where}: {p.message}" for p in self.problems))
