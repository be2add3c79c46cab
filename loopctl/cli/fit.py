"""Whether a playbook and the config fit together: what neither of the two can be told alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from loopctl.errors import DocumentError, Problem, StateError
from loopctl.model.rules import RUN, Playbook, Rule
from loopctl.ports import World


def check_harnesses(playbook: Playbook, world: World, config: str) -> None:
    """Raise DocumentError where a rule for this machine wants an agent program that the config (its path) does not know."""
    from loopctl.planner.resolve import is_for

    rules = [rule for play in playbook.plays if is_for(play, world.machine) for rule in play.rules]
    problems = list(_unknown(rules, world, config))
    if problems:
        raise DocumentError(problems)


def _unknown(rules: Iterable[Rule], world: World, config: str) -> Iterator[Problem]:
    default = world.policy.default_harness
    asked = False
    for rule in rules:
        name, at = rule.ensure.harness, rule.position
        asked |= rule.ensure.session == RUN and not name
        if name and name not in world.harnesses:
            yield Problem(at.source, at.line, at.column, f"no harness is called {name!r}", _hint(name, world))
    if asked and default not in world.harnesses:
        yield Problem(config, 0, 0, f"routing.defaultHarness: no harness is called {default!r}", _hint(default, world))


def _hint(name: str, world: World) -> str:
    from loopctl.playbook.schema import did_you_mean

    known = sorted(world.harnesses)
    guess = did_you_mean(name, known)
    return f"{guess} there are {', '.join(known)}; the config can name more".strip()


def nothing_seen(playbook: Playbook, files: Sequence[str]) -> tuple[str, ...]:
    """What to say of a plan for which there was neither a session nor a listed item; `files` are the items files.

    Rules that start nothing have nobody asked then: a file that cannot be read would not be noticed.
    """
    from loopctl.run import starts_sessions

    if starts_sessions(playbook):
        return ("there was nothing to look at: no session is registered here, and no source lists an item",)
    nothing = (
        "there was nothing to look at: no session is registered here, and these rules start none; no source was asked"
    )
    return (nothing, *(f"no items can be read from {file}: {why}" for file in files if (why := items_trouble(file))))


def items_trouble(path: str) -> str:
    """Why an items file cannot be read, or ""."""
    from loopctl.playbook.items import load_items

    try:
        load_items(path)
    except DocumentError as error:
        first = error.problems[0]
        return f"line {first.line}: {first.message}" if first.line else first.message
    except OSError as error:
        return error.strerror or str(error)
    return ""


def no_tmux() -> str:
    """Why nothing can be started here, or ""."""
    from loopctl.cli.wiring import tmux_version

    try:
        tmux_version(os.environ)
    except StateError as error:
        return f"nothing can be started here: {error.message}"
    return ""
