"""`--tags`, as in Ansible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopctl.errors import UsageError
from loopctl.model.rules import Play
from loopctl.playbook.schema import did_you_mean

ALWAYS = "always"
NEVER = "never"
_SPECIAL = frozenset({"all", "tagged", "untagged", ALWAYS, NEVER})


def select(plays: Sequence[Play], wanted: frozenset[str]) -> tuple[Play, ...]:
    """The plays with the rules that these tags ask for; a play without one is left out.

    Without tags: all but `never`. Raises UsageError for a tag that no rule has.
    """
    known = {tag for play in plays for rule in play.rules for tag in rule.tags} | _SPECIAL
    for tag in sorted(wanted - known):
        msg = f"--tags: no rule has the tag {tag!r}"
        raise UsageError(msg, hint=did_you_mean(tag, sorted(known)))
    kept = (replace(play, rules=tuple(r for r in play.rules if _runs(r.tags, wanted))) for play in plays)
    return tuple(play for play in kept if play.rules)


def _runs(tags: frozenset[str], wanted: frozenset[str]) -> bool:
    if tags & wanted:
        return True
    if NEVER in tags:
        return False
    if not wanted or "all" in wanted or ALWAYS in tags:
        return True
    return "tagged" in wanted if tags else "untagged" in wanted
