"""The YAML that the documentation shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from tests.support import ROOT

_FENCE = re.compile(
    r"(?P<skip><!-- not checked: [^>]*\S[^>]* -->\s*\n)?^(?P<indent> *)```ya?ml[^\n]*\n(?P<text>.*?)^ *```\s*$",
    re.MULTILINE | re.DOTALL,
)
_CONFIG_KEYS = {"routing", "polling", "webhooks", "eventLog", "state", "tmux", "harnesses", "processes", "controller"}


@dataclass(frozen=True, slots=True)
class Block:
    where: str
    text: str

    @property
    def kind(self) -> str:
        """playbook, items, config, broken (no YAML at all), or "" for what is none of ours."""
        try:
            document = yaml.safe_load(self.text)
        except yaml.YAMLError:
            return "broken"
        if isinstance(document, dict):
            return "config" if _CONFIG_KEYS & document.keys() else ""
        first = document[0] if isinstance(document, list) and document else None
        if not isinstance(first, dict):
            return ""
        return "playbook" if "rules" in first or "hosts" in first else "items" if "ref" in first else ""


def blocks(where: str, text: str) -> Iterator[Block]:
    """The YAML blocks of one Markdown text, but those under a comment `not checked: REASON`."""
    for match in _FENCE.finditer(text):
        if not match["skip"]:
            indent = match["indent"]
            lines = (line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
            yield Block(f"{where}:{text.count(chr(10), 0, match.start('text')) + 1}", "".join(lines))


def documented() -> list[Block]:
    """All blocks of the documentation that are documents of ours, and all packaged playbooks."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "playbooks").rglob("*.md")]
    found = [b for page in sorted(pages) for b in blocks(str(page.relative_to(ROOT)), page.read_text("utf-8"))]
    files = sorted((ROOT / "playbooks").glob("*.yml"))
    return [block for block in found if block.kind] + [
        Block(str(path.relative_to(ROOT)), path.read_text("utf-8")) for path in files
    ]
