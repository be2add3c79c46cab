"""YAML text -> plain values, with the place of every key and value, and every problem at once."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import yaml

from loopctl.errors import DocumentError, Problem
from loopctl.model.rules import Position
from loopctl.playbook.nodes import Mark, Node, Stop, compose
from loopctl.playbook.scalars import Scalar, Surprise, resolve

#: A larger file is refused before it is parsed.
MAX_BYTES = 1 << 20
#: More problems than this help nobody.
MAX_PROBLEMS = 100

Path_ = tuple[str | int, ...]

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key and its value begin; an item of a list, and the whole, have no key of their own."""

    value: Mark
    key: Mark | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its values and, by path, their places."""

    source: str
    text: str
    value: object
    positions: Mapping[Path_, Place] = field(default_factory=dict)

    def mark(self, path: Sequence[str | int], *, key: bool = True) -> Mark:
        """Line and column of the key at this path (of the value with `key=False`), else of its nearest parent."""
        wanted = tuple(path)
        while wanted and wanted not in self.positions:
            wanted = wanted[:-1]
        place = self.positions.get(wanted)
        if place is None:
            return (1, 1) if self.text else (0, 0)
        return place.key if key and place.key else place.value

    def position(self, path: Sequence[str | int], *, key: bool = True) -> Position:
        """The same as a Position."""
        return Position(self.source, *self.mark(path, key=key))

    def problem(self, path: Sequence[str | int], message: str, hint: str = "", *, key: bool = True) -> Problem:
        """A problem with what stands at this path."""
        return problem_at(self.source, self.text, self.mark(path, key=key), message, hint)


def problem_at(source: str, text: str, mark: Mark, message: str, hint: str = "") -> Problem:
    """A problem at a line and column of a text."""
    lines = _lines(text)
    line = lines[mark[0] - 1] if 0 < mark[0] <= len(lines) else ""
    return Problem(source, *mark, message, hint, line)


@lru_cache(maxsize=1)
def _lines(text: str) -> Sequence[str]:
    """A text with many problems is split once."""
    return _BREAK.split(text)


def read_bytes(path: Path, source: str, limit: int = MAX_BYTES) -> bytes:
    """The content of a file. Raises DocumentError when it cannot be read or is larger than `limit` bytes."""
    try:
        # A pipe that nobody writes to would be waited for without end.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, _kind(file.fileno()))
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "not a path"
        raise DocumentError([Problem(source, 0, 0, f"cannot be read: {reason}")]) from error
    if len(data) > limit:
        raise DocumentError([Problem(source, 0, 0, f"is larger than {limit >> 10:,} KiB")])
    return data


def _kind(descriptor: int) -> str:
    return os.strerror(errno.EISDIR) if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "is no regular file"


def load_document(path: str | Path, *, source: str = "", times: bool = False) -> Document:
    """Read and parse a file; `source` is the name it gets in messages. Raises DocumentError with all problems.

    With `times`, an unquoted date or time is text and no problem.
    """
    name = source or str(path)
    return parse_bytes(read_bytes(Path(path), name), name, times=times)


def parse_bytes(data: bytes, source: str, *, times: bool = False) -> Document:
    """Parse what a file holds. Raises DocumentError with all problems."""
    return parse_text(decode(data, source), source, times=times)


def decode(data: bytes, source: str) -> str:
    """UTF-8 without a byte order mark. Raises DocumentError with the place of what is not."""
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        message = "begins with a byte order mark"
        raise DocumentError([Problem(source, 1, 1, message, "save the file as UTF-8 without one")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise DocumentError([problem_at(source, before, _end_of(before), "is not valid UTF-8 here")]) from None


def _end_of(text: str) -> Mark:
    lines = _BREAK.split(text)
    return (len(lines), len(lines[-1]) + 1)


def parse_text(text: str, source: str, *, times: bool = False) -> Document:
    """Parse YAML text. Raises DocumentError with all problems, and nothing else."""
    document, problems = inspect_text(text, source, times=times)
    if problems:
        raise DocumentError(problems)
    return document


def inspect_text(text: str, source: str, *, times: bool = False) -> tuple[Document, list[Problem]]:
    """As much of a document as can be read, and all that is wrong with it."""
    if len(text) > MAX_BYTES:
        return Document(source, "", None), [Problem(source, 0, 0, f"is larger than {MAX_BYTES >> 10:,} KiB")]
    found = _UNPRINTABLE.search(text)
    if found:
        name = "NUL character" if found[0] == "\0" else f"character U+{ord(found[0]):04X}"
        problem = problem_at(source, text, _end_of(text[: found.start()]), f"a {name} is not allowed")
        return Document(source, text, None), [problem]
    reader = _Reader(text, source, times=times)
    document = reader.read()
    return document, sorted(reader.problems, key=lambda p: (not p.line, p.line, p.column))


def positions_of(text: str) -> Mapping[Path_, Place]:
    """Only the places, of a text whose values were read by other means; empty when it is no YAML."""
    reader = _Reader(text, "", times=True)
    return reader.read().positions


class _Reader:
    """Makes values from nodes. Recursion is bounded by the depth of the nodes."""

    def __init__(self, text: str, source: str, *, times: bool) -> None:
        self.problems: list[Problem] = []
        self._text = text
        self._lines = _lines(text)
        self._source = source
        self._times = times
        self._positions: dict[Path_, Place] = {}
        self._told: set[tuple[Mark, str]] = set()

    def read(self) -> Document:
        value: object = None
        try:
            root = compose(self._text, self._report)
            if root is not None:
                value = self._value(root, (), None)
        except Stop:
            pass
        except yaml.YAMLError as error:
            self._syntax(error)
        return Document(self._source, self._text, value, self._positions)

    def _report(self, mark: Mark, message: str, hint: str = "") -> None:
        # What an alias repeats is wrong only once.
        if (mark, message) in self._told:
            return
        self._told.add((mark, message))
        if len(self.problems) >= MAX_PROBLEMS:
            self.problems.append(Problem(self._source, 0, 0, f"has more than {MAX_PROBLEMS} problems"))
            raise Stop
        line = self._lines[mark[0] - 1] if mark[0] <= len(self._lines) else ""
        self.problems.append(Problem(self._source, *mark, message, hint, line))

    def _syntax(self, error: yaml.YAMLError) -> None:
        at = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        mark = (at.line + 1, at.column + 1) if at else (1, 1)
        line = self._lines[mark[0] - 1] if mark[0] <= len(self._lines) else ""
        if "\t" in line[: len(line) - len(line.lstrip())]:
            tab = (mark[0], line.index("\t") + 1)
            self._report(tab, "a tab cannot indent YAML", "use spaces")
            return
        words = [getattr(error, name, None) for name in ("context", "problem")]
        self._report(mark, "is not valid YAML: " + (", ".join(word for word in words if word) or "cannot be parsed"))

    def _value(self, node: Node, path: Path_, key: Mark | None) -> object:
        self._positions[path] = Place(node.mark, key)
        if node.kind == "seq":
            return [self._value(item, (*path, index), None) for index, item in enumerate(node.items)]
        if node.kind == "map":
            return self._mapping(node, path)
        return self._scalar(node)

    def _scalar(self, node: Node) -> Scalar:
        if not node.plain:
            return node.text
        value = resolve(node.text)
        if not isinstance(value, Surprise):
            return value
        if not (self._times and value is Surprise.TIME):
            self._report(node.mark, f"this word is ambiguous: {value.value}", _remedy(value, node.text))
        return node.text

    def _mapping(self, node: Node, path: Path_) -> dict[str, object]:
        pairs = self._pairs(node)
        return {name: self._value(value, (*path, name), mark) for name, (mark, value) in pairs.items()}

    def _pairs(self, node: Node) -> dict[str, tuple[Mark, Node]]:
        """Keys with their values, merge keys resolved: own keys win, then the earlier of several sources."""
        pairs: dict[str, tuple[Mark, Node]] = {}
        merged: Node | None = None
        for key, value in node.pairs:
            name = self._key(key)
            first = pairs.get(name or "")
            if name is None:
                continue
            if first:
                self._report(key.mark, f"duplicate key {shown(name)}: it stands on line {first[0][0]} already")
                continue
            pairs[name] = (key.mark, value)
            if name == "<<" and key.plain:
                merged = value
        if merged is not None:
            del pairs["<<"]
            for source in merged.items if merged.kind == "seq" else [merged]:
                pairs = self._merge_source(source) | pairs
        return pairs

    def _merge_source(self, source: Node) -> dict[str, tuple[Mark, Node]]:
        if source.kind == "map":
            return self._pairs(source)
        self._report(source.mark, "a merge key (<<) takes a mapping or a list of mappings")
        return {}

    def _key(self, node: Node) -> str | None:
        hint = "a key is text: quote it"
        if node.kind != "str":
            self._report(node.mark, "a list or mapping cannot be a key", "quote it, if it is text")
            return None
        value = resolve(node.text) if node.plain else node.text
        if isinstance(value, str):
            return value
        reason = value.value if isinstance(value, Surprise) else "it is not text"
        self._report(node.mark, f"this key is ambiguous: {reason}", hint)
        return None


def _remedy(surprise: Surprise, word: str) -> str:
    if surprise is Surprise.NULL:
        return "quote it, or leave the key out"
    if surprise is Surprise.SWITCH:
        meant = "true" if word.lower() in {"y", "yes", "on", "true"} else "false"
        return f"quote it, or write {meant}"
    if surprise in {Surprise.OCTAL, Surprise.NUMBER}:
        return "quote it, or write a plain decimal number"
    return "quote it"


def shown(text: str) -> str:
    """A short text in quotes for a message; a long one cut."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
