"""Which pane is a record's, and is it proved? Every identity that the record holds must agree with what tmux shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.processes import ProcessId, ProcessInfo, ProcessTable, pane_key
from loopctl.model.sessions import (
    ABSENT_PANE,
    CLOSED_STATUS,
    DEAD,
    LIVE,
    NO_PANE,
    TMUX_RUNNER,
    Pane,
    ServerId,
    ServerView,
    SessionRecord,
    SessionView,
    Sighting,
)
from loopctl.model.trees import NOBODYS, Others, TreeRoot, tree_of

#: How far what tmux and the kernel say of a server's start may be apart, in seconds.
_START_SLACK = 3.0


def view_of(
    record: SessionRecord,
    servers: Mapping[str, Fact[ServerView]],
    processes: Fact[ProcessTable],
    spare: tuple[str, ...],
    others: Others = NOBODYS,
) -> SessionView:
    """See one record: its pane, where every identity agrees, and its live processes. `others` are of all records."""
    if record.runner != TMUX_RUNNER:
        return SessionView(record, Known(Sighting(NO_PANE)))
    if isinstance(processes, Unknown):
        return SessionView(record, processes)
    table = processes.value
    sighting = sight(record, servers, table)
    if isinstance(sighting, Unknown):
        return SessionView(record, sighting)
    return SessionView(record, sighting, tree_of(table, root_of(record, sighting.value, others), spare))


def root_of(record: SessionRecord, sighting: Sighting, others: Others = NOBODYS) -> TreeRoot:
    """What ties processes to this session. The record's own pid is no proof: only marks and the live pane are."""
    return TreeRoot(
        mark=record.id,
        pane=sighting.process,
        tmux=_pane_key(record),
        server=sighting.server.pid if sighting.server else 0,
        leader=sighting.process or record.pane,
        # Its pane's number means something on its own server only, which the next one may share its pid with.
        here=sighting.server is not None and sighting.server == record.server,
        others=others.ids,
        panes=others.panes,
    )


def others_of(records: Iterable[SessionRecord]) -> Others:
    """What belongs to these sessions. Made once for a look: there may be many."""
    records = tuple(records)
    return Others(frozenset(r.id for r in records), frozenset(map(_pane_key, records)) - {("", "")})


def _pane_key(record: SessionRecord) -> tuple[str, str]:
    if record.server is None or not record.pane_id:
        return "", ""
    return pane_key(f"{record.socket},{record.server.pid}", record.pane_id)


def sight(record: SessionRecord, servers: Mapping[str, Fact[ServerView]], table: ProcessTable) -> Fact[Sighting]:
    """Find the record's pane, or say why it cannot be told."""
    found = servers.get(record.socket, Unknown("its tmux socket was not looked at"))
    if isinstance(found, Unknown):
        return found
    view = found.value
    marked = [pane for pane in view.panes if pane.mark == record.id]
    if view.server is None or (record.server not in {None, view.server} and not marked):
        return _nothing_there(record, view, table)
    if record.server is not None and record.server != view.server:
        return Unknown(
            f"identity mismatch: the record's tmux server is {record.server.pid}, "
            f"pane {marked[0].pane_id} with its mark is on server {view.server.pid}"
        )
    # Ids mean something only on the server they were read from; a record that was never bound has its mark alone.
    bound = record.server == view.server and bool(record.pane_id)
    pane = _own(record, view) if bound else None
    if bound and pane is None:
        return _pane_gone(record, view, marked, table)
    if pane is None:
        if not marked:
            return _nothing_there(record, view, table)
        proved = [pane for pane in marked if _is_kin(record, pane, table)]
        if not proved and len(marked) > 1:
            return Unknown(f"{len(marked)} panes carry its mark, and none of them can be told to be its own")
        pane = min(proved or marked, key=lambda p: int(p.pane_id[1:]))
    problem = _mismatch(record, pane, view, bound)
    return Unknown(problem) if problem else _seen(record, pane, view, table)


def _own(record: SessionRecord, view: ServerView) -> Pane | None:
    """The record's pane, as its own session shows it where several do."""
    rows = [pane for pane in view.panes if pane.pane_id == record.pane_id]
    return next((pane for pane in rows if pane.session_id == record.session_id), rows[0] if rows else None)


def _is_kin(record: SessionRecord, pane: Pane, table: ProcessTable) -> bool:
    """Whether a pane is proved to be this session's: the mark of the tmux session is no proof, since a pane can be linked or
    moved into it, and a view of it opens panes in it."""
    row = None if pane.dead else table.get(pane.pid)
    return pane.own_mark == record.id or (row is not None and row.mark == record.id)


def _others(
    record: SessionRecord, panes: Iterable[Pane], table: ProcessTable
) -> tuple[tuple[Pane, ...], tuple[Pane, ...]]:
    kin: list[Pane] = []
    beside: list[Pane] = []
    for pane in panes:
        (kin if _is_kin(record, pane, table) else beside).append(pane)
    return tuple(kin), tuple(beside)


