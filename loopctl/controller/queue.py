"""What is to be looked at next: refs, or everything. It coalesces, forgets what was taken, and has an end.

A look at some refs only ends sessions. Whether one may start depends on all the others (whose pull request it is, who
serves it already), so a start needs a look at everything, which a hint may bring forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from loopctl.model.items import WorkItem
from loopctl.model.refs import WorkItemRef
from loopctl.model.waiting import wait_after

POLL = "poll"
WEBHOOK = "webhook"
RETRY = "retry"
RELOAD = "reload"

#: As many as one call to GitHub answers.
MOST_AT_ONCE = 100
#: Beyond this, hints are dropped: the next whole look finds what they meant.
MOST_WAITING = 10_000
#: A look at everything that hints ask for comes this many seconds after the last one at the soonest.
GAP = 5.0
FIRST_DELAY = 2.0
LONGEST_DELAY = 600.0


@dataclass(frozen=True, slots=True)
class Work:
    """What one cycle is for, and what asked for it (poll, webhook, retry, reload). Of `ended` an end was told.

    `told` are items that are not asked about, because a payload says how they are and may be believed.
    """

    everything: bool = False
    refs: frozenset[WorkItemRef] = frozenset()
    ended: frozenset[WorkItemRef] = frozenset()
    triggers: tuple[str, ...] = (POLL,)
    told: Mapping[WorkItemRef, WorkItem] = field(default_factory=dict)

    def accepts(self, ref: WorkItemRef) -> bool:
        """Whether the item is part of it."""
        return self.everything or ref in self.refs


@dataclass(slots=True)
class _Trouble:
    """An item that did not work out. `due` is when it is tried again; `blocks` says that until then nobody may try it."""

    attempts: int
    due: float
    blocks: bool
    ended: bool = False


@dataclass(slots=True)
class Queue:
    """One for each controller. Times are monotonic seconds.

    `interval` is between two looks at everything; `random` gives [0, 1); an item is tried again by itself `max_retries`
    times, then only by the looks at everything.
    """

    clock: Callable[[], float]
    random: Callable[[], float]
    interval: float
    max_retries: int
    #: Hints that found no room.
    dropped: int = 0
    _last_poll: float = float("-inf")
    _next_poll: float = float("-inf")
    _poll_trigger: str = POLL
    _poll_failures: int = 0
    _waiting: dict[WorkItemRef, bool] = field(default_factory=dict)
    _trouble: dict[WorkItemRef, _Trouble] = field(default_factory=dict)

    def hint(self, refs: Iterable[WorkItemRef], *, ended: bool = False) -> None:
        """Somebody says that these items are worth a look, or even that they have ended."""
        for ref in refs:
            if ref in self._waiting or len(self._waiting) < MOST_WAITING:
                self._waiting[ref] = self._waiting.get(ref, False) or ended
            else:
                self.dropped += 1

    def hurry(self, trigger: str) -> None:
        """Bring the next look at everything forward, but not right upon the last one."""
        soon = max(self.clock(), self._last_poll + min(GAP, self.interval))
        if soon < self._next_poll:
            self._next_poll, self._poll_trigger = soon, trigger

    def take(self) -> Work | None:
        """The next work, or None when nothing is due. A look at everything takes all hints with it."""
        now = self.clock()
        if now >= self._next_poll:
            told = [ref for ref, ended in self._waiting.items() if ended]
            asked = [ref for ref, trouble in self._trouble.items() if trouble.ended and self._retries(trouble)]
            work = Work(everything=True, ended=frozenset([*told, *asked]), triggers=(self._poll_trigger,))
            self._last_poll, self._next_poll, self._poll_trigger = now, now + self.interval, POLL
            self._waiting.clear()
            return work
        hinted = [ref for ref in self._waiting if not self.is_blocked(ref)][:MOST_AT_ONCE]
        retried = [ref for ref, t in self._trouble.items() if self._retries(t) and t.due <= now and ref not in hinted]
        refs = [*hinted, *retried][:MOST_AT_ONCE]
        # Each is popped, also where its trouble says enough already.
        ended = [ref for ref in refs if self._waiting.pop(ref, False) | self._told_of_its_end(ref)]
        triggers = (WEBHOOK,) * bool(hinted) + (RETRY,) * bool(retried)
        return Work(refs=frozenset(refs), ended=frozenset(ended), triggers=triggers) if refs else None

    def seconds(self) -> float:
        """How long nothing will be due, unless a hint comes."""
        if any(not self.is_blocked(ref) for ref in self._waiting):
            return 0.0
        due = [t.due for ref, t in self._trouble.items() if self._retries(t) or ref in self._waiting]
        return max(0.0, min([self._next_poll, *due]) - self.clock())

    def failed(self, ref: WorkItemRef, *, blocks: bool, ended: bool = False) -> float:
        """The item did not work out: try it again later and later. `blocks` keeps it out of other cycles until then.

        Returns the seconds until then.
        """
        attempts = self.attempts(ref) + 1
        delay = self._delay(attempts)
        self._trouble[ref] = _Trouble(attempts, self.clock() + delay, blocks, ended)
        return delay

    def worked(self, ref: WorkItemRef) -> None:
        """The item is as it should be: its troubles are forgotten."""
        self._trouble.pop(ref, None)

    def poll_failed(self) -> None:
        """A look at everything came to nothing: the next one comes sooner than usual, and later each time."""
        self._poll_failures += 1
        self._next_poll = self._last_poll + min(self.interval, self._delay(self._poll_failures))

    def poll_worked(self, seen: Iterable[WorkItemRef]) -> None:
        """A look at everything succeeded: the troubles of items that are not there any more are forgotten."""
        self._poll_failures = 0
        wanted = set(seen)
        for ref in [ref for ref in self._trouble if ref not in wanted]:
            del self._trouble[ref]

    def configure(self, interval: float, max_retries: int) -> None:
        """Another rhythm; the next look is not later than it asks for."""
        self.interval, self.max_retries = interval, max_retries
        self._next_poll = min(self._next_poll, self._last_poll + interval)

    def is_blocked(self, ref: WorkItemRef) -> bool:
        """Whether the item failed and its time has not come yet."""
        trouble = self._trouble.get(ref)
        return trouble is not None and trouble.blocks and self.clock() < trouble.due

    def attempts(self, ref: WorkItemRef) -> int:
        """How often in a row it did not work out."""
        trouble = self._trouble.get(ref)
        return trouble.attempts if trouble else 0

    @property
    def depth(self) -> int:
        """How many items wait for a look or for their next try."""
        return len(self._waiting.keys() | self._trouble.keys())

    def _told_of_its_end(self, ref: WorkItemRef) -> bool:
        trouble = self._trouble.get(ref)
        return trouble is not None and trouble.ended

    def _delay(self, attempts: int) -> float:
        # Never the same for two items, or for two controllers.
        return wait_after(attempts, FIRST_DELAY, LONGEST_DELAY) * (0.75 + self.random() / 2)

    def _retries(self, trouble: _Trouble) -> bool:
        return trouble.attempts <= self.max_retries
