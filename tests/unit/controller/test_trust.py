"""routing.trustWebhookState: when a signed payload stands for an answer of GitHub, and when it does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from loopctl.controller import trust
from loopctl.controller.trust import RECENT_SECONDS, Trust, item_from_json, item_to_json
from loopctl.model.items import ISSUE, PULL_REQUEST, WorkItem
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import LINKED_OWN, Playbook
from loopctl.testing import FakeWorld
from loopctl.testing.world import BEGINNING, SimRecord
from tests.unit.controller.desk import Desk
from tests.unit.playbooks import ending

REF = "demo/app#6"
HOUR = 3600.0


class Hook:
    """A session of a pull request (or an issue), and a controller that listens to what webhooks say of it."""

    def __init__(
        self,
        *,
        trusts: bool = True,
        kind: str = PULL_REQUEST,
        playbook: Playbook | None = None,
        linked: str = LINKED_OWN,
    ) -> None:
        self.world = FakeWorld()
        self.world.policy = replace(self.world.policy, linked_items=linked)
        self.kind = kind
        self.github("open", -HOUR)
        self.agent: SimRecord = self.world.session(REF)
        self.desk = Desk(self.world, playbook or ending(), interval=HOUR, trusts=trusts)

    def at(self, seconds: float) -> datetime:
        return BEGINNING + timedelta(seconds=seconds)

    def item(self, state: str, at: float, **fields: Any) -> WorkItem:
        """The item as it is from this second on (0 is when the controller starts)."""
        closed = None if state == "open" else self.at(at)
        made = WorkItem(
            WorkItemRef.parse(REF, "items"), self.kind, state, node_id="N6", updated_at=self.at(at), closed_at=closed
        )
        return replace(made, **fields)

    def github(self, state: str, at: float, **fields: Any) -> None:
        """What GitHub answers from now on."""
        item = self.item(state, at, **fields)
        self.world.provider.items[item.ref] = item

    def says(self, state: str, at: float, **fields: Any) -> None:
        """A payload comes."""
        self.desk.hint(REF, ended=state != "open", told=self.item(state, at, **fields))

    @property
    def phase(self) -> str | None:
        return self.world.phase(self.agent)

    @property
    def looks(self) -> list[tuple[str, int, int]]:
        """Of each look after the first one: what asked for it, calls to GitHub, items that were believed of a payload."""
        return [(c["trigger"], c["cost"]["calls"], c["told"]) for c in self.desk.cycles[1:]]


@pytest.mark.parametrize(("trusts", "calls"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("state", ["closed", "merged"])
def test_an_end_that_is_believed_costs_no_call(trusts: bool, calls: int, state: str) -> None:
    hook = Hook(trusts=trusts)
    hook.desk.at(10, lambda: (hook.github(state, 10), hook.says(state, 10)))
    hook.desk.run(60)
    assert hook.looks == [("webhook", calls, int(trusts))]
    assert hook.phase == "retained"
    assert hook.world.record(hook.agent).reason == ("pr-merged" if state == "merged" else "pr-closed")


def test_it_is_off_unless_it_is_asked_for() -> None:
    assert Desk(FakeWorld(), ending()).config.webhook.trust_state is False


def test_an_issue_whose_pull_requests_matter_is_asked_about() -> None:
    """Which pull requests are open for it is in no payload."""
    for linked, expected in (("own", ("webhook", 0, 1)), ("all", ("webhook", 1, 0))):
        hook = Hook(kind=ISSUE, linked=linked)
        hook.desk.at(10, lambda hook=hook: (hook.github("closed", 10), hook.says("closed", 10)))  # type: ignore[misc]
        hook.desk.run(60)
        assert hook.looks == [expected]
        assert hook.phase == "retained"


def test_an_open_pull_request_still_keeps_the_session_of_its_issue() -> None:
    hook = Hook(kind=ISSUE, linked="all")
    open_links = (WorkItemRef.parse("demo/app#7", "items"),)
    hook.desk.at(10, lambda: (hook.github("closed", 10, open_links=open_links), hook.says("closed", 10)))
    hook.desk.run(60)
    assert hook.phase == "running"


class Reads:
    source = "x"

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)

    def __call__(self, facts: object) -> object:
        return True


def rule_with(**match: Any) -> Playbook:
    book = ending()
    (play,) = book.plays
    (rule,) = play.rules
    item = replace(rule.match.item, reason=match.get("reason", ()))
    more = replace(rule, match=replace(rule.match, item=item, when=match.get("when")))
    return replace(book, plays=(replace(play, rules=(more,)),))


@pytest.mark.parametrize(
    ("kind", "playbook", "asked"),
    [
        (PULL_REQUEST, rule_with(when=Reads("item")), True),
        (PULL_REQUEST, rule_with(when=Reads("session")), False),
        (ISSUE, rule_with(reason=("completed",)), True),
        (PULL_REQUEST, ending(comment=Reads()), True),
    ],
)
def test_rules_that_ask_for_more_than_a_payload_carries(kind: str, playbook: Playbook, asked: bool) -> None:
    """A text may read links, and a reason may be that the issue became a discussion: neither is in a payload."""
    hook = Hook(kind=kind, playbook=playbook)
    reason = "completed" if kind == ISSUE else ""
    hook.desk.at(10, lambda: (hook.github("closed", 10, reason=reason), hook.says("closed", 10, reason=reason)))
    hook.desk.run(60)
    assert hook.looks == [("webhook", int(asked), int(not asked))]


def asks_and_stays(hook: Hook) -> None:
    """GitHub says that the item is open, and is asked."""
    hook.desk.run(60)
    assert hook.phase == "running"
    assert [told for _, _, told in hook.looks] == [0] * len(hook.looks)
    assert any(calls for _, calls, _ in hook.looks)


def test_what_was_never_read_is_asked_about() -> None:
    """After a start nothing is known, so nothing that is sent is known to be news."""
    hook = Hook()
    hook.world.provider.down = "GitHub: Bad Gateway (HTTP 502)"
    hook.desk.at(5, lambda: setattr(hook.world.provider, "down", ""))
    hook.desk.at(1, lambda: hook.says("closed", 1))
    asks_and_stays(hook)


def test_closed_and_then_reopened_told_in_the_wrong_order() -> None:
    """S16. Whoever reopened it: what a stranger's event tells counts as well, though nobody looks because of it."""
    hook = Hook()

    def out_of_order() -> None:
        hook.github("open", 11)
        hook.desk.hint(told=hook.item("open", 11))
        hook.says("closed", 10)

    hook.desk.at(12, out_of_order)
    hook.desk.run(60)
    assert hook.phase == "running"
    # The newer of the two is believed; that it is no end, though one was told, is then asked about.
    assert hook.looks == [("webhook", 0, 1)] + [("retry", 1, 0)] * 3


