"""A fake of ports.TerminalHost over simulated tmux servers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from loopctl.model.facts import REFUSED, Fact, Known, Unknown
from loopctl.model.processes import MARK, is_shell
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import Pane, ServerId, ServerView
from loopctl.ports import PaneRef, Started, StartSpec
from loopctl.testing.faults import Faults
from loopctl.testing.machine import POLITE
from loopctl.testing.servers import TMUX_VERSION, Servers, SimPane, SimServer

_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}\Z")
_NO_ANSWER = "tmux did not answer in time"
ALTERNATE = b"\n--- alternate screen ---\n"


class FakeTerminals:
    """ports.TerminalHost: does nothing on another server, on a pane of another session or under another mark."""

    def __init__(self, servers: Servers, faults: Faults) -> None:
        """Reach these servers; each call passes `faults`."""
        self._servers = servers
        self._faults = faults

    def look(self, socket: str) -> Fact[ServerView]:
        """All panes; no server is a view without identity, one that hangs is Unknown."""
        doubt = self._faults.enter("terminals.look")
        server = self._servers.at(socket)
        if doubt or server is None:
            return doubt or Known(ServerView(socket))
        if server.hangs:
            return Unknown(_NO_ANSWER)
        return Known(ServerView(socket, server.id, TMUX_VERSION, self._servers.view(server)))

    def secure(self, socket: str, server: ServerId, panes: Sequence[PaneRef]) -> str:
        """Input off, remain-on-exit on."""
        found, problem = self._reach("secure", socket, server)
        for pane in self._proved(found, panes):
            self._servers.effect("secure", pane)
            pane.input_off = not pane.reopens
            pane.remain_on_exit = "on"
            pane.own_mark = next(ref.mark for ref in panes if ref.pane_id == pane.pane_id)
        return problem

    def release(self, socket: str, server: ServerId, panes: Sequence[PaneRef]) -> str:
        """Input on again, and no mark on the pane."""
        found, problem = self._reach("release", socket, server)
        for pane in self._proved(found, panes):
            self._servers.effect("release", pane)
            pane.input_off, pane.own_mark = False, ""
        return problem

    def capture(self, socket: str, server: ServerId, panes: Sequence[Pane]) -> Mapping[str, Fact[bytes]]:
        """The text of each pane that is there."""
        found, problem = self._reach("capture", socket, server)
        return {pane.pane_id: self._text(found, pane.pane_id, problem) for pane in panes}

    def remove(self, socket: str, server: ServerId, panes: Sequence[PaneRef]) -> str:
        """Kill panes that are dead."""
        found, problem = self._reach("remove", socket, server)
        for pane in self._proved(found, panes):
            if pane.dead and not pane.clings:
                self._servers.effect("remove", pane)
                self._servers.drop(pane)
        return problem

    def paste(self, socket: str, server: ServerId, pane: PaneRef, text: str) -> Fact[None]:
        """What the agent read, in `SimPane.heard`; a fault loses the answer, not the text."""
        doubt = self._faults.enter("terminals.paste")
        running = self._servers.at(socket)
        if running is not None and running.hangs:
            return Unknown(_NO_ANSWER)
        found = running if running is not None and running.id == server else None
        proved = [its for its in self._proved(found, [pane]) if self._takes(its, pane)]
        if not proved:
            return Unknown(
                f"pane {pane.pane_id} takes no text: it is gone, dead, its input is off, or it shows another program",
                REFUSED,
            )
        self._servers.effect("paste", proved[0])
        proved[0].heard.append(text)
        return doubt or Known(None)

    def _takes(self, its: SimPane, pane: PaneRef) -> bool:
        another = bool(pane.pid) and its.pid != pane.pid
        shell = pane.no_shell and is_shell(self._servers.command(its))
        return not (its.dead or its.input_off or another or shell)

    def nudge(self, socket: str, server: ServerId) -> None:
        """The server sees exits that it missed."""
        found, _ = self._reach("nudge", socket, server)
        if found:
            self._servers.reap(found)

    def start(self, socket: str, specs: Sequence[StartSpec]) -> Mapping[str, Fact[Started]]:
        """Make panes; what is wrong with one of them touches no other. A fault loses the answer, not the panes."""
        doubt = self._faults.enter("terminals.start")
        running = self._servers.at(socket)
        if running and running.hangs:
            return {spec.id: Unknown(_NO_ANSWER) for spec in specs}
        made = {spec.id: self._start(socket, spec) for spec in specs}
        return dict.fromkeys(made, doubt) if doubt else made

    def mark(self, socket: str, server: ServerId, pane: PaneRef, ref: WorkItemRef) -> str:
        """Mark the session that shows this pane under this id, unless it carries another mark."""
        found, problem = self._reach("mark", socket, server)
        for session, its in list(found.each()) if found else []:
            free = session.mark in {"", pane.mark}
            if its.pane_id == pane.pane_id and session.session_id == pane.session_id and free:
                self._servers.effect("mark", its)
                session.mark, session.ref = pane.mark, str(ref)
        return problem

    def _reach(self, method: str, socket: str, server: ServerId) -> tuple[SimServer | None, str]:
        doubt = self._faults.enter(f"terminals.{method}")
        found = self._servers.at(socket)
        if doubt:
            return None, doubt.reason
        if found is None:
            return None, f"no server running on {socket}"
        if found.hangs:
            return None, _NO_ANSWER
        return (found, "") if found.id == server else (None, "another tmux server answers at this socket")

    @staticmethod
    def _proved(server: SimServer | None, panes: Sequence[PaneRef]) -> list[SimPane]:
        wanted = {(ref.pane_id, ref.session_id, ref.mark) for ref in panes}
        each = list(server.each()) if server else []
        return [pane for session, pane in each if (pane.pane_id, session.session_id, session.mark) in wanted]

    @staticmethod
    def _text(server: SimServer | None, pane_id: str, problem: str) -> Fact[bytes]:
        found = server.find(pane_id) if server else None
        if found is None:
            return Unknown(problem or "tmux returned no text for this pane")
        pane = found[1]
        return Known(pane.text + (ALTERNATE + pane.alternate if pane.alternate is not None else b""))

    def _start(self, socket: str, spec: StartSpec) -> Fact[Started]:
        problem = self._problem(socket, spec)
        if problem:
            return Unknown(problem, REFUSED)
        servers = self._servers
        session = servers.open(socket, spec.name, mark=spec.id, ref=str(spec.ref))
        mark = spec.env.get(MARK, "")
        habit = servers.habits.get(spec.argv[0], POLITE)
        pane = servers.split(socket, session, spec.argv, mark=mark, habit=habit, owner=spec.id)
        pane.remain_on_exit = "on"
        servers.effect("start", pane)
        server = servers.ensure(socket)
        shown = next(p for p in servers.view(server) if p.pane_id == pane.pane_id)
        if spec.argv[0] in servers.brief:
            servers.machine.end(pane.pid)
        return Known(Started(server.id, shown))

    def _problem(self, socket: str, spec: StartSpec) -> str:
        if not _NAME.match(spec.name):
            return f"{spec.name!r} cannot be a session name: letters, digits, _ and - only"
        if not spec.argv:
            return "the harness has no command line"
        if spec.cwd in self._servers.missing_folders:
            return f"{spec.cwd} is not a folder"
        if any("\0" in text for text in (spec.cwd, *spec.argv, *spec.env, *spec.env.values())):
            return "a NUL cannot be passed on"
        server = self._servers.at(socket)
        if server and any(session.name == spec.name for session in server.sessions):
            return f"duplicate session: {spec.name}"
        return ""
