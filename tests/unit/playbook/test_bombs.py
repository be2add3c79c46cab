"""Documents that are made to use up time or memory, or to confuse a reader: refused by each reader, quickly and in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from loopctl.adapters.the_loop import read_loop_folder
from loopctl.config import load_config
from loopctl.errors import LoopctlError
from loopctl.model.rules import Policy
from loopctl.playbook.compile import load_playbook
from loopctl.playbook.extra_vars import parse_extra_vars
from loopctl.playbook.items import load_items
from loopctl.playbook.plans import load_plan
from loopctl.playbook.validate import validate_file
from tests.fuzz.civil import fit_to_show

MEGABYTES = 10 << 20
LEVELS = "\n".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]" for n in range(9))

BOMBS: dict[str, bytes] = {
    "nine levels of aliases": f"a0: &a0 [x]\n{LEVELS}\n".encode(),
    "aliases of merge keys": b"a: &a {<<: [*b]}\nb: &b {x: 1}\n"
    + b"".join(b"c%d: {<<: *b}\n" % n for n in range(5_000)),
    "an alias of itself": b"a: &a [*a]\n",
    "a hundred thousand levels": b"[" * 100_000,
    "levels as JSON": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "levels by indentation": b"".join(b" " * n + b"a:\n" for n in range(1_000)),
    "ten megabytes of one word": b"a: " + b"x" * MEGABYTES,
    "two megabytes of items": b"[" + b"{}," * (MEGABYTES // 15) + b"{}]",
    "ten megabytes of nothing": b" " * MEGABYTES,
    "ten megabytes of NUL": b"\0" * MEGABYTES,
    "a NUL within": b"- name: a\0b\n",
    "no UTF-8": b"- name: \xff\xfe\n",
    "a surrogate": b"- name: \xed\xa0\x80\n",
    "UTF-16": "- name: a\n".encode("utf-16"),
    "a number of a million digits": b'{"a": ' + b"9" * 1_000_000 + b"}",
    "a key of many letters": b'{"' + b"k" * (1 << 16) + b'": 1}',
}


def plan(path: Path) -> object:
    return load_plan(str(path))


def config(path: Path) -> object:
    return load_config(str(path), {"HOME": str(path.parent)}, path.parent)


def playbook(path: Path) -> object:
    return load_playbook([str(path)], extra_vars={}, tags=frozenset(), policy=Policy())


def variables(path: Path) -> object:
    return parse_extra_vars([f"@{path}"])


# Any key of such a file is a variable's name.
FINE = {(variables, "a key of many letters")}
READERS: tuple[Callable[[Path], object], ...] = (playbook, config, load_items, plan, variables)


@pytest.mark.parametrize(
    ("reader", "bomb"), [(reader, bomb) for reader in READERS for bomb in BOMBS if (reader, bomb) not in FINE]
)
def test_a_bomb_is_refused_in_words(reader: Callable[[Path], object], bomb: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.json"
    path.write_bytes(BOMBS[bomb])
    with pytest.raises(LoopctlError) as caught:
        reader(path)
    for message in str(caught.value).splitlines():
        fit_to_show(message)
    _, problems = validate_file(str(path))
    assert problems


@pytest.mark.parametrize("bomb", list(BOMBS))
def test_a_bomb_among_the_records_of_the_loop_is_named_and_passed_over(bomb: str, tmp_path: Path) -> None:
    (tmp_path / "github-octo-app-15.json").write_bytes(BOMBS[bomb])
    good = {"workItem": {"ref": "github:octo/app#16"}, "harness": "claude", "harnessSessionId": "1", "cwd": "/srv"}
    (tmp_path / "github-octo-app-16.json").write_text(json.dumps(good))
    read = read_loop_folder(tmp_path)
    assert [str(record.ref) for record in read.records] == ["github:octo/app#16"]
    for problem in read.skipped:
        fit_to_show(problem.reason)
    assert len(read.skipped) + read.ignored == 1
