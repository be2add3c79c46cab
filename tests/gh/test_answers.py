"""Only closed and merged, and missing where a rule says so, ever lead to an ending: every row of the table, on real gh."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from loopctl import run
from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.model.facts import Known
from loopctl.model.plan import Plan
from loopctl.model.rules import RETAIN, Ensure, ItemMatch
from loopctl.observe import ask, observe
from loopctl.ports import World
from loopctl.testing import FakeWorld
from tests.fake_github import FakeGitHub
from tests.gh.answers import CASES, ENDS, HELD, REPO, STAYS, Case
from tests.gh.conftest import CANDIDATES
from tests.worlds import one_rule

pytestmark = pytest.mark.gh

REF = f"github:{REPO}#15"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_answer_becomes_a_state_and_a_plan(fake_github: FakeGitHub, case: Case) -> None:
    case.prepare(fake_github)
    world = world_of(fake_github, case)
    assert said(world) == case.state
    plain, wider = (plan(world_of(fake_github, again(fake_github, case)), states) for states in _RULES)
    assert outcome(plain) == case.plan
    assert outcome(wider) == case.with_missing
    words = " ".join([*(a.why for a in plain.actions), *(h.reason for h in plain.held), *plain.notes])
    assert case.words in words
    if outcome(plain) == HELD:
        assert not plain.actions


_RULES = (("closed", "merged"), ("closed", "merged", "missing"))


def again(fake: FakeGitHub, case: Case) -> Case:
    """The same answer once more: single-use faults are armed anew on an empty world."""
    fake.recover()
    for part in (fake.repositories, fake.renamed, fake.broken, fake.impostors, fake.broken_fields):
        part.clear()
    case.prepare(fake)
    return case


def test_nothing_but_closed_merged_and_missing_ends_a_session() -> None:
    for case in CASES:
        word = case.state.partition(" ")[0]
        assert case.plan != ENDS or word in {"closed", "merged"}, case.name
        assert case.with_missing != ENDS or word in {"closed", "merged", "missing"}, case.name
        assert case.plan == HELD or word in {"open", "closed", "merged"}, case.name


def world_of(fake: FakeGitHub, case: Case) -> World:
    """A simulated machine where octo/app#15 has a running session, and real gh in front of the fake GitHub."""
    gh = CANDIDATES["venv"] or CANDIDATES["system"]
    if gh is None:
        pytest.skip("there is no gh here")
    simulated = FakeWorld()
    simulated.session(REF, node_id=case.node)
    api = GitHubApi("github.com", os.environ | fake.env(), gh, timeout=case.timeout)
    return replace(simulated.world, providers=(GitHub(api, [REPO]),))


def said(world: World) -> str:
    """The state of the item as the plan gets to see it."""
    (subject,) = ask(world, observe(world), [s.ref for s in observe(world).subjects]).subjects
    if not isinstance(subject.item, Known):
        return "unknown"
    item = subject.item.value
    return f"{item.state} ({item.reason})" if item.reason else item.state


def plan(world: World, states: tuple[str, ...]) -> Plan:
    return run.plan_once(one_rule(Ensure(session=RETAIN), item=ItemMatch(state=states)), world)


def outcome(made: Plan) -> str:
    if made.actions:
        return ENDS
    return HELD if made.held else STAYS
