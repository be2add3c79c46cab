"""Everything that reads what others wrote: real inputs of it, and what is done with a hostile variant of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Reads hostile bytes, in a folder that it has to itself. True when they were accepted, False when they were refused; raises
#: AssertionError, or whatever the product let out.
Attack = Callable[[bytes, Path], bool]


@dataclass(frozen=True)
class Target:
    """`seeds` makes the real inputs, once; `tree` says that they are YAML or JSON documents, `ours` that they are accepted."""

    name: str
    seeds: Callable[[], Sequence[bytes]]
    attack: Attack
    tree: bool = False
    ours: bool = True
