"""Worktrees in plans and applies, on the fakes: `tests/git` shows the real ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopctl.errors import DocumentError
from loopctl.model.items import CLOSED, OPEN
from loopctl.model.plan import CHANGED, FAILED, STALE, Plan
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import (
    REMOVE,
    RETAIN,
    RUN,
    Ensure,
    ItemMatch,
    Limits,
    Match,
    Play,
    Playbook,
    Policy,
    Position,
    Rule,
    SessionMatch,
)
from loopctl.model.sessions import EXITED, GONE, RETAINED, RUNNING
from loopctl.model.workspaces import (
    KEPT_WORKSPACE,
    REMOVED,
    SHARED,
    WORKTREE,
    Workspace,
    is_branch,
    repository_name,
    safe_branch,
    worktree_path,
)
from loopctl.playbook.compile import load_playbook
from loopctl.testing import RAISE, Crash, FakeWorld, SimRecord

REF = "demo/app#1"
PATH = worktree_path("/workspaces", WorkItemRef.parse(REF, "items"))
WORK = Workspace(PATH, exists=True, ours=True, uncommitted=("a.py", "b.py"), unpushed=1)


def book(*ensures: Ensure, session: SessionMatch | None = None) -> Playbook:
    """One rule for each end state: of open items for `running`, of closed ones for all else."""
    rules = tuple(
        Rule(
            f"rule {n}",
            Position("p.yml", n),
            Match(ItemMatch(state=(OPEN if ensure.session == RUN else CLOSED,)), session or SessionMatch()),
            ensure,
        )
        for n, ensure in enumerate(ensures, 1)
    )
    return Playbook((Play("the play", Position("p.yml", 1), ("all",), rules, Limits(1000, 1.0)),))


RUNS = Ensure(session=RUN, workspace=WORKTREE)
ENDS = Ensure(session=RETAIN, workspace=REMOVED)


def ended(phase: str = RUNNING, tree: Workspace | None = None, **policy: object) -> tuple[FakeWorld, SimRecord]:
    """A closed item whose session is in this phase and has a worktree."""
    world = FakeWorld()
    world.policy = replace(world.policy, **policy)  # type: ignore[arg-type]
    world.item(REF, CLOSED)
    made = world.session(REF, phase, workspace=PATH, branch="loop/1", cwd=PATH)
    world.workspaces.trees[PATH] = tree or Workspace(PATH, exists=True, ours=True, branch="loop/1")
    return world, made


def shape(plan: Plan) -> list[tuple[str, str, str]]:
    return [(a.verb, a.before.phase, a.after.workspace) for a in plan.actions]


# --- starting ---------------------------------------------------------------------------------------------------------


def test_a_start_prepares_its_worktree_before_its_pane_and_remembers_it() -> None:
    world = FakeWorld()
    world.item(REF, labels=["loop"])
    plan = world.plan(book(RUNS))
    (action,) = plan.actions
    assert (action.after.workspace, action.after.cwd, action.after.branch) == (WORKTREE, PATH, "loop/1")
    assert [r.status for r in world.apply(plan).results] == [CHANGED]
    assert [e.what for e in world.machine.effects] == ["workspace", "record", "start", "record"]
    (record,) = world.registry.records.values()
    assert (record.workspace, record.cwd, record.branch) == (PATH, PATH, "loop/1")
    assert world.plan(book(RUNS)).actions == ()
    assert [e["path"] for e in world.journal.of("workspace.prepared")] == [PATH]


def test_a_worktree_that_cannot_be_made_fails_that_start_alone_and_leaves_no_record() -> None:
    world = FakeWorld()
    world.item(REF, labels=["loop"])
    world.item("demo/app#2", labels=["loop", "plain"])
    world.workspaces.broken = "no clone of x: no route to host"
    rules = book(RUNS)
    plain = replace(rules.plays[0].rules[0], match=Match(ItemMatch(labels=("plain",))), ensure=Ensure(session=RUN))
    first = replace(rules.plays[0].rules[0], match=Match(ItemMatch(number=(1,))))
    both = Playbook((replace(rules.plays[0], rules=(first, plain)),))
    results = world.apply(world.plan(both)).results
    assert [(r.status, r.action.ref.number) for r in results] == [(FAILED, 1), (CHANGED, 2)]
    assert "no route to host" in results[0].detail
    assert [record.ref.number for record in world.registry.records.values()] == [2]


def test_without_a_root_it_is_held_and_says_which_key_is_missing() -> None:
    world = FakeWorld()
    world.policy = replace(world.policy, workspace_root="")
    world.item(REF, labels=["loop"])
    plan = world.plan(book(RUNS))
    assert plan.actions == ()
    assert "routing.workspace.root" in plan.held[0].reason


def test_the_branch_is_a_template_and_made_harmless(tmp_path_factory: pytest.TempPathFactory) -> None:
    text = """
