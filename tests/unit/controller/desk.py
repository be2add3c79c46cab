"""A controller on a fake world: its clock moves only while it waits, and a test says what happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from loopctl.config import Config, Polling, load_config
from loopctl.controller.log import Log
from loopctl.controller.loop import Controller, Hint
from loopctl.controller.reload import Loaded, Reloader, digests, keep_fixed
from loopctl.controller.status import Snapshot
from loopctl.model.items import WorkItem
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Playbook
from loopctl.ports import World
from loopctl.testing import FakeWorld

INTERVAL = 60.0


class Desk:
    """`at(seconds, what)` does something at that time; `hint` sends one. `run(seconds)` lets the controller work as long."""

    def __init__(
        self,
        world: FakeWorld,
        playbook: Playbook,
        interval: float = INTERVAL,
        files: Iterable[str] = (),
        trusts: bool | None = None,
    ) -> None:
        self.world, self.playbook, self.files = world, playbook, tuple(files)
        self.config = replace(load_config(None, {}, Path("/")), polling=Polling(interval, 3), machine=world.name)
        if trusts is not None:
            self.config = replace(self.config, webhook=replace(self.config.webhook, trust_state=trusts))
        self.said: list[tuple[str, str, dict[str, Any]]] = []
        self.snapshots: list[Snapshot] = []
        self.configured: list[Config] = []
        self.waits = 0
        self.stopping = False
        self.every_wait: Callable[[], None] = lambda: None
        self._plans: list[tuple[float, Callable[[], object]]] = []
        self._hints: list[Hint] = []
        self._end = 0.0
        self.controller = Controller(
            Reloader(self._load), self, self._log, self._publish, lambda: 0.5, {"pid": 1, "playbooks": []}
        )

    def _load(self, keep: Config | None) -> Loaded:
        ports = replace(self.world.world, interrupted=self._interrupted)
        return Loaded(self.config, keep_fixed(self.config, keep), self.playbook, ports, digests(self.files))

    def _interrupted(self) -> bool:
        return self.stopping or self.world.world.interrupted()

    @property
    def _log(self) -> Log:
        desk = self

        class Said(Log):
            def __call__(self, level: str, message: str, **fields: Any) -> None:
                desk.said.append((level, message, fields))

        return Said(lambda text: None, self.world.now, as_json=True)

    def _publish(self, snapshot: Snapshot) -> None:
        self.snapshots[:] = [snapshot]

    def wait(self, seconds: float) -> tuple[Hint, ...]:
        self.waits += 1
        self.every_wait()
        now = self.world.machine.time
        due = min([now + seconds, self._end, *(moment for moment, _ in self._plans)])
        self.world.machine.advance(max(0.0, due - now))
        now = self.world.machine.time
        for plan in [plan for plan in self._plans if plan[0] <= now]:
            self._plans.remove(plan)
            plan[1]()
        if now >= self._end:
            self.stopping = True
        hints, self._hints = tuple(self._hints), []
        return hints

    def show(self, snapshot: Snapshot) -> None:
        """Nobody looks."""

    def configure(self, config: Config) -> None:
        self.configured.append(config)

    def at(self, seconds: float, what: Callable[[], object]) -> None:
        self._plans.append((self.world.machine.time + seconds, what))

    def hint(self, *refs: str, may_start: bool = False, ended: bool = False, told: WorkItem | None = None) -> None:
        self._hints.append(Hint(tuple(WorkItemRef.parse(ref, "items") for ref in refs), may_start, ended, told))

    def run(self, seconds: float) -> int:
        self._end, self.stopping = self.world.machine.time + seconds, False
        return self.controller.run()

    @property
    def cycles(self) -> list[dict[str, Any]]:
        return [dict(fields) for fields in self.world.journal.of("poll.cycle")]

    def ports(self) -> World:
        return self._load(None).world
