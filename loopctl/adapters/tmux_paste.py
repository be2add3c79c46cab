"""How a text is given to the program in a pane, as a tmux script. Pure.

One script decides and pastes: tmux reads commands in one thread and looks at its panes between scripts only, so that no pane
dies between the condition and the paste (which would crash a server before 3.4). A program that has ended and whose end tmux has not
seen yet leaves its text unread in the terminal.

No command here resolves a client: from tmux 3.7 on those fail while somebody watches read-only.
"""

from __future__ import annotations

from loopctl.adapters.tmux_format import on_pane, quote
from loopctl.model.facts import REFUSED, Fact, Known, Unknown
from loopctl.model.processes import SHELLS
from loopctl.ports import PaneRef

_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"}
_PICTURES |= {127: 0x2421} | dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000)), 0xFFFD)
#: What tmux says where nothing was pasted: the condition comes first, and the first paste fails before the second.
_NOTHING_DONE = ("no server running", "error connecting", "can't find", "target pane has exited", "another tmux server")


def harmless(text: str) -> str:
    """The text as a program may be given it: lines end in a newline, and other control characters are shown as pictures.

    An escape character would end the bracketed paste, and what follows would be keys.
    """
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_PICTURES)


def paste_script(pane: PaneRef, text: str, name: str) -> str:
    """Paste a text and submit it, unless the pane is dead, takes no input, is not the one meant or shows what it must not.

    `name` is the buffer's, used by nobody else. The pane's id after it on a line of the output proves that it was done.
    """
    target, buffer = quote(pane.pane_id), quote(name)
    # -r leaves newlines: as carriage returns, some programs would take each line for an entry of its own.
    give = [
        # While somebody reads in copy mode, tmux takes the mode's screen for the program's and leaves the brackets out.
        f"copy-mode -q -t {target}",
        f"paste-buffer -p -r -b {buffer} -t {target}",
        f'set-buffer -b {buffer} "\\r"',
        f"paste-buffer -r -b {buffer} -t {target}",
        f"list-panes -t {target} -F {quote(f'{name} #{{pane_id}}')}",
    ]
    # A chain stops at its first error, the next line does not: the buffer goes in every case.
    body = f"set-buffer -b {buffer} -- {quote(harmless(text))}\n{' ; '.join(give)}\ndelete-buffer -b {buffer}"
    return on_pane(
        pane.pane_id, pane.session_id, pane.mark, f"if-shell -F -t {target} {quote(_takes(pane))} {{\n{body}\n}}"
    )


def _takes(pane: PaneRef) -> str:
    """The condition under which it is given a text, as a format of tmux."""
    takes = "#{?pane_dead,,#{?pane_input_off,,1}}"
    if pane.pid:
        takes = f"#{{?#{{==:#{{pane_pid}},{pane.pid}}},{takes},}}"
    if pane.no_shell:
        takes = f"#{{?#{{m/r:^-?({'|'.join(SHELLS)})$,#{{pane_current_command}}}},,{takes}}}"
    return takes


def pasted(pane: PaneRef, name: str, output: bytes, problem: str) -> Fact[None]:
    """What became of it, from what tmux printed and complained of."""
    if f"{name} {pane.pane_id}" in output.decode(errors="replace").split("\n"):
        return Known(None)
    if not problem:
        return Unknown(
            f"pane {pane.pane_id} takes no text: it is gone, dead, its input is off, or it shows another program",
            REFUSED,
        )
    return Unknown(problem, REFUSED) if problem.startswith(_NOTHING_DONE) else Unknown(problem)
