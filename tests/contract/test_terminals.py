"""ports.TerminalHost: what every implementation does, shown on the fake and on real tmux."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loopctl.model.facts import REFUSED, Fact, Known, Unknown
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import Pane, ServerId
from loopctl.ports import PaneRef, Started, StartSpec
from tests.contract.stages import BRIEF, LIVE, FakeStage, Stage, TmuxStage, pane_of, view
from tests.support import wait_until

REF = WorkItemRef.parse("items:demo/app#1")


@pytest.fixture(params=["fake", pytest.param("tmux", marks=pytest.mark.tmux)])
def stage(request: pytest.FixtureRequest, tmux_socket: str, tmp_path: Path) -> Stage:
    return FakeStage() if request.param == "fake" else TmuxStage(tmux_socket, tmp_path)


def spec(stage: Stage, name: str, argv: tuple[str, ...] = LIVE, **fields: object) -> StartSpec:
    id_ = str(uuid.uuid4())
    given = StartSpec(id_, REF, name, argv, stage.cwd, {"LOOPCTL_SESSION": id_})
    return replace(given, **fields)  # type: ignore[arg-type]


def start(stage: Stage, name: str, argv: tuple[str, ...] = LIVE) -> tuple[StartSpec, Started]:
    wanted = spec(stage, name, argv)
    fact = stage.host.start(stage.socket, [wanted])[wanted.id]
    assert isinstance(fact, Known), fact
    return wanted, fact.value


def ref_of(wanted: StartSpec, made: Started, **fields: str) -> PaneRef:
    return replace(PaneRef(made.pane.pane_id, made.pane.session_id, wanted.id), **fields)


def test_where_no_server_runs_there_is_a_view_without_identity(stage: Stage) -> None:
    seen = view(stage)
    assert (seen.server, seen.panes) == (None, ())


def test_a_started_pane_is_listed_with_its_mark_and_stays_when_it_ends(stage: Stage) -> None:
    wanted, made = start(stage, "loop-1")
    seen = view(stage)
    assert seen.server == made.server
    (pane,) = seen.panes
    assert (pane.pane_id, pane.session_id, pane.session) == (made.pane.pane_id, made.pane.session_id, "loop-1")
    assert (pane.mark, pane.ref_mark) == (wanted.id, str(REF))
    assert (pane.remain_on_exit, pane.input_off, pane.dead) == ("on", False, False)
    stage.end(pane)
    assert pane_of(stage, "loop-1").dead


def test_a_program_that_ends_at_once_leaves_its_pane_a_hundred_times_of_a_hundred(stage: Stage) -> None:
    specs = [spec(stage, f"loop-{n}", BRIEF) for n in range(100)]
    made = stage.host.start(stage.socket, specs)
    assert [fact for fact in made.values() if isinstance(fact, Unknown)] == []

    def all_dead() -> bool:
        server = view(stage).server
        if server:
            stage.host.nudge(stage.socket, server)
        return all(pane.dead for pane in view(stage).panes)

    wait_until(all_dead, what="all panes are dead")
    assert {pane.mark for pane in view(stage).panes} == {s.id for s in specs}


def test_securing_turns_input_off_and_keeps_the_pane(stage: Stage) -> None:
    wanted, made = start(stage, "loop-1")
    other, _ = start(stage, "loop-10")
    assert stage.host.secure(stage.socket, made.server, [ref_of(wanted, made)]) == ""
    assert pane_of(stage, "loop-1").input_off
    assert not pane_of(stage, "loop-10").input_off
    assert pane_of(stage, "loop-10").mark == other.id


WRONG: dict[str, Callable[[StartSpec, Started], tuple[ServerId, PaneRef]]] = {
    "server pid": lambda w, m: (replace(m.server, pid=m.server.pid + 1), ref_of(w, m)),
    "server start": lambda w, m: (replace(m.server, start=m.server.start - 1), ref_of(w, m)),
    "mark": lambda w, m: (m.server, ref_of(w, m, mark=str(uuid.UUID(int=0)))),
    "no mark": lambda w, m: (m.server, ref_of(w, m, mark="")),
    "session": lambda w, m: (m.server, ref_of(w, m, session_id="$99")),
    "pane": lambda w, m: (m.server, ref_of(w, m, pane_id="%99")),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_identity_changes_nothing(stage: Stage, wrong: str) -> None:
    wanted, made = start(stage, "loop-1")
    stage.end(made.pane)
    before = view(stage)
    server, ref = WRONG[wrong](wanted, made)
    stage.host.secure(stage.socket, server, [ref])
    stage.host.remove(stage.socket, server, [ref])
    if wrong not in {"mark", "no mark"}:
        stage.host.mark(stage.socket, server, replace(ref, mark=str(uuid.UUID(int=1))), REF)
    assert view(stage) == before


def refused(fact: Fact[None]) -> bool:
    return isinstance(fact, Unknown) and fact.kind == REFUSED


def test_a_text_goes_to_a_live_pane_that_takes_input_and_to_no_other(stage: Stage) -> None:
    wanted, made = start(stage, "loop-1")
    ref = ref_of(wanted, made)
    for wrong in WRONG.values():
        server, other = wrong(wanted, made)
        assert refused(stage.host.paste(stage.socket, server, other, "lost"))
    assert stage.host.secure(stage.socket, made.server, [ref]) == ""
    assert refused(stage.host.paste(stage.socket, made.server, ref, "lost"))
    assert stage.host.release(stage.socket, made.server, [ref]) == ""
    dead, gone = start(stage, "loop-2")
    stage.end(gone.pane)
    assert refused(stage.host.paste(stage.socket, made.server, ref_of(dead, gone), "lost"))
    assert stage.host.paste(stage.socket, made.server, ref, "hello") == Known(None)
    assert view(stage).server == made.server


def test_ids_of_a_former_server_are_nobodys(stage: Stage) -> None:
    wanted, made = start(stage, "loop-1")
    stage.restart()
    pane = pane_of(stage, "after")
    assert pane.pane_id == made.pane.pane_id, "ids begin again: else this shows nothing"
    ref = PaneRef(pane.pane_id, pane.session_id, "")
    for said in (
        stage.host.secure(stage.socket, made.server, [ref]),
        stage.host.remove(stage.socket, made.server, [ref]),
        stage.host.mark(stage.socket, made.server, replace(ref, mark=wanted.id), REF),
    ):
        assert said
    assert isinstance(stage.host.capture(stage.socket, made.server, [pane])[pane.pane_id], Unknown)
    assert pane_of(stage, "after") == pane


def test_only_dead_panes_are_removed(stage: Stage) -> None:
    stage.foreign("somebody")
    wanted, made = start(stage, "loop-1")
    stage.host.remove(stage.socket, made.server, [ref_of(wanted, made)])
    assert not pane_of(stage, "loop-1").dead
    stage.end(made.pane)
    assert stage.host.remove(stage.socket, made.server, [ref_of(wanted, made)]) == ""
    assert {pane.session for pane in view(stage).panes} == {"somebody"}


def test_a_server_that_loses_its_last_pane_is_no_server(stage: Stage) -> None:
    wanted, made = start(stage, "loop-1")
    stage.end(made.pane)
    stage.host.remove(stage.socket, made.server, [ref_of(wanted, made)])
    wait_until(lambda: view(stage).server is None, what="the server ends")


def test_a_server_behind_a_deleted_socket_is_not_seen(stage: Stage) -> None:
    _, made = start(stage, "loop-1")
    stage.unlink()
    assert view(stage).server is None
    stage.end_server(made.server)


def test_a_name_that_is_taken_is_refused_and_its_session_untouched(stage: Stage) -> None:
    stage.foreign("loop-1")
    before = view(stage)
    wanted = spec(stage, "loop-1")
    fact = stage.host.start(stage.socket, [wanted])[wanted.id]
    assert isinstance(fact, Unknown) and fact.kind == REFUSED
    # remain-on-exit is a default of our own server, and so of what others make on it.
    assert [settled(pane) for pane in view(stage).panes] == [settled(pane) for pane in before.panes]


def settled(pane: Pane) -> Pane:
    return replace(pane, command="", remain_on_exit="")


def test_one_start_that_fails_stops_no_other(stage: Stage) -> None:
    stage.foreign("loop-1")
    first, second = spec(stage, "loop-1"), spec(stage, "loop-2")
    made = stage.host.start(stage.socket, [first, second])
    assert isinstance(made[first.id], Unknown)
    assert isinstance(made[second.id], Known)


HOSTILE = ("#(touch PWNED)", "a;b", "a b", "a:b", "a.b", "=a", "$HOME", "-x'", 'a"', "", "ü", "a\nb", "#{pid}", "%1")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_tmux_could_read_as_more_is_refused(stage: Stage, name: str) -> None:
    wanted = spec(stage, name)
    fact = stage.host.start(stage.socket, [wanted])[wanted.id]
    assert isinstance(fact, Unknown) and fact.kind == REFUSED
    assert view(stage).panes == ()


def test_a_folder_that_is_not_there_is_refused(stage: Stage) -> None:
    wanted = spec(stage, "loop-1", cwd="/nowhere")
    assert isinstance(stage.host.start(stage.socket, [wanted])[wanted.id], Unknown)


WORDS = (
    "it's",
    'say "hi"',
    "$(touch PWNED)",
    "`id`",
    "$HOME",
    "~",
    "~root/x",
    "a;b",
    "ends with;",
    ";",
    "\\;",
    "#{pid}",
    "#(touch PWNED)",
    "##",
    "%1",
    "two\nlines\n",
    "\ttab",
    "  blanks  ",
    "ünï→🚀",
    "back\\slash\\n",
    "{ braces }",
    "-t",
    "--",
    "'",
    "\x01\x1b[31m",
    "x" * 5000,
)


def test_the_command_line_arrives_byte_for_byte(stage: Stage) -> None:
    _, made = start(stage, "loop-1", (*LIVE, *WORDS))
    wait_until(lambda: stage.argv(made.pane)[0] == LIVE[0], what="the program is executed")
    assert tuple(stage.argv(made.pane)) == (*LIVE, *WORDS)


def test_a_mark_is_put_on_a_free_session_and_on_no_other(stage: Stage) -> None:
    stage.foreign("somebody")
    stage.foreign("another")
    seen, pane = view(stage), pane_of(stage, "somebody")
    assert seen.server
    mine, theirs = str(uuid.uuid4()), str(uuid.uuid4())
    stage.host.mark(stage.socket, seen.server, PaneRef(pane.pane_id, pane.session_id, mine), REF)
    stage.host.mark(stage.socket, seen.server, PaneRef(pane.pane_id, pane.session_id, theirs), REF)
    assert pane_of(stage, "somebody").mark == mine
    assert pane_of(stage, "another").mark == ""


def test_a_capture_answers_for_every_pane(stage: Stage) -> None:
    _, made = start(stage, "loop-1")
    there, away = pane_of(stage, "loop-1"), replace(made.pane, pane_id="%99")

    def text() -> bytes:
        fact = stage.host.capture(stage.socket, made.server, [there, away])[there.pane_id]
        return fact.value if isinstance(fact, Known) else b""

    wait_until(lambda: b"hello" in text(), what="the program says hello")
    assert isinstance(stage.host.capture(stage.socket, made.server, [there, away])["%99"], Unknown)


def test_a_second_session_on_the_same_panes_hides_nothing(stage: Stage) -> None:
    wanted, made = start(stage, "loop-1")
    stage.group("loop-1", "viewer")
    assert sorted(p.mark for p in view(stage).panes) == ["", wanted.id]
    stage.host.secure(stage.socket, made.server, [ref_of(wanted, made)])
    assert [(p.input_off, p.own_mark) for p in view(stage).panes] == [(True, wanted.id)] * 2
    assert stage.host.release(stage.socket, made.server, [ref_of(wanted, made)]) == ""
    assert [(p.input_off, p.own_mark) for p in view(stage).panes] == [(False, "")] * 2
    stage.end(made.pane)
    stage.host.remove(stage.socket, made.server, [ref_of(wanted, made)])
    wait_until(lambda: view(stage).panes == (), what="both sessions go with their pane")


def test_a_session_that_others_look_at_too_can_be_marked(stage: Stage) -> None:
    stage.foreign("somebody")
    stage.group("somebody", "viewer")
    seen = view(stage)
    assert seen.server
    pane = next(pane for pane in seen.panes if pane.session == "somebody")
    mine = str(uuid.uuid4())
    stage.host.mark(stage.socket, seen.server, PaneRef(pane.pane_id, pane.session_id, mine), REF)
    assert [p.session_id for p in view(stage).panes if p.mark == mine] == [pane.session_id]


def test_a_pane_that_is_not_in_the_current_window_is_reached_too(stage: Stage) -> None:
    wanted, made = start(stage, "loop-1")
    stage.new_window("loop-1")
    assert stage.host.secure(stage.socket, made.server, [ref_of(wanted, made)]) == ""
    assert {p.pane_id: p.input_off for p in view(stage).panes}[made.pane.pane_id]
    assert sorted(p.input_off for p in view(stage).panes) == [False, True]


# What only real tmux can show.


@pytest.fixture
def tmux(tmux_socket: str, tmp_path: Path) -> TmuxStage:
    return TmuxStage(tmux_socket, tmp_path)


def text_of(stage: Stage, made: Started) -> bytes:
    pane = next(p for p in view(stage).panes if p.pane_id == made.pane.pane_id)
    fact = stage.host.capture(stage.socket, made.server, [pane])[pane.pane_id]
    assert isinstance(fact, Known), fact
    return fact.value


@pytest.mark.tmux
def test_a_folder_whose_name_is_a_command_is_only_a_folder(tmux: TmuxStage, tmp_path: Path) -> None:
    folder = tmp_path / "p#(touch PWNED)q;#{pid}"
    folder.mkdir()
    wanted = spec(tmux, "loop-1", cwd=str(folder))
    fact = tmux.host.start(tmux.socket, [wanted])[wanted.id]
    assert isinstance(fact, Known), fact
    seen = Path(f"/proc/{fact.value.pane.pid}/cwd")
    wait_until(lambda: seen.readlink() == folder, what=f"the program is in {folder}")
    assert list(tmp_path.rglob("PWNED")) == []


@pytest.mark.tmux
def test_a_capture_has_the_first_and_the_last_of_five_thousand_lines(tmux: TmuxStage) -> None:
    _, made = start(tmux, "loop-1", ("sh", "-c", "seq 1 5000; echo the end; read line"))
    wait_until(lambda: b"the end" in text_of(tmux, made), what="all is printed")
    assert text_of(tmux, made) == b"".join(b"%d\n" % n for n in range(1, 5001)) + b"the end\n"


@pytest.mark.tmux
def test_a_capture_has_the_alternate_screen_after_what_it_covers(tmux: TmuxStage) -> None:
    script = "seq 1 500; printf '\\033[?1049h\\033[Hfull screen'; read line"
    _, made = start(tmux, "loop-1", ("sh", "-c", script))
    wait_until(lambda: b"full screen" in text_of(tmux, made), what="the alternate screen is shown")
    covered, _, alternate = text_of(tmux, made).partition(b"--- alternate screen ---")
    assert covered.split() == [b"%d" % n for n in range(1, 501)]
    assert alternate.strip() == b"full screen"
