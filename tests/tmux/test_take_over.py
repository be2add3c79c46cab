from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loopctl.adapters.processes import LocalProcesses
from loopctl.adapters.shell import clean_env
from loopctl.adapters.the_loop import read_loop_folder
from loopctl.errors import StateError
from loopctl.executor.import_loop import PRESENT, SKIPPED, TAKEN, Imported, import_records
from loopctl.executor.take_over import TakeOver, take_over
from loopctl.model.facts import Known, Unknown
from loopctl.model.plan import CHANGED, Outcome
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import (
    CLOSED_STATUS,
    EXITED,
    GONE,
    IMPORTED,
    REGISTERED,
    RETAINED,
    RUNNING,
    UNDEAD,
    Pane,
    SessionRecord,
    SessionView,
)
from loopctl.observe import observe
from loopctl.ports import World
from loopctl.run import apply_plan, plan_once
from tests.support import wait_until
from tests.tmux.strangers import NAME, REF, Server, write
from tests.worlds import items_of, journal_of, make_world, one_rule

pytestmark = pytest.mark.tmux


@pytest.fixture
def server(tmux_socket: str) -> Server:
    return Server(tmux_socket)


@pytest.fixture
def world(tmp_path: Path, tmux_socket: str) -> World:
    return make_world(tmp_path / "state", tmux_socket, {str(REF): "open"}, own_socket=f"{tmux_socket}-own")


def request(server: Server, name: str = NAME, **more: str) -> TakeOver:
    return replace(TakeOver(REF, "claude", server.socket, name), **more)  # type: ignore[arg-type]


def only(world: World) -> SessionView:
    (subject,) = observe(world).subjects
    assert subject.session
    return subject.session


def pane_of(world: World, socket: str, pane_id: str) -> Pane:
    view = world.terminals.look(socket)
    assert isinstance(view, Known)
    return next(pane for pane in view.value.panes if pane.pane_id == pane_id)


# --- register ---------------------------------------------------------------------------------------------------


def test_a_session_is_identified_marked_and_logged(server: Server, world: World) -> None:
    server.session("other")
    pane_id = server.session(NAME)
    record = take_over(request(server, harness_session_id="abc", cwd="/src"), world)
    pane = pane_of(world, server.socket, pane_id)
    assert (record.pane_id, record.session_id, record.name) == (pane_id, pane.session_id, NAME)
    assert record.pane and record.pane.pid == pane.pid
    assert record.server and record.server.pid == int(server.run("display-message", "-p", "#{pid}"))
    assert (record.origin, record.socket, record.harness_session_id, record.cwd) == (
        REGISTERED,
        server.socket,
        "abc",
        "/src",
    )
    assert world.registry.all() == (record,)
    assert server.marks() == {pane_id: record.id, "%0": ""}
    assert server.run("show-options", "-v", "-t", pane.session_id, "@loopctl_ref") == str(REF)
    (event,) = journal_of(world).named("session.registered")
    assert (event["ref"], event["session"], event["origin"]) == (str(REF), record.id, REGISTERED)
    assert only(world).phase == RUNNING


@pytest.mark.parametrize("name", ["issue-1", "issue-*", "issue-[1]0", "issue-1?", "=issue-10", "issue-10:", "ISSUE-10"])
def test_a_name_is_not_a_pattern(server: Server, world: World, name: str) -> None:
    server.session("issue-10")
    with pytest.raises(StateError, match="there is no session") as error:
        take_over(request(server, name), world)
    assert "issue-10" in error.value.hint
    assert world.registry.all() == () and server.marks() == {"%0": ""}


@pytest.mark.parametrize("name", ["a*", "a[1]", "a b", "a#{pid}", "a$", "-x", "ü"])
def test_a_name_may_hold_anything_that_tmux_accepts(server: Server, world: World, name: str) -> None:
    server.session("a1")
    server.run("new-session", "-d", "-s", "plain", "--", "sleep", "3600")
    server.run("rename-session", "-t", "plain", "--", name.replace("#{", "##{"))
    record = take_over(request(server, name), world)
    assert record.name == name
    assert server.marks() == {"%0": "", "%1": record.id}


def test_a_session_is_found_by_its_pane_and_by_its_id(server: Server, world: World) -> None:
    server.session("other")
    pane_id = server.session("mine")
    session = server.run("display-message", "-p", "-t", pane_id, "#{session_id}")
    record = take_over(request(server, "", pane=pane_id), world)
    assert record.name == "mine"
    other = WorkItemRef.parse("github:octo/app#16")
    server.session("third")
    third = server.run("display-message", "-p", "-t", "%2", "#{session_id}")
    assert third != session
    assert take_over(replace(request(server, third), ref=other), world).pane_id == "%2"