- rules:
    - match: {item: {state: open}}
      ensure: {session: running, workspace: worktree, branch: "fix/{{ item.title }}"}
"""
    path = tmp_path_factory.mktemp("books") / "book.yml"
    path.write_text(text)
    rules = load_playbook([str(path)], extra_vars={}, tags=frozenset(), policy=Policy())
    world = FakeWorld()
    world.item(REF, labels=["loop"], title="-f; $(rm -rf /) @{-1}..x.lock")
    (action,) = world.plan(rules).actions
    assert is_branch(action.after.branch)
    assert action.after.branch.startswith("fix/f-")


def test_an_item_that_is_opened_again_gets_its_worktree_as_it_was_left() -> None:
    world, made = ended()
    rules = book(RUNS, ENDS)
    world.workspaces.trees[PATH] = WORK
    world.apply(world.plan(rules))
    assert world.phase(made) == RETAINED
    world.item(REF, labels=["loop"])
    (action,) = world.plan(rules).actions
    assert (action.verb, action.after.cwd) == ("start", PATH)
    assert [r.status for r in world.apply(world.plan(rules)).results] == [CHANGED]
    assert world.workspaces.trees[PATH] == WORK
    # The old session's end has no say in the worktree that the new one works in.
    reaping = book(Ensure(session=REMOVE, workspace=REMOVED, force=True), session=SessionMatch(phase=(RETAINED,)))
    world.item(REF, CLOSED)
    plan = world.plan(reaping)
    assert shape(plan) == [("reap", RETAINED, "")]
    world.apply(plan)
    assert world.workspaces.trees[PATH] == WORK


def test_a_vanished_worktree_is_made_anew() -> None:
    world, _ = ended(GONE)
    del world.workspaces.trees[PATH]
    world.item(REF, labels=["loop"])
    assert [r.status for r in world.apply(world.plan(book(RUNS))).results] == [CHANGED]
    assert world.workspaces.trees[PATH].exists


def test_an_agent_that_goes_on_with_its_conversation_does_so_where_it_was() -> None:
    world = FakeWorld()
    world.item(REF, labels=["loop"])
    world.session(REF, EXITED, workspace=PATH, branch="loop/1", cwd=PATH, harness_session_id="abc")
    (action,) = world.plan(book(Ensure(session=RUN))).actions
    assert (action.verb, action.after.cwd, action.after.workspace, action.after.branch) == (
        "resume",
        PATH,
        WORKTREE,
        "loop/1",
    )
    assert [r.status for r in world.apply(world.plan(book(Ensure(session=RUN)))).results] == [CHANGED]
    assert [r.workspace for r in world.registry.all()] == [PATH, PATH]


# --- ending -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("session", [RETAIN, REMOVE])
def test_a_clean_worktree_goes_after_the_session_was_recorded_as_closed(session: str) -> None:
    world, made = ended()
    rules = book(Ensure(session=session, workspace=REMOVED))
    plan = world.plan(rules)
    assert shape(plan) == [("close", RUNNING, REMOVED)]
    assert plan.actions[0].before.workspace == PATH
    (result,) = world.apply(plan).results
    assert (result.status, "worktree removed" in result.detail) == (CHANGED, True)
    effects = [(e.what, e.detail) for e in world.machine.effects]
    assert effects.index(("record", "closed")) < effects.index(("workspace", "remove"))
    assert world.record(made).workspace == ""
    assert (world.workspaces.trees, world.plan(rules).actions, world.plan(rules).notes) == ({}, (), ())


def test_without_a_word_it_stays_unless_the_config_says_otherwise() -> None:
    for keep in (True, False):
        world, _ = ended(keep_checkout_on_close=keep)
        rules = book(Ensure(session=RETAIN))
        world.apply(world.plan(rules))
        assert list(world.workspaces.trees) == ([PATH] if keep else [])
        assert world.plan(rules).actions == ()
    world, _ = ended(keep_checkout_on_close=False)
    world.apply(world.plan(book(Ensure(session=RETAIN, workspace=KEPT_WORKSPACE))))
    assert list(world.workspaces.trees) == [PATH]


@pytest.mark.parametrize("phase", [RUNNING, EXITED, RETAINED, GONE])
def test_work_stays_the_session_ends_and_the_plan_says_what_there_is(phase: str) -> None:
    world, made = ended(phase, WORK)
    plan = world.plan(book(ENDS))
    assert shape(plan) == ([] if phase in {RETAINED, GONE} else [("close", phase, KEPT_WORKSPACE)])
    (note,) = plan.notes
    for word in (PATH, "2 uncommitted files (a.py, b.py)", "1 unpushed commit", "force: true"):
        assert word in note
    for result in world.apply(plan).results:
        assert (result.status, "1 unpushed commit" in result.detail) == (CHANGED, True)
    assert world.phase(made) in {RETAINED, GONE}
    assert world.workspaces.trees[PATH] == WORK
    again = world.plan(book(ENDS))
    assert (again.actions, again.unchanged) == ((), 1)
    assert again.notes == plan.notes


@pytest.mark.parametrize("phase", [RUNNING, RETAINED, GONE])
def test_forced_its_work_is_saved_and_the_result_says_where(phase: str) -> None:
    world, made = ended(phase, WORK)
    rules = book(replace(ENDS, force=True))
    plan = world.plan(rules)
    assert shape(plan) == [("close" if phase == RUNNING else "reap", phase, REMOVED)]
    assert (plan.actions[0].after.force, plan.actions[0].before.work) == (True, WORK.work)
    (result,) = world.apply(plan).results
    assert (result.status, f"/saved{PATH}" in result.detail) == (CHANGED, True)
    assert world.workspaces.trees == {}
    assert world.record(made).workspace == ""
    assert [e["saved"] for e in world.journal.of("workspace.cleaned")] == [f"/saved{PATH}"]
    assert world.plan(rules).actions == ()


@pytest.mark.parametrize("phase", [RETAINED, GONE])
def test_the_worktree_of_a_session_that_ended_before_goes_and_nothing_else_is_touched(phase: str) -> None:
    world, made = ended(phase)
    plan = world.plan(book(ENDS))
    assert shape(plan) == [("reap", phase, REMOVED)]
    assert plan.actions[0].after.phase == phase
    assert [r.status for r in world.apply(plan).results] == [CHANGED]
    assert [(e.what, e.detail) for e in world.machine.effects] == [("workspace", "remove"), ("record", "closed")]
    assert world.phase(made) == phase


@pytest.mark.parametrize("phase", [RUNNING, RETAINED, GONE])
def test_a_vanished_worktree_is_a_fact_and_asks_for_nothing(phase: str) -> None:
    world, made = ended(phase)
    del world.workspaces.trees[PATH]
    plan = world.plan(book(ENDS))
    assert shape(plan) == ([("close", RUNNING, "")] if phase == RUNNING else [])
    assert plan.notes == ()
    world.apply(plan)
    assert world.record(made).workspace == PATH
    # Nobody is asked about an item for the sake of it.
    before = len(world.provider.asked())
    assert world.plan(book(ENDS)).actions == ()
    assert len(world.provider.asked()) == before


def test_one_that_vanishes_between_plan_and_apply_is_no_failure() -> None:
    world, _ = ended()
    plan = world.plan(book(ENDS))
    world.workspaces.trees.clear()
    assert [r.status for r in world.apply(plan).results] == [CHANGED]


@pytest.mark.parametrize(("phase", "status"), [(RUNNING, CHANGED), (RETAINED, STALE)])
def test_work_that_came_after_the_plan_stays(phase: str, status: str) -> None:
    world, made = ended(phase)
    plan = world.plan(book(ENDS))
    world.workspaces.trees[PATH] = WORK
    (result,) = world.apply(plan).results
    assert (result.status, "worktree kept: it has 2 uncommitted" in result.detail) == (status, True)
    assert world.phase(made) == RETAINED
    assert world.workspaces.trees[PATH] == WORK
    assert world.record(made).workspace == PATH


def test_a_session_that_starts_between_plan_and_apply_keeps_the_worktree() -> None:
    world, _ = ended(RETAINED)
    plan = world.plan(book(replace(ENDS, force=True)))
    world.session(REF, RUNNING, workspace=PATH)
    (result,) = world.apply(plan).results
    assert (result.status, PATH in world.workspaces.trees) == (STALE, True)


def test_what_cannot_be_told_keeps_no_session_from_its_end_and_no_worktree_goes() -> None:
    world, made = ended()
    world.faults.fail("workspaces", "look", reason="git took too long", nth=0)
    plan = world.plan(book(replace(ENDS, force=True)))
    assert shape(plan) == [("close", RUNNING, KEPT_WORKSPACE)]
    assert "git took too long" in plan.notes[0]
    world.apply(plan)
    assert (world.phase(made), PATH in world.workspaces.trees) == (RETAINED, True)
    plan = world.plan(book(replace(ENDS, force=True)))
    assert (plan.actions, [held.reason for held in plan.held]) == ((), ["git took too long"])


def test_what_is_not_ours_stays_and_is_named() -> None:
    world, _ = ended(tree=Workspace(PATH, exists=True, reason="it is a symbolic link"))
    plan = world.plan(book(replace(ENDS, force=True)))
    assert "it is a symbolic link" in plan.notes[0]
    assert [r.status for r in world.apply(plan).results] == [CHANGED]
    assert PATH in world.workspaces.trees


def test_an_agent_that_is_left_running_keeps_its_worktree() -> None:
    world, _ = ended()
    rules = book(replace(ENDS, kill_harness=False, force=True))
    plan = world.plan(rules)
    assert shape(plan) == [("close", RUNNING, KEPT_WORKSPACE)]
    assert "its agent runs on there" in plan.notes[0]
    world.apply(plan)
    assert PATH in world.workspaces.trees
    assert world.plan(rules).actions == ()


def test_a_close_that_fails_leaves_the_worktree() -> None:
    world, made = ended()
    plan = world.plan(book(replace(ENDS, force=True)))
    world.faults.fail("transcripts", "save", reason="disk full", nth=0, kind=RAISE)
    assert [r.status for r in world.apply(plan).results] == [FAILED]
    assert (world.record(made).status, PATH in world.workspaces.trees) == ("active", True)


def test_a_crash_anywhere_is_finished_by_the_next_run() -> None:
    """Killed before each call of a port in turn, with work that nobody said to take along in one of two worktrees."""
    calls = 0
    while True:
        world, made = ended()
        world.item("demo/app#2", CLOSED)
        other = worktree_path("/workspaces", WorkItemRef.parse("demo/app#2", "items"))
        world.session("demo/app#2", workspace=other)
        world.workspaces.trees[other] = replace(WORK, path=other)
        plan = world.plan(book(ENDS))
        world.faults.crash_at(calls := calls + 1)
        try:
            world.apply(plan)
        except Crash:
            world.faults.clear()
            world.apply(world.plan(book(ENDS)))
            assert list(world.workspaces.trees) == [other]
            assert world.plan(book(ENDS)).actions == ()
            continue
        break
    world.faults.clear()
    assert calls > 10
    assert world.phase(made) == RETAINED


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ensure", "problem"),
    [
        ("session: retained, workspace: worktree", "`workspace: worktree` needs `session: running`"),
        ("session: paused, workspace: shared", "`workspace: shared` needs `session: running`"),
        ("workspace: worktree", "`workspace: worktree` needs `session: running`"),
        ("session: running, workspace: removed", "`workspace: removed` needs a session that ends"),
        ("workspace: kept", "`workspace: kept` needs a session that ends"),
        ("session: running, force: true", "force needs `workspace: removed`"),
        ("session: gone, workspace: kept, force: true", "force needs `workspace: removed`"),
        ("session: running, branch: x", "branch needs `workspace: worktree`"),
        ("session: running, workspace: shared, branch: x", "branch needs `workspace: worktree`"),
        ("session: running, workspace: worktree, cwd: /x", "has no other cwd"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    tmp_path_factory: pytest.TempPathFactory, ensure: str, problem: str
) -> None:
    path = tmp_path_factory.mktemp("books") / "book.yml"
    path.write_text(f"- rules:\n    - match: {{item: {{number: 1}}}}\n      ensure: {{{ensure}}}\n")
    with pytest.raises(DocumentError) as caught:
        load_playbook([str(path)], extra_vars={}, tags=frozenset(), policy=Policy())
    (found,) = caught.value.problems
    assert problem in found.message
    assert found.line == 3


@pytest.mark.parametrize(
    "ensure",
    [
        "session: running, workspace: shared, cwd: /x",
        "session: running, workspace: worktree, branch: x",
        "session: closed, workspace: removed, force: true",
        "session: gone, force: true",
        "session: retained, workspace: kept",
    ],
)
def test_what_fits_together_is_taken(tmp_path_factory: pytest.TempPathFactory, ensure: str) -> None:
    path = tmp_path_factory.mktemp("books") / "book.yml"
    path.write_text(f"- rules:\n    - match: {{item: {{number: 1}}}}\n      ensure: {{{ensure}}}\n")
    load_playbook([str(path)], extra_vars={}, tags=frozenset(), policy=Policy())


def test_rules_that_want_a_folder_and_a_worktree_hold_the_item() -> None:
    world = FakeWorld()
    world.item(REF, labels=["loop"])
    template = lambda facts: "/srv"  # noqa: E731
    plan = world.plan(book(RUNS, Ensure(session=RUN, cwd=template)))  # type: ignore[arg-type]
    assert plan.actions == ()
    assert "cwd" in plan.held[0].reason


def test_shared_is_the_common_folder() -> None:
    world = FakeWorld()
    world.item(REF, labels=["loop"])
    (action,) = world.plan(book(Ensure(session=RUN, workspace=SHARED))).actions
    assert (action.after.cwd, action.after.branch) == ("/srv/work", "")


BRANCHES = st.text(st.sampled_from("ab./-@{~^:\\ \x00\nHEADlock_é"), max_size=12) | st.text(max_size=300)


@given(BRANCHES, BRANCHES)
def test_a_branch_is_safe_and_two_texts_never_give_the_same(one: str, two: str) -> None:
    made = safe_branch(one)
    assert is_branch(made)
    assert len(made) <= 140
    assert not made.startswith(("-", ".", "/"))
    assert not made.endswith((".", "/", ".lock"))
    assert ".." not in made
    assert "//" not in made
    assert not any(part.startswith(".") or part.endswith(".lock") for part in made.split("/"))
    assert (made == safe_branch(two)) == (one == two)


def test_repositories_have_names_of_their_own() -> None:
    refs = [
        "github:a/b#1",
        "items:a/b#1",
        "github:a-b/c#1",
        "github:a/b-c#1",
        "github:a.b/c#1",
        "github:ghe.corp/a/b#1",
    ]
    names = {repository_name(WorkItemRef.parse(ref)) for ref in refs}
    assert len(names) == len(refs)
    assert (
        repository_name(WorkItemRef.parse("github:A/B#7"))
        == repository_name(WorkItemRef.parse("github:a/b#1"))
        == "a-b"
    )
    assert all(name == name.lower() and "/" not in name and "." not in name for name in names)
