"""A deliberate mistake: what it changes, and which tests must see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """`old` stands exactly once in `file` and becomes `new`; at least one of `tests` (files, or ids of tests) must fail then.

    `why` says what goes wrong in the world when nobody notices.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str

    def text(self, root: Path) -> str:
        """The file with the mistake in it. Raises ValueError when `old` is not there exactly once."""
        text = (root / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: what it changes stands {count} times in {self.file}")
        return text.replace(self.old, self.new)