def test_a_pane_that_is_not_in_the_named_session_is_refused(server: Server, world: World) -> None:
    server.session("a")
    server.session("b")
    with pytest.raises(StateError, match="in session a, not in b"):
        take_over(request(server, "b", pane="%0"), world)
    with pytest.raises(StateError, match="no pane %7"):
        take_over(request(server, "", pane="%7"), world)


def test_of_several_panes_one_must_be_chosen(server: Server, world: World) -> None:
    server.session(NAME)
    server.run("split-window", "-d", "-t", "%0", "sleep 3600")
    with pytest.raises(StateError, match=r"2 panes: %0 \(sleep\), %1 \(sleep\)"):
        take_over(request(server), world)
    assert world.registry.all() == () and set(server.marks().values()) == {""}
    assert take_over(request(server, "", pane="%1"), world).pane_id == "%1"


def test_a_server_that_does_not_answer_is_not_an_empty_one(server: Server, world: World, tmux_socket: str) -> None:
    with pytest.raises(StateError, match="no tmux server runs"):
        take_over(request(server), world)
    server.session(NAME)
    pid = int(server.run("display-message", "-p", "#{pid}"))
    slow = replace(world, terminals=type(world.terminals)(clean_env(os.environ), own_socket="/x", timeout=0.5))  # type: ignore[call-arg]
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(StateError, match="did not answer"):
            take_over(request(server), slow)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert world.registry.all() == ()


def test_a_pane_of_another_server_is_refused(server: Server, world: World) -> None:
    server.session(NAME)
    with pytest.raises(StateError, match="another tmux server answers"):
        take_over(replace(request(server), server_pid=1), world)


def test_a_dead_pane_can_be_taken_over(server: Server, world: World) -> None:
    server.session("keep")
    server.run("set-option", "-g", "-w", "remain-on-exit", "on")
    pane_id = server.session(NAME, "true", "x")
    wait_until(lambda: pane_of(world, server.socket, pane_id).dead, what="the pane to be dead")
    record = take_over(request(server), world)
    assert record.pane is None
    assert only(world).phase == EXITED


def test_a_runner_without_a_terminal_has_only_a_record(world: World) -> None:
    record = take_over(TakeOver(REF, "cursor", runner="process", harness_session_id="c-1"), world)
    assert (record.runner, record.socket, record.pane_id) == ("process", "", "")
    with pytest.raises(StateError, match="already has an open session"):
        take_over(TakeOver(REF, "cursor", runner="process"), world)


def test_an_item_has_one_open_session(server: Server, world: World) -> None:
    server.session("first")
    server.session("second")
    take_over(request(server, "first"), world)
    with pytest.raises(StateError, match="already has an open session in pane %0 of first"):
        take_over(request(server, "second"), world)
    assert server.marks()["%1"] == ""


def test_a_session_belongs_to_one_record(server: Server, world: World) -> None:
    server.session(NAME)
    take_over(request(server), world)
    with pytest.raises(StateError, match="belongs to github:octo/app#15 already"):
        take_over(replace(request(server), ref=WorkItemRef.parse("github:octo/app#16")), world)
    assert len(world.registry.all()) == 1


def test_registering_again_changes_nothing(server: Server, world: World) -> None:
    server.session(NAME)
    first = take_over(request(server), world)
    assert take_over(request(server), world) == first
    assert world.registry.all() == (first,)
    assert len(journal_of(world).named("session.registered")) == 1


def test_a_take_over_that_was_cut_short_is_completed(server: Server, world: World) -> None:
    """As after a kill between the record and the mark."""
    server.session(NAME)
    first = take_over(request(server), world)
    server.run("set-option", "-u", "-t", first.session_id, "@loopctl_id")
    assert isinstance(only(world).sighting, Unknown)
    assert take_over(request(server), world) == first
    assert server.marks() == {"%0": first.id}
    assert only(world).phase == RUNNING


def test_the_mark_of_a_lost_registry_is_kept(server: Server, world: World, tmp_path: Path) -> None:
    """What the processes of a session carry is its mark: a new one would not find them."""
    server.session(NAME)
    first = take_over(request(server), world)
    fresh = make_world(tmp_path / "fresh", server.socket)
    again = take_over(request(server), fresh)
    assert again.id == first.id
    assert only(fresh).phase == RUNNING