def test_in_the_right_order_but_both_before_the_look() -> None:
    hook = Hook()
    hook.desk.at(12, lambda: (hook.says("closed", 10), hook.says("open", 11)))
    hook.desk.run(13)
    assert hook.phase == "running"
    assert hook.looks == [("webhook", 0, 1)]


@pytest.mark.parametrize("states", [("open", "closed"), ("closed", "open")])
def test_two_states_within_one_second_are_for_github_to_order(states: tuple[str, str]) -> None:
    hook = Hook()
    hook.desk.at(12, lambda: (hook.github("open", 10), [hook.says(state, 10) for state in states]))
    asks_and_stays(hook)


def test_what_is_replayed_is_not_believed_again() -> None:
    """The first close is true. It is reopened, that webhook is lost, and the first one comes again."""
    hook = Hook()
    hook.desk.at(10, lambda: hook.says("closed", 10))
    hook.desk.run(12)
    assert hook.looks == [("webhook", 0, 1)]
    hook.github("open", 20)
    again = hook.world.session(REF)
    hook.desk.at(10, lambda: hook.says("closed", 10))
    hook.desk.run(60)
    assert hook.world.phase(again) == "running"
    assert hook.looks[1:] == [("webhook", 1, 0)] + [("retry", 1, 0)] * 3


@pytest.mark.parametrize("off", [86_400.0, RECENT_SECONDS + 1, -RECENT_SECONDS - 1])
def test_what_is_not_of_now_is_not_believed(off: float) -> None:
    """A day old, or of a day to come: newer than what was read, and no news."""
    hook = Hook()
    hook.github("open", -2 * 86_400.0)
    hook.desk.at(10, lambda: hook.says("closed", 10 - off))
    asks_and_stays(hook)


def test_what_waited_too_long_is_not_believed() -> None:
    """It was news when it came, and the worker was busy."""
    hook = Hook()
    hook.desk.at(10, lambda: (hook.says("closed", 10), hook.world.machine.advance(RECENT_SECONDS + 1)))
    hook.desk.run(RECENT_SECONDS + 30)
    assert hook.phase == "running"
    assert hook.looks[0] == ("webhook", 1, 0)


def test_what_is_older_than_what_was_read_is_not_believed() -> None:
    hook = Hook()
    hook.github("open", 0)
    hook.desk.at(10, lambda: hook.says("closed", -5))
    asks_and_stays(hook)


@pytest.mark.parametrize("other", [{"node_id": "N7"}, {"node_id": ""}, {"kind": ISSUE}])
def test_another_item_under_the_same_number_is_not_believed(other: dict[str, str]) -> None:
    hook = Hook()
    hook.desk.at(10, lambda: hook.says("closed", 10, **other))
    asks_and_stays(hook)


def test_an_item_that_is_not_ours_is_nothing() -> None:
    hook = Hook()
    hook.world.provider.outside.add(hook.agent.ref)
    hook.desk.at(10, lambda: hook.says("closed", 10))
    hook.desk.run(60)
    assert (hook.phase, hook.looks) == ("running", [])


