"""What goes to tmux and what comes back, as text. Pure.

Everything that tmux reads from us is one script for `source-file -`: argv is limited to 16 KiB, and an argument
that ends in `;` ends the command there, while a quoted word in a script does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.sessions import Pane, ServerId, ServerView
from loopctl.model.tmux import unsupported

NAME = re.compile(r"[A-Za-z0-9_-]{1,200}\Z")
MARK = re.compile(r"[0-9a-f-]{0,64}\Z")

# What a dead pane ran is what tmux was told to run, which may be only what stands before the agent. A program calls itself
# what it likes: a separator, or a line break and what looks like another pane.
_COMMAND = "s/[^ -z]/_/:#{?#{&&:#{pane_dead},#{@loopctl_command}},#{@loopctl_command},#{pane_current_command}}"

# Only ids and numbers come before the texts, and the separator is taken out of all but the last, so the name (always
# last) may hold anything. A ref has no character outside of ! to z; a mark that does was not ours. The separator is
# printable: tmux 3.4 and later print control characters as \037 or _, and a C locale loses the rest.
_FIELDS = (
    "pid",
    "start_time",
    "version",
    "session_id",
    "window_id",
    "pane_id",
    "pane_pid",
    "pane_dead",
    "pane_dead_status",
    "pane_dead_signal",
    "pane_dead_time",
    "pane_input_off",
    "session_attached",
    "session_created",
    "alternate_on",
    "history_size",
    "pane_height",
    "pane_width",
    "remain-on-exit",
    "s/[^0-9a-f-]/_/:@loopctl_id",
    "s/[^!-z]/_/:@loopctl_ref",
    "s/[^0-9a-f-]/_/:@loopctl_pane",
    _COMMAND,
    "session_name",
)
PANE_FORMAT = "|".join(f"#{{{field}}}" for field in _FIELDS)


def quote(text: str) -> str:
    r"""Write a word for a tmux script so that it arrives as it is.

    Inside double quotes tmux expands `$NAME`, `~` and backslash escapes; a newline would lose the blanks after it.
    Raises ValueError for NUL.
    """
    if "\0" in text:
        msg = "a NUL cannot be passed to tmux"
        raise ValueError(msg)
    special = {'"': '\\"', "\\": "\\\\", "$": "\\$", "~": "\\~", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return (
        '"' + "".join(special.get(c) or (f"\\{ord(c):03o}" if ord(c) < 32 or ord(c) == 127 else c) for c in text) + '"'
    )


def literal(text: str) -> str:
    """Escape a text that tmux expands as a format (`-c`, `-s`, `-n`, `-T`): `#(cmd)` would run a command."""
    return text.replace("#", "##")


def on_server(server: ServerId, lines: Iterable[str], otherwise: str) -> str:
    """Run lines only on the server that is meant, else print a word: ids begin again with each server."""
    body = "\n".join(lines)
    same = f"#{{==:#{{pid}}/#{{start_time}},{server.pid}/{server.start}}}"
    return f"if-shell -F {quote(same)} {{\n{body}\n}} {{\ndisplay-message -p {quote(otherwise)}\n}}\n"


def on_pane(pane_id: str, session_id: str, mark: str, body: str, *, dead: bool = False) -> str:
    """Run commands only while the pane is in the session that carries the mark (and, if asked, dead)."""
    return on_session(pane_id, session_id, [f"#{{==:#{{@loopctl_id}},{mark}}}"], body, dead=dead)


def on_session(pane_id: str, session_id: str, tests: Iterable[str], body: str, *, dead: bool = False) -> str:
    """Run commands only while the tests hold for the session and the pane is in it.

    The session is the target: a pane's own session is any of its group, where a second client has made one.
    """
    shown = "#{?pane_dead,#{pane_id},}" if dead else "#{pane_id}"
    inside = f"#{{m:* {pane_id} *, #{{W:#{{P:{shown} }}}}}}"
    condition = f"#{{==:#{{session_id}},{session_id}}}"
    for test in (*tests, inside):
        condition = f"#{{&&:{condition},{test}}}"
    return f"if-shell -F -t {quote(session_id + ':')} {quote(condition)} {{ {body} }}"


def parse_panes(socket: str, text: str) -> Fact[ServerView]:
    """Read a listing made with PANE_FORMAT. An empty one proves nothing, and a line that does not fit spoils all."""
    panes: list[Pane] = []
    servers: set[tuple[ServerId, str]] = set()
    for line in text.split("\n"):
        if not line:
            continue
        parsed = parse_pane(line)
        if parsed is None:
            return Unknown("tmux printed a line that cannot be read")
        server, version, pane = parsed
        servers.add((server, version))
        panes.append(pane)
    if len(servers) != 1:
        return Unknown("tmux answered with an empty or mixed listing")
    ((server, version),) = servers
    old = unsupported(version)
    if old:
        return Unknown(f"{old} ({socket})")
    return Known(ServerView(socket, server, version, tuple(panes)))


def parse_pane(line: str) -> tuple[ServerId, str, Pane] | None:
    """Read one line made with PANE_FORMAT, or None when it does not fit."""
    parts = line.split("|", len(_FIELDS) - 1)
    if len(parts) != len(_FIELDS):
        return None
    field: Mapping[str, str] = dict(zip(_FIELDS, parts, strict=True))
    ids = field["session_id"], field["window_id"], field["pane_id"]
    if not all(re.fullmatch(pattern, id_) for pattern, id_ in zip((r"\$\d+", r"@\d+", r"%\d+"), ids, strict=True)):
        return None
    try:
        server = ServerId(int(field["pid"]), int(field["start_time"]))
        pane = Pane(
            *ids,
            pid=int(field["pane_pid"] or 0),
            dead=field["pane_dead"] == "1",
            session=field["session_name"],
            mark=field["s/[^0-9a-f-]/_/:@loopctl_id"],
            input_off=field["pane_input_off"] == "1",
            remain_on_exit=field["remain-on-exit"],
            alternate=field["alternate_on"] == "1",
            history=int(field["history_size"] or 0),
            height=int(field["pane_height"] or 0),
            width=int(field["pane_width"] or 0),
            attached=int(field["session_attached"] or 0),
            since=int(field["session_created"] or 0),
            exit_status=int(field["pane_dead_status"]) if field["pane_dead_status"] else None,
            exit_signal=_signal_number(field["pane_dead_signal"]),
            dead_since=int(field["pane_dead_time"] or 0),
            command=field[_COMMAND],
            ref_mark=field["s/[^!-z]/_/:@loopctl_ref"],
            own_mark=field["s/[^0-9a-f-]/_/:@loopctl_pane"],
        )
    except ValueError:
        return None
    return server, field["version"], pane


def _signal_number(text: str) -> int | None:
    # A number up to 3.x; a later tmux may print a name, which is not worth a failed listing.
    return int(text) if text.isdigit() else None


def checked(text: str) -> str:
    """A mark as it is. Raises ValueError for what loopctl gives to no session."""
    if not MARK.match(text):
        msg = f"{text!r} is no session id"
        raise ValueError(msg)
    return text


def first_line(text: str) -> str:
    """The first line of what tmux said."""
    return text.strip().partition("\n")[0]
