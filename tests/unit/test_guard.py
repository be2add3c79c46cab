"""What moved between the plan and its apply is dropped, singly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from loopctl.errors import StaleError
from loopctl.model.plan import CHANGED, STALE
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import SessionMatch
from loopctl.testing import FakeWorld, SimRecord
from loopctl.testing.machine import BEGINNING
from tests.unit.playbooks import ending, running
from tests.worlds import one_rule

Move = Callable[[FakeWorld, SimRecord], object]


def world() -> tuple[FakeWorld, SimRecord]:
    made = FakeWorld()
    made.keep_alive()
    made.item("demo/app#1", "closed")
    made.item("demo/app#2", "closed")
    agent = made.session("demo/app#1")
    made.session("demo/app#2")
    return made, agent


MOVES: dict[str, tuple[Move, str]] = {
    "paused": (lambda w, s: w.registry.edit(s.id, status="paused"), "the record has changed"),
    "forgotten": (lambda w, s: w.registry.records.pop(s.id), "not there any more"),
    "reopened": (lambda w, s: w.item("demo/app#1", "open"), "the item has changed (closed then, open now)"),
    "labelled": (lambda w, s: w.item("demo/app#1", "closed", labels=("keep",)), "what the item says of itself"),
    "merged": (lambda w, s: w.item("demo/app#1", "merged"), "the item has changed"),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_moved_is_stale_and_the_rest_is_done(name: str) -> None:
    made, agent = world()
    plan = made.plan(ending())
    move, said = MOVES[name]
    move(made, agent)
    first, second = made.apply(plan).results
    assert (first.status, second.status) == (STALE, CHANGED)
    assert said in first.detail
    assert agent.id not in {effect.owner for effect in made.machine.effects}


@dataclass(frozen=True)
class Says:
    """A `when` that is always so."""

    source: str
    names: frozenset[str] = frozenset({"item"})

    def __call__(self, facts: Mapping[str, object]) -> object:
        return True


@pytest.mark.parametrize(
    ("when", "change", "status"),
    [
        ("'[keep]' not in item.title", {"title": "[keep] it"}, STALE),
        ("'[keep]' not in item['title']", {"title": "[keep] it"}, STALE),
        ("item.number > 0", {"title": "[keep] it"}, CHANGED),
        ("item.number > 0", {"updated_at": BEGINNING}, CHANGED),
        ("item.updated_at is none", {"updated_at": BEGINNING}, STALE),
        ("item.url == ''", {"url": "https://example.org"}, STALE),
        ("session.name != 'title'", {"title": "[keep] it"}, CHANGED),
    ],
)
def test_an_edit_matters_where_some_rule_reads_what_was_edited(when: str, change: dict[str, Any], status: str) -> None:
    made, agent = world()
    book = one_rule()
    (play,) = book.plays
    (rule,) = play.rules
    reads = Says(when, frozenset({"session" if when.startswith("session") else "item"}))
    rule = replace(rule, match=replace(rule.match, when=reads))
    plan = made.plan(replace(book, plays=(replace(play, rules=(rule,)),)))
    made.provider.items[agent.ref] = replace(made.provider.items[agent.ref], **change)
    first, second = made.apply(plan).results
    assert (first.status, second.status) == (status, CHANGED)


def test_a_pull_request_that_delivers_the_issue_by_now_keeps_its_session() -> None:
    made, agent = world()
    plan = made.plan(ending())
    pull = WorkItemRef.parse("items:demo/app#9")
    made.provider.items[agent.ref] = replace(made.provider.items[agent.ref], open_links=(pull,))
    first, second = made.apply(plan).results
    assert (first.status, second.status) == (STALE, CHANGED)
    assert "demo/app#9 is open" in first.detail
    assert agent.id not in {effect.owner for effect in made.machine.effects}


@pytest.mark.parametrize("asked", [False, None])
def test_who_attaches_meanwhile_matters_where_the_rule_asks(asked: bool | None) -> None:
    made, agent = world()
    book = one_rule(session=SessionMatch(attached=asked))
    plan = made.plan(book)
    assert {action.guard.attached for action in plan.actions} == {"" if asked is None else "no"}
    assert agent.session
    agent.session.attached = 1
    first, second = made.apply(plan).results
    assert (first.status, second.status) == (CHANGED if asked is None else STALE, CHANGED)


def test_what_can_no_longer_be_seen_is_held() -> None:
    made, agent = world()
    plan = made.plan(ending())
    made.item("demo/app#1", "closed", silent="Bad Gateway")
    outcome = made.apply(plan)
    assert [h.reason for h in outcome.held] == ["Bad Gateway"]
    assert agent.id not in {effect.owner for effect in made.machine.effects}


def test_an_agent_that_ended_by_itself_is_only_nearer() -> None:
    made, agent = world()
    plan = made.plan(ending())
    assert agent.pane
    made.machine.end(agent.pane.pid)
    assert {r.status for r in made.apply(plan).results} == {CHANGED}
    assert made.phase(agent) == "retained"


def test_a_program_that_has_an_undead_agents_pane_since_is_not_meant() -> None:
    made = FakeWorld()
    made.item("demo/app#1", "closed")
    agent = made.session("demo/app#1", "undead")
    plan = made.plan(ending())
    assert agent.pane and agent.process
    editor = made.machine.spawn("vim", parent=made.servers.ensure(made.socket).id.pid)
    agent.pane.pid = editor.id.pid
    made.machine.end(agent.process.pid)
    (result,) = made.apply(plan).results
    assert (result.status, result.detail[:30]) == (STALE, "the pane's process has changed")
    assert made.machine.alive(editor.id)


def test_a_server_that_was_started_anew_is_another() -> None:
    made, _ = world()
    plan = made.plan(ending())
    made.servers.stop(made.socket)
    made.machine.advance(5)
    stranger = made.foreign("loop-items-demo-app-1")
    made.apply(plan)
    assert not stranger.panes[0].input_off
    assert [effect for effect in made.machine.effects if not effect.owner] == []


def test_a_plan_of_another_machine_or_registry_is_refused_whole() -> None:
    made, _ = world()
    plan = made.plan(ending())
    made.registry.name = "another"
    with pytest.raises(StaleError, match="another registry"):
        made.apply(plan)
    assert made.machine.effects == []


def test_an_item_that_got_a_session_meanwhile_is_not_started_again() -> None:
    made = FakeWorld()
    made.item("demo/app#1", labels=("loop",))
    made.registry.prove_writable()
    plan = made.plan(running())
    made.session("demo/app#1")
    (result,) = made.apply(plan).results
    assert result.status == STALE
    assert len(made.registry.records) == 1


@pytest.mark.parametrize("phase", ["", "exited", "lost"])
@pytest.mark.parametrize("moved", ["the item", "the record"])
def test_no_agent_comes_back_for_what_was_closed_meanwhile(phase: str, moved: str) -> None:
    """A start, or a resume, that was planned before its item or its session was closed."""
    made = FakeWorld()
    made.item("demo/app#1", labels=("loop",))
    made.registry.prove_writable()
    agent = made.session("demo/app#1", phase, up_for=7200) if phase else None
    plan = made.plan(running())
    assert len(plan.actions) == 1
    if moved == "the item":
        made.item("demo/app#1", "closed", labels=("loop",))
    elif agent:
        made.registry.edit(agent.id, status="closed")
    else:
        made.session("demo/app#1", "gone")
    made.apply(plan)
    assert [pane for server in made.servers.all for _, pane in server.each() if pane.owner and not pane.dead] == []
    assert {record.status for record in made.registry.records.values()} <= {
        "closed" if moved == "the record" else "active"
    }


def test_an_item_whose_earlier_agent_is_alive_is_not_started() -> None:
    made = FakeWorld()
    made.item("demo/app#1")
    made.session("demo/app#1", "undead", up_for=7200)
    made.session("demo/app#1", "gone")
    plan = made.plan(running())
    assert plan.actions == ()
    assert ["its agent is alive" in held.reason for held in plan.held] == [True]
