"""What a harness says of itself, in planning, starting and ending."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from loopctl.cli.wiring import build_world
from loopctl.config import load_config
from loopctl.model.plan import FAILED
from loopctl.playbook.texts import texts
from loopctl.testing import STUBBORN, FakeWorld, Habit
from tests.unit.playbooks import ending, running


def world(habit: Habit | None = None) -> FakeWorld:
    made = FakeWorld()
    made.item("demo/app#1", "closed")
    made.session("demo/app#1", habit=habit or Habit())
    return made


def signals(made: FakeWorld) -> list[str]:
    return [effect.detail for effect in made.machine.effects if effect.what == "signal"]


def test_a_program_that_does_not_answer_is_said_and_leaves_nothing() -> None:
    made = FakeWorld()
    made.item("demo/app#1", labels=("loop",))
    made.harnesses["claude"].broken = "harness claude: `claude --version` failed with 127"
    (result,) = made.apply(made.plan(running())).results
    assert (result.status, result.detail) == (FAILED, "harness claude: `claude --version` failed with 127")
    assert (made.registry.records, made.servers.all) == ({}, [])


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_agent_is_asked_to_end_in_its_own_way(signum: signal.Signals) -> None:
    made = world()
    made.harnesses["claude"].stop_signal = signum
    made.apply(made.plan(ending()))
    assert signals(made) == [signum.name]


def test_an_agent_that_does_not_heed_its_own_signal_gets_the_others() -> None:
    made = world(STUBBORN)
    made.harnesses["claude"].stop_signal = signal.SIGINT
    made.apply(made.plan(ending()))
    assert signals(made) == ["SIGINT", "SIGTERM", "SIGKILL"]


def test_an_agent_of_a_harness_that_is_not_known_any_more_is_ended_too() -> None:
    made = world()
    made.harnesses.clear()
    made.apply(made.plan(ending()))
    assert signals(made) == ["SIGTERM"]


@pytest.mark.parametrize(("rule", "harness", "grace"), [(1.0, 20.0, 1.0), (0.0, 20.0, 0.0), (None, 20.0, 20.0), (None, None, 5.0)])  # fmt: skip
def test_whose_grace_counts(rule: float | None, harness: float | None, grace: float) -> None:
    made = world()
    made.policy = replace(made.policy, harness_grace={} if harness is None else {"claude": harness, "codex": 99.0})
    (action,) = made.plan(ending(grace=rule)).actions
    assert action.after.grace == grace


@pytest.mark.parametrize(("prompted", "said"), [({"claude"}, True), ({"codex"}, False)])
def test_the_first_prompt_is_given_where_it_has_a_place(prompted: set[str], said: bool) -> None:
    made = FakeWorld()
    made.policy = replace(made.policy, templates=texts({}), prompted=frozenset(prompted))
    made.item("demo/app#1", title="Fix ``` it", labels=("loop",))
    (action,) = made.plan(running()).actions
    assert ("items:demo/app#1" in action.after.prompt, bool(action.after.prompt)) == (said, said)


@pytest.mark.parametrize(("prompted", "notes"), [({"claude"}, 0), ({"codex"}, 1)])
def test_a_prompt_without_a_place_is_said(prompted: set[str], notes: int) -> None:
    made = FakeWorld()
    made.policy = replace(made.policy, prompted=frozenset(prompted))
    made.item("demo/app#1", labels=("loop",))
    made.item("demo/app#2")
    made.session("demo/app#2")
    plan = made.plan(running(prompt=lambda _: "hello"))
    assert len(plan.actions) == 1
    assert list(plan.notes) == ["items:demo/app#1: claude is not told its prompt: its argv has no {prompt}"] * notes


@pytest.mark.parametrize(("folder", "reason"), [("here", "no absolute path"), ("/a\udcff", "UTF-8 only")])
@pytest.mark.parametrize("workspace", [None, "worktree"])
def test_a_folder_that_cannot_be_one_holds_its_item(folder: str, reason: str, workspace: str | None) -> None:
    made = FakeWorld()
    made.policy = replace(made.policy, workspace_root=folder, spawn_workdir=folder)
    made.item("demo/app#1", labels=("loop",))
    (held,) = made.plan(running(workspace=workspace)).held
    assert reason in held.reason


def test_what_a_plan_is_told_of_the_harnesses(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("c")
    path = folder / "c.yaml"
    path.write_text(
        "tmux: {socket: /t}\n"
        "harnesses:\n"
        "  own: {argv: [agent, '{prompt}'], resumeArgv: [agent, -r, '{session_id}'], graceSeconds: 9}\n"
        "  bare: {argv: [agent]}\n"
    )
    config = load_config(str(path), {"HOME": str(folder)}, folder)
    policy = build_world(config, "test", {}, print, lambda: False).policy  # type: ignore[arg-type]
    assert policy.resumable == {"claude", "codex", "gemini", "own"}
    assert policy.prompted == {"claude", "codex", "gemini", "own"}
    assert policy.harness_grace == {"own": 9.0}
    assert set(policy.templates) == {"start", "delivery", "comment_running", "comment_ended"}
