"""tmux servers, each reached by its absolute socket path and nothing else.

No name is ever given to tmux as a target of something that exists: a bare `-t name` also matches prefixes and globs, and
`=name` is exact for some commands only. What exists is addressed by `$id` and `%id`, on a server whose identity was compared
in the same script.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from loopctl.adapters import shell
from loopctl.adapters.tmux_capture import assembled, batches, capture_lines, split_captures
from loopctl.adapters.tmux_format import (
    PANE_FORMAT,
    checked,
    first_line,
    on_pane,
    on_server,
    on_session,
    parse_panes,
    quote,
)
from loopctl.adapters.tmux_paste import paste_script, pasted
from loopctl.adapters.tmux_program import explained
from loopctl.adapters.tmux_socket import no_server, socket_doubt
from loopctl.adapters.tmux_start import spec_problem, start_line, started, why_not
from loopctl.model.facts import REFUSED, Fact, Known, Unknown
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import Pane, ServerId, ServerView
from loopctl.ports import PaneRef, Started, StartSpec

T = TypeVar("T")

_TIMEOUT = 20.0
_LONGEST_SOCKET = 100


class Tmux:
    """ports.TerminalHost over the tmux program."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        own_socket: str,
        history_limit: int = 50_000,
        remain_on_exit: bool = True,
        keeper: Sequence[str] = (),
        program: str = "tmux",
        timeout: float = _TIMEOUT,
    ) -> None:
        """`env` is the whole environment of tmux, and so of a server that it starts; `own_socket` is ours to configure.

        Without `remain_on_exit` a pane goes when its program ends by itself; a close keeps it in any case. `keeper` is put
        before each agent's command line.
        """
        self._env = dict(env)
        self._own = own_socket
        self._history = history_limit
        self._remain = "on" if remain_on_exit else "off"
        self._keeper = tuple(keeper)
        self._program = program
        self._timeout = timeout

    def look(self, socket: str) -> Fact[ServerView]:
        """All panes of a server in one call."""
        doubt = socket_doubt(socket)
        if doubt is not None:
            return doubt
        for attempt in (1, 2):
            done = self._run(socket, ["list-panes", "-a", "-F", PANE_FORMAT])
            if done.timed_out:
                return Unknown(f"tmux did not answer within {self._timeout:g} s ({socket})")
            if done.code == 0:
                # Some say on standard error that they cannot talk to this server, and that all went well.
                return self._explain(parse_panes(socket, done.stdout.decode(errors="replace")), done.stderr)
            # A server that is just going away says so once.
            if attempt == 1 and "server exited unexpectedly" in done.stderr:
                continue
            break
        return self._explain(no_server(socket, done.stderr))

    def secure(self, socket: str, server: ServerId, panes: Sequence[PaneRef]) -> str:
        """Turn input off and remain-on-exit on."""
        body = "select-pane -d -t {0} ; set-option -p -t {0} remain-on-exit on ; set-option -p -t {0} @loopctl_pane {1}"
        return self._on_panes(
            socket, server, panes, lambda pane: body.format(quote(pane.pane_id), quote(checked(pane.mark)))
        )

    def release(self, socket: str, server: ServerId, panes: Sequence[PaneRef]) -> str:
        """Turn input on again; the pane's mark goes, since no close is at work on it any more."""
        body = "select-pane -e -t {0} ; set-option -p -u -t {0} @loopctl_pane"
        return self._on_panes(socket, server, panes, lambda pane: body.format(quote(pane.pane_id)))

    def remove(self, socket: str, server: ServerId, panes: Sequence[PaneRef]) -> str:
        """Kill panes that are dead."""
        return self._on_panes(socket, server, panes, lambda pane: f"kill-pane -t {quote(pane.pane_id)}", dead=True)

    def _on_panes(
        self,
        socket: str,
        server: ServerId,
        panes: Sequence[PaneRef],
        body: Callable[[PaneRef], str],
        *,
        dead: bool = False,
    ) -> str:
        if not panes:
            return ""
        lines = [on_pane(p.pane_id, p.session_id, checked(p.mark), body(p), dead=dead) for p in panes]
        return self._script(socket, server, lines)[1]

    def capture(self, socket: str, server: ServerId, panes: Sequence[Pane]) -> Mapping[str, Fact[bytes]]:
        """The whole scrollback of each pane, the alternate screen after what it covers."""
        result: dict[str, Fact[bytes]] = {}
        for batch in batches(panes):
            nonce = f"loopctl-{secrets.token_hex(16)}"
            lines = [line for pane in batch for line in capture_lines(pane, nonce)]
            output, problem = self._script(socket, server, lines)
            parts = split_captures(output, nonce)
            for pane in batch:
                result[pane.pane_id] = assembled(pane, parts, problem)
        return result

    def paste(self, socket: str, server: ServerId, pane: PaneRef, text: str) -> Fact[None]:
        """Give a live pane a text, as `tmux_paste` says."""
        checked(pane.mark)
        doubt = socket_doubt(socket)
        if isinstance(doubt, Unknown):
            return Unknown(doubt.reason, REFUSED)
        name = f"loopctl-{secrets.token_hex(16)}"
        output, problem = self._script(socket, server, [paste_script(pane, text, name)])
        return pasted(pane, name, output, problem)

    def nudge(self, socket: str, server: ServerId) -> None:
        """Fork a trivial job: the server then reaps every child, also one whose SIGCHLD was lost (Debian's 3.3a)."""
        self._script(socket, server, ["run-shell -b true"])

    def mark(self, socket: str, server: ServerId, pane: PaneRef, ref: WorkItemRef) -> str:
        """Put our marks on a session that is taken over, unless it carries another one by now."""
        session, mark = quote(pane.session_id), checked(pane.mark)
        body = f"set-option -t {session} @loopctl_id {quote(mark)} ; set-option -t {session} @loopctl_ref {quote(str(ref))}"
        free = f"#{{||:#{{?@loopctl_id,0,1}},#{{==:#{{@loopctl_id}},{mark}}}}}"
        return self._script(socket, server, [on_session(pane.pane_id, pane.session_id, [free], body)])[1]

    def start(self, socket: str, specs: Sequence[StartSpec]) -> Mapping[str, Fact[Started]]:
        """Make panes in one invocation, which also starts the server where there is none."""
        result: dict[str, Fact[Started]] = {}
        good = []
        for spec in specs:
            problem = spec_problem(spec)
            if problem:
                result[spec.id] = Unknown(problem, REFUSED)
            else:
                good.append(spec)
        if len(os.fsencode(socket)) > _LONGEST_SOCKET:
            too_long = Unknown(f"{socket}: too long for a socket; set tmux.socket", REFUSED)
            return result | {s.id: too_long for s in good}
        doubt = socket_doubt(socket)
        if isinstance(doubt, Unknown):
            return result | {s.id: Unknown(doubt.reason, REFUSED) for s in good}
        if not good:
            return result
        nonce = f"loopctl-{secrets.token_hex(16)}"
        # A server of the user's keeps its options; each new pane carries its own remain-on-exit in any case.
        ours = socket == self._own
        lines = (
            [f"set-option -gw remain-on-exit {self._remain}", f"set-option -g history-limit {self._history}"]
            if ours
            else []
        )
        lines += [start_line(spec, nonce, self._remain, self._keeper) for spec in good]
        done = self._run(socket, ["start-server", ";", "source-file", "-"], stdin="\n".join(lines) + "\n")
        made = started(done.stdout.decode(errors="replace"), nonce)
        why: Fact[Started] = Unknown("tmux did not answer in time") if done.timed_out else why_not(done.stderr)
        if not done.timed_out and any(spec.id not in made for spec in good):
            why = self._explain(why)
        for spec in good:
            result[spec.id] = Known(made[spec.id]) if spec.id in made else why
        return result

    def _explain(self, fact: Fact[T], said: str = "") -> Fact[T]:
        if isinstance(fact, Known):
            return fact
        reason = f"{fact.reason} ({first_line(said)})" if said.strip() else fact.reason
        return Unknown(explained(reason, self._env, self._program), fact.kind)

    def _script(self, socket: str, server: ServerId, lines: Sequence[str]) -> tuple[bytes, str]:
        doubt = socket_doubt(socket)
        if isinstance(doubt, Unknown):
            return b"", doubt.reason
        # What panes show comes back too, and may hold any word that is known.
        another = f"loopctl-another-server-{secrets.token_hex(16)}"
        done = self._run(socket, ["source-file", "-"], stdin=on_server(server, lines, another))
        if done.timed_out:
            return b"", f"tmux did not answer within {self._timeout:g} s"
        if another.encode() in done.stdout:
            return b"", "another tmux server answers at this socket"
        return done.stdout, "" if done.code == 0 else first_line(done.stderr) or f"tmux ended with {done.code}"

    def _run(self, socket: str, words: Sequence[str], stdin: str | None = None) -> shell.Completed:
        argv = [self._program, "-u", "-S", socket, "-f", "/dev/null", *words]
        return shell.run(
            argv, stdin=stdin.encode() if stdin is not None else None, env=self._env, timeout=self._timeout
        )
