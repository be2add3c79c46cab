"""YAML text -> a tree of nodes with their places, within bounds of time and memory.

The tree is made from the parser's events and not by PyYAML's composer: that recurses without a limit, and
aliases must be weighed before anybody walks through them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import yaml

MAX_DEPTH = 100
#: A playbook of 1,000 rules has some 60,000.
MAX_NODES = 100_000
#: How many nodes all aliases together may stand for.
MAX_ALIASED = 10_000
_TAG = "tag:yaml.org,2002:"

Mark = tuple[int, int]
Report = Callable[[Mark, str, str], None]


class Stop(Exception):
    """Going on makes no sense; the reason has been reported."""


@dataclass(slots=True, eq=False)
class Node:
    """A scalar (`text`, `plain`), a sequence (`items`) or a mapping (`pairs`).

    `weight` counts its nodes and `height` its levels, aliases expanded.
    """

    kind: str
    mark: Mark
    text: str = ""
    plain: bool = False
    items: list[Node] = field(default_factory=list)
    pairs: list[tuple[Node, Node]] = field(default_factory=list)
    weight: int = 1
    height: int = 1
    whole: bool = False
    pending: Node | None = None

    def add(self, child: Node) -> None:
        """Take the next child; a mapping takes keys and values in turn."""
        self.weight += child.weight
        self.height = max(self.height, child.height + 1)
        if self.kind == "seq":
            self.items.append(child)
        elif self.pending is None:
            self.pending = child
        else:
            self.pairs.append((self.pending, child))
            self.pending = None


def events(text: str) -> Iterator[yaml.Event]:
    """The parser's events, from libyaml where PyYAML has it."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return iter(yaml.parse(text, Loader=loader))


def compose(text: str, report: Report) -> Node | None:
    """The root node, or None for an empty document. Tells `report` of everything wrong; raises Stop when it must."""
    return _Composer(report).run(text)


def _mark(event: yaml.Event) -> Mark:
    at = event.start_mark
    return (at.line + 1, at.column + 1) if at else (1, 1)


class _Composer:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._anchors: dict[str, Node] = {}
        self._stack: list[Node] = []
        self._root: Node | None = None
        self._documents = 0
        self._aliased = 0
        self._nodes = 0

    def run(self, text: str) -> Node | None:
        for event in events(text):
            if isinstance(event, yaml.DocumentStartEvent):
                self._documents += 1
                if self._documents > 1:
                    self._stop(_mark(event), "a second document begins here", "keep one document in a file")
            elif isinstance(event, yaml.AliasEvent):
                self._place(self._alias(event))
            elif isinstance(event, yaml.NodeEvent):
                self._node(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end()
        return self._root

    def _node(self, event: yaml.NodeEvent) -> None:
        mark = _mark(event)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._stop(mark, f"holds more than {MAX_NODES:,} values")
        if isinstance(event, yaml.ScalarEvent):
            node = Node("str", mark, event.value, plain=not event.style and not event.tag)
            node.whole = True
        else:
            node = Node("map" if isinstance(event, yaml.MappingStartEvent) else "seq", mark)
            if len(self._stack) >= MAX_DEPTH:
                self._stop(mark, f"nested more than {MAX_DEPTH} levels deep")
        tag = getattr(event, "tag", None)
        if tag not in {None, "!", _TAG + node.kind}:
            self._report(mark, "a YAML tag has no meaning here", "remove the word that begins with !")
        if event.anchor:
            self._anchors[event.anchor] = node
        if node.whole:
            self._place(node)
        else:
            self._stack.append(node)

    def _end(self) -> None:
        node = self._stack.pop()
        node.whole = True
        self._place(node)

    def _place(self, node: Node) -> None:
        if self._stack:
            self._stack[-1].add(node)
        else:
            self._root = node

    def _alias(self, event: yaml.AliasEvent) -> Node:
        mark = _mark(event)
        target = self._anchors.get(event.anchor or "")
        if target is None:
            self._report(mark, "this alias has no anchor before it", "")
            return Node("str", mark, whole=True)
        if not target.whole:
            self._stop(mark, "this alias stands inside its own anchor: the value would contain itself")
        self._aliased += target.weight
        if self._aliased > MAX_ALIASED:
            self._stop(mark, f"the aliases up to here stand for more than {MAX_ALIASED:,} values")
        if len(self._stack) + target.height > MAX_DEPTH:
            self._stop(mark, f"with this alias, values are nested more than {MAX_DEPTH} levels deep")
        return target

    def _stop(self, mark: Mark, message: str, hint: str = "") -> None:
        self._report(mark, message, hint)
        raise Stop
