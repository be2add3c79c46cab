"""README and tutorial: every command is run, in order, and prints what the page says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.docs.generate import EXECUTED, executed
from tests.docs.pages import Fence, fences, name_of, pages
from tests.docs.walkthrough import HOME, Ids, Step, normal, rewritten, steps_of, tidy
from tests.support import ROOT


@pytest.mark.tmux
@pytest.mark.gh
@pytest.mark.skipif(not shutil.which("tmux") or not shutil.which("gh"), reason="needs tmux and gh")
@pytest.mark.parametrize("page", EXECUTED, ids=name_of)
def test_the_page_shows_what_happens(page: Path) -> None:
    played = executed(page, page.read_text("utf-8"))
    steps = [step for _, found in played for step in found]
    assert steps
    for step in steps:
        assert normal(step.actual) == normal(step.expected), f"{name_of(page)}:{step.line}: $ {step.command}"


def test_workflows_are_valid_yaml() -> None:
    found = [
        yaml.safe_load(fence.text)
        for page in pages()
        for fence in fences(page.read_text("utf-8"))
        if fence.language == "yaml" and "jobs:" in fence.text
    ]
    assert found
    for workflow in found:
        # YAML 1.1 reads the key `on` as true.
        assert {"name", True, "jobs"} <= workflow.keys()
        for job in workflow["jobs"].values():
            assert job["runs-on"] and all({"run", "uses"} & step.keys() for step in job["steps"])


def test_steps_of_a_block() -> None:
    fence = Fence("console", "$ a\nb\nc\n$ d \\\n  e\n$ f\n", "", 10, 0, 0)
    assert [(s.command, s.line, s.expected) for s in steps_of(fence)] == [
        ("a", 10, "b\nc\n"),
        ("d \\\n  e", 13, ""),
        ("f", 15, ""),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("up 3s, 1 process", "up 2 min, 4 processes"),
        ("sh (4711), sleep (12)", "sh (99), sleep (100000)"),
        ("2026-01-01T00:00:00.123Z  x", "2027-01-01T00:00:00Z  x"),
        ("(status 0, Sun Nov 29 15:03:33 2026)", "(status 0, Mon Dec  1 15:03:33 2026)"),
        ("a   b", "a  b"),
    ],
)
def test_what_differs_from_run_to_run_is_the_same(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("running -> retained", "running -> gone"),
        ("Plan: 1 to close", "Plan: 2 to close"),
        ("closed (issue-closed)", "closed (pr-merged)"),
        ("pane %1", "pane %2"),
        ("5", "0"),
    ],
)
def test_what_matters_is_not(one: str, other: str) -> None:
    assert normal(one) != normal(other)


def test_each_id_has_a_name_of_its_own_in_every_run() -> None:
    runs = []
    for one, two in ("0a1b2c3d", "00000000"), ("11111111", "ffffffff"):
        texts = (
            f"is session {one}: a-{one}.txt\n",
            f"x  {one}  y b-{two}.txt\n",
            f"session={two}-8d34-4a6f-9c0b-2e7d1a3f5c68",
        )
        ids = Ids()
        runs.append([tidy(text, Path(HOME), ids) for text in texts])
    assert runs[0] == runs[1]
    first, second, third = runs[0]
    one, two = second.split()[1], second[-13:-5]
    assert one != two
    assert first == f"is session {one}: a-{one}.txt\n" and third.startswith(f"session={two}-")


def test_paths_are_the_readers() -> None:
    base = Path("/tmp/lc-12345678/home")
    shown = tidy(f"PHASE  SOCKET{' ' * 21}ATTACH\nx      {base}/tmux.sock  y\n", base)
    assert shown == f"PHASE  SOCKET{' ' * (21 - len(str(base)) + len(HOME))}ATTACH\nx      {HOME}/tmux.sock  y\n"


def test_only_what_differs_is_rewritten() -> None:
    page = "```console\n$ a\nup 3s\n```\n\n```console\n$ b\nold\n```\n"
    first, second = fences(page)
    same = [(first, [Step("a", 2, "up 3s\n", "up 9s\n")]), (second, [Step("b", 7, "old\n", "new\n")])]
    assert rewritten(page, same) == page.replace("old", "new")


def test_a_command_that_fell_over_is_not_recorded() -> None:
    page = "```console\n$ a\nx\n```\n"
    fence = next(fences(page))
    with pytest.raises(RuntimeError, match="line 2"):
        rewritten(page, [(fence, [Step("a", 2, "x\n", "Traceback (most recent call last):\n")])])


def test_the_pages_are_there() -> None:
    assert set(EXECUTED) <= set(pages()) and all(page.is_relative_to(ROOT) for page in EXECUTED)
