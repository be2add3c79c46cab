"""Pure: observation -> desired state -> plan. No clock, file, process or network."""

from loopctl.planner.diff import diff, guard_of
from loopctl.planner.resolve import resolve, undecided

__all__ = ["diff", "guard_of", "resolve", "undecided"]
