"""A small world of real panes and processes in which anything may happen in any order. WORLDS (a fiftieth of it) says how many; without
it the same few each time."""

from __future__ import annotations

import gc
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from loopctl.model.facts import Known, Unknown
from loopctl.model.items import CLOSED, MERGED, OPEN
from loopctl.model.plan import CHANGED
from loopctl.model.rules import RETAIN, RUN, Ensure, ItemMatch, Limits, Playbook
from loopctl.model.sessions import CLOSED_STATUS, Pane
from loopctl.ports import World
from loopctl.run import apply_plan, plan_once
from tests.properties.play import WORLDS, play, report
from tests.support import wait_until
from tests.tmux.strangers import Server
from tests.worlds import items_of, make_world, one_rule

pytestmark = pytest.mark.tmux

REFS = [f"github:octo/app#{number}" for number in (1, 2, 10)]
#: At most so many applies until nothing is left to do.
ROUNDS = 4

#: What was tried, over all worlds of this process.
TRIED: Counter[str] = Counter()

refs = st.sampled_from(REFS)
some = st.integers(0, 7)


def _playbook() -> Playbook:
    wanted = ((RUN, ItemMatch(state=(OPEN,))), (RETAIN, ItemMatch(state=(CLOSED, MERGED))))
    books = [one_rule(Ensure(session=session), item=item) for session, item in wanted]
    play = books[0].plays[0]
    rules = [replace(book.plays[0].rules[0], name=f"rule {n}") for n, book in enumerate(books)]
    return replace(books[0], plays=(replace(play, rules=tuple(rules), limits=Limits(100, 1.0)),))


class RealWorld(RuleBasedStateMachine):
    """What may happen to a server on a socket of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="lc-"))
        self.server = Server(str(self.folder / "s"))
        self.world = make_world(self.folder / "state", self.server.socket, dict.fromkeys(REFS, OPEN))
        self.book = _playbook()
        #: Panes of a person, alive and open to typing.
        self.theirs = {self.server.session("loop-github-octo-app"), self.server.session("neighbour")}
        TRIED["worlds"] += 1

    def _panes(self, *, dead: bool | None = None) -> list[Pane]:
        view = self.world.terminals.look(self.server.socket)
        assert isinstance(view, Known), view
        return [pane for pane in view.value.panes if pane.mark and dead in {None, pane.dead}]

    def _apply(self, world: World) -> None:
        TRIED["actions"] += len(apply_plan(plan_once(self.book, world), world).results)

    @initialize()
    def begin(self) -> None:
        self._apply(self.world)

    # --- what may happen

    @rule(ref=refs, said=st.sampled_from([OPEN, OPEN, CLOSED, CLOSED, MERGED, Unknown("Bad Gateway")]))
    def item_becomes(self, ref: str, said: str | Unknown) -> None:
        items_of(self.world)[ref] = said

    @rule(ref=refs, said=st.sampled_from([OPEN, CLOSED, MERGED]))
    def an_item_is_seen_to(self, ref: str, said: str) -> None:
        items_of(self.world)[ref] = said
        self._apply(self.world)

    @rule(n=some)
    def agent_ends(self, n: int) -> None:
        if panes := self._panes(dead=False):
            pane = panes[n % len(panes)].pane_id
            self.server.run("select-pane", "-e", "-t", pane)
            self.server.run("send-keys", "-t", pane, "C-c")
            wait_until(lambda: self._is_dead(pane), what=f"{pane} is dead")

    def _is_dead(self, pane_id: str) -> bool:
        # A server whose SIGCHLD was lost collects its children when it makes another one.
        self.server.run("run-shell", "true")
        return any(pane.pane_id == pane_id for pane in self._panes(dead=True))

    @rule(n=some, dead=st.booleans())
    def somebody_kills_a_pane(self, n: int, dead: bool) -> None:
        if panes := self._panes(dead=dead):
            self.server.run("kill-pane", "-t", panes[n % len(panes)].pane_id)

    @rule(n=some)
    def somebody_turns_input_on(self, n: int) -> None:
        if panes := self._panes():
            self.server.run("select-pane", "-e", "-t", panes[n % len(panes)].pane_id)

    @rule(n=some)
    def somebody_renames_a_session(self, n: int) -> None:
        if panes := self._panes():
            pane = panes[n % len(panes)]
            self.server.run("rename-session", "-t", pane.session_id, f"mine-{pane.session_id[1:]}")

    @rule()
    def somebody_starts_something_of_their_own(self) -> None:
        self.theirs.add(self.server.session(f"own-{len(self.theirs)}"))

    @rule()
    def loopctl_applies(self) -> None:
        self._apply(self.world)

    @rule(after=st.integers(0, 6))
    def loopctl_is_interrupted(self, after: int) -> None:
        asked = iter(range(after))
        self._apply(replace(self.world, interrupted=lambda: next(asked, None) is None))

    @rule(ref=refs, then=st.sampled_from([OPEN, CLOSED]), n=some)
    def the_world_moves_between_plan_and_apply(self, ref: str, then: str, n: int) -> None:
        plan = plan_once(self.book, self.world)
        items_of(self.world)[ref] = then
        self.somebody_kills_a_pane(n, dead=False)
        apply_plan(plan, self.world)

    # --- what was promised

    @invariant()
    def nobody_else_is_hurt(self) -> None:
        TRIED["steps"] += 1
        lines = self.server.run("list-panes", "-a", "-F", "#{pane_id} #{pane_dead}#{pane_input_off}#{@loopctl_id}|")
        seen = dict(line.split(" ", 1) for line in lines.splitlines())
        assert {pane: seen.get(pane) for pane in self.theirs} == dict.fromkeys(self.theirs, "00|")

    @invariant()
    def an_item_has_one_agent(self) -> None:
        alive = Counter(pane.ref_mark for pane in self._panes(dead=False))
        assert all(number == 1 for number in alive.values()), alive

    @invariant()
    def what_is_closed_has_ended_and_is_written_down(self) -> None:
        alive = {pane.mark for pane in self._panes(dead=False)}
        for record in self.world.registry.all():
            assert record.status != CLOSED_STATUS or record.id not in alive
            assert not record.transcript or Path(record.transcript).is_file()

    def teardown(self) -> None:
        """All is well again: it comes to rest."""
        try:
            for ref, said in items_of(self.world).items():
                items_of(self.world)[ref] = OPEN if isinstance(said, Unknown) else said
            for _ in range(ROUNDS):
                plan = plan_once(self.book, self.world)
                results = apply_plan(plan, self.world).results
                assert {result.status for result in results} <= {CHANGED}, results
            plan = plan_once(self.book, self.world)
            assert plan.actions == ()
            waits = {str(held.ref) for held in plan.held}
            wanted = {ref for ref, said in items_of(self.world).items() if said == OPEN} - waits
            assert {pane.ref_mark for pane in self._panes(dead=False)} - waits == wanted
            self.nobody_else_is_hurt()
        finally:
            subprocess.run(
                ["tmux", "-S", self.server.socket, "kill-server"], check=False, capture_output=True, timeout=20
            )
            shutil.rmtree(self.folder, ignore_errors=True)
            del self.world


def test_any_world_of_real_panes_keeps_what_was_promised() -> None:
    TRIED.clear()
    play(RealWorld, worlds=WORLDS // 50, few=3, steps=25, few_steps=12)
    # Their registries belong to this thread; later they might be collected in another one.
    gc.collect()
    report(TRIED, "real-worlds.json")
    assert TRIED["worlds"] and TRIED["actions"]
