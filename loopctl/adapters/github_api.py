"""One GitHub host, asked through gh: whether a call may be made, how it ended, and what it cost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from loopctl.adapters import shell
from loopctl.adapters.github_gh import gh_env, gh_failure
from loopctl.adapters.github_query import Query
from loopctl.adapters.github_reply import Answer, Budget, Failure, Http, read_http, read_reply
from loopctl.errors import StateError

#: What GitHub asks for after a secondary limit that names no time.
_LIMITED_SECONDS = 60.0
_FIRST_WAIT = 1.0
_HOUR_SECONDS = 3600.0
# Node ids in one format, so that a stored one can be compared for ever.
_HEADERS = ("--header", "X-Github-Next-Global-ID: 1")


@dataclass(slots=True)
class Tally:
    """What one question has cost so far. `points` and `remaining` stay None where no answer says them."""

    calls: int = 0
    points: int | None = None
    remaining: int | None = None

    def add(self, budget: Budget | None) -> None:
        """Count an answer."""
        if budget:
            self.points = (self.points or 0) + budget.cost
            self.remaining = budget.remaining


@dataclass(slots=True)
class _Hour:
    """The points of one of GitHub's hours: those that were left at the first look, and those spent since.

    `ends` is on our own clock.
    """

    reset_at: str
    left: int
    ends: float
    spent: int = 0
    last: int = 0


@dataclass(slots=True)
class GitHubApi:
    """The calls to one host, shared by all who ask it.

    `env` is what gh's environment is made from, `timeout` is in seconds for one call. `patience` is how many seconds one
    call may wait for a limit or a passing error to go away before it is made again (0: never). `share` is how much of the
    points that are left in GitHub's hour may be spent. A rate limit ends all calls until it is over.
    """

    host: str
    env: Mapping[str, str]
    gh: str = "gh"
    timeout: float = 60.0
    patience: float = 0.0
    share: float = 0.5
    pause: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random
    #: Whether the server showed that it does not know the whole of our queries.
    plain: bool = False
    _hour: _Hour | None = None
    _limit: tuple[float, Failure] | None = None
    _env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Make the environment once."""
        self._env = gh_env(self.env)

    def graphql(self, query: Query, tally: Tally, *, once: bool = False) -> Answer | Failure:
        """Ask a query, or send a mutation (`once`: it is not sent again where it may have been carried out). Never raises."""
        if refused := self._refused():
            return replace(refused, refused=True)

        def call() -> Answer | Failure:
            # By stdin: argv is public.
            done = self._run(["graphql", *_HEADERS, "--input", "-"], query.body, tally)
            return done if isinstance(done, Failure) else read_reply(*done, self.host)

        answer = self._patiently(call, once=once)
        if isinstance(answer, Answer):
            tally.add(answer.budget)
            self._count(answer.budget)
        return answer

    def rest(self, path: str, tally: Tally) -> Http | Failure:
        """GET a path of the REST interface, redirects followed; any status is a response. Never raises."""
        if refused := self._refused(points=False):
            return refused
        done = self._run(["--method", "GET", path], None, tally)
        return done if isinstance(done, Failure) else done[0]

    def version(self) -> str:
        """What `gh --version` prints. Raises StateError when gh cannot be run."""
        return shell.run([self.gh, "--version"], env=self._env, timeout=self.timeout).text

    def limited(self, failure: Failure) -> Failure:
        """Take note of a rate limit: nothing is asked until it is over."""
        self._limit = (self.clock() + self._wait(failure, 0), failure)
        return failure

    def _run(self, args: list[str], stdin: bytes | None, tally: Tally) -> tuple[Http, int, str] | Failure:
        # The host is said on each call, since gh would fall back to another.
        argv = [self.gh, "api", "--hostname", self.host, "--include", *args]
        try:
            done = shell.run(argv, stdin=stdin, env=self._env, timeout=self.timeout)
            tally.calls += 1
        except StateError as error:
            return Failure(f"GitHub: {error.message}. {error.hint}".strip(), stop=True)
        if done.timed_out:
            return Failure(f"GitHub: no answer within {self.timeout:g} s", stop=True)
        http = read_http(done.stdout)
        return gh_failure(done.code, done.stderr, self.host) if http is None else (http, done.code, done.stderr)

    def _patiently(self, call: Callable[[], Answer | Failure], *, once: bool) -> Answer | Failure:
        """Make a call, again while patience lasts, and remember a limit that outlasts it."""
        left, tries = self.patience, 0
        while True:
            answer = call()
            if not isinstance(answer, Failure):
                return answer
            wait = self._wait(answer, tries)
            again = answer.limited or (answer.transient and not once)
            if not again or wait > left:
                return self.limited(answer) if answer.limited else answer
            self.pause(wait)
            left, tries = left - wait, tries + 1

    def _wait(self, failure: Failure, tries: int) -> float:
        """How long to leave GitHub alone: as it says, else longer each time and never the same for two of us."""
        if failure.retry_after is not None:
            return float(failure.retry_after)
        if failure.reset_at is not None:
            # No hour is longer, whatever our clock says.
            return min(max(_FIRST_WAIT, failure.reset_at - self.now()), _HOUR_SECONDS)
        first = _LIMITED_SECONDS if failure.limited else _FIRST_WAIT
        return float(first * 2**tries * (0.75 + self.jitter() / 2))

    def _refused(self, *, points: bool = True) -> Failure | None:
        """Why no call may be made now."""
        if self._limit and self.clock() < self._limit[0]:
            return self._limit[1]
        hour = self._hour
        if not points or hour is None or self.clock() >= hour.ends or hour.spent + hour.last <= hour.left * self.share:
            return None
        return Failure(
            f"GitHub: not asked: {hour.spent} of the {hour.left} points that {self.host} had left are spent, "
            f"and github.budgetShare allows {self.share:g} of them; the next hour begins at {hour.reset_at}",
            stop=True,
        )

    def _count(self, budget: Budget | None) -> None:
        if budget is None:
            return
        if self._hour is None or self._hour.reset_at != budget.reset_at:
            self._hour = _Hour(budget.reset_at, budget.remaining + budget.cost, self.clock() + self._until(budget))
        self._hour.spent += budget.cost
        self._hour.last = max(1, budget.cost)

    def _until(self, budget: Budget) -> float:
        """Seconds to the next hour; a whole one where the two clocks contradict each other."""
        try:
            left = datetime.fromisoformat(budget.reset_at).timestamp() - self.now()
        except (ValueError, OverflowError):
            return _HOUR_SECONDS
        return left if 0 < left < _HOUR_SECONDS else _HOUR_SECONDS
