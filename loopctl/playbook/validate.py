"""Any of our files -> what it is and everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path

from loopctl.errors import DocumentError, Problem
from loopctl.model.rules import Policy
from loopctl.playbook.compile import compile_document, conflicts_in
from loopctl.playbook.document import Document, decode, inspect_text, read_bytes
from loopctl.playbook.items import items_of
from loopctl.playbook.kinds import CONFIG, ITEMS, PLAN, PLAYBOOK, UNKNOWN, is_plan, kind_of_value
from loopctl.playbook.plans import MAX_PLAN_BYTES, plan_of
from loopctl.playbook.schema import validate


def validate_file(path: str) -> tuple[str, list[Problem]]:
    """What a file is (playbook, config, items, plan or unknown, by its content) and all its problems. Never raises."""
    kind = UNKNOWN
    try:
        data = read_bytes(Path(path), path, MAX_PLAN_BYTES)
        if is_plan(path, data):
            kind = PLAN
            plan_of(data, path)
            return kind, []
        text = decode(data, path)
        document, problems = inspect_text(text, path, times=True)
        kind = kind_of_value(document.value)
        if kind != ITEMS:
            # Only in an items file do times need no quotes.
            document, problems = inspect_text(text, path)
        return kind, problems or _check(kind, document)
    except DocumentError as error:
        return kind, list(error.problems)


def _check(kind: str, document: Document) -> list[Problem]:
    if kind == PLAYBOOK:
        return conflicts_in([document], compile_document(document, {}, Policy()))
    if kind == ITEMS:
        items_of(document)
        return []
    if kind == CONFIG:
        return validate(document, CONFIG)
    reason = "is empty" if document.value is None else "is neither a list nor a mapping"
    return [Problem(document.source, 0, 0, reason, "a playbook and an items file are lists, a config is a mapping")]
