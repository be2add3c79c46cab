"""Every link between pages leads somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import anchors, links, name_of, pages
from tests.support import ROOT


def broken(page: Path, text: str) -> list[str]:
    """The relative links of a page whose file or heading does not exist."""
    wrong = []
    for link in links(text):
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        there = target.exists() and target.is_relative_to(ROOT)
        if not there or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_resolve(page: Path) -> None:
    assert broken(page, page.read_text("utf-8")) == []


def test_every_page_can_be_reached() -> None:
    reached = {ROOT / "README.md"}
    queue = list(reached)
    while queue:
        page = queue.pop()
        for link in links(page.read_text("utf-8")):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                queue.append(target)
    assert set(pages()) - reached == set()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[a](docs/config.md)", []),
        ("[a](docs/none.md)", ["docs/none.md"]),
        ("[a](docs/config.md#which-file)", []),
        ("[a](docs/config.md#whose-file)", ["docs/config.md#whose-file"]),
        ("[a](#b-c)\n\n# `B`: c\n", ["#b-c"]),
        ("`[a](none.md)`", []),
        ("[`a`](none.md)", ["none.md"]),
    ],
)
def test_a_broken_link_is_seen(text: str, wrong: list[str]) -> None:
    assert broken(ROOT / "README.md", text) == wrong


def test_anchors_are_as_on_github() -> None:
    text = "# One `two`: three\n\n## A\n\n## A\n\n```sh\n# no heading\n```\n"
    assert anchors(text) == {"one-two-three", "a", "a-1"}
