"""Which processes are a session's, when another tmux server has given its pane's number away again."""

from __future__ import annotations

from loopctl.model.processes import ProcessId
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import LIVE, ServerId, SessionRecord, Sighting
from loopctl.observe import root_of

SOCKET = "/run/s"
RECORD = SessionRecord(
    "an-id", WorkItemRef.parse("items:demo/app#1"), "here", "agent", socket=SOCKET, server=ServerId(10, 1), pane_id="%0"
)


def test_a_panes_number_counts_on_its_own_server_only() -> None:
    """The pane %0 of the next server at this socket is a stranger's, and so is all that runs in it."""
    absent = root_of(RECORD, Sighting("absent", ServerId(20, 2)))
    assert absent.tmux == root_of(RECORD, Sighting("absent", RECORD.server)).tmux
    assert "20" not in absent.tmux[0]
    assert absent.server == 20


def test_a_record_without_a_server_has_its_mark_alone() -> None:
    unbound = SessionRecord("an-id", RECORD.ref, "here", "agent", socket=SOCKET)
    root = root_of(unbound, Sighting(LIVE, ServerId(20, 2), process=ProcessId(5, "1")))
    assert (root.mark, root.tmux) == ("an-id", ("", ""))
