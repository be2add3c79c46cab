"""Each fault at each call of each thing that loopctl does: it ends well, and nobody else is hurt on the way."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from random import Random

import pytest

from loopctl.errors import LoopctlError
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS, STATUSES
from loopctl.testing import Crash, FakeWorld, SimPane
from tests.faults.stages import STAGES, Stage, heard
from tests.faults.strikes import KINDS, Strike, faults_of

#: How often the thing is done again without a fault, with a long wait (in seconds) after each time but the first.
ROUNDS = 8
#: How often each fault of each call is tried where not everything is.
SAMPLE = 4
WAIT = 600.0


@dataclass
class Watch:
    """Looks after each call whether a promise is broken, by what is true and not by what loopctl sees."""

    fake: FakeWorld
    bystander: str
    seen: int = 0
    items: dict[str, WorkItemRef] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()
    strangers: dict[int, str] = field(default_factory=dict)
    foreign: str = ""
    #: Whether input that is off stays off.
    strict: bool = True

    def __post_init__(self) -> None:
        records = self.fake.registry.records.values()
        self.closed = frozenset(r.id for r in records if r.status == CLOSED_STATUS)
        self.foreign, self.strangers = self._foreign(), self._strangers()
        self.seen = len(self.fake.machine.effects)
        for server in self.fake.servers.all:
            self.texts |= {pane.owner: pane.text for _, pane in server.each() if pane.owner}

    def _foreign(self) -> str:
        return repr([pane for server in self.fake.servers.all for _, pane in server.each() if not pane.owner])

    def _strangers(self) -> dict[int, str]:
        return {p.id.pid: repr(p) for p in self.fake.machine.processes.values() if not p.owner}

    def __call__(self, name: str) -> None:
        """After a call of this name."""
        self.effects()
        if name.startswith(("terminals.", "registry.", "processes.")):
            self._one_live_pane()
            self._closed_means_ended()

    def effects(self) -> None:
        new = self.fake.machine.effects[self.seen :]
        self.seen += len(new)
        for effect in new:
            assert effect.owner or effect.what == "workspace", f"a stranger was touched: {effect}"
            assert effect.owner != self.bystander or effect.what == "ledger", f"{effect} of one that is as it should be"
            if effect.what == "start":
                self.texts[effect.owner] = b"says hello"
                self._only_one(effect.owner)
            if effect.what == "signal" and self.strict:
                assert effect.owner not in self._deaf_to_nobody(), "signalled while somebody could type to it"
            if effect.what == "remove" and effect.owner in self.texts:
                assert self._kept(effect.owner), f"the pane of {effect.owner} was removed before it was saved"

    def _live(self) -> list[SimPane]:
        return [pane for server in self.fake.servers.all for _, pane in server.each() if not pane.dead and pane.owner]

    def _only_one(self, new: str) -> None:
        self.items |= {id_: record.ref for id_, record in self.fake.registry.records.items()}
        others = [pane.owner for pane in self._live() if pane.owner != new]
        assert self.items[new] not in map(self.items.get, others), "a second one was started beside a live one"

    def _deaf_to_nobody(self) -> set[str]:
        """Sessions with a live pane that takes input."""
        return {pane.owner for pane in self._live() if not pane.input_off}

    def _kept(self, owner: str) -> bool:
        text = self.texts[owner]
        return any(text in whole for whole in self.fake.transcripts.files.values())

    def _one_live_pane(self) -> None:
        self.items |= {id_: record.ref for id_, record in self.fake.registry.records.items()}
        count = Counter(self.items.get(pane.owner) for pane in self._live())
        count.pop(None, None)
        assert all(number == 1 for number in count.values()), f"two live panes: {count}"

    def _closed_means_ended(self) -> None:
        records = self.fake.registry.records
        alive = {p.owner for p in self.fake.machine.processes.values() if p.owner in records and not p.row.ended}
        early = [id_ for id_ in alive - self.closed if records[id_].status == CLOSED_STATUS]
        assert not early, f"closed while its processes live: {early}"

    def at_the_end(self) -> None:
        """When all is quiet."""
        assert self._foreign() == self.foreign
        left = self._strangers()
        # What they did by themselves they may do.
        assert {pid: row for pid, row in self.strangers.items() if left.get(pid) != row} == {}
        self._records()
        said = Counter(heard(self.fake))
        assert all(number == 1 for number in said.values()), f"told twice: {said}"
        posts = Counter((ref, text) for (ref, _), text in self.fake.provider.posts.items())
        assert all(number == 1 for number in posts.values()), f"posted twice: {posts}"

    def _records(self) -> None:
        for record in self.fake.registry.records.values():
            assert record.status in STATUSES
            closed = record.status == CLOSED_STATUS
            assert (record.closed_at is not None) == closed, f"closed_at of a {record.status} record"
            assert bool(record.reason) == closed, f"the reason of a {record.status} record"
        known = set(self.fake.registry.records) | {"", "asked for"}
        panes = {pane.owner for server in self.fake.servers.all for _, pane in server.each() if not pane.dead}
        assert panes <= known, "a live pane without a record"


def attempt(stage: Stage, strike: Strike) -> None:
    """Do it once. A crash and an error that is shown to people are ends that may be."""
    with suppress(Crash, LoopctlError):
        stage.act(strike.world())


def carry_out(stage: Stage, at: int, fault: str) -> Strike:
    """Do it with this fault at this call, then again without one until nothing is left to do. Returns the first run's strike."""
    watch = Watch(stage.fake, stage.bystander, strict=fault != "then-types")
    strike = Strike(stage.fake, at, fault, stage.before, watch)
    attempt(stage, strike)
    stage.between()
    for number in range(ROUNDS):
        attempt(stage, Strike(stage.fake, watch=watch))
        if number:
            stage.fake.machine.advance(WAIT)
        if stage.quiet():
            break
    else:
        raise AssertionError("it does not come to rest")
    watch.at_the_end()
    stage.check()
    return strike


