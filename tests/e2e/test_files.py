"""What a file on the command line is follows from its content, and is said in one line where it is the wrong one."""

from __future__ import annotations

import shutil

import pytest

from tests.e2e.kit import Box

pytestmark = pytest.mark.tmux


def test_a_saved_plan_is_one_whatever_its_name(box: Box) -> None:
    box.items({"demo/app#1": "open"})
    made = box.run("plan", "start.yml", "--out", "p.json", "-c", str(box.config))
    assert made.code == 0, made
    assert f"written to p.json: `loopctl apply p.json -c {box.config}` carries it out\n" in made.err
    shutil.copy(box.folder / "p.json", box.folder / "tonight")
    for name in ("p.json", "tonight"):
        plan = box.run("plan", name)
        assert plan.code == 65 and plan.err.count("\n") == 2, plan
        assert f"{name}: this is a saved plan" in plan.err and f"loopctl apply {name}" in plan.err
    done = box.run("apply", "tonight", "--format", "json")
    assert done.code == 0 and done.json["summary"]["changed"] == 1, done


def test_a_plan_that_was_edited_or_cut_off_is_no_playbook(box: Box) -> None:
    box.items({"demo/app#1": "open"})
    assert box.run("plan", "start.yml", "--out", "p.json").code == 0
    text = (box.folder / "p.json").read_text()
    (box.folder / "edited").write_text(text.replace('"why"', '"because"', 1))
    (box.folder / "cut.json").write_text(text[: len(text) // 2])
    (box.folder / "broken.json").write_text("{")
    for name in ("edited", "cut.json", "broken.json", "missing.json"):
        done = box.run("apply", name, "-y")
        assert done.code == 65, done
        assert "no such file, and no packaged playbook" not in done.err
    assert not box.records()


def test_a_playbook_may_be_written_as_json(box: Box) -> None:
    box.items({"demo/app#1": "open"})
    shutil.copy(box.folder / "start.yml", box.folder / "start.json")
    assert box.run("apply", "start.json", "--check").code == 0


def test_an_items_file_is_no_playbook(box: Box) -> None:
    book = box.playbook("items.yml", "- {ref: demo/app#1, state: closed, closed_at: 2026-09-01}\n")
    for command in ("plan", "apply"):
        done = box.run(command, book)
        assert done.code == 65 and done.err.count("\n") == 2, done
        assert "this is an items file, not a playbook" in done.err


@pytest.mark.parametrize("command", ["plan", "apply", "run", "validate"])
def test_an_empty_word_is_no_file(box: Box, command: str) -> None:
    done = box.run(command, "")
    assert done.code == 64 and "an empty word names no file" in done.err


def test_what_is_no_number_of_seconds_is_said_in_words(box: Box) -> None:
    for command in (["sessions", "close", "demo/app#1", "--grace"], ["run", "start.yml", "--interval"]):
        done = box.run(*command, "abc")
        assert done.code == 64 and "'abc' is no number of seconds" in done.err
