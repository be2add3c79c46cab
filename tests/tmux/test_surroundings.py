"""Whatever a person's tmux, shell and locale are like: our own server does not notice, and on theirs a close does its work."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from loopctl.adapters.shell import clean_env
from loopctl.adapters.tmux import Tmux
from loopctl.cli.wiring import agents_env
from loopctl.executor.take_over import TakeOver, take_over
from loopctl.model.facts import Known
from loopctl.model.items import OPEN
from loopctl.model.plan import CHANGED, FAILED
from loopctl.model.rules import REMOVE, RETAIN, RUN, Ensure, ItemMatch
from loopctl.model.sessions import GONE, RETAINED, RUNNING, Pane
from loopctl.observe import observe
from loopctl.ports import World
from loopctl.run import apply_plan, plan_once
from tests.support import wait_until
from tests.tmux.strangers import NAME, REF, Server
from tests.worlds import items_of, make_world, one_rule

pytestmark = pytest.mark.tmux

#: Lines of a tmux.conf that would be felt at once. A hook in it leaves a file.
CONF = """\
set -g base-index 1
set -g pane-base-index 1
set -g remain-on-exit off
set -g destroy-unattached on
set -g default-command "touch {felt}"
set -g default-terminal screen
set -g status-right "#(touch {felt})"
set-hook -g session-created 'run-shell "touch {felt}"'
set-hook -g after-new-session 'run-shell "touch {felt}"'
set-hook -g after-select-pane 'select-pane -e'
set-hook -g pane-died 'respawn-pane'
set-hook -g client-attached 'run-shell "touch {felt}"'
set -s command-alias[90] 'select-pane=kill-server'
"""
#: Locales that are not UTF-8, one that is nowhere, and none at all.
LOCALES: Mapping[str, Mapping[str, str]] = {
    "C": {"LC_ALL": "C"},
    "POSIX": {"LANG": "POSIX", "LC_CTYPE": "POSIX"},
    "absent": {"LANG": "xx_XX.ISO-8859-1", "LC_ALL": "xx_XX.ISO-8859-1", "LANGUAGE": "xx"},
    "none": {},
}
SAYS = ("sh", "-c", "echo grün→🚀; exec sleep 3600")


def pane_of(world: World, socket: str, pane_id: str) -> Pane:
    view = world.terminals.look(socket)
    assert isinstance(view, Known), view
    return next(pane for pane in view.value.panes if pane.pane_id == pane_id)


def bring(world: World, state: str, wanted: str) -> None:
    """The item is in a state, and what a rule wants then is made so, at one go."""
    items_of(world)[str(REF)] = state
    book = one_rule(Ensure(session=wanted), item=ItemMatch(state=(state,)))
    outcome = apply_plan(plan_once(book, world), world)
    assert [result.status for result in outcome.results] == [CHANGED], outcome
    assert plan_once(book, world).actions == ()


def phase(world: World) -> str:
    (subject,) = observe(world).subjects
    return str(subject.phase)


# --- our own server -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("locale", LOCALES)
def test_our_own_server_knows_neither_locale_nor_shell_nor_tmux_conf(
    locale: str, tmux_socket: str, tmp_path: Path, clean_environ: Path
) -> None:
    felt = tmp_path / "felt"
    for conf in (
        clean_environ / ".tmux.conf",
        clean_environ / ".config/tmux/tmux.conf",
        tmp_path / "xdg/tmux/tmux.conf",
    ):
        conf.parent.mkdir(parents=True, exist_ok=True)
        conf.write_text(CONF.format(felt=felt))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    environ |= {"SHELL": "/nowhere/fish", "XDG_CONFIG_HOME": str(tmp_path / "xdg"), **LOCALES[locale]}
    world = make_world(tmp_path / "state", tmux_socket, {str(REF): OPEN}, {"agent": SAYS})
    world = replace(world, terminals=Tmux(agents_env(environ), own_socket=tmux_socket))
    bring(world, OPEN, RUN)
    (record,) = world.registry.all()
    wait_until(
        lambda: "grün→🚀" in Server(tmux_socket).run("capture-pane", "-p", "-t", record.pane_id), what="the words"
    )
    bring(world, "closed", RETAIN)
    assert phase(world) == RETAINED
    (record,) = world.registry.all()
    assert Path(record.transcript).read_text(encoding="utf-8") == "grün→🚀\n"
    assert Server(tmux_socket).run("list-panes", "-a", "-F", "#{window_index}.#{pane_index}") == "0.0"
    assert not felt.exists()


# --- a person's server --------------------------------------------------------------------------------------------

SERVERS = {
    "base-index 1": ["set -g base-index 1", "set -g pane-base-index 1", "set -g renumber-windows on"],
    "remain-on-exit off": ["set -g remain-on-exit off"],
    "remain-on-exit failed": ["set -gw remain-on-exit failed"],
    "an odd shell": ['set -g default-shell "{shell}"', 'set -g default-command "{shell}"'],
    "hooks": [
        "set-hook -g after-select-pane 'display-message -p noise'",
        "set-hook -g after-set-option 'display-message -p noise'",
        "set-hook -g after-list-panes 'display-message -d 1 noise'",
        "set-hook -g pane-died 'display-message died'",
        "set-hook -g session-closed 'display-message closed'",
    ],
    "a name in no locale": ["rename-session -t loop-github-octo-app-15 grün→🚀"],
}


@pytest.fixture
def theirs(tmux_socket: str) -> Server:
    server = Server(tmux_socket)
    server.session("neighbour")
    server.session(NAME)
    return server


@pytest.fixture
def world(tmp_path: Path, tmux_socket: str) -> World:
    return make_world(tmp_path / "state", tmux_socket, {str(REF): OPEN}, own_socket=f"{tmux_socket}-own")


def configure(server: Server, line: str) -> None:
    argv = ["tmux", "-u", "-S", server.socket, "source-file", "-"]
    subprocess.run(argv, input=line, text=True, check=True, env=clean_env(os.environ), timeout=20)


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("wanted", [RETAIN, REMOVE])
def test_a_close_does_its_work_on_a_persons_server(
    kind: str, wanted: str, theirs: Server, world: World, tmp_path: Path
) -> None:
    # Debian calls the shell of a person without one /usr/sbin/nologin; tmux takes every program that can be run.
    shell = tmp_path / "fish"
    shell.write_text("#!/bin/sh\nexit 1\n")
    shell.chmod(0o755)
    for line in SERVERS[kind]:
        configure(theirs, line.format(shell=shell))
    take_over(TakeOver(REF, "claude", theirs.socket, "", pane="%1"), world)
    bring(world, "closed", wanted)
    assert phase(world) == {RETAIN: RETAINED, REMOVE: GONE}[wanted]
    assert not pane_of(world, theirs.socket, "%0").dead
    assert not pane_of(world, theirs.socket, "%0").input_off


@pytest.mark.parametrize(
    "line",
    [
        "set-hook -g after-set-option 'select-pane -e -t %1'",
        "set -s command-alias[90] select-pane=display-message",
    ],
    ids=["hook", "alias"],
)
def test_a_server_that_undoes_what_is_asked_keeps_its_agent(theirs: Server, world: World, line: str) -> None:
    take_over(TakeOver(REF, "claude", theirs.socket, "", pane="%1"), world)
    configure(theirs, line)
    items_of(world)[str(REF)] = "closed"
    (result,) = apply_plan(plan_once(one_rule(), world), world).results
    assert result.status == FAILED and "input-off or remain-on-exit did not hold on %1" in result.detail
    assert not pane_of(world, theirs.socket, "%1").dead
    assert phase(world) == RUNNING


def test_a_hook_that_takes_the_dead_pane_away_is_no_failure(theirs: Server, world: World) -> None:
    """It may come before the last look of the close or after it. The session has ended, and nothing is left to do."""
    take_over(TakeOver(REF, "claude", theirs.socket, "", pane="%1"), world)
    configure(theirs, "set-hook -g pane-died 'kill-pane -t %1'")
    items_of(world)[str(REF)] = "closed"
    (result,) = apply_plan(plan_once(one_rule(), world), world).results
    assert result.status == CHANGED, result
    # A server whose SIGCHLD was lost runs the hook as soon as it collects its children.
    wait_until(lambda: (theirs.run("run-shell", "true"), theirs.marks())[1] == {"%0": ""}, what="the hook was run")
    assert phase(world) == GONE
    assert plan_once(one_rule(), world).actions == ()


def test_keys_that_are_sent_to_a_closed_session_reach_nobody(theirs: Server, world: World) -> None:
    record = take_over(TakeOver(REF, "claude", theirs.socket, NAME), world)
    bring(world, "closed", RETAIN)
    before = theirs.run("capture-pane", "-p", "-S", "-", "-t", record.pane_id)
    theirs.run("send-keys", "-t", record.pane_id, "touch PWNED", "Enter")
    assert theirs.run("capture-pane", "-p", "-S", "-", "-t", record.pane_id) == before
    assert phase(world) == RETAINED
    assert plan_once(one_rule(), world).actions == ()


def test_a_server_whose_listing_is_not_ours_is_not_believed(theirs: Server, world: World) -> None:
    take_over(TakeOver(REF, "claude", theirs.socket, "", pane="%1"), world)
    configure(theirs, "set-hook -g after-list-panes 'display-message -p noise'")
    items_of(world)[str(REF)] = "closed"
    plan = plan_once(one_rule(), world)
    assert (plan.actions, [held.reason for held in plan.held]) == ((), ["tmux printed a line that cannot be read"])


@contextmanager
def attached(server: Server, session: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """A person who looks at a session, in control mode: it needs no terminal."""
    argv = ["tmux", "-u", "-C", "-S", server.socket, "attach-session", *flags, "-t", f"={session}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=clean_env(os.environ)) as client:
        count = ("list-clients", "-F", "#{session_name}")
        wait_until(lambda: session in server.run(*count).splitlines(), what="the client")
        yield client
        if client.poll() is None:
            os.kill(client.pid, signal.SIGTERM)


def test_a_session_that_goes_when_nobody_looks(theirs: Server, world: World) -> None:
    """destroy-unattached: the dead pane goes when its person leaves, and nothing is left to do."""
    record = take_over(TakeOver(REF, "claude", theirs.socket, NAME), world)
    with attached(theirs, NAME):
        theirs.run("set-option", "-t", f"={NAME}:", "destroy-unattached", "on")
        bring(world, "closed", RETAIN)
        assert phase(world) == RETAINED
        assert pane_of(world, theirs.socket, record.pane_id).dead
    wait_until(lambda: theirs.marks() == {"%0": ""}, what="the session goes")
    assert phase(world) == GONE
    assert plan_once(one_rule(), world).actions == ()


def test_everything_is_done_while_somebody_watches_read_only(tmux_socket: str, tmp_path: Path) -> None:
    """From 3.7 on, a command that picks a client fails where that one is read-only."""
    world = make_world(tmp_path / "state", tmux_socket, {str(REF): OPEN}, {"agent": SAYS})
    watched = Server(tmux_socket)
    watched.session("watched")
    with attached(watched, "watched", "-r"):
        bring(world, OPEN, RUN)
        (record,) = world.registry.all()
        with attached(watched, record.name, "-r"):
            wait_until(lambda: "grün" in watched.run("capture-pane", "-p", "-t", record.pane_id), what="the words")
            bring(world, "closed", RETAIN)
            assert Path(world.registry.all()[0].transcript).read_text(encoding="utf-8") == "grün→🚀\n"
            bring(world, "closed", REMOVE)
    assert phase(world) == GONE
