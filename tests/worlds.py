"""A world of real adapters on a private tmux socket, with a journal and items that a test can read and change."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from loopctl.adapters.harnesses import CommandHarness
from loopctl.adapters.processes import LocalProcesses
from loopctl.adapters.registry import SqliteRegistry
from loopctl.adapters.registry_ledger import SqliteLedger
from loopctl.adapters.shell import clean_env
from loopctl.adapters.tmux import Tmux
from loopctl.adapters.transcripts import TranscriptFolder
from loopctl.adapters.worktrees_none import NoWorkspaces
from loopctl.model.events import EVENT_TYPES
from loopctl.model.facts import OUTSIDE, Fact, Known, Unknown
from loopctl.model.items import CLOSED, ISSUE, MERGED, OPEN, PULL_REQUEST, WorkItem
from loopctl.model.observed import Question
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import (
    RETAIN,
    Ensure,
    ItemMatch,
    Limits,
    Match,
    Play,
    Playbook,
    Policy,
    Position,
    Rule,
    SessionMatch,
)
from loopctl.ports import Provider, World

#: What a test says of an item: a state, a whole item, or why it is not known.
Said = str | WorkItem | Unknown

MACHINE = "here"


@dataclass
class ListJournal:
    """ports.Journal that keeps what it was told: (event, level, fields)."""

    events: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)

    def emit(self, event: str, level: str = "info", **fields: object) -> None:
        assert event in EVENT_TYPES, event
        self.events.append((event, level, fields))

    def named(self, event: str) -> list[dict[str, object]]:
        """The fields of every event of one type."""
        return [fields for name, _, fields in self.events if name == event]


class DictProvider:
    """ports.Provider over a dictionary from ref to what is said of it; the test may change it at any time."""

    def __init__(self, items: Mapping[str, Said]) -> None:
        self.items = dict(items)
        self.asked_for: list[tuple[str, ...]] = []

    def owns(self, ref: WorkItemRef) -> bool:
        return ref in self._by_ref()

    def get(self, refs: Sequence[WorkItemRef]) -> Mapping[WorkItemRef, Fact[WorkItem]]:
        self.asked_for.append(tuple(map(str, refs)))
        facts = self._by_ref()
        return {ref: facts.get(ref, Unknown("not in the dictionary", OUTSIDE)) for ref in refs}

    def listed(self) -> Fact[tuple[WorkItem, ...]]:
        known = [fact.value for fact in self._by_ref().values() if isinstance(fact, Known)]
        return Known(tuple(item for item in known if item.state == OPEN))

    def describe(self) -> str:
        return "a dictionary"

    def asked(self) -> tuple[Question, ...]:
        return ()

    def _by_ref(self) -> dict[WorkItemRef, Fact[WorkItem]]:
        return {(ref := WorkItemRef.parse(text)): _fact(ref, said) for text, said in self.items.items()}


def _fact(ref: WorkItemRef, said: Said) -> Fact[WorkItem]:
    if isinstance(said, Unknown):
        return said
    if isinstance(said, WorkItem):
        return Known(said)
    kind = PULL_REQUEST if said == MERGED else ISSUE
    return Known(WorkItem(ref, kind, said, reason="completed" if said == CLOSED else ""))


def make_world(
    root: Path,
    socket: str,
    items: Mapping[str, Said] | Provider | None = None,
    harnesses: Mapping[str, Sequence[str]] | None = None,
    *,
    policy: Policy | None = None,
    machine: str = MACHINE,
    own_socket: str | None = None,
) -> World:
    """A World of real adapters: state in `root`, sessions on `socket`, providers from `items`, no progress shown.

    `harnesses` maps a name to its command line (default: `agent`, which sleeps). `own_socket` is the socket that loopctl
    may configure and start sessions on, where that is not `socket`. Its journal is a ListJournal.
    """
    providers: list[Provider] = []
    if items is not None:
        providers.append(DictProvider(items) if isinstance(items, Mapping) else items)
    env = clean_env(os.environ)
    own = own_socket or socket
    lines = harnesses if harnesses is not None else {"agent": ("sleep", "3600")}
    return World(
        machine=machine,
        registry=SqliteRegistry(root, now=_now, lock_timeout=5.0),
        terminals=Tmux(env, own_socket=own),
        processes=LocalProcesses(),
        providers=providers,
        harnesses={name: CommandHarness(name, tuple(argv), environ=env) for name, argv in lines.items()},
        journal=ListJournal(),
        transcripts=TranscriptFolder(root / "transcripts"),
        ledger=SqliteLedger(root, now=_now),
        workspaces=NoWorkspaces(),
        policy=policy or Policy(harness_kill_grace_seconds=2.0, default_harness="agent", spawn_workdir=str(root)),
        socket=own,
        now=_now,
        clock=time.monotonic,
        pause=_pause,
        interrupted=lambda: False,
        progress=lambda text: None,
    )


def journal_of(world: World) -> ListJournal:
    """The journal that make_world gave the world."""
    assert isinstance(world.journal, ListJournal)
    return world.journal


def items_of(world: World) -> dict[str, Said]:
    """The items that make_world gave the world, to be changed."""
    (provider,) = world.providers
    assert isinstance(provider, DictProvider)
    return provider.items


def one_rule(
    ensure: Ensure | None = None,
    *,
    item: ItemMatch | None = None,
    session: SessionMatch | None = None,
    limits: Limits | None = None,
) -> Playbook:
    """A playbook of one rule; by default a closed or merged item leaves a retained pane, without limits."""
    match = Match(item=item or ItemMatch(state=(CLOSED, MERGED)), session=session or SessionMatch())
    rule = Rule("the rule", Position("test.yml", 3, 5), match, ensure or Ensure(session=RETAIN))
    play = Play("the play", Position("test.yml", 1, 1), ("all",), (rule,), limits or Limits(1000, 1.0))
    return Playbook((play,))


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _now() -> datetime:
    return datetime.now(UTC)
