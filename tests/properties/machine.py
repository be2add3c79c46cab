"""A world in which anything may happen in any order, to items, agents, servers, people and loopctl; what was promised holds after each
step, and when all is well again it comes to rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from loopctl import run
from loopctl.errors import LoopctlError
from loopctl.executor.pause import pause, resume
from loopctl.executor.rebuild import restore, survey
from loopctl.model.items import CLOSED, MERGED, OPEN
from loopctl.model.plan import Plan
from loopctl.model.rules import REMOVE, RUN, Ensure, Match, Playbook, SessionMatch
from loopctl.model.sessions import CLOSED_STATUS, PAUSED_STATUS, RESTART_REASONS, RETAINED, STARTED, STATUSES
from loopctl.model.talk import COMMENTS, Comment
from loopctl.ports import World
from loopctl.testing import KINDS_OF_CHILDREN, STUBBORN, Crash, FakeWorld, SimPane
from tests.faults.stages import POLICY, Words, book, ended, heard, opened, ref
from tests.faults.strikes import Strike
from tests.faults.test_faults import Watch

ITEMS = [f"demo/app#{number}" for number in range(1, 5)]
REAPS = (Match(session=SessionMatch(phase=(RETAINED,), closed_for=3600.0)), Ensure(session=REMOVE))
BOOKS: dict[str, Playbook] = {
    "the loop": book(opened(deliver=COMMENTS, comment=Words("at work")), ended(comment=Words("has ended"))),
    "the loop, reaped": book(opened(deliver=COMMENTS), ended(grace=1.0), REAPS),
    "endings": book(ended()),
    "nothing kept": book(opened(), ended(REMOVE, grace=0.0)),
}
#: At most so many times is the world given time to come to rest, and so long each time (seconds).
ROUNDS, WAIT = 12, 900.0
#: How long loopctl takes until it looks (seconds).
START = 0.4

#: What was tried, over all worlds of this process.
TRIED: Counter[str] = Counter()

some = st.integers(0, 11)
states = st.sampled_from([OPEN, CLOSED, MERGED])
#: Up to a plan has been made, an apply makes about ten calls.
calls = st.integers(8, 50)
item_numbers = st.sampled_from(ITEMS)


class Shifting(FakeWorld):
    """A world whose wall clock somebody sets."""

    shift = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.shift


class AnyWorld(RuleBasedStateMachine):
    """What may happen."""

    def __init__(self) -> None:
        super().__init__()
        self.fake = Shifting(policy=POLICY)
        self.fake.foreign("somebody")
        self.fake.machine.spawn("mine-own-business")
        self.plans: list[Plan] = []
        self.watch = Watch(self.fake, "")
        #: Sessions that a person brought back to life: what is true of them is theirs to answer for.
        self.revived: set[str] = set()
        self.turned_off: set[str] = set()
        self.said = 0
        self.files: dict[str, bytes] = {}
        self.statuses: dict[str, str] = {}
        TRIED["worlds"] += 1

    @initialize(
        name=st.sampled_from(sorted(BOOKS)),
        states=st.lists(st.sampled_from([OPEN, OPEN, CLOSED]), min_size=4, max_size=4),
    )
    def begin(self, name: str, states: list[str]) -> None:
        self.book = BOOKS[name]
        for text, state in zip(ITEMS, states, strict=True):
            self.fake.item(text, state, labels=["loop"])
        if name == "endings":
            for text in ITEMS:
                self.fake.session(text)
        self._loopctl(self._apply)

    # --- items

    @rule(text=item_numbers, state=states)
    def item_becomes(self, text: str, state: str) -> None:
        labels = self.fake.provider.items[ref(text)].labels
        self.fake.item(text, state, labels=labels, closed_for=0)

    @rule(text=item_numbers)
    def label_comes_or_goes(self, text: str) -> None:
        item = self.fake.provider.items[ref(text)]
        self.fake.provider.items[ref(text)] = replace(item, labels=item.labels ^ {"loop"})

    @rule(text=item_numbers)
    def somebody_comments(self, text: str) -> None:
        self.said += 1
        thread = self.fake.provider.comments.setdefault(ref(text), [])
        thread.append(Comment(f"c{self.said}", "alice", f"comment {self.said} says so", self.fake.now()))

    @rule(text=item_numbers, silent=st.booleans())
    def provider_is_silent_about_it(self, text: str, silent: bool) -> None:
        if silent:
            self.fake.provider.silent[ref(text)] = "Bad Gateway"
        else:
            self.fake.provider.silent.pop(ref(text), None)

    @rule(down=st.sampled_from(["", "rate limit"]), listing=st.sampled_from(["", "cut off"]))
    def provider_is_down(self, down: str, listing: str) -> None:
        self.fake.provider.down, self.fake.provider.listing_down = down, listing

    # --- agents and servers

    def _panes(self, dead: bool) -> list[SimPane]:
        return [p for s in self.fake.servers.all for _, p in s.each() if p.owner and p.dead is dead]

    @rule(n=some)
    def agent_ends(self, n: int) -> None:
        if panes := self._panes(dead=False):
            self.fake.machine.end(panes[n % len(panes)].pid)

    @rule(n=some, kind=st.sampled_from(KINDS_OF_CHILDREN), stubborn=st.booleans())
    def agent_starts_something(self, n: int, kind: str, stubborn: bool) -> None:
        if not (panes := self._panes(dead=False)):
            return
        pane = panes[n % len(panes)]
        process = self.fake.machine.processes[pane.pid]
        own = {"session": process.row.sid} if kind in KINDS_OF_CHILDREN[:2] else {}
        self.fake.machine.spawn(
            f"{kind}-tool",
            parent=1 if kind == "daemon" else pane.pid,
            group=process.row.pgid if kind == "child" else 0,
            mark=process.row.mark,
            pane=process.row.pane,
            owner=pane.owner,
            **own,
            **({"habit": STUBBORN} if stubborn else {}),
        )

    @rule()
    def server_dies(self) -> None:
        self.fake.servers.stop(self.fake.socket)

    @rule(hangs=st.booleans())
    def server_hangs(self, hangs: bool) -> None:
        for server in self.fake.servers.all:
            server.hangs = hangs

    @rule(unlinked=st.booleans())
    def socket_is_deleted(self, unlinked: bool) -> None:
        for server in self.fake.servers.all:
            if unlinked or self.fake.servers.at(server.socket) is None:
                server.unlinked = unlinked

    # --- people

    @rule(n=some)
    def somebody_types(self, n: int) -> None:
        if panes := self._panes(dead=False):
            panes[n % len(panes)].text += b"somebody types\n"

    @rule(n=some, name=st.sampled_from(["mine", "loop-items-demo-app-1"]))
    def somebody_renames_a_session(self, n: int, name: str) -> None:
        sessions = [s for server in self.fake.servers.all for s in server.sessions]
        if sessions and name not in {session.name for session in sessions}:
            sessions[n % len(sessions)].name = name

    @rule(n=some, dead=st.booleans())
    def somebody_kills_a_pane(self, n: int, dead: bool) -> None:
        if panes := self._panes(dead):
            self.fake.servers.drop(panes[n % len(panes)])

    @rule(n=some, off=st.booleans())
    def somebody_turns_input(self, n: int, off: bool) -> None:
        if panes := self._panes(dead=False) + self._panes(dead=True):
            panes[n % len(panes)].input_off = off
            self.turned_off |= {panes[n % len(panes)].owner}

    @rule(n=some)
    def somebody_respawns_a_dead_pane(self, n: int) -> None:
        if not (panes := self._panes(dead=True)):
            return
        pane = panes[n % len(panes)]
        server, session = next((s, its) for s in self.fake.servers.all for its, p in s.each() if p is pane)
        record = self.fake.registry.records.get(pane.owner)
        process = self.fake.machine.spawn(
            "claude",
            parent=server.id.pid,
            mark=pane.owner if record is None or record.origin == STARTED else "",
            pane=(f"{server.socket},{server.id.pid},{session.session_id[1:]}", pane.pane_id),
            owner=pane.owner,
        )
        pane.pid, pane.dead, pane.died_at = process.id.pid, False, 0
        self.revived.add(pane.owner)
        self.watch.closed |= {pane.owner}

    @rule(n=some)
    def somebody_starts_something_of_their_own(self, n: int) -> None:
        name = f"own-{n}"
        server = self.fake.servers.at(self.fake.socket)
        if server is None or name not in {session.name for session in server.sessions}:
            self.fake.foreign(name)

    # --- clocks

    @rule(seconds=st.sampled_from([1, 30, 700, 4000, 100_000]))
    def time_passes(self, seconds: int) -> None:
        self.fake.machine.advance(seconds)

    @rule(seconds=st.sampled_from([-4000, -60, 60, 100_000]))
    def somebody_sets_the_clock(self, seconds: int) -> None:
        self.fake.shift += timedelta(seconds=seconds)

    # --- loopctl

    def _loopctl(self, what: Callable[[World], object], at: int = 0, fault: str = "") -> None:
        """Run it, with or without a fault; what it closes in this run was known to have ended."""
        # To start it takes a while. A tmux that an earlier run had called does what it does late in this run or the next two.
        self.fake.machine.advance(START)
        ended_items = {r for r, i in self.fake.provider.items.items() if i.state in {CLOSED, MERGED}}
        known = ended_items - set(self.fake.provider.silent) if not self.fake.provider.down else set()
        running = {pane.owner for pane in self._panes(dead=False)}
        effects = len(self.fake.machine.effects)
        open_before = {r.id for r in self.fake.registry.records.values() if r.status != CLOSED_STATUS}
        refs = {record.id: record.ref for record in self.fake.registry.records.values()}
        strike = Strike(self.fake, at, fault, watch=self._after_a_call)
        self.watch.strict = not fault
        with suppress(Crash, LoopctlError):
            what(strike.world())
        for id_ in open_before & set(self.fake.registry.records):
            record = self.fake.registry.records[id_]
            if record.status == CLOSED_STATUS and record.reason not in RESTART_REASONS:
                assert record.ref in known, (
                    f"{record.ref} was closed ({record.reason}) though nothing says that it has ended"
                )
        new = self.fake.machine.effects[effects:]
        if not strike.fault.startswith("then-"):
            signalled = {effect.owner for effect in new if effect.what == "signal"} & running & set(refs)
            wrong = {refs[id_] for id_ in signalled - self.revived} - known
            assert not wrong, (
                f"live agents of {sorted(map(str, wrong))} were signalled though nothing says that they have ended"
            )
        TRIED["runs"] += 1
        TRIED["faults"] += bool(fault) and not strike.fault.startswith("?")
        for effect in new:
            TRIED[effect.what] += 1

    def _after_a_call(self, name: str) -> None:
        for pane in self._panes(dead=False):
            self.watch.texts[pane.owner] = pane.text
        if self.revived:
            self.watch.effects()
        else:
            self.watch(name)

    def _apply(self, world: World) -> None:
        asked_at = world.clock()
        run.apply_plan(run.plan_once(self.book, world), world, asked_at=asked_at)

    @rule()
    def loopctl_applies(self) -> None:
        self._loopctl(self._apply)

    @rule(text=item_numbers, state=states, at=calls, choice=st.integers(0, 9), then=states)
    def something_fails_while_an_item_is_seen_to(self, text: str, state: str, at: int, choice: int, then: str) -> None:
        self.item_becomes(text, state)
        self._loopctl(self._apply, at, f"?{choice}")
        self.item_becomes(text, then)

    @rule(text=item_numbers, at=calls, choice=st.integers(0, 9))
    def something_fails_while_a_comment_is_passed_on(self, text: str, at: int, choice: int) -> None:
        self.somebody_comments(text)
        self._loopctl(self._apply, at, f"?{choice}")

    @rule(n=some, at=calls, choice=st.integers(0, 9))
    def something_fails_while_an_agent_is_replaced(self, n: int, at: int, choice: int) -> None:
        self.agent_ends(n)
        self._loopctl(self._apply, at, f"?{choice}")

    @rule(
        text=item_numbers, state=states, then=states, n=some, how=st.sampled_from(["item", "silent", "agent", "pane"])
    )
    def the_world_moves_between_plan_and_apply(self, text: str, state: str, then: str, n: int, how: str) -> None:
        self.item_becomes(text, state)
        plans = len(self.plans)
        self.loopctl_plans()
        match how:
            case "item":
                self.item_becomes(text, then)
            case "silent":
                self.provider_is_silent_about_it(text, silent=True)
            case "agent":
                self.agent_ends(n)
            case "pane":
                self.somebody_respawns_a_dead_pane(n)
        if len(self.plans) >= min(plans + 1, 4):
            self._loopctl(lambda world: run.apply_plan(self.plans[-1], world))

    @rule()
    def loopctl_plans(self) -> None:
        before = self.fake.snapshot()
        with suppress(LoopctlError):
            self.plans = [*self.plans[-3:], self.fake.plan(self.book)]
        assert self.fake.snapshot() == before, "a plan changed something"

    @rule(n=some)
    def somebody_else_applies_an_older_plan(self, n: int) -> None:
        if self.plans:
            plan = self.plans[n % len(self.plans)]
            self._loopctl(lambda world: run.apply_plan(plan, world))

    @rule(text=item_numbers, rests=st.booleans())
    def somebody_pauses_or_resumes(self, text: str, rests: bool) -> None:
        for record in [
            r for r in self.fake.registry.records.values() if r.ref == ref(text) and r.status != CLOSED_STATUS
        ]:
            self._loopctl(lambda world, record=record: (pause if rests else resume)(record, world))

    @rule(n=some)
    def somebody_edits_a_record(self, n: int) -> None:
        if records := list(self.fake.registry.records.values()):
            self.fake.registry.edit(records[n % len(records)].id)

    @rule()
    def registry_is_lost_and_rebuilt(self) -> None:
        panes = [p for s in self.fake.servers.all for its, p in s.each() if p.owner and its.mark]
        reachable = all(not s.hangs and not s.unlinked for s in self.fake.servers.all)
        # What has no pane any more cannot be rebuilt; the rest can, where tmux answers.
        if self.revived or not reachable or {p.owner for p in panes} != set(self.fake.registry.records):
            return
        # A dead pane without input is taken for that of a closed session; what lives on then makes it undead.
        self.watch.closed |= {pane.owner for pane in panes if pane.dead and pane.input_off}
        self.fake.registry.records.clear()
        self.statuses.clear()
        self._loopctl(lambda world: restore(survey(self.fake.socket, world), world))

    # --- what was promised

    @invariant()
    def nobody_else_is_hurt(self) -> None:
        TRIED["steps"] += 1
        self.watch.effects()

    @invariant()
    def the_registry_is_sound(self) -> None:
        records = self.fake.registry.records.values()
        assert {record.status for record in records} <= set(STATUSES)
        assert all((record.closed_at is not None) == (record.status == CLOSED_STATUS) for record in records)
        open_ones = Counter(record.ref for record in records if record.status != CLOSED_STATUS)
        assert all(number == 1 for number in open_ones.values())
        for record in records:
            assert self.statuses.get(record.id) != CLOSED_STATUS or record.status == CLOSED_STATUS, "opened again"
        self.statuses = {record.id: record.status for record in records}

    @invariant()
    def nothing_is_said_twice(self) -> None:
        assert all(number == 1 for number in Counter(heard(self.fake)).values())
        posts = Counter((where, key) for (where, key) in self.fake.provider.posts)
        assert all(number == 1 for number in posts.values())

    @invariant()
    def no_transcript_shrinks(self) -> None:
        for path, text in self.files.items():
            assert text.strip() in self.fake.transcripts.files[path]
        self.files = dict(self.fake.transcripts.files)

    def teardown(self) -> None:
        """All is well again, and people leave it alone: it comes to rest."""
        if not hasattr(self, "book"):
            return
        provider = self.fake.provider
        provider.silent.clear()
        provider.down = provider.listing_down = ""
        for server in self.fake.servers.all:
            server.hangs = False
        if len({server.socket for server in self.fake.servers.all}) == len(self.fake.servers.all):
            for server in self.fake.servers.all:
                server.unlinked = False
        for _ in range(ROUNDS):
            self._loopctl(self._apply)
            self.fake.machine.advance(WAIT)
            plan = self.fake.plan(self.book)
            if not plan.actions:
                break
        assert plan.actions == (), f"no rest: {[(a.verb, str(a.ref), a.why) for a in plan.actions]}"
        self._ended_is_ended(plan)
        if any(rule.ensure.session == RUN for rule in self.book.plays[0].rules):
            self._open_runs(plan)

    def _open_runs(self, plan: Plan) -> None:
        held = {held.ref for held in plan.held}
        for item in self.fake.provider.items.values():
            mine = [r for r in self.fake.registry.records.values() if r.ref == item.ref]
            open_ones = [r for r in mine if r.status != CLOSED_STATUS]
            if self.revived & {r.id for r in mine}:
                # No rule of an open item ends what a person brought back to life beside its agent.
                continue
            paused = any(r.status == PAUSED_STATUS for r in open_ones)
            if item.ref in held or item.state != OPEN or paused or not ("loop" in item.labels or mine):
                continue
            panes = [pane for pane in self._panes(dead=False) if pane.owner in {r.id for r in mine}]
            (record,) = open_ones
            assert [pane.owner for pane in panes] == [record.id]
            assert record.pane_id == panes[0].pane_id
            assert not panes[0].input_off or record.id in self.turned_off, "nobody can type to it"

    def _ended_is_ended(self, plan: Plan) -> None:
        held = {held.ref for held in plan.held}
        for text in ITEMS:
            item = self.fake.provider.items[ref(text)]
            if item.ref in held or item.state == OPEN:
                continue
            owners = {r.id for r in self.fake.registry.records.values() if r.ref == item.ref}
            alive = [p.row.name for p in self.fake.machine.processes.values() if p.owner in owners and not p.row.ended]
            assert alive == [], f"{text} has ended, and these live on: {alive}"
