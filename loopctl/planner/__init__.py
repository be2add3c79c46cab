"""Pure: observation -> desired state -> plan. No clock, file, process or network."""

from loopctl.planner.deliveries import excerpt_of, listening, tell, threads_of
from loopctl.planner.diff import diff
from loopctl.planner.facts import read_in
from loopctl.planner.identity import guard_of
from loopctl.planner.links import stays
from loopctl.planner.queue import room, running
from loopctl.planner.resolve import Desired, resolve, undecided
from loopctl.planner.restarts import ended_by_itself, not_yet
from loopctl.planner.starts import still_alive
from loopctl.planner.strays import agent_elsewhere
from loopctl.planner.workspaces import removable

__all__ = [
    "Desired",
    "agent_elsewhere",
    "diff",
    "ended_by_itself",
    "excerpt_of",
    "guard_of",
    "listening",
    "not_yet",
    "read_in",
    "removable",
    "resolve",
    "room",
    "running",
    "stays",
    "still_alive",
    "tell",
    "threads_of",
    "undecided",
]
