"""Pure: observation -> desired state -> plan. No clock, file, process or network."""

from loopctl.planner.diff import diff
from loopctl.planner.identity import guard_of
from loopctl.planner.resolve import resolve, undecided
from loopctl.planner.strays import agent_elsewhere

__all__ = ["agent_elsewhere", "diff", "guard_of", "resolve", "undecided"]
