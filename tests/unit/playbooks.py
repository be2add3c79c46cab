"""One-rule playbooks."""

from __future__ import annotations

from loopctl.model.items import CLOSED, MERGED, OPEN
from loopctl.model.rules import RETAIN, RUN, Ensure, ItemMatch, Limits, Match, Play, Playbook, Position, Rule


def ending(session: str = RETAIN, limits: Limits | None = None, **ensure: object) -> Playbook:
    """What is closed or merged is to be ended."""
    return _of(ItemMatch(state=(CLOSED, MERGED)), Ensure(session=session, **ensure), limits)  # type: ignore[arg-type]


def running(**ensure: object) -> Playbook:
    """What is open is to run."""
    return _of(ItemMatch(state=(OPEN,)), Ensure(session=RUN, **ensure), None)  # type: ignore[arg-type]


def _of(match: ItemMatch, ensure: Ensure, limits: Limits | None) -> Playbook:
    rule = Rule("the rule", Position("p.yml", 9), Match(match), ensure)
    play = Play("the play", Position("p.yml", 1), ("all",), (rule,), limits or Limits(1000, 1.0))
    return Playbook((play,), (("p.yml", "0" * 64),))
