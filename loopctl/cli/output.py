"""Where text goes: machine output to stdout, what is said to a person while working to stderr."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from loopctl.errors import LoopctlError


def wants_color(stream: TextIO, environ: dict[str, str] | None = None) -> bool:
    """Colour only on a terminal that has it, and never against NO_COLOR (no-color.org)."""
    env = os.environ if environ is None else environ
    return stream.isatty() and not env.get("NO_COLOR") and env.get("TERM", "dumb") != "dumb"


def out(text: str) -> None:
    """Print to stdout. A reader that went away (`| head`) is no error."""
    _write(sys.stdout, text)


def say(text: str) -> None:
    """Tell a person something on stderr."""
    _write(sys.stderr, text + "\n")


def say_at_once(text: str) -> None:
    """Tell a person something from inside a signal handler: past the buffers of sys.stderr, which refuse whoever comes in
    the middle of another write with a RuntimeError."""
    with suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), f"{text}\n".encode("ascii", "backslashreplace"))


def lost_output() -> bool:
    """Whether something that was to be printed could not be: a full disk, not a reader that went away."""
    return bool(_LOST)


_LOST: list[OSError] = []


def _write(stream: TextIO, text: str) -> None:
    if not (text.isascii() or (stream.encoding or "").lower().replace("-", "") == "utf8"):
        from loopctl.render.clean import encodable

        text = encodable(text, stream.encoding)
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        lose(stream, error)


def lose(stream: TextIO, error: OSError) -> None:
    """Let a stream that cannot be written lead nowhere, and say so: what follows must still be done, and the interpreter must
    not trip over it at exit."""
    with suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stream.fileno())
        os.close(devnull)
    if not isinstance(error, BrokenPipeError):
        _LOST.append(error)
        if stream is not sys.stderr:
            say(f"loopctl: standard output: {error.strerror}; what follows is done and not shown")


class Progress:
    """One line on stderr that is overwritten on a terminal, and a plain line elsewhere."""

    def __init__(self) -> None:
        """Nothing is shown yet."""
        self._tty = sys.stderr.isatty()
        self._shown = False

    def __call__(self, text: str) -> None:
        """Show a line in place of the one before."""
        if self._tty:
            _write(sys.stderr, f"\r\x1b[K{text} ...")
            self._shown = True
        else:
            say(f"{text} ...")

    def interrupt(self, text: str) -> None:
        """Put another line in its place, from inside a signal handler."""
        say_at_once(f"\r\x1b[K{text}" if self._shown else text)
        self._shown = False

    def clear(self) -> None:
        """Take the line away again."""
        if self._shown:
            _write(sys.stderr, "\r\x1b[K")
            self._shown = False


def tell_error(error: LoopctlError) -> None:
    """Print an error and its hint; a wrong document with each problem's line and caret."""
    say(error_text(error, wants_color(sys.stderr)))


def error_text(error: LoopctlError, color: bool = False) -> str:
    """What `tell_error` prints. An error may repeat foreign text, so nothing in it can steer a terminal."""
    from loopctl.errors import DocumentError
    from loopctl.render.clean import shown

    if isinstance(error, DocumentError):
        from loopctl.render.problems import problems_text

        return problems_text(error.problems, color)
    return f"loopctl: {shown(error.message)}" + (f"\n  hint: {shown(error.hint)}" if error.hint else "")
