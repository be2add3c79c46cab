"""Every playbook, config and items file that the documentation shows is valid, and the packaged playbooks are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.structure.documents import Block, blocks, documented


@pytest.mark.parametrize("block", documented(), ids=lambda block: block.where)
def test_it_is_valid(block: Block, tmp_path: Path) -> None:
    from loopctl.playbook.validate import validate_file

    path = tmp_path / f"{block.kind}.yml"
    path.write_text(block.text, "utf-8")
    kind, problems = validate_file(path)
    assert (kind, list(problems)) == (block.kind, [])


def test_there_is_something_to_check() -> None:
    assert "playbook" in {block.kind for block in documented()}


def test_blocks_are_found_where_they_stand() -> None:
    page = "# T\n\n```yaml\n- hosts: all\n```\n\n- x\n\n  ```yml\n  - ref: a/b#1\n  ```\n"
    assert list(blocks("p", page)) == [Block("p:4", "- hosts: all\n"), Block("p:10", "- ref: a/b#1\n")]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("- hosts: all", "playbook"),
        ("- {name: x, rules: []}", "playbook"),
        ("- ref: a/b#1", "items"),
        ("routing: {}", "config"),
        ("on: push", ""),
        ("match: {item: {}}", ""),
        ("a: [", "broken"),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    assert Block("p", text).kind == kind


def test_a_block_is_left_out_for_a_reason_only() -> None:
    fence = "```yaml\n- hosts: all\n```\n"
    assert not list(blocks("p", "<!-- not checked: it shows an error -->\n" + fence))
    assert list(blocks("p", "<!-- not checked: -->\n" + fence))
    assert next(iter(blocks("p", "<!-- not checked: only the next one -->\n" + fence + "\n" + fence))).where == "p:7"
