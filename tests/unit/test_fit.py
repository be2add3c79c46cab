"""What `plan` says where playbook, config and machine do not fit together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loopctl.cli.fit import check_harnesses
from loopctl.cli.output import Progress
from loopctl.cli.plan import Request, make_plan
from loopctl.cli.wiring import Setup, Stop
from loopctl.config import Source, load_config
from loopctl.errors import DocumentError
from loopctl.model.plan import Plan
from loopctl.model.rules import Playbook
from loopctl.testing import FakeWorld
from tests.unit.playbooks import ending, running

OPEN = "[{rules: [{match: {item: {state: open}}, ensure: {session: running}}]}]"
CLOSED = "[{rules: [{match: {item: {state: closed}}, ensure: {session: retained}}]}]"


def planned(folder: Path, text: str, world: FakeWorld) -> Plan:
    """What the command plans with one source, an items file that is not there."""
    (folder / "book.yml").write_text(text)
    config = load_config(None, {"HOME": str(folder)}, folder)
    config = replace(config, sources=(Source("items", items=str(folder / "items.yaml")),))
    return make_plan(Setup(config, world.world, Progress(), Stop()), Request((str(folder / "book.yml"),)))


@pytest.mark.parametrize(
    ("playbook", "default", "wrong"),
    [
        (running(harness="claud"), "claude", "no harness is called 'claud'"),
        (ending(harness="claud"), "claude", "no harness is called 'claud'"),
        (running(), "claud", "routing.defaultHarness: no harness is called 'claud'"),
        (running(harness="codex"), "claud", ""),
        (ending(), "claud", ""),
    ],
)
def test_an_agent_program_that_nobody_knows(playbook: Playbook, default: str, wrong: str) -> None:
    world = FakeWorld()
    world.policy = replace(world.policy, default_harness=default)
    if not wrong:
        check_harnesses(playbook, world.world, "c.yaml")
        return
    with pytest.raises(DocumentError) as refused:
        check_harnesses(playbook, world.world, "c.yaml")
    (problem,) = refused.value.problems
    assert problem.message == wrong
    assert problem.where == ("c.yaml" if "routing" in wrong else "p.yml:9:0")
    assert "did you mean 'claude'? there are claude, codex" in problem.hint
    elsewhere = replace(playbook, plays=tuple(replace(play, hosts=("web*",)) for play in playbook.plays))
    check_harnesses(elsewhere, world.world, "c.yaml")


def test_a_plan_is_refused_for_it_before_anybody_is_asked(tmp_path: Path) -> None:
    world = FakeWorld()
    with pytest.raises(DocumentError, match="claud"):
        planned(tmp_path, OPEN.replace("running", "running, harness: claud"), world)
    assert world.provider.asked() == ()


def test_who_was_not_asked_did_not_say_that_there_is_nothing(tmp_path: Path) -> None:
    assert [note.partition(": ")[2] for note in planned(tmp_path, OPEN, FakeWorld()).notes] == [
        "no session is registered here, and no source lists an item"
    ]
    nothing, unread = planned(tmp_path, CLOSED, FakeWorld()).notes
    assert nothing.endswith("no source was asked")
    assert unread == f"no items can be read from {tmp_path}/items.yaml: cannot be read: No such file or directory"
    (tmp_path / "items.yaml").write_text("[{ref: a/b#1, state: opne}]")
    assert "line 1: state is 'opne'" in planned(tmp_path, CLOSED, FakeWorld()).notes[1]
    (tmp_path / "items.yaml").write_text("[]")
    assert planned(tmp_path, CLOSED, FakeWorld()).notes == (nothing,)


def test_a_start_without_tmux_is_said_in_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = FakeWorld()
    world.item("demo/app#1", labels=("loop",))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert planned(tmp_path, OPEN, world).notes == ("nothing can be started here: tmux was not found",)
    assert planned(tmp_path, CLOSED, FakeWorld()).notes
