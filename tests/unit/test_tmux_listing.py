"""What tmux lists, line by line: what is missing in it is not known, and what does not fit spoils all."""

from __future__ import annotations

import pytest

from loopctl.adapters.tmux_format import PANE_FORMAT, parse_panes
from loopctl.model.facts import Known, Unknown
from loopctl.model.sessions import Pane

SOCKET = "/tmp/s"
GOOD = {
    "pid": "700",
    "start_time": "1700000000",
    "version": "3.3a",
    "session_id": "$1",
    "window_id": "@1",
    "pane_id": "%1",
    "pane_pid": "701",
    "pane_dead": "0",
    "session_name": "loop-1",
}


def line(**fields: str) -> str:
    names = [field.strip("#{}").rpartition(":")[2] for field in PANE_FORMAT.split("|")]
    return "|".join((GOOD | fields).get(name, "") for name in names)


def pane(**fields: str) -> Pane:
    said = parse_panes(SOCKET, line(**fields) + "\n")
    assert isinstance(said, Known), said
    (found,) = said.value.panes
    return found


@pytest.mark.parametrize(
    ("status", "signal", "expected"),
    [
        ("3", "", (3, None)),
        ("0", "", (0, None)),
        ("", "15", (None, 15)),
        ("", "9", (None, 9)),
        ("", "", (None, None)),  # the exit was missed, or this tmux does not tell
        ("", "KILL", (None, None)),
    ],
)
def test_a_dead_pane_has_a_status_or_a_signal_or_neither(
    status: str, signal: str, expected: tuple[int | None, int | None]
) -> None:
    found = pane(pane_dead="1", pane_dead_status=status, pane_dead_signal=signal)
    assert (found.dead, found.exit_status, found.exit_signal) == (True, *expected)


@pytest.mark.parametrize("name", ["a|b", "|", "a|$2|@2|%2|702|1", "\\037", "a\tb", "#{pid}", "grün→🚀", ""])
def test_a_name_may_hold_anything(name: str) -> None:
    assert pane(session_name=name).session == name


@pytest.mark.parametrize(
    "spoiled",
    [
        line()[:-20],
        line().replace("|", "\t"),
        line(pane_id="1"),
        line(session_id=""),
        line(pane_pid="x"),
        line(pid=""),
        line(pane_dead_status="x"),
        "open terminal failed: not a terminal",
        " ",
    ],
)
def test_one_line_that_does_not_fit_spoils_the_whole_listing(spoiled: str) -> None:
    assert isinstance(parse_panes(SOCKET, f"{line()}\n{spoiled}\n"), Unknown)


def test_lines_of_two_servers_and_no_lines_prove_nothing() -> None:
    assert isinstance(parse_panes(SOCKET, f"{line()}\n{line(pid='800')}\n"), Unknown)
    assert isinstance(parse_panes(SOCKET, ""), Unknown)
