"""Rate limits, back-off and budgets (S08): nothing is asked that should not be, and what was not asked is unknown."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.adapters.github_reply import Failure
from loopctl.model.facts import Known, Unknown
from loopctl.model.refs import WorkItemRef
from tests.fake_github import FakeGitHub, Fault, faults

pytestmark = pytest.mark.gh


@dataclass
class Time:
    """A clock that only waiting moves on."""

    now: float = 1000.0
    waits: list[float] = field(default_factory=list)

    def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


Make = Callable[..., GitHub]


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def make(fake_github: FakeGitHub, gh: str, time: Time) -> Make:
    def make(*repos: str, **options: object) -> GitHub:
        env = os.environ | fake_github.env()
        clocks = {"pause": time.pause, "clock": lambda: time.now, "now": lambda: time.now, "jitter": lambda: 0.5}
        api = GitHubApi("github.com", env, gh, **(clocks | options))  # type: ignore[arg-type]
        return GitHub(api, repos or ("octo/app",), "loop")

    return make


def refs(count: int) -> list[WorkItemRef]:
    return [WorkItemRef.parse(f"github:octo/app#{number}") for number in range(1, count + 1)]


def states(provider: GitHub, count: int) -> list[str]:
    facts = provider.get(refs(count))
    return [fact.value.state if isinstance(fact, Known) else "unknown" for fact in facts.values()]


LIMITS = {
    "secondary, no headers": (faults.SECONDARY, 60.0),
    "secondary, Retry-After": (faults.SECONDARY_WITH_WAIT, 3.0),
    "secondary, in the answer": (faults.SECONDARY_QUERY, 60.0),
    "429": (faults.TOO_MANY, 60.0),
    "429, Retry-After": (faults.TOO_MANY_WITH_WAIT, 2.0),
    "primary, over soon": (faults.PRIMARY_OVER_SOON, 1.0),
    "primary": (faults.PRIMARY, 3600.0),
}


@pytest.mark.parametrize("name", LIMITS)
def test_after_a_limit_nothing_is_asked_until_it_is_over(
    fake_github: FakeGitHub, make: Make, time: Time, name: str
) -> None:
    fault, wait = LIMITS[name]
    fake_github.issue("octo/app", 1, "CLOSED")
    provider = make()
    fake_github.fail(fault, times=1)
    assert states(provider, 1) == ["unknown"]
    time.now += wait - 0.5
    assert states(provider, 1) == ["unknown"]
    listed = provider.listed()
    assert isinstance(listed, Unknown)
    assert "rate limit" in listed.reason
    assert len(fake_github.requests) == 1
    assert time.waits == []
    time.now += 1
    assert states(provider, 1) == ["closed"]


def test_a_plain_403_is_no_limit(fake_github: FakeGitHub, make: Make) -> None:
    fake_github.issue("octo/app", 1, "CLOSED")
    provider = make(patience=600)
    fake_github.fail(faults.FORBIDDEN, times=1)
    fact = provider.get(refs(1))[refs(1)[0]]
    assert isinstance(fact, Unknown)
    assert "rate limit" not in fact.reason
    assert len(fake_github.requests) == 1
    assert states(provider, 1) == ["closed"]


@pytest.mark.parametrize(
    ("fault", "patience", "waits"),
    [
        (faults.BAD_GATEWAY, 5, [1.0]),
        (faults.UNAVAILABLE, 5, [1.0]),
        (faults.SECONDARY_WITH_WAIT, 5, [3.0]),
        (faults.TOO_MANY_WITH_WAIT, 5, [2.0]),
        (faults.PRIMARY_OVER_SOON, 5, [1.0]),
        (faults.SECONDARY, 90, [60.0]),
    ],
)
def test_patience_waits_as_long_as_github_says_and_asks_again(
    fake_github: FakeGitHub, make: Make, time: Time, fault: Fault, patience: float, waits: list[float]
) -> None:
    fake_github.issue("octo/app", 1, "CLOSED")
    fake_github.fail(fault, times=1)
    assert states(make(patience=patience), 1) == ["closed"]
    assert time.waits == waits
    assert len(fake_github.requests) == 2


def test_patience_has_an_end_and_the_waits_grow(fake_github: FakeGitHub, make: Make, time: Time) -> None:
    fake_github.fail(faults.BAD_GATEWAY)
    assert states(make(patience=10), 1) == ["unknown"]
    assert time.waits == [1.0, 2.0, 4.0]
    assert len(fake_github.requests) == 4


@pytest.mark.parametrize("fault", [faults.SECONDARY, faults.PRIMARY, faults.FORBIDDEN, faults.EMPTY, faults.GONE])
def test_a_short_patience_does_not_wait_for_what_takes_longer(
    fake_github: FakeGitHub, make: Make, time: Time, fault: Fault
) -> None:
    fake_github.fail(fault)
    assert states(make(patience=5), 1) == ["unknown"]
    assert time.waits == []
    assert len(fake_github.requests) == 1


def test_waits_differ_from_one_another() -> None:
    first, second = (
        GitHubApi("github.com", {}, jitter=lambda value=value: value)._wait(Failure("", transient=True), 0)
        for value in (0.0, 1.0)
    )
    assert (first, second) == (0.75, 1.25)


def test_a_plan_spends_no_more_than_its_share(fake_github: FakeGitHub, make: Make) -> None:
    for number in range(1, 1001):
        fake_github.issue("octo/app", number, "CLOSED")
    fake_github.remaining, fake_github.cost = 100, 7
    provider = make(share=0.25)
    answers = states(provider, 1000)
    # 7 + 7 + 7 are within 25; another 7 would not be.
    assert (answers.count("closed"), answers.count("unknown")) == (300, 700)
    assert len(fake_github.requests) == 3
    fact = provider.get(refs(1))[refs(1)[0]]
    assert isinstance(fact, Unknown)
    assert "21 of the 100 points that github.com had left are spent" in fact.reason
    assert "github.budgetShare allows 0.25" in fact.reason
    assert isinstance(provider.listed(), Unknown)
    assert len(fake_github.requests) == 3
    assert provider.asked()[0].cost == 21


def test_sources_of_one_host_share_an_hour_and_the_next_begins_anew(
    fake_github: FakeGitHub, gh: str, time: Time
) -> None:
    fake_github.issue("octo/app", 1, "CLOSED")
    fake_github.remaining, fake_github.cost = 10, 2
    api = GitHubApi("github.com", os.environ | fake_github.env(), gh, clock=lambda: time.now)
    one, other = GitHub(api, ["octo/app"]), GitHub(api, ["octo/app"])
    assert [states(source, 1) for source in (one, other, one)] == [["closed"], ["closed"], ["unknown"]]
    time.now += 3600
    fake_github.reset_at, fake_github.remaining = "2026-01-01T02:00:00Z", 5000
    assert [states(source, 1) for source in (one, other, one)] == [["closed"], ["closed"], ["closed"]]


def test_a_server_without_limits_has_no_budget(fake_github: FakeGitHub, make: Make) -> None:
    fake_github.issue("octo/app", 1, "CLOSED")
    fake_github.cost = None
    provider = make()
    assert states(provider, 1) == ["closed"]
    assert (provider.asked()[0].cost, provider.asked()[0].remaining) == (None, None)
