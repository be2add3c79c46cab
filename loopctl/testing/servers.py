"""Simulated tmux servers: sessions, panes, ids that begin again, and the faults that real ones have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from loopctl.model.sessions import Pane, ServerId
from loopctl.testing.machine import BEGINNING, POLITE, Effect, Habit, Machine

TMUX_VERSION = "3.3a"


@dataclass(slots=True)
class SimPane:
    """One pane. `late`: the server misses the exit of its process until it is made to look again (Debian's 3.3a);
    `reopens`: somebody turns its input on again as soon as it was turned off; `clings`: the server does not remove it."""

    window_id: str
    pane_id: str
    pid: int
    remain_on_exit: str = "on"
    dead: bool = False
    input_off: bool = False
    text: bytes = b""
    alternate: bytes | None = None
    late: bool = False
    reopens: bool = False
    clings: bool = False
    owner: str = ""
    own_mark: str = ""
    heard: list[str] = field(default_factory=list)
    died_at: int = 0


@dataclass(slots=True)
class SimSession:
    """One session. Grouped sessions share their list of panes."""

    session_id: str
    name: str
    panes: list[SimPane]
    mark: str = ""
    ref: str = ""
    attached: int = 0
    since: int = 0


@dataclass(slots=True)
class SimServer:
    """One run of a server. `unlinked`: its socket file was deleted; `hangs`: it never answers."""

    socket: str
    id: ServerId
    sessions: list[SimSession] = field(default_factory=list)
    remain_on_exit: str = "on"
    unlinked: bool = False
    hangs: bool = False
    _ids: dict[str, count[int]] = field(default_factory=lambda: {kind: count() for kind in "$@%"})

    def new_id(self, kind: str) -> str:
        """The next `$`, `@` or `%` id."""
        return f"{kind}{next(self._ids[kind])}"

    def each(self) -> Iterator[tuple[SimSession, SimPane]]:
        """All panes with each session that shows them."""
        return ((session, pane) for session in self.sessions for pane in session.panes)

    def find(self, pane_id: str) -> tuple[SimSession, SimPane] | None:
        """A pane by its id, with the first session that shows it."""
        return next(((s, p) for s, p in self.each() if p.pane_id == pane_id), None)


class Servers:
    """All tmux servers of a machine. `started` counts them, so that each has an identity of its own."""

    def __init__(self, machine: Machine) -> None:
        """Their processes live on this machine."""
        self.machine = machine
        self.all: list[SimServer] = []
        #: By the first word of a command line: what a program that is started does with signals, and which end at once.
        self.habits: dict[str, Habit] = {}
        self.brief: set[str] = set()
        self.missing_folders: set[str] = set()
        machine.on_end.append(self._process_ended)

    def at(self, socket: str) -> SimServer | None:
        """The server that answers at this socket."""
        return next((s for s in self.all if s.socket == socket and not s.unlinked), None)

    def ensure(self, socket: str) -> SimServer:
        """The server at this socket, a new one where there is none."""
        server = self.at(socket)
        if server is None:
            process = self.machine.spawn("tmux: server", argv=("tmux", "-S", socket))
            # Two servers may begin in the same second: their pids differ.
            server = SimServer(socket, ServerId(process.id.pid, 1_700_000_000 + int(self.machine.time)))
            self.all.append(server)
        return server

    def open(self, socket: str, name: str, *, mark: str = "", ref: str = "") -> SimSession:
        """A new session without panes."""
        server = self.ensure(socket)
        since = server.id.start
        session = SimSession(server.new_id("$"), name, [], mark, ref, since=since)
        server.sessions.append(session)
        return session

    def split(
        self,
        socket: str,
        session: SimSession,
        argv: tuple[str, ...] = ("sh",),
        *,
        mark: str = "",
        habit: Habit = POLITE,
        owner: str = "",
    ) -> SimPane:
        """A new pane of a session with a program in it."""
        server = self.ensure(socket)
        pane_id = server.new_id("%")
        process = self.machine.spawn(
            argv[0].rpartition("/")[2],
            parent=server.id.pid,
            argv=argv,
            mark=mark,
            pane=(f"{socket},{server.id.pid},{session.session_id[1:]}", pane_id),
            habit=habit,
            owner=owner,
        )
        text = f"{argv[0]} says hello\n".encode()
        pane = SimPane(server.new_id("@"), pane_id, process.id.pid, server.remain_on_exit, text=text, owner=owner)
        session.panes.append(pane)
        return pane

    def group(self, socket: str, session: SimSession, name: str) -> SimSession:
        """A second session that shows the same panes (`new-session -t`), without marks."""
        server = self.ensure(socket)
        second = SimSession(server.new_id("$"), name, session.panes, since=server.id.start)
        server.sessions.append(second)
        return second

    def drop(self, pane: SimPane) -> None:
        """The pane goes, with it a session that has no other, with that a server that has no other. Its process is hung up."""
        for server in list(self.all):
            for session in list(server.sessions):
                if pane in session.panes:
                    session.panes.remove(pane)
            server.sessions = [session for session in server.sessions if session.panes]
            if not server.sessions:
                self._gone(server)
        if not pane.dead:
            self.machine.end(pane.pid)

    def stop(self, socket: str) -> None:
        """The server ends (`kill-server`, a crash): its panes are hung up, what is not in one lives on."""
        server = self.at(socket)
        if server:
            panes = [pane for _, pane in server.each()]
            server.sessions = []
            self._gone(server)
            for pane in panes:
                self.machine.end(pane.pid)

    def unlink(self, socket: str) -> None:
        """The socket file is deleted; the server lives on, and nobody reaches it."""
        server = self.at(socket)
        if server:
            server.unlinked = True

    def view(self, server: SimServer) -> tuple[Pane, ...]:
        """The panes as a listing shows them: once for each session that shows them."""
        return tuple(_shown(session, pane, self.command(pane)) for session, pane in server.each())

    def reap(self, server: SimServer) -> None:
        """The server looks for processes that ended without its having noticed."""
        for _, pane in list(server.each()):
            if not pane.dead and self.command(pane) == "":
                self._die(pane)

    def effect(self, what: str, pane: SimPane) -> None:
        """Log a change that loopctl made."""
        self.machine.effects.append(Effect(what, pane.pane_id, pane.owner))

    def command(self, pane: SimPane) -> str:
        """The name of the program that the pane shows."""
        process = self.machine.processes.get(pane.pid)
        return process.row.name if process and not process.row.ended else ""

    def _gone(self, server: SimServer) -> None:
        self.all.remove(server)
        self.machine.end(server.id.pid)

    def _process_ended(self, pid: int) -> None:
        for server in list(self.all):
            for _, pane in list(server.each()):
                if pane.pid == pid and not pane.dead and not pane.late:
                    self._die(pane)

    def _die(self, pane: SimPane) -> None:
        pane.dead = True
        pane.died_at = int(BEGINNING.timestamp() + self.machine.time)
        if pane.remain_on_exit == "off":
            self.drop(pane)


def _shown(session: SimSession, pane: SimPane, command: str) -> Pane:
    return Pane(
        session_id=session.session_id,
        window_id=pane.window_id,
        pane_id=pane.pane_id,
        pid=pane.pid,
        dead=pane.dead,
        dead_since=pane.died_at if pane.dead else 0,
        session=session.name,
        mark=session.mark,
        input_off=pane.input_off,
        remain_on_exit=pane.remain_on_exit,
        alternate=pane.alternate is not None,
        history=pane.text.count(b"\n"),
        height=50,
        width=200,
        attached=session.attached,
        since=session.since,
        command="" if pane.dead else command,
        own_mark=pane.own_mark,
        ref_mark=session.ref,
    )