@cache
def clean_calls(name: str) -> tuple[str, ...]:
    """The calls of a run without a fault."""
    return tuple(carry_out(STAGES[name](), 0, "").calls)


@cache
def sample() -> frozenset[tuple[str, int, str]]:
    """Each fault of each call a few times, wherever, the same each time."""
    every: dict[tuple[str, str], list[tuple[str, int, str]]] = {}
    for name in STAGES:
        for at, call in enumerate(clean_calls(name), 1):
            for fault in faults_of(call):
                every.setdefault((call, fault), []).append((name, at, fault))
    chance = Random(1)
    return frozenset(one for those in every.values() for one in chance.sample(those, min(SAMPLE, len(those))))


@pytest.mark.parametrize("name", STAGES)
def test_a_fault_at_any_call(name: str, everything: bool, record_property: pytest.RecordProperty) -> None:
    calls = clean_calls(name)
    wanted = [(at, fault) for at, call in enumerate(calls, 1) for fault in faults_of(call)]
    chosen = [pair for pair in wanted if everything or (name, *pair) in sample()]
    wrong = []
    for at, fault in chosen:
        try:
            strike = carry_out(STAGES[name](), at, fault)
        except AssertionError as error:
            wrong.append(f"{fault} at call {at}, {calls[at - 1]}: {str(error).partition(chr(10))[0]}")
        else:
            assert tuple(strike.calls[: at - 1]) == calls[: at - 1]
    assert not wrong, "\n".join(["", *wrong])
    record_property("faults", (name, len(calls), len(chosen)))


def test_every_call_that_is_made_can_fail_and_every_fault_is_tried() -> None:
    made = {call for name in STAGES for call in clean_calls(name)}
    rare = {"terminals.release", "registry.remove", "terminals.nudge", "ledger.arm", "harness.argv", "workspaces.look"}
    assert set(KINDS) - made <= rare
    assert made <= set(KINDS)
