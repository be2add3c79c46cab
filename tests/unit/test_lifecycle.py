"""Pausing, reaping and starting anew on the fakes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from loopctl.errors import StateError
from loopctl.executor.pause import pause, resume
from loopctl.executor.rebuild import restore, survey
from loopctl.model.items import CLOSED, MERGED, OPEN
from loopctl.model.plan import CHANGED, FAILED, OK, STALE, Plan
from loopctl.model.rules import (
    PAUSE,
    REMOVE,
    RETAIN,
    RUN,
    Ensure,
    ItemMatch,
    Limits,
    Match,
    Play,
    Playbook,
    Position,
    Rule,
    SessionMatch,
)
from loopctl.model.sessions import CLOSED_STATUS, EXITED, LOST, PAUSED, RETAINED, RUNNING
from loopctl.playbook.compile import load_playbook
from loopctl.testing import RAISE, Crash, FakeWorld, SimRecord

DAY = 86_400.0
OPEN_ITEM = ItemMatch(state=(OPEN,))
ENDED = ItemMatch(state=(CLOSED, MERGED))


def book(*rules: tuple[ItemMatch, SessionMatch, Ensure]) -> Playbook:
    made = tuple(
        Rule(f"rule {n}", Position("p.yml", n), Match(item, session), ensure)
        for n, (item, session, ensure) in enumerate(rules, 1)
    )
    return Playbook((Play("the play", Position("p.yml", 1), ("all",), made, Limits(1000, 1.0)),))


def session(wanted: str, item: ItemMatch = OPEN_ITEM) -> tuple[ItemMatch, SessionMatch, Ensure]:
    return item, SessionMatch(), Ensure(session=wanted)


def verbs(plan: Plan) -> list[str]:
    return [f"{a.verb} {a.before.phase} -> {a.after.phase}" for a in plan.actions]


# --- pause ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [RUNNING, EXITED, LOST])
def test_a_rule_pauses_what_is_active_and_touches_nothing_but_its_record(phase: str) -> None:
    world = FakeWorld()
    world.item("demo/app#1")
    made = world.session("demo/app#1", phase)
    rules = book(session(PAUSE))
    plan = world.plan(rules)
    assert verbs(plan) == [f"record {phase} -> {PAUSED if phase == RUNNING else phase}"]
    assert [r.status for r in world.apply(plan).results] == [CHANGED]
    assert world.record(made).status == "paused"
    assert [(e.what, e.detail) for e in world.machine.effects] == [("record", "paused")]
    assert world.plan(rules).actions == ()
    assert [e["ref"] for e in world.journal.of("session.paused")] == ["items:demo/app#1"]


def test_paused_is_quieter_than_running_and_an_ending_goes_further() -> None:
    world = FakeWorld()
    for number, state in ((1, OPEN), (2, CLOSED), (3, OPEN)):
        world.item(f"demo/app#{number}", state)
    world.session("demo/app#1")
    world.session("demo/app#2")
    both = ItemMatch(state=(OPEN, CLOSED))
    plan = world.plan(book(session(RUN), session(PAUSE, both), session(RETAIN, ENDED)))
    assert verbs(plan) == ["record running -> paused", "close running -> retained"]
    assert plan.held == ()


@pytest.mark.parametrize("phase", [PAUSED, EXITED, LOST])
def test_a_paused_session_is_not_started_again(phase: str) -> None:
    world = FakeWorld()
    world.item("demo/app#1", labels=["loop"])
    made = world.session("demo/app#1", phase, status="paused")
    plan = world.plan(book(session(RUN)))
    assert (plan.actions, plan.held, plan.unchanged) == ((), (), 1)
    assert ["sessions resume" in note for note in plan.notes] == ([] if phase == PAUSED else [True])
    assert resume(world.record(made), world.world)
    assert world.plan(book(session(RUN))).notes == ()


def test_whether_a_paused_session_should_run_needs_no_answer() -> None:
    world = FakeWorld()
    world.item("demo/app#1", silent="Bad Gateway")
    world.session("demo/app#1", PAUSED)
    plan = world.plan(book(session(RUN)))
    assert (plan.actions, plan.held, plan.unchanged) == ((), (), 1)


def test_pausing_goes_by_generation_and_a_closed_session_stays_closed() -> None:
    world = FakeWorld()
    world.item("demo/app#1")
    made = world.session("demo/app#1")
    old = world.record(made)
    world.registry.edit(made.id, cwd="/elsewhere")
    assert pause(old, world.world)
    assert (world.record(made).status, world.record(made).cwd) == ("paused", "/elsewhere")
    assert not pause(old, world.world)
    world.registry.edit(made.id, status=CLOSED_STATUS)
    for change, word in ((pause, "paused"), (resume, "resumed")):
        with pytest.raises(StateError, match=f"closed: it cannot be {word}"):
            change(old, world.world)
    assert world.record(made).status == CLOSED_STATUS
    world.registry.records.clear()
    with pytest.raises(StateError, match="vanished"):
        pause(old, world.world)


def test_a_pause_that_comes_after_the_plan_makes_its_actions_stale_and_nothing_is_lost() -> None:
    world = FakeWorld()
    world.item("demo/app#1", CLOSED)
    made = world.session("demo/app#1")
    rules = book(session(RETAIN, ENDED))
    plan = world.plan(rules)
    assert pause(world.record(made), world.world)
    assert [r.status for r in world.apply(plan).results] == [STALE]
    assert (world.record(made).status, world.phase(made)) == ("paused", PAUSED)
    assert verbs(world.plan(rules)) == ["close paused -> retained"]
    assert [r.status for r in world.apply(world.plan(rules)).results] == [CHANGED]


# --- reap ----------------------------------------------------------------------------------------------------------


def retained(world: FakeWorld, ages: Sequence[float]) -> list[SimRecord]:
    made = []
    for number, days in enumerate(ages, 1):
        ref = str(world.item(f"demo/app#{number}", CLOSED))
        made.append(world.session(ref, RETAINED))
        world.registry.edit(made[-1].id, closed_at=world.now() - timedelta(days=days))
    return made


def keep(count: int, item: ItemMatch | None = None) -> tuple[ItemMatch, SessionMatch, Ensure]:
    return item or ItemMatch(), SessionMatch(phase=(RETAINED,)), Ensure(session=REMOVE, keep_last=count)


def gone(world: FakeWorld, *rules: tuple[ItemMatch, SessionMatch, Ensure]) -> list[int]:
    plan = world.plan(book(*rules))
    assert {a.verb for a in plan.actions} <= {"reap"}
    world.apply(plan)
    assert world.plan(book(*rules)).actions == ()
    return [action.ref.number for action in plan.actions]


def test_a_retained_pane_goes_when_its_time_has_come_and_no_source_is_asked() -> None:
    world = FakeWorld()
    (made,) = retained(world, [0])
    rule = (ItemMatch(), SessionMatch(phase=(RETAINED,), closed_for=14 * DAY), Ensure(session=REMOVE))
    world.machine.advance(14 * DAY - 1)
    assert gone(world, rule) == []
    world.machine.advance(1)
    assert gone(world, rule) == [1]
    assert world.phase(made) == "gone"
    assert b"says hello" in world.transcripts.load(world.record(made))
    assert world.provider.asked() == ()
    assert {e.what for e in world.machine.effects} == {"secure", "save", "remove", "record"}


def test_what_came_into_a_retained_pane_since_its_close_is_kept_when_it_goes() -> None:
    """A person may have brought its program back for a while."""
    world = FakeWorld()
    (made,) = retained(world, [1])
    world.transcripts.save(world.record(made), b"claude says hello\n")
    assert made.pane
    made.pane.text += b"and this came later\n"
    assert gone(world, keep(0)) == [1]
    assert b"and this came later" in world.transcripts.load(world.record(made))


@pytest.mark.parametrize(("count", "expected"), [(1, [1, 3, 4]), (2, [3, 4]), (3, [4]), (4, []), (9, [])])
def test_those_that_were_closed_last_are_kept(count: int, expected: list[int]) -> None:
    world = FakeWorld()
    retained(world, [2, 1, 3, 4])
    assert gone(world, keep(count)) == expected


def test_only_what_the_rule_matches_is_counted_and_rules_count_each_for_itself() -> None:
    world = FakeWorld()
    retained(world, [1, 2, 3, 4])
    world.item("demo/app#9")
    world.session("demo/app#9")
    even = ItemMatch(number=(2, 4))
    assert gone(world, keep(1, even), keep(3)) == [4]


def test_one_that_may_or_may_not_match_pushes_nobody_out() -> None:
    world = FakeWorld()
    retained(world, [1, 2, 3])
    world.item("demo/app#1", CLOSED, silent="Bad Gateway")
    plan = world.plan(book(keep(1, ENDED)))
    # The second may be the newest that matches. The first is kept, whichever it is.
    assert (verbs(plan), [a.ref.number for a in plan.actions]) == (["reap retained -> gone"], [3])
    assert plan.held == ()
    # The last may have to go: that cannot be told.
    world = FakeWorld()
    retained(world, [1, 2, 3])
    world.item("demo/app#3", CLOSED, silent="Bad Gateway")
    plan = world.plan(book(keep(1, ENDED)))
    assert ([a.ref.number for a in plan.actions], [h.ref.number for h in plan.held]) == ([2], [3])


def test_nobody_is_asked_while_there_are_too_few() -> None:
    world = FakeWorld()
    retained(world, [1, 2])
    world.item("demo/app#1", CLOSED, silent="Bad Gateway")
    plan = world.plan(book(keep(2, ENDED)))
    assert (plan.actions, plan.held, plan.unchanged) == ((), (), 2)


# --- start anew ----------------------------------------------------------------------------------------------------


def packaged(world: FakeWorld) -> Playbook:
    return load_playbook(["keep-the-loop"], extra_vars={"label": "loop"}, tags=frozenset(), policy=world.policy)


def test_a_start_and_the_end_of_the_old_pane_are_one_plan() -> None:
    world = FakeWorld()
    world.item("demo/app#1", labels=["loop"])
    old = world.session("demo/app#1", RETAINED)
    world.machine.advance(14 * DAY)
    plan = world.plan(packaged(world))
    assert verbs(plan) == ["reap retained -> gone", "start retained -> running"]
    assert [r.status for r in world.apply(plan).results] == [CHANGED, CHANGED]
    assert world.plan(packaged(world)).actions == ()
    assert world.phase(old) == "gone"
    assert sorted(r.status for r in world.registry.records.values()) == ["active", "closed"]


def test_a_silent_source_does_not_keep_an_old_pane_and_starts_nothing() -> None:
    world = FakeWorld()
    world.item("demo/app#1", labels=["loop"], silent="Bad Gateway")
    world.session("demo/app#1", RETAINED)
    world.machine.advance(14 * DAY)
    plan = world.plan(packaged(world))
    assert (verbs(plan), [h.reason for h in plan.held]) == (["reap retained -> gone"], ["Bad Gateway"])


def test_a_doubtful_rule_that_could_add_something_still_holds() -> None:
    world = FakeWorld()
    world.item("demo/app#1", CLOSED, silent="Bad Gateway")
    world.session("demo/app#1", RETAINED)
    reap = (ItemMatch(), SessionMatch(phase=(RETAINED,)), Ensure(session=REMOVE))
    for idle in (Ensure(session=RETAIN), Ensure(session=REMOVE), Ensure(session=PAUSE)):
        assert verbs(world.plan(book(reap, (ENDED, SessionMatch(), idle)))) == ["reap retained -> gone"]
    for more in (Ensure(session=RETAIN, grace=1.0), Ensure(transcript="discarded")):
        plan = world.plan(book(reap, (ENDED, SessionMatch(), more)))
        assert (plan.actions, [h.reason for h in plan.held]) == ((), ["Bad Gateway"])
    # While a session is open, its item's new session would be a contradiction.
    world = FakeWorld()
    world.item("demo/app#1", silent="Bad Gateway")
    world.session("demo/app#1")
    reap = (ItemMatch(), SessionMatch(phase=(RUNNING,)), Ensure(session=REMOVE))
    plan = world.plan(book(reap, (OPEN_ITEM, SessionMatch(), Ensure(session=RUN))))
    assert (plan.actions, [h.reason for h in plan.held]) == ((), ["Bad Gateway"])


def test_a_crash_anywhere_in_a_start_beside_a_closed_session_leaves_one_pane() -> None:
    whole = 0
    for call in range(1, 40):
        world = FakeWorld()
        world.item("demo/app#1", labels=["loop"])
        world.session("demo/app#1", RETAINED)
        world.machine.advance(14 * DAY)
        plan = world.plan(packaged(world))
        world.faults.crash_at(call)
        with suppress(Crash):
            world.apply(plan)
            whole += 1
        world.faults.clear()
        for _ in range(2):
            world.apply(world.plan(packaged(world)))
        live = [s.mark for server in world.servers.all for s, pane in server.each() if not pane.dead]
        active = [r.id for r in world.registry.records.values() if r.status != CLOSED_STATUS]
        assert live == active
        assert len(live) == 1
        assert world.plan(packaged(world)).actions == ()
    # Some went through, so every call was tried.
    assert 0 < whole < 30


# --- rebuild -------------------------------------------------------------------------------------------------------


def test_a_lost_registry_is_restored_once() -> None:
    world = FakeWorld()
    made = [world.session(f"demo/app#{n}", phase) for n, phase in enumerate((RUNNING, RETAINED, EXITED), 1)]
    before = {m.id: world.record(m) for m in made}
    world.registry.records.clear()
    found = survey(world.socket, world.world)
    assert verbs(found.plan) == ["record absent -> running", "record absent -> retained", "record absent -> exited"]
    assert world.registry.records == {}
    assert [r.status for r in restore(found, world.world).results] == [CHANGED] * 3
    for m in made:
        now, old = world.record(m), before[m.id]
        assert (now.ref, now.status, now.pane_id, now.session_id, now.server, now.name) == (
            old.ref,
            old.status,
            old.pane_id,
            old.session_id,
            old.server,
            old.name,
        )
        assert now.transcript == old.transcript
    assert {e.what for e in world.machine.effects} == {"record"}
    again = survey(world.socket, world.world)
    assert (again.plan.actions, again.plan.unchanged, again.plan.problems) == ((), 3, ())
    assert [r.status for r in restore(found, world.world).results] == [OK] * 3


def test_two_open_sessions_of_one_item_are_held_and_so_is_one_beside_a_new_record() -> None:
    world = FakeWorld()
    world.session("demo/app#1", RETAINED)
    world.session("demo/app#1")
    first = world.session("demo/app#2", RETAINED)
    assert first.pane
    assert first.session
    first.pane.input_off = False
    world.session("demo/app#2")
    lost = world.session("demo/app#3")
    world.registry.records.clear()
    world.session("demo/app#3", runner="process")
    found = survey(world.socket, world.world)
    assert [(a.ref.number, a.after.phase) for a in found.plan.actions] == [(1, "retained"), (1, "running")]
    assert sorted(h.ref.number for h in found.plan.held) == [2, 2, 3]
    restore(found, world.world)
    assert lost.id not in world.registry.records


def test_what_moved_since_the_rebuild_was_shown_is_left_out() -> None:
    world = FakeWorld()
    one, two = world.session("demo/app#1"), world.session("demo/app#2")
    world.registry.records.clear()
    found = survey(world.socket, world.world)
    assert one.pane
    world.machine.end(one.pane.pid)
    world.registry.put(found.records[1])
    assert [r.status for r in restore(found, world.world).results] == [STALE, OK]
    assert set(world.registry.records) == {two.id}


def test_a_registry_that_fails_is_said_and_the_mark_of_another_machine_is_named() -> None:
    world = FakeWorld()
    world.session("demo/app#1")
    there = world.session("demo/app#2", machine="laptop")
    del world.registry.records[next(i for i in world.registry.records if i != there.id)]
    found = survey(world.socket, world.world)
    assert ["of machine laptop" in problem for problem in found.plan.problems] == [True]
    world.faults.fail("registry", "add", kind=RAISE, reason="disk full")
    assert [r.status for r in restore(found, world.world).results] == [FAILED]


def test_a_session_of_several_panes_of_which_none_is_known_is_left_to_the_user() -> None:
    world = FakeWorld()
    made = world.session("demo/app#1", origin="registered")
    world.beside(made)
    world.registry.records.clear()
    (problem,) = survey(world.socket, world.world).plan.problems
    assert "`loopctl sessions register items:demo/app#1 --pane %ID` chooses one" in problem


def test_marks_that_loopctl_does_not_give_are_named_and_left() -> None:
    world = FakeWorld()
    world.session("demo/app#1")
    odd = world.session("demo/app#2")
    world.registry.records.clear()
    assert odd.session
    odd.session.mark = "abc"
    found = survey(world.socket, world.world)
    assert [action.ref.number for action in found.plan.actions] == [1]
    (problem,) = found.plan.problems
    assert "carries a mark that loopctl does not give: abc" in problem
