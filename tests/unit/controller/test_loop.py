"""The controller on a fake world: what it ends, what it never ends, and what it does when things go wrong."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from loopctl.controller.contest import Contests
from loopctl.controller.status import health
from loopctl.errors import DocumentError, Problem
from loopctl.model.plan import Outcome, Result
from loopctl.model.rules import Limits, Match, Play, Playbook, Position, Rule
from loopctl.testing import IGNORES, RAISE, STUBBORN, UNKNOWN, FakeProvider, FakeWorld, Habit
from loopctl.testing.world import SimRecord
from tests.unit.controller.desk import INTERVAL, Desk
from tests.unit.playbooks import ending, running

IMMORTAL = Habit(on_term=IGNORES, unkillable=True)


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


def both(limits: Limits | None = None) -> Playbook:
    """Open items run, ended ones are retained."""
    (end,), (start,) = ending(limits=limits).plays, running().plays
    return Playbook((end, replace(start, name="start")), (("p.yml", "0" * 64),))


def test_a_closure_is_noticed_within_one_interval(world: FakeWorld) -> None:
    world.item("demo/app#1")
    agent = world.session("demo/app#1")
    other = world.session("demo/app#2")
    world.item("demo/app#2")
    desk = Desk(world, ending())
    desk.at(90, lambda: world.item("demo/app#1", "closed"))
    assert desk.run(90 + INTERVAL) == 0
    assert world.phase(agent) == "retained"
    assert world.phase(other) == "running"
    assert [cycle["closures"] for cycle in desk.cycles] == [0, 0, 1]
    (found,) = world.journal.of("poll.closure_detected")
    assert (found["ref"], found["reason"]) == ("items:demo/app#1", "issue-closed")


def test_a_hint_is_followed_at_once_and_polling_is_not_needed(world: FakeWorld) -> None:
    world.item("demo/app#1")
    agent = world.session("demo/app#1")
    desk = Desk(world, ending())
    desk.at(10, lambda: (world.item("demo/app#1", "closed"), desk.hint("demo/app#1")))
    desk.run(12)
    assert world.phase(agent) == "retained"
    assert [cycle["trigger"] for cycle in desk.cycles] == ["poll", "webhook"]
    assert world.journal.of("poll.closure_detected") == []


@pytest.mark.parametrize("state", ["open", "missing", "moved", "forbidden"])
def test_a_hint_is_no_proof(world: FakeWorld, state: str) -> None:
    world.item("demo/app#1", state)
    agent = world.session("demo/app#1")
    desk = Desk(world, ending())
    for moment in range(1, 50):
        desk.at(moment, lambda: desk.hint("demo/app#1", may_start=True))
    desk.run(55)
    assert world.phase(agent) == "running"


def test_github_down_for_twenty_cycles(world: FakeWorld) -> None:
    world.item("demo/app#1", "closed")
    agent, other = world.session("demo/app#1"), world.session("demo/app#2")
    world.item("demo/app#2")
    world.provider.down = "GitHub: Bad Gateway (HTTP 502)"
    desk = Desk(world, both())
    desk.run(20 * INTERVAL)
    assert len(desk.cycles) == 20
    assert {cycle["held"] for cycle in desk.cycles} == {2}
    assert (world.phase(agent), world.phase(other)) == ("running", "running")
    assert desk.snapshots[0]["whole_is_good"] is False
    world.provider.down = ""
    desk.run(INTERVAL)
    assert (world.phase(agent), world.phase(other)) == ("retained", "running")
    desk.run(INTERVAL)
    assert desk.snapshots[0]["whole_is_good"] is True


def test_a_failed_listing_ends_nothing_and_starts_nothing(world: FakeWorld) -> None:
    world.item("demo/app#1")
    world.item("demo/app#2", labels=["loop"])
    agent = world.session("demo/app#1")
    world.provider.listing_down = "GitHub: the answer was cut short"
    desk = Desk(world, both())
    desk.run(3 * INTERVAL)
    assert world.phase(agent) == "running"
    assert len(world.registry.records) == 1
    assert all(cycle["problems"] for cycle in desk.cycles)


def test_a_server_that_cannot_be_seen_ends_nothing(world: FakeWorld) -> None:
    world.item("demo/app#1", "closed")
    agent = world.session("demo/app#1")
    world.faults.fail("terminals", "look", 0, UNKNOWN, "tmux: time-out")
    desk = Desk(world, ending())
    desk.run(10 * INTERVAL)
    assert world.record(agent).status == "active"
    world.faults.clear()
    desk.run(INTERVAL)
    assert world.phase(agent) == "retained"


@pytest.mark.parametrize(
    ("port", "method"), [("registry", "all"), ("registry", "prove_writable"), ("transcripts", "prove_writable")]
)
def test_a_disk_that_is_full_or_a_registry_in_use(world: FakeWorld, port: str, method: str) -> None:
    """Nothing is ended half; when it is over, the controller goes on by itself."""
    world.item("demo/app#1", "closed")
    agent = world.session("demo/app#1")
    world.faults.fail(port, method, 0, RAISE, "database is locked")
    desk = Desk(world, ending())
    desk.run(10 * INTERVAL)
    world.faults.clear()
    assert world.record(agent).status == "active"
    assert world.machine.alive(agent.process)  # type: ignore[arg-type]
    assert all(c.get("error") or c.get("refused") or c["failed"] for c in desk.cycles)
    desk.run(INTERVAL)
    assert world.phase(agent) == "retained"


def test_another_apply_is_waited_for(world: FakeWorld) -> None:
    world.item("demo/app#1", "closed")
    agent = world.session("demo/app#1")
    world.registry.holder = "loopctl apply, pid 7"
    desk = Desk(world, ending())
    desk.at(5, lambda: setattr(world.registry, "holder", ""))
    desk.run(10)
    # It came again long before the next interval.
    assert world.phase(agent) == "retained"
    assert "pid 7" in desk.cycles[0]["refused"]


def test_a_clock_that_jumps(world: FakeWorld) -> None:
    """A suspended laptop, or a wall clock set wrong: late, early, and never a wrong ending."""
    world.item("demo/app#1")
    agent = world.session("demo/app#1")
    desk = Desk(world, ending())
    for jump in (86_400.0, -3_600.0, 7 * 86_400.0):
        desk.at(5, lambda jump=jump: setattr(world.machine, "time", world.machine.time + jump))  # type: ignore[misc]
        desk.run(20)
    assert world.phase(agent) == "running"
    world.item("demo/app#1", "closed")
    desk.run(2 * INTERVAL)
    assert world.phase(agent) == "retained"


def test_one_that_cannot_be_ended_does_not_hold_up_the_others(world: FakeWorld) -> None:
    world.item("demo/app#1", "closed")
    world.item("demo/app#2")
    stuck = world.session("demo/app#1", habit=IMMORTAL)
    agent = world.session("demo/app#2")
    desk = Desk(world, ending())
    desk.at(1, lambda: (world.item("demo/app#2", "closed"), desk.hint("demo/app#2")))
    desk.run(30)
    assert (world.phase(agent), world.record(stuck).status) == ("retained", "active")
    desk.run(3600)
    # Later and later, not once an interval; and said each time.
    failed = len(world.journal.of("action.failed"))
    assert 4 < failed < 15
    assert sum(message == "will try again" for _, message, _ in desk.said) == failed
    assert world.record(stuck).status == "active"
    world.machine.processes[stuck.process.pid].habit = STUBBORN  # type: ignore[union-attr]
    desk.run(900)
    assert world.phase(stuck) == "retained"


def brought_back(world: FakeWorld, agent: SimRecord) -> None:
    """Somebody starts a program in the dead pane (`respawn-pane`), if it is dead."""
    assert agent.pane
    assert agent.session
    if not agent.pane.dead:
        return
    server = world.servers.ensure(world.socket)
    place = (f"{world.socket},{server.id.pid},{agent.session.session_id[1:]}", agent.pane.pane_id)
    process = world.machine.spawn("claude", parent=server.id.pid, mark=agent.id, pane=place, owner=agent.id)
    agent.pane.pid, agent.pane.dead = process.id.pid, False


def test_what_something_else_brings_back_is_ended_a_few_times_and_then_reported(world: FakeWorld) -> None:
    """S40. No endless loop of killing: 1 + maxRetries times, later each time, and each look says why it is left alone."""
    world.item("demo/app#1", "closed")
    world.item("demo/app#2")
    agent, other = world.session("demo/app#1"), world.session("demo/app#2")
    desk = Desk(world, ending())
    for second in range(1, 3600, 5):
        desk.at(second, lambda: brought_back(world, agent))
    desk.run(12 * INTERVAL)
    first, second, third, fourth = [index for index, c in enumerate(desk.cycles) if c["changed"]]
    assert 0 < second - first < third - second < fourth - third
    held = [fields["reason"] for _, message, fields in desk.said if message == "held"]
    assert "ended 2 times and is alive again; it will be ended again later" in held[0]
    assert "ended 4 times and is alive again; it is left alone now" in held[-1]
    assert "`loopctl sessions close items:demo/app#1` ends it at once" in held[-1]
    desk.run(3600)
    assert sum(c["changed"] for c in desk.cycles) == 4
    assert desk.snapshots[0]["whole_is_good"] is False
    # Others are ended as ever, and this one again tomorrow.
    world.item("demo/app#2", "closed")
    desk.run(INTERVAL)
    assert (world.phase(other), world.phase(agent)) == ("retained", "undead")
    world.machine.advance(86_400)
    desk.run(1)
    assert sum(c["changed"] for c in desk.cycles) == 6
    assert desk.controller._contests._ends.keys() == {agent.id}  # the rest is forgotten


def test_what_is_dead_may_be_removed_however_often_it_came_back(world: FakeWorld) -> None:
    world.item("demo/app#1", "closed")
    agent = world.session("demo/app#1", "undead")
    contests = Contests(lambda: 0.0, INTERVAL, 3)
    action = world.plan(ending()).actions[0]
    for _ in range(9):
        contests.note(Outcome((Result(action, "changed"),)))
    assert contests.reason(action).startswith("something else brings it back: it was ended 9 times")
    assert contests.reason(replace(action, before=replace(action.before, phase="retained"))) == ""
    assert contests.reason(replace(action, guard=replace(action.guard, record_id="another"))) == ""
    assert world.record(agent).status == "closed"


def test_a_webhook_does_not_make_it_fight(world: FakeWorld) -> None:
    world.item("demo/app#1", "closed")
    agent = world.session("demo/app#1")
    desk = Desk(world, ending(), interval=3600)
    for second in range(1, 200):
        desk.at(second, lambda: (brought_back(world, agent), desk.hint("demo/app#1", ended=True)))
    desk.run(300)
    assert sum(c["changed"] for c in desk.cycles) == 2


def test_limits_are_reported_and_never_forced(world: FakeWorld) -> None:
    agents = []
    for number in range(1, 21):
        world.item(f"demo/app#{number}", "closed" if number <= 12 else "open")
        agents.append(world.session(f"demo/app#{number}"))
    desk = Desk(world, ending(limits=Limits(10, 1.0)))
    desk.run(10 * INTERVAL)
    assert {world.phase(agent) for agent in agents} == {"running"}
    assert all("12 changes, max_changes" in cycle["refused"] for cycle in desk.cycles)
    assert world.journal.of("poll.closure_detected") == []
    assert len(desk.cycles) == 10  # and no hurry about it


def test_many_small_plans_are_no_way_around_a_limit(world: FakeWorld) -> None:
    agents = []
    for number in range(1, 21):
        world.item(f"demo/app#{number}")
        agents.append(world.session(f"demo/app#{number}"))
    desk = Desk(world, ending(limits=Limits(5, 1.0)), interval=3600)

    def close(number: int) -> None:
        world.item(f"demo/app#{number}", "closed")
        desk.hint(f"demo/app#{number}")

    for number in range(1, 13):
        desk.at(number, lambda number=number: close(number))  # type: ignore[misc]
    desk.run(600)
    ended = [agent for agent in agents if world.phase(agent) == "retained"]
    assert len(ended) == 5
    assert any(cycle.get("refused") for cycle in desk.cycles)


def test_a_few_endings_of_many_sessions_are_not_most_of_them(world: FakeWorld) -> None:
    """A look at some refs measures its fraction against all that runs, not against those refs."""
    agents = []
    for number in range(1, 21):
        world.item(f"demo/app#{number}")
        agents.append(world.session(f"demo/app#{number}"))
    desk = Desk(world, ending(limits=Limits(10, 0.5)), interval=3600)

    def close() -> None:
        for number in range(1, 6):
            world.item(f"demo/app#{number}", "closed")
        desk.hint(*(f"demo/app#{number}" for number in range(1, 6)))

    desk.at(1, close)
    desk.run(100)
    assert [world.phase(agent) for agent in agents] == ["retained"] * 5 + ["running"] * 15


def test_a_stop_between_look_and_apply_changes_nothing(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.item("demo/app#1", "closed")
    agent = world.session("demo/app#1")
    desk = Desk(world, ending())
    get = FakeProvider.get

    def asked(provider: FakeProvider, refs: Any) -> Any:
        desk.stopping = True
        return get(provider, refs)

    monkeypatch.setattr(FakeProvider, "get", asked)
    desk.run(INTERVAL)
    assert world.phase(agent) == "running"
    assert desk.cycles[-1]["stopped"] is True
    assert world.journal.of("apply.started") == []


def test_a_hint_while_another_apply_is_at_work_is_kept(world: FakeWorld) -> None:
    world.item("demo/app#1")
    agent = world.session("demo/app#1")
    desk = Desk(world, ending(), interval=3600)

    def close() -> None:
        world.item("demo/app#1", "closed")
        world.registry.holder = "loopctl apply, pid 7"
        desk.hint("demo/app#1")

    desk.at(1, close)
    desk.at(5, lambda: setattr(world.registry, "holder", ""))
    desk.run(60)
    assert world.phase(agent) == "retained"


def test_a_stranger_cannot_bring_a_reopened_item_back(world: FakeWorld) -> None:
    """Its record is there, so the hint is followed; but only somebody authorised, or the timer, starts it anew."""
    world.item("demo/app#1", "closed")
    world.session("demo/app#1", "retained")
    desk = Desk(world, both(), interval=3600)
    desk.run(1)
    world.item("demo/app#1", labels=["loop"])
    desk.at(1, lambda: desk.hint("demo/app#1", may_start=False))
    desk.run(60)
    assert [cycle["trigger"] for cycle in desk.cycles] == ["poll", "webhook"]
    assert len(world.registry.records) == 1
    desk.at(1, lambda: desk.hint("demo/app#1", may_start=True))
    desk.run(60)
    assert len(world.registry.records) == 2


def test_a_start_waits_for_a_look_at_everything(world: FakeWorld) -> None:
    world.item("demo/app#1", labels=["loop"])
    desk = Desk(world, both(), interval=3600)
    desk.run(1)
    assert len(world.registry.records) == 1
    world.item("demo/app#2", labels=["loop"])
    # Somebody who may not: nothing, sooner than polling would.
    desk.at(1, lambda: desk.hint("demo/app#2", may_start=False))
    desk.run(100)
    assert len(world.registry.records) == 1
    desk.at(1, lambda: desk.hint("demo/app#2", may_start=True))
    desk.run(100)
    assert len(world.registry.records) == 2


def test_a_start_that_waits_is_off_when_its_item_is_closed(world: FakeWorld) -> None:
    """L18: what is queued is a look, and a look sees what is."""
    desk = Desk(world, both(), interval=3600)
    desk.run(1)
    world.item("demo/app#2", labels=["loop"])
    desk.at(1, lambda: desk.hint("demo/app#2", may_start=True))
    desk.at(2, lambda: (world.item("demo/app#2", "closed", labels=["loop"]), desk.hint("demo/app#2", ended=True)))
    desk.run(100)
    assert [cycle["whole"] for cycle in desk.cycles] == [True, True]
    assert world.registry.records == {}


def test_news_of_an_item_with_a_session_is_no_reason_to_look_at_everything(world: FakeWorld) -> None:
    world.item("demo/app#1", labels=["loop"])
    world.session("demo/app#1")
    desk = Desk(world, both(), interval=3600)
    for moment in range(10, 100, 10):
        desk.at(moment, lambda: desk.hint("demo/app#1", may_start=True))
    desk.run(200)
    assert [cycle["whole"] for cycle in desk.cycles] == [True] + [False] * 9
    assert {cycle["cost"]["calls"] for cycle in desk.cycles[1:]} == {1}


def test_a_held_hint_is_followed_up(world: FakeWorld) -> None:
    """GitHub was down at the very moment: it does not take until the next interval."""
    world.item("demo/app#1")
    agent = world.session("demo/app#1")
    desk = Desk(world, ending(), interval=3600)

    def close() -> None:
        world.item("demo/app#1", "closed")
        world.provider.down = "GitHub: Bad Gateway (HTTP 502)"
        desk.hint("demo/app#1")

    desk.at(1, close)
    desk.at(5, lambda: setattr(world.provider, "down", ""))
    desk.run(60)
    assert world.phase(agent) == "retained"
    assert "retry" in {cycle["trigger"] for cycle in desk.cycles}


def test_github_may_lag_behind_what_it_sends(world: FakeWorld) -> None:
    """An end that is told and not confirmed yet is asked about again, a few times."""
    world.item("demo/app#1")
    agent = world.session("demo/app#1")
    desk = Desk(world, ending(), interval=3600)
    desk.at(1, lambda: desk.hint("demo/app#1", ended=True))
    desk.at(6, lambda: world.item("demo/app#1", "closed"))
    desk.run(60)
    assert world.phase(agent) == "retained"
    assert [cycle["trigger"] for cycle in desk.cycles] == ["poll", "webhook", "retry", "retry"]


@pytest.mark.parametrize("before_the_poll", [0.0, 0.5])
def test_a_look_at_everything_forgets_no_end_that_was_told(world: FakeWorld, before_the_poll: float) -> None:
    """Whether it comes with the hint, or between the first question and the next."""
    world.item("demo/app#1")
    agent = world.session("demo/app#1")
    desk = Desk(world, ending(), interval=600)
    desk.at(600 - before_the_poll, lambda: desk.hint("demo/app#1", ended=True))
    desk.at(601, lambda: world.item("demo/app#1", "closed"))
    desk.run(660)
    assert world.phase(agent) == "retained"


def test_the_end_of_a_pull_request_is_not_that_of_its_issue(world: FakeWorld) -> None:
    world.item("demo/app#5")
    agent = world.session("demo/app#5")
    world.item("demo/app#6", "merged")
    desk = Desk(world, ending(), interval=3600)
    desk.at(1, lambda: desk.hint("demo/app#5", "demo/app#6", ended=True))
    desk.run(600)
    assert world.phase(agent) == "running"
    assert [cycle["trigger"] for cycle in desk.cycles] == ["poll", "webhook"]


def test_an_end_that_never_comes_is_not_waited_for(world: FakeWorld) -> None:
    world.item("demo/app#1")
    agent = world.session("demo/app#1")
    desk = Desk(world, ending(), interval=36_000)
    for moment in (1, 2, 3):
        desk.at(moment, lambda: desk.hint("demo/app#1", ended=True))
    desk.run(3600)
    assert world.phase(agent) == "running"
    assert len(desk.cycles) <= 1 + 3 + 3
    before = len(desk.cycles)
    desk.run(3600)
    assert len(desk.cycles) == before


def test_hints_about_what_nobody_looks_at_are_nothing(world: FakeWorld) -> None:
    agent = world.session("demo/app#1")
    world.provider.outside.add(agent.ref)
    desk = Desk(world, both(), interval=3600)
    desk.at(1, lambda: desk.hint("demo/app#1", may_start=True))
    desk.run(100)
    assert len(desk.cycles) == 1


def test_a_stranger_cannot_make_it_work(world: FakeWorld) -> None:
    """Items without a session that are closed and closed again: not one look."""
    for number in range(1, 50):
        world.item(f"demo/app#{number}", "closed")
    desk = Desk(world, both(), interval=3600)
    desk.run(1)
    asked = len(world.provider.questions)
    for moment in range(1, 100):
        desk.at(moment, lambda moment=moment: desk.hint(f"demo/app#{1 + moment % 49}"))  # type: ignore[misc]
    desk.run(200)
    assert (len(desk.cycles), len(world.provider.questions)) == (1, asked)


def test_a_hint_while_the_registry_cannot_be_read_is_kept(world: FakeWorld) -> None:
    world.item("demo/app#1")
    agent = world.session("demo/app#1")
    desk = Desk(world, ending(), interval=3600)

    def close() -> None:
        world.item("demo/app#1", "closed")
        world.faults.fail("registry", "all", 1, RAISE, "database is locked")
        desk.hint("demo/app#1")

    desk.at(1, close)
    desk.run(60)
    assert world.phase(agent) == "retained"


def _broken(expression_fails_for: str) -> Playbook:
    class Expression:
        names = frozenset({"item"})
        source = "boom"

        def __call__(self, facts: object) -> object:
            if facts["item"]["ref"] == expression_fails_for:  # type: ignore[index]
                raise DocumentError([Problem("p.yml", 9, 3, "'milestone' is undefined")])
            return True

    (play,) = ending().plays
    (rule,) = play.rules
    wanted: Match = replace(rule.match, when=Expression())
    return Playbook(
        (Play("p", Position("p.yml", 1), ("all",), (Rule("r", Position("p.yml", 9), wanted, rule.ensure),)),)
    )


def test_a_template_that_fails_for_one_item_holds_that_one(world: FakeWorld) -> None:
    for number in (1, 2):
        world.item(f"demo/app#{number}", "closed")
    odd, agent = world.session("demo/app#1"), world.session("demo/app#2")
    desk = Desk(world, _broken("items:demo/app#1"))
    desk.run(INTERVAL)
    assert (world.phase(odd), world.phase(agent)) == ("running", "retained")
    assert any("p.yml:9:3" in fields["reason"] for _, message, fields in desk.said if message == "held")


def test_a_paused_session_of_a_closed_item_is_closed(world: FakeWorld) -> None:
    """L16: every status that is not closed is looked at."""
    world.item("demo/app#1", "closed")
    agent = world.session("demo/app#1", "paused")
    Desk(world, ending()).run(1)
    assert world.phase(agent) == "retained"


def test_open_closed_open_closed(world: FakeWorld) -> None:
    """L9: each time right, since nothing remembers that it happened before."""
    world.item("demo/app#1", labels=["loop"])
    desk = Desk(world, both())
    for turn in range(1, 5):
        desk.run(INTERVAL)
        world.item("demo/app#1", "closed", labels=["loop"])
        desk.run(INTERVAL)
        records = list(world.registry.records.values())
        assert [record.status for record in records] == ["closed"] * turn
        world.item("demo/app#1", labels=["loop"])
    assert len(world.journal.of("session.closed")) == 4


def test_once(world: FakeWorld) -> None:
    world.item("demo/app#1", "closed")
    agent = world.session("demo/app#1")
    desk = Desk(world, ending())
    assert desk.controller.run(once=True) == 0
    assert (world.phase(agent), desk.waits) == ("retained", 0)
    world.item("demo/app#2", silent="GitHub: Bad Gateway (HTTP 502)")
    world.session("demo/app#2")
    desk = Desk(world, ending())
    assert desk.controller.run(once=True) == 5
    # Nothing is promised that nobody will do.
    assert [message for level, message, _ in desk.said if level == "warning"] == ["looked", "held"]
    assert desk.snapshots[0]["queue_depth"] == 0
    assert desk.snapshots[0]["last_cycle"]["troubles"] == ["items:demo/app#2: GitHub: Bad Gateway (HTTP 502)"]


def test_edits(world: FakeWorld, tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_text("1")
    world.item("demo/app#1", "closed")
    agent = world.session("demo/app#1")
    desk = Desk(world, running(), files=[str(file)])
    real = desk._load

    def edit(text: str) -> None:
        file.write_text(text)
        desk.playbook = replace(ending(), sources=(("p.yml", text),))

    def broken(keep: object) -> object:
        raise DocumentError([Problem("p.yml", 2, 1, "unknown key 'macht'")])

    desk.at(10, lambda: (edit("2"), setattr(desk.controller._reloader, "_load", broken)))
    desk.run(100)
    assert world.phase(agent) == "running"
    (rejected,) = world.journal.of("config.rejected")
    assert rejected["problems"] == ["p.yml:2:1: unknown key 'macht'"]
    state, why = health(desk.snapshots[0], world.now())
    assert (state, "an edit is wrong: p.yml:2:1: unknown key 'macht'" in why) == ("degraded", True)
    desk.controller._reloader._load = real
    desk.config = replace(desk.config, polling=replace(desk.config.polling, interval_seconds=30.0), state_root="/other")
    desk.at(1, lambda: edit("3"))
    desk.run(100)
    assert world.phase(agent) == "retained"
    (reloaded,) = world.journal.of("config.reloaded")
    assert reloaded["changed"] == ["polling", "p.yml"]
    assert health(desk.snapshots[0], world.now())[0] == "ok"
    assert reloaded["not_reloaded"] == ["state_root"]
    assert desk.configured[0].polling.interval_seconds == 30
    assert desk.configured[0].state_root != "/other"


def test_memory_stays_flat_over_ten_thousand_cycles() -> None:
    """Looks at everything, hints that are believed, and retries of an item that is never known."""
    world = FakeWorld()
    ref = world.item("demo/app#1", node_id="N1")
    world.provider.items[ref] = replace(world.provider.items[ref], updated_at=world.now())
    world.session("demo/app#1")
    world.item("demo/app#2", silent="GitHub: Bad Gateway (HTTP 502)")
    world.session("demo/app#2")
    desk = Desk(world, ending(), trusts=True)
    believed = 0

    def forget() -> None:
        """What the fakes remember for tests is not what is measured."""
        nonlocal believed
        believed += sum(cycle["told"] for cycle in desk.cycles)
        if desk.cycles and desk.cycles[-1]["whole"]:
            news = replace(world.provider.items[ref], updated_at=world.now() + timedelta(seconds=1))
            desk.hint("demo/app#1", "demo/app#2", told=news)
        for memory in (world.journal.events, world.faults.calls, world.machine.effects, world.progress, desk.said):
            memory.clear()

    desk.every_wait = forget
    desk.run(300 * INTERVAL)
    before = _bytes()
    while sum(desk.snapshots[0]["cycles"].values()) < 10_600:
        desk.run(500 * INTERVAL)
    assert _bytes() - before < 50_000
    assert believed > 2000


def _bytes() -> int:
    """What all containers hold. Tracing every allocation would take a minute."""
    gc.collect()
    return sum(map(sys.getsizeof, gc.get_objects()))
