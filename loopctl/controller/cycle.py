"""One turn of the controller: look, plan, drop what may not be done now, apply. The same path as at a desk."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from loopctl import run
from loopctl.controller.contest import Contests
from loopctl.controller.queue import Work
from loopctl.errors import DocumentError, LoopctlError
from loopctl.executor.limits import changes, ends_what_runs, excess, way_on
from loopctl.model.items import WorkItem
from loopctl.model.observed import Observation, Question, known_item
from loopctl.model.plan import BEGINNINGS, CHANGED, ENDINGS, FAILED, STALE, Action, Held, Outcome, Plan
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Playbook
from loopctl.model.sessions import RUNNING
from loopctl.observe import discover, observe
from loopctl.ports import World


@dataclass(frozen=True, slots=True)
class Cost:
    """What a turn cost at GitHub: calls made, points spent, and points left (None where nobody said)."""

    calls: int = 0
    points: int = 0
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """What became of one turn. `error` is why it came to nothing, `refused` why its plan was not applied (`over_limits`, or
    something that may pass).

    `phases` counts the sessions that were looked at, `put_off` are items whose time has not come yet, `read` is what the
    providers answered.
    """

    work: Work
    seconds: float = 0.0
    phases: Mapping[str, int] = field(default_factory=dict)
    seen: int = 0
    plan: Plan | None = None
    outcome: Outcome = field(default_factory=Outcome)
    put_off: tuple[WorkItemRef, ...] = ()
    read: tuple[WorkItem, ...] = ()
    refused: str = ""
    over_limits: bool = False
    error: str = ""
    stopped: bool = False
    cost: Cost = field(default_factory=Cost)

    @property
    def held(self) -> tuple[Held, ...]:
        """What was left alone: by the plan, or by the apply that looked again."""
        return self.outcome.held or (self.plan.held if self.plan else ())

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read whole."""
        return self.plan.problems if self.plan else ()

    @property
    def is_whole(self) -> bool:
        """Whether everything that was to be seen was seen, and nothing failed."""
        failed = any(result.status == FAILED for result in self.outcome.results)
        return not (self.error or self.stopped or self.refused or self.held or self.put_off or self.problems or failed)

    @property
    def closures(self) -> int:
        """How many sessions it set out to end."""
        return sum(result.action.verb in ENDINGS for result in self.outcome.results)

    @property
    def troubled(self) -> dict[WorkItemRef, bool]:
        """Items that did not work out, and whether that was a failure (rather than something unknown or moved)."""
        unsure = {held.ref: False for held in self.held} if not self.work.everything else {}
        moved = {r.action.ref: False for r in self.outcome.results if r.status == STALE}
        return unsure | moved | {r.action.ref: True for r in self.outcome.results if r.status == FAILED}


class Budget:
    """What the plays' limits allow in one interval, over all its cycles: many small plans are no way around them."""

    def __init__(self, seconds: float) -> None:
        """Nothing was done yet."""
        self.seconds = seconds
        self._done: deque[tuple[float, Action]] = deque()

    def excess(self, plan: Plan, now: float) -> str:
        """Why the plan goes beyond, together with what was done in the interval before, or ""."""
        while self._done and self._done[0][0] <= now - self.seconds:
            self._done.popleft()
        again = {_change(action) for action in changes(plan.actions)}
        before = [action for _, action in self._done if _change(action) not in again]
        ended = sum(map(ends_what_runs, before))
        names = {scope.name for scope in plan.plays}
        for scope in plan.plays:
            # What a play did that is not there any more counts against each that is: a new name is no new budget.
            mine = [action if action.play in names else replace(action, play=scope.name) for action in before]
            plays = (replace(scope, running=scope.running + ended),)
            if reason := excess(replace(plan, plays=plays, actions=(*mine, *plan.actions))):
                return reason
        return ""

    def spend(self, outcome: Outcome, now: float) -> None:
        """Take note of what was done."""
        done = changes([result.action for result in outcome.results if result.status == CHANGED])
        self._done.extend((now, action) for action in done)


def _change(action: Action) -> tuple[object, ...]:
    """What is one change, however often it is made: a start of an item, or the same to the same session."""
    if action.verb in BEGINNINGS:
        return (BEGINNINGS, action.ref)
    return (action.verb, action.ref, action.guard.record_id)


