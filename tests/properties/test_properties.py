"""Properties of the whole pipeline on random worlds: see DESIGN.md, Tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from loopctl import run
from loopctl.errors import StaleError
from loopctl.model.encode import plan_digest
from loopctl.model.facts import Known
from loopctl.model.plan import BEGINNINGS, CHANGED, FAILED, RECORD, STALE, Outcome, Plan
from loopctl.model.processes import ProcessId
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Playbook, Position
from loopctl.model.sessions import ACTIVE, CLOSED_STATUS, PAUSED_STATUS, UNDEAD, Pane, ServerId
from loopctl.testing import Crash, FakeWorld, SimPane, SimRecord
from tests.properties.scenes import (
    Built,
    Scene,
    build,
    is_hard,
    is_known,
    leaves_nothing,
    may_end,
    pausing_playbooks,
    playbooks,
    scenes,
)

ANY_NUMBER = 1000

many = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],  # a failing world is small as it is; shrinking takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def carry_out(world: FakeWorld, playbook: Playbook) -> tuple[Plan, Outcome]:
    plan = world.plan(playbook)
    return plan, world.apply(plan, ANY_NUMBER)


def rounds(playbook: Playbook) -> int:
    """Rules that look at the phase apply to what others have made so."""
    staged = any(rule.match.session.phase for play in playbook.plays for rule in play.rules)
    return 4 if staged else 1


def live_panes(world: FakeWorld) -> list[SimPane]:
    return [pane for server in world.servers.all for _, pane in server.each() if not pane.dead]


@many
@given(scenes(), playbooks)
def test_after_an_apply_the_next_plan_is_empty_but_for_what_failed(scene: Scene, playbook: Playbook) -> None:
    built = build(scene)
    for _ in range(rounds(playbook)):
        _, outcome = carry_out(built.world, playbook)
    failed = {(r.action.ref, r.action.guard.record_id) for r in outcome.results if r.status == FAILED}
    left = [a for a in built.world.plan(playbook).actions if (a.ref, a.guard.record_id) not in failed]
    assert left == []


@many
@given(scenes(), playbooks)
def test_what_can_be_ended_does_not_fail(scene: Scene, playbook: Playbook) -> None:
    built = build(scene)
    _, outcome = carry_out(built.world, playbook)
    hard = {made.id for _, session, made in built.records if is_hard(session)}
    assert [r for r in outcome.results if r.status != CHANGED and r.action.guard.record_id not in hard] == []


@many
@given(scenes(), playbooks)
def test_planning_changes_nothing_and_says_the_same_twice(scene: Scene, playbook: Playbook) -> None:
    built = build(scene)
    before = built.world.snapshot()
    first = built.world.plan(playbook)
    assert built.world.snapshot() == before
    assert plan_digest(built.world.plan(playbook)) == plan_digest(first)


@many
@given(scenes(), playbooks)
def test_applying_a_plan_twice_does_nothing_more(scene: Scene, playbook: Playbook) -> None:
    world = build(scene).world
    plan = world.plan(playbook)
    first = world.apply(plan, ANY_NUMBER)
    done = {id(r.action) for r in first.results if r.status == CHANGED}
    assume(len(done) == len(plan.actions))
    effects = list(world.machine.effects)
    try:
        assert {r.status for r in world.apply(plan, ANY_NUMBER).results} <= {STALE}
    except StaleError:
        assert plan.registry == ""  # made before the first record made the registry
    assert world.machine.effects == effects


@many
@given(scenes(), playbooks, st.randoms(use_true_random=False))
def test_the_order_of_rules_and_subjects_does_not_matter(
    scene: Scene, playbook: Playbook, chance: random.Random
) -> None:
    world = build(scene).world
    observation = run.look(world.world, playbook)
    subjects = list(observation.subjects)
    chance.shuffle(subjects)
    shuffled = replace(observation, subjects=tuple(subjects))
    rules = list(playbook.plays[0].rules)
    chance.shuffle(rules)
    other = replace(playbook, plays=(replace(playbook.plays[0], rules=tuple(rules)),))
    assert run.plan_of(other, shuffled, world.world) == run.plan_of(playbook, observation, world.world)


@many
@given(scenes(), playbooks)
def test_silence_never_closes(scene: Scene, playbook: Playbook) -> None:
    built = build(scene)
    kept = {made.id for item, session, made in built.records if not may_end(item, session)}
    known = {made.id for item, session, made in built.records if is_known(item, session)}
    before = {id_: record.status for id_, record in built.world.registry.records.items()}
    carry_out(built.world, playbook)
    assert [e for e in built.world.machine.effects if e.owner in kept and e.detail != "paused"] == []
    after = {id_: record.status for id_, record in built.world.registry.records.items()}
    changed = {id_ for id_ in kept if after[id_] != before[id_]}
    # What is open may be paused; what is not known is not even that.
    assert changed <= known
    assert {(before[id_], after[id_]) for id_ in changed} <= {(ACTIVE, PAUSED_STATUS)}


@many
@given(scenes(), pausing_playbooks)
def test_a_pause_touches_nothing_but_the_record(scene: Scene, playbook: Playbook) -> None:
    world = build(scene).world
    plan, outcome = carry_out(world, playbook)
    rests = [r for r in outcome.results if r.action.verb == RECORD and r.action.after.status == PAUSED_STATUS]
    paused = {r.action.guard.record_id for r in rests}
    assume(paused)
    assert {e.what for e in world.machine.effects if e.owner in paused} == {"record"}
    assert {world.registry.records[id_].status for id_ in paused} == {PAUSED_STATUS}
    assert {a.guard.record_id for a in plan.actions if a.verb != RECORD} & paused == set()


@many
@given(scenes(), playbooks)
def test_nothing_foreign_is_ever_touched(scene: Scene, playbook: Playbook) -> None:
    built = build(scene)
    for _ in range(2):
        carry_out(built.world, playbook)
    assert [effect for effect in built.world.machine.effects if not effect.owner] == []


@many
@given(scenes(), playbooks)
def test_what_does_not_fit_its_record_is_not_touched(scene: Scene, playbook: Playbook) -> None:
    built = build(scene)
    carry_out(built.world, playbook)
    misfits = {m.id for _, s, m in built.records if m.pane and s.defect in {"mark", "unmarked", "pane", "session"}}
    acts = {"signal", "secure", "remove", "mark"}
    misfits &= {m.id for _, s, m in built.records if s.phase not in {"lost", "gone"} or s.defect == "pane"}
    assert [e for e in built.world.machine.effects if e.owner in misfits and e.what in acts] == []


@many
@given(scenes(), playbooks)
def test_closing_only_moves_forward(scene: Scene, playbook: Playbook) -> None:
    world = build(scene).world
    for _ in range(2):
        closed = {id_ for id_, record in world.registry.records.items() if record.status == CLOSED_STATUS}
        dead, quiet = panes_with(world, "dead"), panes_with(world, "input_off")
        carry_out(world, playbook)
        assert {id_ for id_ in closed if world.registry.records[id_].status != CLOSED_STATUS} == set()
        there = panes_with(world, "pane_id")
        assert dead & there <= panes_with(world, "dead")
        assert quiet & there <= panes_with(world, "input_off")


def panes_with(world: FakeWorld, field: str) -> set[tuple[int, str]]:
    each = ((server.id.pid, pane) for server in world.servers.all for _, pane in server.each())
    return {(pid, pane.pane_id) for pid, pane in each if getattr(pane, field) and not pane.reopens}


@many
@given(scenes(), playbooks)
def test_a_closed_session_leaves_no_process_and_a_read_only_pane(scene: Scene, playbook: Playbook) -> None:
    built = build(scene)
    _, outcome = carry_out(built.world, playbook)
    done = {
        r.action.guard.record_id for r in outcome.results if r.status == CHANGED and r.action.after.kill_harness
    } - {""}
    whole = {made.id for _, session, made in built.records if leaves_nothing(session)}
    alive = [p for p in built.world.machine.processes.values() if p.owner in done & whole and not p.row.ended]
    assert alive == []
    panes = [p for server in built.world.servers.all for _, p in server.each() if p.owner in done]
    assert [pane for pane in panes if not (pane.dead and pane.input_off and pane.remain_on_exit == "on")] == []


@many
@given(scenes(), playbooks, st.data())
def test_a_crash_after_any_call_is_repaired_by_the_next_runs(
    scene: Scene, playbook: Playbook, data: st.DataObject
) -> None:
    trial = build(scene).world
    plan = trial.plan(playbook)
    assume(plan.actions)
    planned = len(trial.faults.calls)
    trial.apply(plan, ANY_NUMBER)
    calls = len(trial.faults.calls) - planned
    built = build(scene)
    crash_and_repair(built, playbook, data.draw(st.integers(1, calls)))


def crash_and_repair(built: Built, playbook: Playbook, call: int) -> None:
    world = built.world
    plan = world.plan(playbook)
    shown = {made.id for _, session, made in built.records if not session.machine and pane_of(world, made)}
    world.faults.crash_at(call)
    with suppress(Crash):
        world.apply(plan, ANY_NUMBER)
    world.faults.clear()
    for _ in range(rounds(playbook) + 1):
        _, outcome = carry_out(world, playbook)
    failed = {(r.action.ref, r.action.guard.record_id) for r in outcome.results if r.status == FAILED}
    assert [a for a in world.plan(playbook).actions if (a.ref, a.guard.record_id) not in failed] == []
    check_one_live_pane_an_item(built, plan)
    check_transcripts(world, plan, shown - {record_id for _, record_id in failed})


def pane_of(world: FakeWorld, made: SimRecord) -> Pane | None:
    sighting = world.view(made).sighting
    return sighting.value.pane if isinstance(sighting, Known) else None


def check_one_live_pane_an_item(built: Built, plan: Plan) -> None:
    started = {action.ref for action in plan.actions if action.verb in BEGINNINGS}
    records = built.world.registry.records
    live = {pane.owner for pane in live_panes(built.world) if pane.owner in records}
    for ref in started:
        mine = [id_ for id_ in live if records[id_].ref == ref and records[id_].machine == built.world.name]
        assert len(mine) <= 1, f"{ref} has {len(mine)} live sessions"
    strays = [pane for pane in live_panes(built.world) if pane.owner and pane.owner not in records]
    assert strays == []


def check_transcripts(world: FakeWorld, plan: Plan, shown: set[str]) -> None:
    for action in plan.actions:
        record = world.registry.records.get(action.guard.record_id)
        if (
            record is None
            or record.status != CLOSED_STATUS
            or action.after.transcript != "kept"
            or record.id not in shown
        ):
            continue
        if action.before.phase == action.after.phase == UNDEAD:
            # Nobody was to end it: it runs on, and shows all of it.
            continue
        assert b"says hello" in world.transcripts.load(record)
        # A record that was closed before is not written again once its pane is gone.
        assert record.transcript or action.before.status == CLOSED_STATUS, (
            f"{record.ref}: its record names no transcript"
        )


@settings(many, max_examples=40)
@given(scenes(), playbooks)
def test_the_digest_covers_every_field_of_every_action(scene: Scene, playbook: Playbook) -> None:
    plan = build(scene).world.plan(playbook)
    assume(plan.actions)
    digest = plan_digest(plan)
    for index, action in enumerate(plan.actions):
        for path, changed in mutations(action):
            actions = (*plan.actions[:index], changed, *plan.actions[index + 1 :])
            assert plan_digest(replace(plan, actions=actions)) != digest, f"{path} is not covered"


def mutations(value: Any, path: str = "action") -> Iterator[tuple[str, Any]]:
    for field in fields(value):
        old = getattr(value, field.name)
        here = f"{path}.{field.name}"
        if is_dataclass(old) and not isinstance(old, WorkItemRef | Position | ProcessId | ServerId):
            for inner, changed in mutations(old, here):
                yield inner, replace(value, **{field.name: changed})
        else:
            yield here, replace(value, **{field.name: another(field.name, old)})


def another(name: str, old: Any) -> Any:  # noqa: C901 - one line a type
    match old:
        case bool():
            return not old
        case int() | float():
            return old + 1
        case str():
            return old + "x"
        case tuple():
            return (*old, "x")
        case datetime():
            return old + timedelta(seconds=1)
        case WorkItemRef():
            return replace(old, number=old.number + 1)
        case Position():
            return replace(old, line=old.line + 1)
        case ProcessId():
            return replace(old, start=old.start + "x")
        case ServerId():
            return replace(old, start=old.start + 1)
        case None:
            return {
                "server": ServerId(7, 7),
                "pane": ProcessId(7, "7"),
                "cursor": datetime.fromisoformat("2026-01-01T00:00:00+00:00"),
                "since": datetime.fromisoformat("2026-01-01T00:00:00+00:00"),
            }[name]
    raise TypeError(type(old))
