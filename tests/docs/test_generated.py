"""What the documentation says of keys, commands, exit codes and events is what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopctl import ports
from loopctl.cli.main import COMMANDS
from tests.docs import reference
from tests.docs.pages import name_of, pages, regions, with_regions
from tests.support import ROOT

STALE = "run: python -m tests.docs.generate"


@pytest.fixture(scope="module")
def content() -> dict[str, str]:
    return reference.content()


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_it_is_current(page: Path, content: dict[str, str]) -> None:
    text = page.read_text("utf-8")
    assert with_regions(text, content) == text, STALE


def test_each_part_is_on_a_page(content: dict[str, str]) -> None:
    shown = {name for page in pages() for name in regions(page.read_text("utf-8"))}
    assert set(content) - shown == set()


def test_the_architecture_names_every_port() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    found = [
        name for name, value in vars(ports).items() if getattr(value, "_is_protocol", False) and name != "Protocol"
    ]
    assert len(found) > 5
    assert [name for name in found if f"| `{name}` |" not in page] == []


def test_the_readme_names_every_command() -> None:
    status = (ROOT / "README.md").read_text("utf-8").partition("## Status")[2].partition("There is not yet")[0]
    assert [name for name in COMMANDS if f"`{name}`" not in status] == []


def test_a_change_is_seen() -> None:
    page = "a\n<!-- generated: events -->\n\nold\n\n<!-- end -->\nb\n"
    assert with_regions(page, {"events": "new\n"}) == "a\n<!-- generated: events -->\n\nnew\n\n<!-- end -->\nb\n"


def test_every_option_says_what_it_does() -> None:
    silent = [
        f"{' '.join(path)} {option.opts[0]}"
        for path, command, _ in reference.commands()
        for option in command.params
        if option.param_type_name == "option" and not getattr(option, "help", None)
    ]
    assert silent == []


def test_every_option_that_may_be_repeated_says_so() -> None:
    options = [(path, o) for path, command, _ in reference.commands() for o in command.params if o.opts[0][0] == "-"]
    wrong = [
        f"{' '.join(path)} {option.opts[0]}"
        for path, option in options
        if option.multiple != ("May be repeated." in str(getattr(option, "help", "")))
    ]
    assert wrong == []