def test_a_look_at_everything_asks() -> None:
    """And nothing that was told before it is believed after it."""
    hook = Hook()

    def both() -> None:
        hook.says("closed", 10)
        hook.desk.controller._queue.hurry("webhook")

    hook.desk.at(10, both)
    hook.desk.at(12, lambda: hook.desk.hint(REF))
    asks_and_stays(hook)
    # And what was told and is not so yet is asked about again.
    assert [c["whole"] for c in hook.desk.cycles][:3] == [True, True, False]


def test_who_tries_again_asks() -> None:
    """It could not be applied at once: by then it is no news any more."""
    hook = Hook()

    def told() -> None:
        hook.world.registry.holder = "loopctl apply, pid 7"
        hook.says("closed", 10)

    hook.desk.at(10, told)
    hook.desk.at(11, lambda: setattr(hook.world.registry, "holder", ""))
    asked: Callable[[], int] = lambda: len(hook.world.provider.questions)  # noqa: E731
    hook.desk.run(11)
    before = asked()
    hook.desk.run(60)
    assert (hook.phase, hook.looks[0]) == ("running", ("webhook", 0, 1))
    assert asked() > before


def test_switched_off_while_it_runs() -> None:
    hook = Hook()
    off = replace(hook.desk.config, webhook=replace(hook.desk.config.webhook, trust_state=False))
    reloader = hook.desk.controller._reloader
    hook.desk.at(5, lambda: setattr(reloader, "loaded", replace(reloader.loaded, config=off)))
    hook.desk.at(10, lambda: hook.says("closed", 10))
    asks_and_stays(hook)


def test_what_is_believed_does_not_count_as_read() -> None:
    class Spy(Trust):
        def read(self, items: Iterable[WorkItem]) -> None:
            items = list(items)
            read.append([item.state for item in items])
            super().read(items)

    read: list[list[str]] = []
    hook = Hook()
    hook.desk.controller._trust = Spy()
    hook.desk.at(10, lambda: hook.says("closed", 10))
    hook.desk.run(60)
    assert hook.looks == [("webhook", 0, 1)]
    assert read == [["open"], []]


def take(memory: Trust) -> list[WorkItem]:
    return list(memory.take(lambda ref: True, BEGINNING).values())


def test_an_answer_that_lags_behind_makes_nothing_older_news() -> None:
    """Reopened was told, the answer does not know of it yet, and then comes the close that was before it."""
    hook, memory = Hook(), Trust()
    memory.read([hook.item("open", 0)])
    memory.hear(hook.item("open", 11))
    take(memory)
    memory.read([hook.item("open", 0)])
    memory.hear(hook.item("closed", 10))
    assert take(memory) == []
    memory.hear(hook.item("closed", 12))
    assert take(memory) == [hook.item("closed", 12)]


def test_what_is_gone_has_to_be_read_again() -> None:
    hook, memory = Hook(), Trust()
    memory.read([hook.item("open", 0)])
    memory.read([hook.item("missing", 0, node_id="", updated_at=None)])
    memory.hear(hook.item("closed", 10))
    assert take(memory) == []


def test_no_identity_is_none() -> None:
    """What was only told has none that could be the same."""
    hook, memory = Hook(), Trust()
    for second in (1, 2):
        memory.hear(hook.item("closed", second, node_id="", kind=""))
    assert take(memory) == []


def test_its_memory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten is not believed."""
    monkeypatch.setattr(trust, "MOST_ITEMS", 3)
    items = [
        WorkItem(WorkItemRef.parse(f"demo/app#{n}", "items"), ISSUE, "open", node_id=f"N{n}", updated_at=BEGINNING)
        for n in range(1, 6)
    ]
    memory = Trust()
    memory.read(items)
    later = [replace(item, state="closed", updated_at=BEGINNING + timedelta(seconds=9)) for item in items]
    for item in later:
        memory.hear(item)
    # The first two were forgotten when they were told, and pushed out the next ones.
    assert (len(memory._seen), take(memory)) == (3, [])
    memory.read(items[:3])
    for item in later[:3]:
        memory.hear(replace(item, updated_at=BEGINNING + timedelta(seconds=10)))
    assert len(memory._told) == 3
    memory.read([items[3]])
    assert [item.ref.number for item in take(memory)] == [2, 3]


def test_an_item_on_its_way_to_the_worker() -> None:
    hook = Hook()
    item = hook.item("closed", 10, labels=frozenset({"b", "a"}), assignees=frozenset({"x"}), title="\u2028 \U0001f680")
    assert item_from_json(json.loads(json.dumps(item_to_json(item)))) == item
    still_open = hook.item("open", 10)
    assert item_from_json(json.loads(json.dumps(item_to_json(still_open)))) == still_open
