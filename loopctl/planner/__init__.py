"""Pure: observation -> desired state -> plan. No clock, file, process or network."""

from loopctl.planner.deliveries import excerpt_of, listening, tell, threads_of
from loopctl.planner.diff import diff
from loopctl.planner.identity import guard_of
from loopctl.planner.resolve import Desired, resolve, undecided
from loopctl.planner.strays import agent_elsewhere

__all__ = [
    "Desired",
    "agent_elsewhere",
    "diff",
    "excerpt_of",
    "guard_of",
    "listening",
    "resolve",
    "tell",
    "threads_of",
    "undecided",
]
