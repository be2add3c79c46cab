"""The loop: take what is due, do one turn, say what came of it. One worker, so nothing here needs a lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from loopctl.config import Config
from loopctl.controller.contest import Contests
from loopctl.controller.cycle import Budget, Cycle, turn
from loopctl.controller.log import ERROR, INFO, WARNING, Log
from loopctl.controller.queue import RELOAD, WEBHOOK, Queue, Work
from loopctl.controller.reload import Change, Reloader
from loopctl.controller.status import Snapshot, Tally, stamp, summary
from loopctl.controller.trust import Trust, is_enough
from loopctl.errors import EXIT_FAILED, EXIT_INCOMPLETE, EXIT_OK, EXIT_REFUSED, LoopctlError
from loopctl.model.items import WorkItem
from loopctl.model.plan import ENDINGS, FAILED, Plan
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS
from loopctl.ports import World
from loopctl.run import starts_sessions

#: The longest that the loop sleeps: a signal or a hint wakes it sooner.
_LONGEST_WAIT = 3600.0


@dataclass(frozen=True, slots=True)
class Hint:
    """Somebody said that these items are worth a look: `ended` that the last of them has ended (the others are what it
    delivers), `may_start` that they may be started. `told` is what a signed payload says of an item (of the last one, if any)."""

    refs: tuple[WorkItemRef, ...] = ()
    may_start: bool = False
    ended: bool = False
    told: WorkItem | None = None


class Inbox(Protocol):
    """Where hints come from."""

    def wait(self, seconds: float) -> Iterable[Hint]:
        """Wait for hints, a signal or the end of the time. Raises StateError when no hint can come any more."""
        ...

    def show(self, snapshot: Snapshot) -> None:
        """What is to be seen from outside now."""
        ...

    def configure(self, config: Config) -> None:
        """Another config is in force."""
        ...


class Controller:
    """Keeps a playbook true until it is asked to stop."""

    def __init__(
        self,
        reloader: Reloader,
        inbox: Inbox,
        log: Log,
        publish: Callable[[Snapshot], None],
        random: Callable[[], float],
        about: Mapping[str, Any],
    ) -> None:
        """`publish` is given every snapshot, `about` is what stands in each of them."""
        self._reloader = reloader
        self._inbox = inbox
        self._log = log
        self._trust = Trust()
        self._publish = publish
        config = reloader.loaded.config
        self._queue = Queue(self._clock, random, config.polling.interval_seconds, config.polling.max_retries)
        self._budget = Budget(config.polling.interval_seconds)
        self._contests = Contests(self._clock, config.polling.interval_seconds, config.polling.max_retries)
        self._tally = Tally({**about, "started_at": stamp(self._world.now())}, config.polling.interval_seconds)

    @property
    def _world(self) -> World:
        return self._reloader.loaded.world

    def _clock(self) -> float:
        return self._world.clock()

    def run(self, *, once: bool = False) -> int:
        """Turn until a signal asks to stop, or once. Returns the exit code."""
        config = self._reloader.loaded.config
        playbooks = [path for path, _ in self._reloader.loaded.playbook.sources]
        self._world.journal.emit("controller.started", once=once or None, playbooks=playbooks)
        self._log(INFO, "started", playbooks=playbooks, interval=config.polling.interval_seconds)
        code = EXIT_FAILED
        try:
            self._told()
            code = self._once() if once else self._forever()
        finally:
            self._world.journal.emit("controller.stopped", exit_code=code)
            self._log(INFO, "stopped")
        return code

    def _once(self) -> int:
        cycle = self._turn(Work(everything=True))
        self._report(cycle)
        return exit_code(cycle)

    def _forever(self) -> int:
        while not self._world.interrupted():
            if change := self._reloader.check():
                self._reloaded(change)
            if work := self._queue.take():
                cycle = self._turn(work)
                self._settle(cycle)
                self._report(cycle)
            for hint in self._inbox.wait(0 if work else min(self._queue.seconds(), _LONGEST_WAIT)):
                self._hinted(hint)
        return EXIT_OK

    def _hinted(self, hint: Hint) -> None:
        """Queue what has a session. What has none can only be started, which takes a look at everything."""
        loaded = self._reloader.loaded
        if hint.told:
            self._trust.hear(hint.told)
        refs = [ref for ref in hint.refs if any(provider.owns(ref) for provider in loaded.world.providers)]
        try:
            records = [record for record in loaded.world.registry.all() if record.ref in refs]
        except LoopctlError:
            self._queue.hint(refs, ended=hint.ended)
            return
        served = {record.ref for record in records if record.status != CLOSED_STATUS}
        for ref in dict.fromkeys(record.ref for record in records):
            self._queue.hint([ref], ended=hint.ended and ref == hint.refs[-1] and ref in served)
        # The items of a hint belong together: one open session serves them all.
        if refs and hint.may_start and not served and starts_sessions(loaded.playbook):
            self._queue.hurry(WEBHOOK)

    def _turn(self, work: Work) -> Cycle:
        loaded = self._reloader.loaded
        work = self._believing(work)
        restraint = (self._budget, self._contests, self._queue.is_blocked)
        cycle = turn(work, loaded.playbook, loaded.world, *restraint, self._announce(work))
        self._trust.read(cycle.read)
        return cycle

    def _believing(self, work: Work) -> Work:
        """With what was told of its items, as far as that is enough. A look at everything asks, always."""
        loaded = self._reloader.loaded
        told = self._trust.take(work.accepts, loaded.world.now())
        if work.everything or not loaded.config.webhook.trust_state:
            return work
        policy = loaded.world.policy
        return replace(work, told={ref: item for ref, item in told.items() if is_enough(item, loaded.playbook, policy)})

    def _announce(self, work: Work) -> Callable[[Plan], None]:
        def about_to(plan: Plan) -> None:
            if not work.everything:
                return
            for action in plan.actions:
                if action.verb in ENDINGS and action.guard.item_state:
                    self._world.journal.emit(
                        "poll.closure_detected",
                        ref=str(action.ref),
                        session=action.guard.record_id,
                        reason=action.after.reason,
                    )

        return about_to

    def _settle(self, cycle: Cycle) -> None:
        """What worked is forgotten, what did not is tried again later."""
        nothing_done = bool(cycle.error or cycle.refused)
        if cycle.work.everything:
            seen = {result.action.ref for result in cycle.outcome.results} | set(cycle.put_off) | cycle.work.ended
            if not nothing_done and not cycle.stopped:
                self._queue.poll_worked(seen)
            elif not cycle.over_limits:
                self._queue.poll_failed()
        troubled = cycle.troubled
        if nothing_done and not cycle.work.everything:
            troubled = dict.fromkeys(cycle.work.refs, False) | troubled
        unconfirmed = self._unconfirmed(cycle) - troubled.keys()
        for ref in cycle.work.refs - troubled.keys() - unconfirmed - set(cycle.put_off):
            self._queue.worked(ref)
        for ref in unconfirmed:
            # What GitHub says may lag behind what it sends.
            self._queue.failed(ref, blocks=False, ended=True)
        for result in cycle.outcome.results:
            if result.action.ref not in troubled:
                self._queue.worked(result.action.ref)
        for ref, failed in troubled.items():
            delay = self._queue.failed(ref, blocks=failed, ended=ref in cycle.work.ended)
            self._log(
                WARNING, "will try again", ref=str(ref), attempt=self._queue.attempts(ref), seconds=round(delay, 1)
            )

    def _unconfirmed(self, cycle: Cycle) -> set[WorkItemRef]:
        """Items of which an end was told, and that have not ended as far as could be seen."""
        ending = {result.action.ref for result in cycle.outcome.results}
        return set(cycle.work.ended) - ending - set(cycle.put_off)

    def _report(self, cycle: Cycle) -> None:
        found = summary(cycle)
        self._tally.queue_depth, self._tally.dropped = self._queue.depth, self._queue.dropped
        self._tally.note(cycle, self._world.now())
        level = ERROR if cycle.error else INFO if cycle.is_whole else WARNING
        self._world.journal.emit("poll.cycle", level, **found)
        shown = {name: value for name, value in found.items() if value and name not in {"whole", "cost"}}
        self._log(level, "looked", **shown)
        for result in cycle.outcome.results:
            how = ERROR if result.status == FAILED else INFO
            self._log(
                how, f"{result.action.verb} {result.status}", ref=str(result.action.ref), detail=result.detail or None
            )
        for held in cycle.held:
            self._log(WARNING, "held", ref=str(held.ref), reason=held.reason)
        self._told()

    def _told(self) -> None:
        snapshot = self._tally.snapshot(self._world.now())
        self._inbox.show(snapshot)
        try:
            self._publish(snapshot)
        except LoopctlError as error:
            self._log(WARNING, "the status file was not written", reason=error.message)

    def _reloaded(self, change: Change) -> None:
        journal = self._world.journal
        if change.loaded is None:
            where = [f"{problem.where}: {problem.message}" for problem in change.problems]
            journal.emit("config.rejected", ERROR, problems=where)
            self._log(ERROR, "an edit is wrong; what was there before stays in force", problems=where)
            self._tally.rejected = tuple(where)
            self._told()
            return
        self._tally.rejected = ()
        polling = change.loaded.config.polling
        self._queue.configure(polling.interval_seconds, polling.max_retries)
        self._budget.seconds = self._tally.interval = self._contests.interval = polling.interval_seconds
        self._contests.max_retries = polling.max_retries
        journal.emit("config.reloaded", changed=list(change.changed), not_reloaded=list(change.fixed) or None)
        self._log(INFO, "reloaded", changed=list(change.changed))
        for name in change.fixed:
            self._log(WARNING, f"{name} cannot be changed while the controller runs: restart it")
        for warning in change.loaded.config.warnings:
            self._log(WARNING, warning)
        self._inbox.configure(change.loaded.config)
        self._told()
        self._queue.hurry(RELOAD)


def exit_code(cycle: Cycle) -> int:
    """The code of `--once`: as `apply` ends."""
    if cycle.error or cycle.stopped or any(result.status == FAILED for result in cycle.outcome.results):
        return EXIT_FAILED
    if cycle.refused:
        return EXIT_REFUSED
    return EXIT_OK if cycle.is_whole else EXIT_INCOMPLETE
