"""The documentation's pages: their code blocks, generated regions, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

_FENCE = re.compile(
    r"(?P<comment><!--(?P<note>[^>]*)-->\n)?^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^ *```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_REGION = re.compile(
    r"(?P<head><!-- generated: (?P<name>[a-z0-9-]+) -->\n)(?P<text>.*?)(?P<tail><!-- end -->)", re.DOTALL
)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(?P<title>.+?) *#*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fence:
    """One code block. `note` is the comment right before it, `start` and `end` the place of its text in the page."""

    language: str
    text: str
    note: str
    line: int
    start: int
    end: int


def pages() -> list[Path]:
    """Every page that people read."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(text: str) -> Iterator[Fence]:
    for match in _FENCE.finditer(text):
        indent = match["indent"]
        lines = (line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
        yield Fence(
            match["language"].strip(),
            "".join(lines),
            (match["note"] or "").strip(),
            text.count("\n", 0, match.start("text")) + 1,
            match.start("text"),
            match.end("text"),
        )


def prose(text: str) -> str:
    """The page without its code blocks."""
    return _FENCE.sub("", text)


def regions(text: str) -> list[str]:
    """The names of the generated parts of a page."""
    return [match["name"] for match in _REGION.finditer(text)]


def with_regions(text: str, content: Mapping[str, str]) -> str:
    """The page with each generated part replaced. KeyError for a part that nobody generates."""
    return _REGION.sub(lambda m: f"{m['head']}\n{content[m['name']].strip()}\n\n{m['tail']}", text)


def links(text: str) -> Iterator[str]:
    """The targets of all links outside code."""
    for match in _LINK.finditer(re.sub(r"`[^`\n]*`", lambda m: "x" * len(m[0]), prose(text))):
        yield match["target"]


def anchors(text: str) -> set[str]:
    """What `#...` may name on a page, as GitHub makes it from the headings."""
    found: dict[str, int] = {}
    names = set()
    for match in _HEADING.finditer(prose(text)):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match["title"]).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        count = found[slug] = found.get(slug, -1) + 1
        names.add(f"{slug}-{count}" if count else slug)
    return names
