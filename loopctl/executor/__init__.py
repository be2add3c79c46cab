"""Plan + World -> Outcome. `close` is the only module that ends a session."""

from loopctl.executor.apply import execute
from loopctl.executor.limits import excess, way_on

__all__ = ["excess", "execute", "way_on"]
