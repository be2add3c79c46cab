"""An items file -> work items."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loopctl.errors import DocumentError, Problem
from loopctl.model.items import ISSUE, MERGED, PULL_REQUEST, WorkItem
from loopctl.model.refs import WorkItemRef
from loopctl.playbook.document import Document, Path_, load_document
from loopctl.playbook.schema import validate

#: The provider of items that come from a file.
PROVIDER = "items"


def load_items(path: str | Path) -> tuple[WorkItem, ...]:
    """Read an items file. Raises DocumentError with all its problems."""
    return items_of(load_document(path, times=True))


def items_of(document: Document) -> tuple[WorkItem, ...]:
    """The items of a document that was parsed with `times=True`. Raises DocumentError with all its problems."""
    if document.value is None:
        raise DocumentError([Problem(document.source, 0, 0, "is empty", "write [] for a list without items")])
    problems = validate(document, "items")
    reader = _Reader(document)
    if not problems and isinstance(document.value, list):
        items = tuple(reader.item((index,), value) for index, value in enumerate(document.value))
        problems = reader.problems
    if problems:
        raise DocumentError(problems)
    return items


class _Reader:
    def __init__(self, document: Document) -> None:
        self.problems: list[Problem] = []
        self._document = document
        self._seen: dict[WorkItemRef, int] = {}

    def item(self, path: Path_, value: Mapping[str, Any]) -> WorkItem:
        ref = self._ref((*path, "ref"), value["ref"], only=True)
        if ref in self._seen:
            self._wrong((*path, "ref"), f"duplicate item: it stands on line {self._seen[ref]} already")
        self._seen.setdefault(ref, self._document.mark((*path, "ref"))[0])
        kind = value.get("kind", PULL_REQUEST if value["state"] == MERGED else ISSUE)
        if kind == ISSUE and value["state"] == MERGED:
            self._wrong((*path, "state"), "an issue cannot be merged")
        links = value.get("links", [])
        return WorkItem(
            ref,
            kind,
            value["state"],
            reason=value.get("reason", ""),
            labels=frozenset(value.get("labels", ())),
            title=value.get("title", ""),
            author=value.get("author", ""),
            assignees=frozenset(value.get("assignees", ())),
            milestone=value.get("milestone", ""),
            url=value.get("url", ""),
            updated_at=self._time((*path, "updated_at"), value.get("updated_at")),
            closed_at=self._time((*path, "closed_at"), value.get("closed_at")),
            links=tuple(self._ref((*path, "links", index), link) for index, link in enumerate(links)),
        )

    def _ref(self, path: Path_, text: str, *, only: bool = False) -> WorkItemRef:
        try:
            ref = WorkItemRef.parse(text, PROVIDER)
        except ValueError as error:
            self._wrong(path, str(error))
            return WorkItemRef(PROVIDER, "", "", "", 0)
        if only and (ref.provider != PROVIDER or ref.host):
            self._wrong(path, "an item of a file has the form owner/repo#number")
        return ref

    def _time(self, path: Path_, text: str | None) -> datetime | None:
        if text is None:
            return None
        try:
            when = datetime.fromisoformat(text)
            return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            self._wrong(path, f"{path[-1]} is no time that exists")
            return None

    def _wrong(self, path: Path_, message: str) -> None:
        self.problems.append(self._document.problem(path, message))