def _seen(record: SessionRecord, pane: Pane, view: ServerView, table: ProcessTable) -> Fact[Sighting]:
    kin, beside = _others(
        record, (p for p in view.panes if p.session_id == pane.session_id and p.pane_id != pane.pane_id), table
    )
    if pane.dead:
        return Known(Sighting(DEAD, view.server, pane, None, kin, beside))
    row = table.get(pane.pid)
    if row is None:
        # The table was read after the listing: the process ended in between. The next look tells.
        return Unknown(f"pane {pane.pane_id} shows process {pane.pid}, which is not running")
    if view.server and row.ppid != view.server.pid:
        # The number is another process's by now: tmux starts what it shows by itself.
        return Unknown(f"pane {pane.pane_id} shows process {pane.pid}, which its tmux server did not start")
    moved_on = record.pane is not None and row.id != record.pane
    if moved_on and record.status != CLOSED_STATUS:
        return Unknown(
            f"identity mismatch: the record's process is {record.pane}, pane {pane.pane_id} runs process {row.id}"
            + (" (same number, another start time)" if record.pane and record.pane.pid == row.id.pid else "")
        )
    return Known(Sighting(LIVE, view.server, pane, row.id, kin, beside))


def _mismatch(record: SessionRecord, pane: Pane, view: ServerView, bound: bool) -> str:
    if pane.mark != record.id:
        owner = f"the mark of session {pane.mark}" if pane.mark else "no mark of ours"
        return f"identity mismatch: pane {pane.pane_id} carries {owner}"
    if bound and record.session_id and pane.session_id != record.session_id:
        return f"identity mismatch: the record's session is {record.session_id}, pane {pane.pane_id} is in {pane.session_id}"
    # A session that was renamed is still ours; a name that is another session's is not.
    others = {p.session for p in view.panes if p.session_id != pane.session_id}
    if record.name and record.name != pane.session and record.name in others:
        return f"identity mismatch: the record's name {record.name} is another session's; its pane is in {pane.session}"
    return ""


def _pane_gone(record: SessionRecord, view: ServerView, marked: list[Pane], table: ProcessTable) -> Fact[Sighting]:
    if marked and all(pane.session_id != record.session_id for pane in marked):
        return Unknown(f"identity mismatch: pane {record.pane_id} is gone, but {marked[0].pane_id} carries its mark")
    # A server gives no pane's id twice, so that this one is gone whoever has its session's name by now.
    absent = _nothing_there(record, view, table)
    if isinstance(absent, Unknown):
        return absent
    kin, beside = _others(record, marked, table)
    return Known(Sighting(ABSENT_PANE, view.server, kin=kin, beside=beside))


def _nothing_there(record: SessionRecord, view: ServerView, table: ProcessTable) -> Fact[Sighting]:
    """The pane is gone, unless the server that had it still runs behind a socket that was taken away."""
    if hidden := _hidden_server(record, view, table):
        return Unknown(
            f"tmux server {hidden} still runs but cannot be reached at {record.socket}; "
            f"`kill -USR1 {hidden}` makes it put its socket back"
        )
    if record.pane and table.alive(record.pane) and not _is_ours(record, table.processes[record.pane.pid]):
        return Unknown(f"identity mismatch: its pane is gone, but process {record.pane} of the record is alive")
    return Known(Sighting(ABSENT_PANE, view.server))


def _hidden_server(record: SessionRecord, view: ServerView, table: ProcessTable) -> int:
    """The number of the server that may have the record's pane and cannot be reached, or 0."""
    server, answers = record.server, view.server.pid if view.server else 0
    if server is None:
        # Its start was cut off: of a server, only the command line tells which socket it was made for.
        rows = (row for row in table.processes.values() if record.socket in row.argv[1:] and row.id.pid != answers)
        return next((row.id.pid for row in rows if _is_server(row)), 0)
    return server.pid if server.pid != answers and may_live(server, table, record.pane) else 0


def may_live(server: ServerId, table: ProcessTable, pane: ProcessId | None) -> bool:
    """Whether the process that has the server's number may be that server, and not one of another time. `pane` is a process
    that the server started: what had the number before that one began is the server."""
    row = table.get(server.pid)
    if row is None or not _is_server(row):
        return False
    later = row.id.began_after(pane) if pane else None
    if later is not None:
        return not later
    # tmux tells its start by the clock on the wall, which may have been set since.
    return row.started_at is None or abs(row.started_at - server.start) <= _START_SLACK


def _is_server(process: ProcessInfo) -> bool:
    """Whether a process may be a tmux server: "tmux: server" on Linux, and not a client."""
    return process.name.startswith("tmux") and not process.name.endswith("client")


def _is_ours(record: SessionRecord, process: ProcessInfo) -> bool:
    return process.mark == record.id or pane_key(*process.pane) == _pane_key(record)
