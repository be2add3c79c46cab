"""The pipeline: load -> observe -> resolve -> diff -> show -> apply -> record. Everyone goes through here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from loopctl.model.facts import Known
from loopctl.model.items import WorkItem
from loopctl.model.observed import NOT_ASKED, Observation
from loopctl.model.plan import Outcome, Plan
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import RUN, Playbook
from loopctl.observe import answered, ask, discover, hear, muted, observe
from loopctl.planner import diff, listening, removable, resolve, threads_of, undecided
from loopctl.ports import World


def look(
    world: World,
    playbook: Playbook,
    limit: Callable[[WorkItemRef], bool] | None = None,
    *,
    listings: bool = True,
    told: Mapping[WorkItemRef, WorkItem] | None = None,
) -> Observation:
    """Observe what this playbook needs: local things, listings if it starts sessions, and the items that matter.

    Without `listings` no new item is found, so nothing but what is registered can be acted on. What was `told` of items is
    believed, and they are not asked about.
    """
    observation = observe(world)
    if listings and starts_sessions(playbook):
        observation = discover(world, observation)
    if limit is not None:
        observation = _limited(observation, limit)
    if told:
        observation = answered(observation, {ref: Known(item) for ref, item in told.items()})
    if any(rule.ensure.comment for play in playbook.plays for rule in play.rules):
        observation = replace(observation, mute=muted(world, observation))
    observation = replace(observation, keep_checkouts=world.policy.keep_checkout_on_close)
    observation = _worktrees(world, playbook, observation)
    wanted = undecided(playbook, observation)
    observation = ask(world, observation, wanted) if wanted else observation
    return _hear(world, playbook, _worktrees(world, playbook, observation))


def _worktrees(world: World, playbook: Playbook, observation: Observation) -> Observation:
    """Look at the worktrees that could go, as far as is known now."""
    paths = removable(playbook, observation)
    return (
        replace(observation, workspaces={**observation.workspaces, **world.workspaces.look(paths)})
        if paths
        else observation
    )


def _hear(world: World, playbook: Playbook, observation: Observation) -> Observation:
    """Read the comments that running agents are to be told of. Only of an item that is known to be the one meant."""
    refs = listening(playbook, observation)
    unasked = [s.ref for s in observation.subjects if s.ref in refs and s.item is NOT_ASKED]
    observation = ask(world, observation, unasked) if unasked else observation
    threads = threads_of(refs, observation)
    return hear(world, observation, threads) if threads else observation


def starts_sessions(playbook: Playbook) -> bool:
    """Whether any rule asks for running sessions."""
    return any(rule.ensure.session == RUN for play in playbook.plays for rule in play.rules)


def _limited(observation: Observation, limit: Callable[[WorkItemRef], bool]) -> Observation:
    kept = tuple(subject for subject in observation.subjects if limit(subject.ref))
    alive = sum(subject.is_alive for subject in observation.subjects if not limit(subject.ref))
    return replace(observation, subjects=kept, alive_beside=alive)


def plan_of(playbook: Playbook, observation: Observation, world: World) -> Plan:
    """What to do about an observation. Pure but for the policy it is given."""
    return diff(playbook, resolve(playbook, observation), observation, world.policy)


def plan_once(playbook: Playbook, world: World, limit: Callable[[WorkItemRef], bool] | None = None) -> Plan:
    """Make a plan. Changes nothing. Raises DocumentError (a template fails) or StateError (the registry is unusable)."""
    return plan_of(playbook, look(world, playbook, limit), world)


def apply_plan(plan: Plan, world: World, max_changes: int | None = None, *, asked_at: float | None = None) -> Outcome:
    """Apply a plan under the apply lock. Raises RefusedError, StaleError or StateError before anything was done.

    `asked_at` is the world's clock before this very process asked the providers for this plan: an answer of the last
    few seconds is not asked for again. Without it the items are asked about once more.
    """
    if not plan.actions:
        return Outcome(held=plan.held)
    # Only who applies pays for reading it.
    from loopctl.executor.apply import execute

    with world.registry.lock():
        return execute(plan, world, max_changes, asked_at)
