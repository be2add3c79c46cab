"""Whether agent programs can be started: what `loopctl doctor` says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from loopctl.adapters.harnesses import CommandHarness
from loopctl.errors import StateError
from loopctl.model.health import GOOD, WARN, Finding

_WHAT = "harness"


def health(harnesses: Mapping[str, CommandHarness], default: str, configured: Iterable[str]) -> Iterator[Finding]:
    """The default one, those that the config names, and the built-in ones that are installed: rules may use them all."""
    if default not in harnesses:
        known = ", ".join(sorted(harnesses))
        yield Finding(_WHAT, WARN, f"no harness is called {default!r}", f"set routing.defaultHarness to one of {known}")
    wanted = [name for name in dict.fromkeys((default, *configured)) if name in harnesses]
    for name in (*wanted, *sorted(harnesses.keys() - set(wanted))):
        found = _finding(harnesses[name])
        if name in wanted or found.level == GOOD:
            yield found


def _finding(harness: CommandHarness) -> Finding:
    try:
        program = harness.argv("", harness.new_session_id())[0]
        version = harness.version()
    except StateError as error:
        return Finding(_WHAT, WARN, error.message, error.hint)
    return Finding(_WHAT, GOOD, f"{harness.name}: {program}" + (f", {version}" if version else ""))