def test_a_mark_that_is_none_of_ours_is_refused(server: Server, world: World) -> None:
    server.session(NAME)
    server.run("set-option", "-t", "$0", "@loopctl_id", "mine!")
    with pytest.raises(StateError, match="does not give"):
        take_over(request(server), world)
    assert world.registry.all() == ()


class _Forgetful:
    """A terminal host whose marks do not hold, because somebody else is quicker."""

    def __init__(self, inner: object, server: Server) -> None:
        self.inner, self.server = inner, server

    def mark(self, *args: object) -> str:
        self.server.run("set-option", "-t", "$0", "@loopctl_id", "00000000-0000-4000-8000-000000000000")
        return self.inner.mark(*args)  # type: ignore[attr-defined,no-any-return]

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def test_of_two_who_take_over_one_session_one_fails(server: Server, world: World) -> None:
    server.session(NAME)
    racing = replace(world, terminals=_Forgetful(world.terminals, server))  # type: ignore[arg-type]
    with pytest.raises(StateError, match="carries the mark 00000000"):
        take_over(request(server), racing)
    assert world.registry.all() == ()
    assert server.marks() == {"%0": "00000000-0000-4000-8000-000000000000"}
    assert journal_of(world).events == []


def test_taking_over_does_not_wait_for_an_apply(server: Server, world: World) -> None:
    server.session(NAME)
    with world.registry.lock():
        assert take_over(request(server), world).pane_id == "%0"


# --- what was taken over ends like any other -------------------------------------------------------------------------

STUBBORN = """
trap '' HUP
nohup sh -c 'echo $$ >> {out}; exec sleep 3600' >/dev/null 2>&1 &
setsid sh -c 'echo $$ >> {out}; exec sleep 3600' >/dev/null 2>&1 &
setsid sh -c '(setsid sh -c "echo \\$\\$ >> {out}; exec sleep 3600" &)' >/dev/null 2>&1
echo $$ >> {out}
exec sleep 3600
"""


def alive(pids: list[int]) -> list[int]:
    table = LocalProcesses().look()
    assert isinstance(table, Known)
    return [pid for pid in pids if table.value.get(pid)]


@pytest.fixture
def stubborn(server: Server, tmp_path: Path) -> Iterator[list[int]]:
    """An agent with nohup, setsid and double-forked children: what ties these to it is TMUX and TMUX_PANE alone."""
    out = tmp_path / "pids"
    server.session("neighbour")
    server.session(NAME, "sh", "-c", STUBBORN.format(out=out))
    pids = wait_until(lambda: _numbers(out, 4), what="four processes")
    yield pids
    for pid in alive(pids):
        os.kill(pid, signal.SIGKILL)


def _numbers(path: Path, count: int) -> list[int]:
    found = [int(line) for line in path.read_text().split()] if path.exists() else []
    return found if len(found) == count else []


def finish(world: World, state: str = "closed") -> Outcome:
    items_of(world)[str(REF)] = state
    return apply_plan(plan_once(one_rule(), world), world)


def test_closing_a_taken_over_session_ends_its_escaped_children(
    server: Server, world: World, stubborn: list[int]
) -> None:
    record = take_over(request(server), world)
    assert plan_once(one_rule(), world).actions == ()
    assert alive(stubborn) == stubborn
    (result,) = finish(world).results
    assert result.status == CHANGED, result.detail
    assert alive(stubborn) == []
    pane = pane_of(world, server.socket, record.pane_id)
    assert (pane.dead, pane.input_off, pane.remain_on_exit) == (True, True, "on")
    assert world.registry.all()[0].status == CLOSED_STATUS
    assert not pane_of(world, server.socket, "%0").dead
    assert plan_once(one_rule(), world).actions == ()


# --- import -------------------------------------------------------------------------------------------------------


def imported(folder: Path, server: Server, world: World, **options: bool) -> dict[str, Imported]:
    rows = import_records(read_loop_folder(folder).records, server.socket, world, **options)
    return {str(row.ref): row for row in rows}


def by_ref(world: World) -> dict[str, SessionRecord]:
    return {str(record.ref): record for record in world.registry.all()}


def phases(world: World) -> dict[str, str | None]:
    return {str(subject.ref): subject.phase for subject in observe(world).subjects}


