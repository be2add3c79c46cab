"""Other versions of tmux, as far as the machine's own can play them; `make test-tmux-matrix` runs real ones."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from loopctl.adapters.shell import clean_env
from loopctl.adapters.tmux import Tmux
from loopctl.model.facts import REFUSED, Unknown
from loopctl.model.items import OPEN
from loopctl.model.plan import CHANGED
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import REMOVE, RETAIN, RUN, Ensure, ItemMatch
from loopctl.model.sessions import GONE, RETAINED, RUNNING
from loopctl.observe import observe
from loopctl.ports import StartSpec, World
from loopctl.run import apply_plan, plan_once
from tests.tmux.strangers import Server
from tests.worlds import items_of, make_world, one_rule

pytestmark = pytest.mark.tmux

ID = "7b1c9e52-0000-4000-8000-000000000015"
REF = "items:demo/app#1"

#: What a version says where it cannot do what is asked. REAL is the machine's own tmux.
OLD_PROGRAM = 'case "$*" in -V) echo tmux 3.1c;; *) echo "-:3: usage: new-session [-AdDEPX]" >&2; exit 1;; esac'
OLDER_PROGRAM = 'case "$*" in -V) echo tmux 3.0a;; *) echo "server version is too old for client" >&2;; esac'
NO_COMMON_WORDS = 'case "$*" in -V) echo tmux 3.3a;; *) echo "server exited unexpectedly" >&2; exit 1;; esac'
OLD_SERVER = 'REAL "$@" | sed "s/|[0-9a-z.-]*|\\\\$/|3.1c|$/"'


def with_formats(edit: str) -> str:
    """A tmux whose formats are edited first: what a version does not know expands to nothing."""
    return (
        f"edit='{edit}'\n"
        'for word; do shift; set -- "$@" "$(printf %s "$word" | sed "$edit")"; done\n'
        'case "$*" in *"source-file -") sed "$edit" | REAL "$@";; *) exec REAL "$@";; esac'
    )


WORKING = {
    "3.2a": with_formats("s/pane_dead_signal/unknown_to_3_2a/g"),
    "3.8": with_formats("s/#{pane_pid}/#{?pane_dead,,#{pane_pid}}/g; s/pane_dead_signal/unknown/g"),
}


def host(script: str, socket: str, folder: Path) -> Tmux:
    program = folder / "tmux"
    program.write_text(f"#!/bin/sh\n{script.replace('REAL', str(shutil.which('tmux')))}\n")
    program.chmod(0o755)
    return Tmux(clean_env(os.environ), own_socket=socket, program=str(program))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (OLD_PROGRAM, "tmux 3.1c is too old: 3.2a or later is needed"),
        (OLDER_PROGRAM, "tmux 3.0a is too old: 3.2a or later is needed"),
        (OLD_SERVER, "tmux 3.1c is too old: 3.2a or later is needed ({socket})"),
        (
            NO_COMMON_WORDS,
            "tmux: server exited unexpectedly ({socket}); perhaps another version than tmux 3.3a started that server: "
            "only that one can talk to it",
        ),
    ],
    ids=["old program", "older program", "old server", "no common words"],
)
def test_an_unsupported_version_is_named_and_never_an_empty_server(
    tmux_socket: str, tmp_path: Path, script: str, reason: str
) -> None:
    Server(tmux_socket).session("somebody")
    said = host(script, tmux_socket, tmp_path).look(tmux_socket)
    assert said == Unknown(reason.format(socket=tmux_socket))


@pytest.mark.parametrize(
    ("script", "version"), [(OLD_PROGRAM, "3.1c"), (OLDER_PROGRAM, "3.0a")], ids=["old program", "older program"]
)
def test_a_program_that_is_too_old_starts_nothing_and_says_so(
    tmux_socket: str, tmp_path: Path, script: str, version: str
) -> None:
    spec = StartSpec(ID, WorkItemRef.parse(REF), "loop-1", ("sleep", "1000"), str(tmp_path), {})
    made = host(script, tmux_socket, tmp_path).start(tmux_socket, [spec])[ID]
    assert made == Unknown(f"tmux {version} is too old: 3.2a or later is needed", REFUSED)


@pytest.mark.parametrize("version", WORKING)
def test_a_session_from_birth_to_grave(version: str, tmux_socket: str, tmp_path: Path) -> None:
    """3.2a does not tell a signal; 3.8 forgets the process of a dead pane."""
    world = make_world(tmp_path / "state", tmux_socket, {REF: OPEN})
    world = replace(world, terminals=host(WORKING[version], tmux_socket, tmp_path))
    for state, wanted, phase in ((OPEN, RUN, RUNNING), ("closed", RETAIN, RETAINED), ("closed", REMOVE, GONE)):
        items_of(world)[REF] = state
        book = one_rule(Ensure(session=wanted), item=ItemMatch(state=(state,)))
        outcome = apply_plan(plan_once(book, world), world)
        assert [result.status for result in outcome.results] == [CHANGED], outcome
        assert phase_of(world) == phase
        assert plan_once(book, world).actions == ()


def phase_of(world: World) -> str:
    (subject,) = observe(world).subjects
    return str(subject.phase)
