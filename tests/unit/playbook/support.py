"""Short forms for tests of documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from loopctl.errors import DocumentError, Problem
from loopctl.model.rules import Playbook, Policy
from loopctl.playbook.compile import load_playbook


def problems_of(work: Callable[[], object]) -> list[Problem]:
    with pytest.raises(DocumentError) as caught:
        work()
    return list(caught.value.problems)


def told(problems: list[Problem]) -> list[tuple[int, int, str]]:
    return [(p.line, p.column, p.message) for p in problems]


def compiled(
    folder: Path, text: str, *, extra: Mapping[str, object] | None = None, tags: str = "", policy: Policy | None = None
) -> Playbook:
    path = folder / "book.yml"
    path.write_text(text, encoding="utf-8")
    wanted = frozenset(tags.split(",")) if tags else frozenset()
    return load_playbook([str(path)], extra_vars=extra or {}, tags=wanted, policy=policy or Policy())