def test_importing_takes_what_is_there_and_says_what_is_not(server: Server, world: World, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    server.session("keep")
    server.run("set-option", "-g", "-w", "remain-on-exit", "on")
    for number in (1, 2, 3):
        server.session(f"loop-github-octo-app-{number}")
    server.session("loop-github-octo-app-4", "true", "x")
    wait_until(lambda: pane_of(world, server.socket, "%4").dead, what="the pane to be dead")
    write(folder, 1)
    write(folder, 2, status="paused")
    write(folder, 3, status="closed")
    write(folder, 4, status="closed")
    write(folder, 5)
    write(folder, 6, status="closed")
    write(folder, 7, runner="process", tmuxTarget="")
    rows = imported(folder, server, world)
    # Of an open one that is not there under its name, nothing is known.
    missing = rows.pop("github:octo/app#5")
    assert (missing.outcome, missing.unseen) == (SKIPPED, True)
    assert "there is no session loop-github-octo-app-5" in missing.detail
    assert {row.outcome for row in rows.values()} == {TAKEN}
    found = {1: RUNNING, 2: "paused", 3: UNDEAD, 4: RETAINED, 6: GONE, 7: RUNNING}
    assert phases(world) == {f"github:octo/app#{number}": phase for number, phase in found.items()}
    records = by_ref(world)
    assert {record.origin for record in records.values()} == {IMPORTED}
    first = records["github:octo/app#1"]
    assert first.pane and first.server and first.created_at and first.created_at.year == 2026
    assert server.marks() == {"%0": ""} | {f"%{n}": records[f"github:octo/app#{n}"].id for n in (1, 2, 3, 4)}
    assert len(journal_of(world).named("session.registered")) == 6


def test_importing_again_takes_nothing(server: Server, world: World, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    server.session(NAME)
    write(folder, 15)
    write(folder, 16, status="closed")
    first = imported(folder, server, world)
    before = world.registry.all()
    again = imported(folder, server, world)
    assert {row.outcome for row in again.values()} == {PRESENT}
    assert {ref: row.session for ref, row in again.items()} == {ref: row.session for ref, row in first.items()}
    assert world.registry.all() == before
    finish(world)
    assert {row.outcome for row in imported(folder, server, world).values()} == {PRESENT}


def test_a_dry_run_changes_nothing(server: Server, world: World, tmp_path: Path) -> None:
    server.session(NAME)
    write(tmp_path / "sessions", 15)
    (row,) = imported(tmp_path / "sessions", server, world, dry_run=True).values()
    assert (row.outcome, row.detail) == (TAKEN, f"active, running in pane %0 of {NAME}")
    assert world.registry.all() == () and server.marks() == {"%0": ""}


def test_an_import_that_was_cut_short_is_completed(server: Server, world: World, tmp_path: Path) -> None:
    server.session(NAME)
    write(tmp_path / "sessions", 15)
    imported(tmp_path / "sessions", server, world)
    server.run("set-option", "-u", "-t", "$0", "@loopctl_id")
    imported(tmp_path / "sessions", server, world)
    assert server.marks() == {"%0": world.registry.all()[0].id}


def test_one_number_is_not_the_beginning_of_another(server: Server, world: World, tmp_path: Path) -> None:
    """#1 is gone, #10 runs: a lookup by tmux itself would find #10 for both."""
    server.session("loop-github-octo-app-10")
    write(tmp_path / "sessions", 1)
    write(tmp_path / "sessions", 10)
    imported(tmp_path / "sessions", server, world)
    records = by_ref(world)
    assert server.marks() == {"%0": records["github:octo/app#10"].id}
    assert phases(world) == {"github:octo/app#10": RUNNING}


@pytest.mark.parametrize("target", ["loop-github-octo-foo.js-15", "loop-github-octo-foo_js-15"])
def test_dots_are_what_tmux_made_of_them(server: Server, world: World, tmp_path: Path, target: str) -> None:
    server.session(target)
    name = server.run("list-sessions", "-F", "#{session_name}")
    write(tmp_path / "sessions", 15, "octo/foo.js", tmuxTarget=target)
    (row,) = imported(tmp_path / "sessions", server, world).values()
    assert row.outcome == TAKEN
    (record,) = world.registry.all()
    assert (record.name, record.pane_id) == (name, "%0")


def test_two_records_for_one_session_are_both_left_alone(server: Server, world: World, tmp_path: Path) -> None:
    server.session("loop-github-octo-foo_js-15")
    write(tmp_path / "sessions", 15, "octo/foo.js", tmuxTarget="loop-github-octo-foo_js-15")
    write(tmp_path / "sessions", 15, "octo/foo_js")
    rows = imported(tmp_path / "sessions", server, world)
    assert {(row.outcome, row.detail) for row in rows.values()} == {
        (SKIPPED, "session loop-github-octo-foo_js-15 is claimed by 2 records")
    }
    assert world.registry.all() == () and server.marks() == {"%0": ""}


@pytest.mark.parametrize("target", ["mine", "loop-github-octo-app-1", "loop-github-octo-app-*", "", "%0", "$0", "="])
def test_an_edited_target_is_not_followed(server: Server, world: World, tmp_path: Path, target: str) -> None:
    server.session("mine")
    server.session("loop-github-octo-app-1")
    write(tmp_path / "sessions", 15, tmuxTarget=target)
    (row,) = imported(tmp_path / "sessions", server, world).values()
    assert row.outcome == SKIPPED
    assert f"tmuxTarget {target!r} is not the name the-loop gives github:octo/app#15" in row.detail
    assert world.registry.all() == () and set(server.marks().values()) == {""}


def test_a_server_that_is_not_there_says_nothing_of_its_sessions(server: Server, world: World, tmp_path: Path) -> None:
    write(tmp_path / "sessions", 15)
    write(tmp_path / "sessions", 16, status="closed")
    write(tmp_path / "sessions", 17, runner="process", tmuxTarget="")
    rows = imported(tmp_path / "sessions", server, world)
    assert [(row.outcome, row.unseen) for row in rows.values()] == [(SKIPPED, True), (SKIPPED, True), (TAKEN, False)]
    assert "no tmux server runs" in rows["github:octo/app#15"].detail
    assert list(by_ref(world)) == ["github:octo/app#17"]


def test_a_session_with_a_second_pane_is_for_a_person_to_choose(server: Server, world: World, tmp_path: Path) -> None:
    server.session(NAME)
    server.run("split-window", "-d", "-t", "%0", "sleep 3600")
    write(tmp_path / "sessions", 15)
    (row,) = imported(tmp_path / "sessions", server, world).values()
    assert row.outcome == SKIPPED and "2 panes" in row.detail and "register" in row.detail


def test_what_another_loopctl_has_is_left_to_it(server: Server, world: World, tmp_path: Path) -> None:
    server.session(NAME)
    theirs = take_over(request(server), make_world(tmp_path / "theirs", server.socket))
    write(tmp_path / "sessions", 15)
    (row,) = imported(tmp_path / "sessions", server, world).values()
    assert row.outcome == SKIPPED and "another registry" in row.detail
    assert server.marks() == {"%0": theirs.id}


def test_an_item_that_runs_here_already_is_left_alone(server: Server, world: World, tmp_path: Path) -> None:
    server.session("by-hand")
    server.session(NAME)
    take_over(request(server, "by-hand"), world)
    write(tmp_path / "sessions", 15)
    (row,) = imported(tmp_path / "sessions", server, world).values()
    assert row.outcome == SKIPPED and "open session already" in row.detail
    assert server.marks()["%1"] == ""


def test_what_was_registered_by_hand_is_here_already(server: Server, world: World, tmp_path: Path) -> None:
    server.session(NAME)
    record = take_over(request(server), world)
    write(tmp_path / "sessions", 15)
    (row,) = imported(tmp_path / "sessions", server, world).values()
    assert (row.outcome, row.session) == (PRESENT, record.id)
    assert world.registry.all() == (record,)


def test_an_open_session_is_the_one_of_its_item_however_old(server: Server, world: World, tmp_path: Path) -> None:
    """The record of the-loop is older than the one that loopctl has closed since."""
    server.session(NAME)
    take_over(request(server), world)
    finish(world)
    write(tmp_path / "sessions", 15, harnessSessionId="older", runner="process", tmuxTarget="")
    imported(tmp_path / "sessions", server, world)
    latest = [subject.record for subject in observe(world).subjects if subject.latest]
    assert [record.status for record in latest if record] == ["active"]


def test_an_undead_session_of_the_loop_is_found_and_ended(
    server: Server, world: World, stubborn: list[int], tmp_path: Path
) -> None:
    """the-loop closed the record and left the agent running: the next plan ends it."""
    write(tmp_path / "sessions", 15, status="closed")
    imported(tmp_path / "sessions", server, world)
    assert phases(world) == {str(REF): UNDEAD}
    (result,) = finish(world).results
    assert result.status == CHANGED, result.detail
    assert alive(stubborn) == []
    assert phases(world) == {str(REF): RETAINED}
