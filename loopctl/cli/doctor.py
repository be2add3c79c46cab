"""loopctl doctor: is everything there that loopctl needs?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopctl.cli.options import config_option, table_format_option
from loopctl.cli.output import out
from loopctl.errors import EXIT_FAILED, EXIT_OK, DocumentError, LoopctlError
from loopctl.model.health import FAIL, GOOD, WARN, Finding
from loopctl.model.tmux import OLDEST, is_version

if TYPE_CHECKING:
    from loopctl.cli.wiring import Setup

_OTHER_ROOT = "set state.root to a folder of yours"


@click.command(short_help="Check that everything that loopctl needs is there.")
@config_option
@table_format_option
def doctor(config: str | None, form: str) -> int:
    """Check that everything that loopctl needs is there: config, state, tmux, the agent programs, gh and its accounts.

    Each line says ok, warn or fail, and what to do. Exit 1 when one of them is fail. Changes nothing.
    """
    from loopctl.render.clean import shown
    from loopctl.render.json import json_text

    findings = list(examine(config))
    failed = any(finding.level == FAIL for finding in findings)
    if form == "json":
        rows = [{"what": f.what, "level": f.level, "text": f.text, "remedy": f.remedy} for f in findings]
        out(json_text({"ok": not failed, "findings": rows}))
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            out(f"{finding.level:<4}  {shown(finding.what):<{width}}  {shown(finding.text)}\n")
            if finding.remedy:
                out(f"{'':4}  {'':{width}}  -> {shown(finding.remedy)}\n")
    return EXIT_FAILED if failed else EXIT_OK


def examine(config: str | None) -> Iterator[Finding]:
    """All findings, those that do not depend on the config first. A wrong config is a finding, and the last one."""
    from loopctl.cli.wiring import Setup, agents_health
    from loopctl.cli.wiring_github import github_health

    yield _tmux_program()
    try:
        setup = Setup.load(config, "doctor")
    except DocumentError as error:
        for problem in error.problems:
            yield Finding("config", FAIL, f"{problem.where}: {problem.message}", problem.hint)
        return
    yield Finding("config", GOOD, setup.config.path or "none: every default holds")
    state = _state(setup)
    yield state
    yield _server(setup, state)
    yield from agents_health(setup.config, os.environ)
    yield from _sources(setup)
    yield from github_health(setup.config, os.environ)


def _tmux_program() -> Finding:
    from loopctl.cli.wiring import tmux_version

    remedy = f"install tmux {OLDEST} or later"
    try:
        said = tmux_version(os.environ)
    except LoopctlError as error:
        return Finding("tmux", FAIL, error.message, remedy)
    if not is_version(said):
        return Finding("tmux", WARN, f"does not say its version: {said or 'nothing'}", remedy)
    return Finding("tmux", GOOD, said.removeprefix("tmux "))


def _state(setup: Setup) -> Finding:
    root = Path(setup.config.state_root)
    try:
        records = setup.world.registry.all()
    except LoopctlError as error:
        return Finding("state", FAIL, error.message, error.hint or _OTHER_ROOT)
    nearest = next(folder for folder in (root, *root.parents) if folder.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Finding("state", FAIL, f"{nearest} cannot be written", _OTHER_ROOT)
    return Finding(
        "state", GOOD, f"{root}, {len(records)} sessions registered" if root.exists() else f"{root} (not made yet)"
    )


def _server(setup: Setup, state: Finding) -> Finding:
    from loopctl.model.facts import Unknown

    socket = setup.config.socket
    try:
        view = setup.world.terminals.look(socket)
    except LoopctlError as error:
        return Finding("server", FAIL, error.message, error.hint)
    if isinstance(view, Unknown):
        remedy = "end that tmux server, or set tmux.socket to another path"
        if state.level == FAIL and Path(socket).is_relative_to(setup.config.state_root):
            # There is no server to end: its socket lies where nothing can lie.
            remedy = state.remedy
        return Finding("server", FAIL, view.reason, remedy)
    server = view.value.server
    text = f"pid {server.pid}, {len(view.value.panes)} panes" if server else "none runs yet: the first start makes it"
    return Finding("server", GOOD, f"{socket}: {text}")


def _sources(setup: Setup) -> Iterator[Finding]:
    from loopctl.playbook.items import load_items

    if not setup.config.sources:
        yield Finding("sources", WARN, "none: nothing is listed and no item can be asked about", "set polling.sources")
    # GitHub's are asked by themselves, in one call a host.
    for path in [source.items for source in setup.config.sources if source.items]:
        try:
            yield Finding("items", GOOD, f"{path}: {len(load_items(path))} items")
        except DocumentError as error:
            first = error.problems[0]
            yield Finding("items", FAIL, f"{first.where}: {first.message}", f"loopctl validate {path}")
        except OSError as error:
            yield Finding("items", FAIL, f"{path}: {error.strerror or error}", "make the file, or name another one")