def turn(
    work: Work,
    playbook: Playbook,
    world: World,
    budget: Budget,
    contests: Contests,
    is_blocked: Callable[[WorkItemRef], bool],
    about_to: Callable[[Plan], None] = lambda plan: None,
) -> Cycle:
    """Do one turn. Raises nothing that a user can meet: what went wrong is in the cycle.

    `about_to` is told what will be applied, just before. A look at some refs ends sessions and starts none.
    """
    started = world.clock()
    before = _questions(world)
    done = Cycle(work)
    try:
        done = _turn(done, playbook, world, budget, contests, is_blocked, about_to)
    except DocumentError as error:
        done = replace(done, error="; ".join(f"{p.where}: {p.message}" for p in error.problems))
    except LoopctlError as error:
        done = replace(done, error=error.message)
    return replace(done, seconds=world.clock() - started, cost=_cost(before, _questions(world)))


def _turn(
    done: Cycle,
    playbook: Playbook,
    world: World,
    budget: Budget,
    contests: Contests,
    is_blocked: Callable[[WorkItemRef], bool],
    about_to: Callable[[Plan], None],
) -> Cycle:
    asked_at = world.clock()
    observation, plan = _look(done.work, playbook, world)
    allowed = plan.actions if done.work.everything else _without_starts(plan)
    put_off = [action.ref for action in allowed if is_blocked(action.ref)]
    ready = [action for action in allowed if action.ref not in put_off]
    contested = dict.fromkeys(Held(action.ref, reason) for action in ready if (reason := contests.reason(action)))
    ready = [action for action in ready if not contests.reason(action)]
    plan = replace(plan, actions=tuple(ready), held=(*plan.held, *contested))
    phases = Counter(subject.phase or "unknown" for subject in observation.subjects if subject.session)
    read = tuple(i for s in observation.subjects if (i := known_item(s)) and s.ref not in done.work.told)
    done = replace(done, phases=phases, seen=len(observation.subjects), plan=plan, put_off=tuple(put_off), read=read)
    if world.interrupted():
        return replace(done, stopped=True)
    if plan.actions and (reason := budget.excess(plan, world.clock())):
        return replace(done, refused=f"over its limits: {reason}; {way_on(plan)}", over_limits=True)
    if not plan.actions:
        return done
    about_to(plan)
    try:
        outcome = run.apply_plan(plan, world, asked_at=asked_at)
    except LoopctlError as error:
        # Nothing was done: the lock is another's, the world moved as a whole, or nothing can be written.
        return replace(done, refused=error.message, stopped=world.interrupted())
    budget.spend(outcome, world.clock())
    contests.note(outcome)
    return replace(done, outcome=outcome, stopped=outcome.interrupted)


def _without_starts(plan: Plan) -> list[Action]:
    """All but what starts something, which depends on other items, and what would be said of that."""
    starts = {action.ref for action in plan.actions if action.verb in BEGINNINGS}
    return [action for action in plan.actions if action.ref not in starts or action.after.phase != RUNNING]


def _look(work: Work, playbook: Playbook, world: World) -> tuple[Observation, Plan]:
    """Look and plan. Items for which a template of the playbook fails are held, the others go on."""
    try:
        limit = None if work.everything else work.accepts
        observation = run.look(world, playbook, limit, listings=work.everything, told=work.told)
        return observation, run.plan_of(playbook, observation, world)
    except DocumentError:
        return _look_singly(work, playbook, world)


def _look_singly(work: Work, playbook: Playbook, world: World) -> tuple[Observation, Plan]:
    local = observe(world)
    if work.everything and run.starts_sessions(playbook):
        local = discover(world, local)
    unsound = _unsound(local, playbook, world)
    observation = run.look(
        world, playbook, lambda ref: work.accepts(ref) and ref not in unsound, listings=work.everything
    )
    unsound |= _unsound(observation, playbook, world)
    sound = tuple(subject for subject in observation.subjects if subject.ref not in unsound)
    observation = replace(observation, subjects=sound)
    plan = run.plan_of(playbook, observation, world)
    held = tuple(Held(ref, reason) for ref, reason in unsound.items() if work.accepts(ref))
    return observation, replace(plan, held=(*plan.held, *held))


def _unsound(observation: Observation, playbook: Playbook, world: World) -> dict[WorkItemRef, str]:
    found: dict[WorkItemRef, str] = {}
    for subject in observation.subjects:
        try:
            run.plan_of(playbook, replace(observation, subjects=(subject,)), world)
        except DocumentError as error:
            found[subject.ref] = f"{error.problems[0].where}: {error.problems[0].message}"
    return found


def _questions(world: World) -> tuple[Question, ...]:
    return tuple(question for provider in world.providers for question in provider.asked())


def _cost(before: tuple[Question, ...], after: tuple[Question, ...]) -> Cost:
    known = {id(question) for question in before}
    new = [question for question in after if id(question) not in known]
    left = [question.remaining for question in new if question.remaining is not None]
    return Cost(
        calls=sum(question.calls for question in new),
        points=sum(question.cost or 0 for question in new),
        remaining=left[-1] if left else None,
    )
