from __future__ import annotations

import random

from loopctl.controller import queue as q
from loopctl.controller.queue import POLL, RETRY, WEBHOOK, Queue
from loopctl.model.refs import WorkItemRef


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def ref(number: int) -> WorkItemRef:
    return WorkItemRef("github", "github.com", "octo", "app", number)


def make(interval: float = 60.0) -> tuple[Queue, Clock]:
    clock = Clock()
    return Queue(clock, lambda: 0.5, interval, 3), clock


def test_the_first_thing_is_a_look_at_everything() -> None:
    queue, clock = make()
    first = queue.take()
    assert first
    assert (first.everything, first.triggers) == (True, (POLL,))
    assert queue.take() is None
    assert queue.seconds() == 60
    clock.now += 60
    assert queue.take() is not None


def test_hints_coalesce_and_go_with_a_look_at_everything() -> None:
    queue, clock = make()
    queue.take()
    for _ in range(1000):
        queue.hint([ref(1), ref(2)])
    assert (queue.depth, queue.seconds()) == (2, 0)
    work = queue.take()
    assert work
    assert (work.refs, work.triggers, work.everything) == (frozenset({ref(1), ref(2)}), (WEBHOOK,), False)
    assert queue.take() is None
    queue.hint([ref(1)])
    clock.now += 60
    whole = queue.take()
    assert whole
    assert whole.everything
    assert queue.take() is None


def test_a_look_at_everything_takes_what_was_told_of_an_end_with_it() -> None:
    queue, clock = make()
    queue.take()
    queue.hint([ref(1)], ended=True)
    queue.hint([ref(2)])
    queue.failed(ref(3), blocks=False, ended=True)
    for _ in range(4):
        queue.failed(ref(4), blocks=False, ended=True)
    clock.now += 60
    work = queue.take()
    assert work
    # Of the last one it was asked often enough.
    assert (work.everything, work.ended) == (True, {ref(1), ref(3)})


def test_many_hints_come_a_call_at_a_time_and_have_an_end() -> None:
    queue, _ = make()
    queue.take()
    queue.hint(ref(number) for number in range(1, q.MOST_WAITING + 11))
    assert (queue.depth, queue.dropped) == (q.MOST_WAITING, 10)
    taken = [queue.take() for _ in range(q.MOST_WAITING // q.MOST_AT_ONCE)]
    assert all(work and len(work.refs) == q.MOST_AT_ONCE for work in taken)
    assert queue.take() is None


def test_a_hurry_brings_the_look_at_everything_forward_but_not_at_once_again() -> None:
    queue, clock = make()
    queue.take()
    queue.hurry(WEBHOOK)
    queue.hurry(WEBHOOK)
    assert queue.seconds() == q.GAP
    clock.now += q.GAP
    work = queue.take()
    assert work
    assert (work.everything, work.triggers) == (True, (WEBHOOK,))
    assert queue.seconds() == 60
    clock.now += 59
    queue.hurry(WEBHOOK)
    clock.now += 1
    work = queue.take()
    assert work
    assert work.triggers == (WEBHOOK,)


def test_a_failing_item_backs_off_alone() -> None:
    queue, clock = make(interval=100_000)
    queue.take()
    delays = []
    for _ in range(3):
        delays.append(queue.failed(ref(1), blocks=True))
        assert queue.is_blocked(ref(1))
        queue.hint([ref(1), ref(2)])
        work = queue.take()
        assert work
        assert work.refs == {ref(2)}  # the other one does not wait for it
        assert queue.seconds() == delays[-1]
        clock.now += delays[-1]
        work = queue.take()
        assert work
        assert work.refs == {ref(1)}
    assert delays == [2, 4, 8]
    queue.failed(ref(1), blocks=True)
    # Its tries are used up: only looks at everything go on, not sooner than it may.
    clock.now += 3600
    assert queue.take() is None
    assert not queue.is_blocked(ref(1))
    queue.worked(ref(1))
    assert (queue.attempts(ref(1)), queue.depth) == (0, 0)


def test_the_delay_grows_to_a_bound_and_is_never_the_same() -> None:
    chance = random.Random(1)
    queue = Queue(Clock(), chance.random, 60, 3)
    delays = [queue.failed(ref(1), blocks=True) for _ in range(2000)]
    assert max(delays) <= q.LONGEST_DELAY * 1.25
    assert min(delays[20:]) >= q.LONGEST_DELAY * 0.75
    assert len(set(delays)) == len(delays)


def test_a_retry_says_that_it_is_one() -> None:
    queue, clock = make()
    queue.take()
    queue.failed(ref(1), blocks=False)
    queue.hint([ref(2)])
    clock.now += 2
    work = queue.take()
    assert work
    assert (work.triggers, len(work.refs)) == ((WEBHOOK, RETRY), 2)


def test_a_failed_look_at_everything_comes_again_sooner() -> None:
    queue, clock = make()
    waits = []
    for _ in range(7):
        queue.take()
        queue.poll_failed()
        waits.append(queue.seconds())
        clock.now += waits[-1]
    assert waits == [2, 4, 8, 16, 32, 60, 60]
    queue.take()
    queue.poll_worked([])
    queue.poll_failed()
    assert queue.seconds() == 2


def test_troubles_of_what_is_not_there_any_more_are_forgotten() -> None:
    queue, _ = make()
    for number in range(1, 4):
        queue.failed(ref(number), blocks=True)
    queue.poll_worked([ref(2)])
    assert [queue.attempts(ref(number)) for number in range(1, 4)] == [0, 1, 0]


def test_another_rhythm_takes_effect_at_once() -> None:
    queue, clock = make(interval=3600)
    queue.take()
    clock.now += 10
    queue.configure(30, 5)
    assert queue.seconds() == 20
