"""Work items from a YAML file: the embedded default, for desks without a GitHub account, tests and CI."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from loopctl.errors import DocumentError
from loopctl.model.facts import OUTSIDE, REFUSED, Fact, Known, Unknown
from loopctl.model.items import ISSUE, MISSING, OPEN, WorkItem
from loopctl.model.observed import QUESTIONS_KEPT, Question
from loopctl.model.refs import WorkItemRef
from loopctl.model.talk import Comment
from loopctl.playbook.items import load_items

PROVIDER = "items"


class ItemsFile:
    """A `Provider` that reads its file afresh for each question, so that an edit is seen at once."""

    def __init__(self, path: str, label: str = "", *, load: Callable[[str], tuple[WorkItem, ...]] = load_items) -> None:
        """Answer from the file at `path`; `label` narrows the listing ("" lists all open items).

        `load` reads the file and raises DocumentError or OSError when it cannot.
        """
        self._path, self._label, self._load = path, label, load
        self._questions: deque[Question] = deque(maxlen=QUESTIONS_KEPT)
        self._last: tuple[object, Fact[tuple[WorkItem, ...]]] | None = None

    def owns(self, ref: WorkItemRef) -> bool:
        """Whether the item's repository is in the file.

        While the file cannot be read, every item of this kind: what may be its own is then held, not left out.
        """
        if ref.provider != PROVIDER:
            return False
        items = self._remembered()
        return isinstance(items, Unknown) or ref.repository.lower() in _repositories(items.value)

    def get(self, refs: Sequence[WorkItemRef]) -> Mapping[WorkItemRef, Fact[WorkItem]]:
        """An answer for every ref. An item that is not in the file is missing only beside others of its repository."""
        items = self._read()
        self._questions.append(Question(PROVIDER, f"items in {self._path}", 0, len(set(refs))))
        if isinstance(items, Unknown):
            return dict.fromkeys(refs, items)
        known = {item.ref: item for item in items.value}
        repositories = _repositories(items.value)
        return {ref: _delivered(_fact(ref, known, repositories), items.value) for ref in refs}

    def listed(self) -> Fact[tuple[WorkItem, ...]]:
        """The open items of the file with the label; Unknown when the file cannot be read."""
        items = self._read()
        if isinstance(items, Known):
            found_open = tuple(item for item in items.value if item.state == OPEN and self._labelled(item))
            items = Known(tuple(_with_open_links(item, items.value) for item in found_open))
        found = len(items.value) if isinstance(items, Known) else 0
        self._questions.append(Question(PROVIDER, f"open items in {self._path}", 0, found))
        return items

    def threads(self, refs: Sequence[WorkItemRef]) -> Mapping[WorkItemRef, Fact[tuple[Comment, ...]]]:
        """A file has no comments."""
        return {ref: Known(()) for ref in refs}

    def mute(self) -> str:
        """A file takes no comments."""
        return "work items in a file take no comments"

    def comment(self, ref: WorkItemRef, key: str, text: str) -> Fact[str]:
        """Refused."""
        return Unknown(self.mute(), REFUSED)

    def describe(self) -> str:
        """The file and the label."""
        return self._path + (f" (label {self._label})" if self._label else "")

    def asked(self) -> tuple[Question, ...]:
        """One entry for each `get` and each `listed`; reading a file makes no call."""
        return tuple(self._questions)

    def _labelled(self, item: WorkItem) -> bool:
        return not self._label or self._label.lower() in {label.lower() for label in item.labels}

    def _remembered(self) -> Fact[tuple[WorkItem, ...]]:
        """What was read last while the file looks the same: `owns` is asked for each of many items."""
        if self._last is None or self._last[0] != _looks(self._path):
            return self._read()
        return self._last[1]

    def _read(self) -> Fact[tuple[WorkItem, ...]]:
        looks = _looks(self._path)
        fact: Fact[tuple[WorkItem, ...]]
        try:
            fact = Known(self._load(self._path))
        except DocumentError as error:
            more = f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
            first = error.problems[0]
            line = f"line {first.line}: " if first.line else ""
            fact = Unknown(f"items file {Path(self._path).name}: {line}{first.message}{more}")
        except OSError as error:
            fact = Unknown(f"items file {Path(self._path).name}: {error.strerror or error}")
        self._last = (looks, fact)
        return fact


def _looks(path: str) -> object:
    try:
        stat = Path(path).stat()
    except OSError as error:
        return error.errno
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size


def _repositories(items: Sequence[WorkItem]) -> frozenset[str]:
    return frozenset(item.ref.repository.lower() for item in items)


def _fact(ref: WorkItemRef, known: Mapping[WorkItemRef, WorkItem], repositories: frozenset[str]) -> Fact[WorkItem]:
    if item := known.get(ref):
        return Known(item)
    if ref.provider == PROVIDER and ref.repository.lower() in repositories:
        return Known(WorkItem(ref, "", MISSING))
    return Unknown(f"no source answers for {ref}", OUTSIDE)


def _delivered(fact: Fact[WorkItem], items: Sequence[WorkItem]) -> Fact[WorkItem]:
    return Known(_with_open_links(fact.value, items)) if isinstance(fact, Known) else fact


def _with_open_links(item: WorkItem, items: Sequence[WorkItem]) -> WorkItem:
    """The item with the open pull requests that deliver it."""
    pulls = tuple(other.ref for other in items if other.state == OPEN and item.ref in other.links)
    return replace(item, open_links=pulls) if item.kind == ISSUE and pulls else item
