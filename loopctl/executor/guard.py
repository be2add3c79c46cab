"""Is an action still about the same world? Every identity it relies on is compared just before it acts."""

from __future__ import annotations

from loopctl.model.facts import Unknown
from loopctl.model.observed import NOT_ASKED, Observation, Subject
from loopctl.model.plan import BEGINNINGS, ENDINGS, Action, Guard
from loopctl.model.rules import Policy
from loopctl.model.sessions import ABSENT_PANE, DEAD, LIVE
from loopctl.planner import agent_elsewhere, guard_of, read_in, stays, still_alive

# An agent that ended by itself since the plan has only come nearer to the end state.
_NEARER = {LIVE: 0, DEAD: 1, ABSENT_PANE: 2}

_NAMES = {
    "machine": "the machine",
    "registry": "the registry",
    "record_id": "the record",
    "generation": "the record",
    "socket": "the tmux socket",
    "server": "the tmux server",
    "session_id": "the tmux session",
    "pane_id": "the pane",
    "item_state": "the item",
    "item_node": "the item",
    "item_facts": "what the item says of itself (labels, people, milestone, times, what a rule reads)",
    "attached": "whether somebody is attached",
}


def doubt(action: Action, subject: Subject, observation: Observation) -> str:
    """Why the subject can no longer be told to be what the plan saw, or ""."""
    if action.verb in BEGINNINGS:
        # What became of the session itself is compared with the guard.
        earlier = [other for other in observation.subjects if other.record != subject.record]
        if other := agent_elsewhere(action.ref, observation) or still_alive(action.ref, earlier):
            return other
    if action.guard.item_state and isinstance(subject.item, Unknown) and subject.item is not NOT_ASKED:
        return subject.item.reason
    if subject.session and isinstance(subject.session.sighting, Unknown):
        return subject.session.sighting.reason
    return ""


def moved(action: Action, subject: Subject, observation: Observation, policy: Policy) -> str:
    """Which identity does not match any more, or ""."""
    if action.verb in BEGINNINGS and not subject.latest:
        return "the item has a newer session"
    then = action.guard
    now = guard_of(subject, observation, read_in(then.item_facts))
    gone = _NEARER.get(now.pane_state, 0) > _NEARER.get(then.pane_state, 0)
    for name, words in _NAMES.items():
        old, new = getattr(then, name), getattr(now, name)
        left = gone and name in {"server", "session_id", "pane_id"} and not new
        unasked = name.startswith("item") and (not then.item_state or subject.item is NOT_ASKED)
        unasked |= name == "attached" and not old
        if old != new and not left and not unasked:
            return f"{words} has changed{_detail(name, old, new)}"
    if action.verb in ENDINGS and then.item_state and (kept := stays(subject, policy)):
        return kept.note
    if _NEARER.get(now.pane_state, 0) < _NEARER.get(then.pane_state, 0):
        return "the pane is alive again"
    if now.pane and now.pane != then.pane:
        return f"the pane's process has changed ({then.pane} then, {now.pane} now)"
    return ""


def _detail(name: str, old: object, new: object) -> str:
    if name in {"item_state", "session_id", "pane_id", "machine", "attached"}:
        return f" ({old or 'none'} then, {new or 'none'} now)"
    return ""


def of_another_world(guard: Guard, observation: Observation) -> str:
    """Why a saved plan does not belong to this machine or registry, or ""."""
    if guard.machine != observation.machine:
        return f"made for machine {guard.machine}, this is {observation.machine}"
    if guard.registry != observation.registry:
        return "made for another registry" if guard.registry else "made when there was no registry yet"
    return ""
