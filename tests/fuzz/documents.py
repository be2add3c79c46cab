"""What people write: playbooks, configs, items files and saved plans."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from loopctl.adapters.items_file import ItemsFile
from loopctl.cli.apply import is_saved
from loopctl.cli.output import Progress
from loopctl.cli.wiring import Stop, build_world
from loopctl.config import load_config
from loopctl.model.encode import plan_digest, plan_to_dict
from loopctl.model.facts import Known
from loopctl.model.plan import Plan
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Policy
from loopctl.playbook.compile import load_playbook
from loopctl.playbook.items import load_items
from loopctl.playbook.kinds import kind_of_file
from loopctl.playbook.plans import load_plan
from loopctl.playbook.validate import validate_file
from loopctl.render.problems import problems_text
from loopctl.testing import FakeWorld
from tests.fuzz.civil import civil, fit_to_show, shown_safely
from tests.fuzz.targets import Target
from tests.structure.documents import documented
from tests.unit.render.samples import HOSTILE, hostile_plan, rich_plan

REF = WorkItemRef.parse("items:demo/app#1")


def _documented(kind: str) -> Sequence[bytes]:
    found = [block.text.encode() for block in documented() if block.kind == kind]
    assert found
    return found


@cache
def _crowd() -> FakeWorld:
    """A world with something of each kind, titles from strangers included."""
    world = FakeWorld()
    for number, state in enumerate(("open", "closed", "merged", "open"), 1):
        world.item(f"demo/app#{number}", state, title=HOSTILE, labels=("agent", HOSTILE))
    world.item("demo/app#5", silent="GitHub: Bad Gateway (HTTP 502)")
    for number in (1, 2, 3, 5):
        world.session(f"demo/app#{number}")
    world.foreign("somebody")
    return world


def playbook(data: bytes, folder: Path) -> bool:
    file = folder / "book.yml"
    file.write_bytes(data)
    _validated(file)
    kind_of_file(str(file))
    loaded = civil(lambda: load_playbook([str(file)], extra_vars={}, tags=frozenset(), policy=Policy()))
    if loaded is None:
        return False
    world = _crowd()
    before = world.snapshot()
    civil(lambda: world.plan(loaded))
    assert world.snapshot() == before, "planning has changed something"
    return True


def config(data: bytes, folder: Path) -> bool:
    file = folder / "config.yaml"
    file.write_bytes(data)
    _validated(file)
    loaded = civil(lambda: load_config(str(file), {"HOME": str(folder)}, folder))
    if loaded is None:
        return False
    # Whatever it says, looking at it makes nothing.
    before = sorted(folder.rglob("*"))
    civil(lambda: build_world(loaded, "fuzz", {"HOME": str(folder), "PATH": ""}, Progress(), Stop()))
    assert sorted(folder.rglob("*")) == before
    return True


def items(data: bytes, folder: Path) -> bool:
    file = folder / "items.yaml"
    file.write_bytes(data)
    _validated(file)
    read = civil(lambda: load_items(file))
    provider = ItemsFile(str(file), "agent")
    provider.owns(REF)
    facts = (provider.get([REF])[REF], provider.listed())
    for fact in facts:
        if not isinstance(fact, Known):
            fit_to_show(fact.reason)
    if read is None:
        assert not any(isinstance(fact, Known) for fact in facts), "a file that cannot be read says something"
    return read is not None


def saved_plan(data: bytes, folder: Path) -> bool:
    """A plan is carried out as it was made, or not at all."""
    file = folder / "plan.json"
    file.write_bytes(data)
    _validated(file)
    is_saved(str(file))
    read = civil(lambda: load_plan(str(file)))
    if read is None:
        return False
    assert plan_digest(read) in _digests(), "an edited plan was accepted"
    return True


def _validated(file: Path) -> None:
    _, problems = validate_file(str(file))
    for problem in problems:
        fit_to_show(problem.message)
    shown_safely(problems_text(problems))


@cache
def _plans() -> Sequence[Plan]:
    rich = rich_plan()
    return rich, hostile_plan(), replace(rich, actions=rich.actions[:1]), Plan(rich.created_at, "desk", "")


@cache
def _digests() -> frozenset[str]:
    return frozenset(map(plan_digest, _plans()))


def _saved_plans() -> Sequence[bytes]:
    return [json.dumps(plan_to_dict(plan), indent=2).encode() for plan in _plans()]


TARGETS = (
    Target("playbook", lambda: _documented("playbook"), playbook, tree=True),
    Target("config", lambda: _documented("config"), config, tree=True),
    Target("items file", lambda: _documented("items"), items, tree=True),
    Target("saved plan", _saved_plans, saved_plan, tree=True),
)
