"""Running programs: the only module that imports `sh`, and the only way in which tmux and gh are run.

Set LOOPCTL_TRACE_CALLS=FILE to have one JSON line appended for each program that was run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

from loopctl.errors import StateError

TRACE = "LOOPCTL_TRACE_CALLS"

_LOCALE = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
#: What would make a program talk to a person, colour its output, log, or address another tmux server.
_UNWANTED = frozenset(
    {
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "COLORTERM",
        "COLUMNS",
        "DEBUG",
        "FORCE_COLOR",
        "LANGUAGE",
        "LINES",
        "TMUX",
        "TMUX_PANE",
        "TMUX_TMPDIR",
        TRACE,
    }
)
_FIXED: Mapping[str, str] = {
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LANG": _LOCALE,
    "LC_ALL": _LOCALE,
    "NO_COLOR": "1",
    "PAGER": "cat",
    "TERM": "dumb",
}
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
#: sh raises for every exit code and signal that is not listed as good.
_EVERY_CODE = range(-128, 256)

_Mask = set[int | signal.Signals]


class ProgramMissing(StateError):
    """A program that is needed is not installed, or not on PATH."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ended. `code` is negative for a signal; `seconds` is what it took.

    When `timed_out`, its process group was killed and the output is what came until then: not to be trusted.
    """

    code: int
    stdout: bytes
    stderr: str
    timed_out: bool = False
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The standard output as UTF-8; bytes that are not become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")


def clean_env(base: Mapping[str, str]) -> dict[str, str]:
    """The environment that a program of ours gets, made from `base` (usually os.environ).

    UTF-8 locale, no colour, no pager, no prompts, no terminal, and none of the variables that point at a tmux server.
    All else stays (HOME, PATH, proxies, tokens): who starts something that outlives the call must take tokens out himself.
    """
    kept = {name: value for name, value in base.items() if name not in _UNWANTED and not name.startswith("LC_")}
    return kept | dict(_FIXED)


def run(
    argv: Sequence[str],
    *,
    stdin: bytes | None = None,
    env: Mapping[str, str],
    timeout: float,
    cwd: str | None = None,
) -> Completed:
    """Run a program to its end, in a session of its own, without a terminal and without any descriptor of ours.

    `argv[0]` is looked up on the PATH of `env`. `timeout` is in seconds; when it is over, or when this process is
    interrupted, the program's whole process group is killed. Exit codes never raise. Raises ProgramMissing,
    StateError when the program could not be started, and TypeError or ValueError for an argument that no program
    could be given.
    """
    _check(argv)
    program = _find(argv[0], env.get("PATH", os.defpath))
    if cwd is not None and not Path(cwd).is_dir():
        msg = f"cannot run {argv[0]} in {cwd}: no such folder"
        raise StateError(msg)
    started = time.monotonic()
    # Files instead of pipes: sh then copies nothing, and a grandchild that keeps them open delays nobody.
    with _scratch(stdin or b"") as into, _scratch() as out, _scratch() as err:
        code, timed_out = _run(program, argv[1:], {"_in": into, "_out": out, "_err": err}, dict(env), cwd, timeout)
        seconds = time.monotonic() - started
        done = Completed(code, _all(out), _all(err).decode("utf-8", "replace"), timed_out, seconds)
    _trace(argv, done)
    return done


def _check(argv: Sequence[str]) -> None:
    """Refuse what sh would drop silently (None) or fail on after the fork (int, NUL, lone surrogates)."""
    if isinstance(argv, str) or not argv:
        msg = "argv must be a list of at least one string"
        raise TypeError(msg)
    for arg in argv:
        if not isinstance(arg, str):
            msg = f"every argument must be a string, not {arg!r}"
            raise TypeError(msg)
        if "\0" in arg:
            msg = f"an argument cannot hold a NUL character: {arg!r}"
            raise ValueError(msg)
        arg.encode("utf-8")


def _find(name: str, path: str) -> str:
    found = shutil.which(name, path=path)
    if found is None:
        msg = f"{name} was not found"
        raise ProgramMissing(msg, hint=f"Install {name}, or put it on PATH.")
    return str(Path(found).absolute())


@contextmanager
def _scratch(content: bytes = b"") -> Iterator[IO[bytes]]:
    """A file without a name; in memory where the system can, so that a full disk is no obstacle."""
    with _open_scratch() as file:
        if content:
            file.write(content)
            file.flush()
            file.seek(0)
        yield file


def _open_scratch() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("loopctl"), "w+b")
    return tempfile.TemporaryFile()  # pragma: no cover - another operating system


def _all(file: IO[bytes]) -> bytes:
    """The whole file, read without moving the offset that the program's own children may still share."""
    size, whole = os.fstat(file.fileno()).st_size, b""
    while len(whole) < size and (chunk := os.pread(file.fileno(), size - len(whole), len(whole))):
        whole += chunk
    return whole


def _run(
    program: str, args: Sequence[str], files: Mapping[str, object], env: dict[str, str], cwd: str | None, timeout: float
) -> tuple[int, bool]:
    """Start the program and wait for its end: its exit code, and whether the time was over first."""
    import sh  # 90 ms, so only when a program is run

    # An interrupt between the fork and the exec would make the child go on as a second copy of this process, and one
    # before `process` is known would lose the child: both are put off until there is something to end.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        process = _spawn(sh.Command(program), args, files, env, cwd, mask)
        timed_out = _finish(process, timeout, mask)
    except sh.ForkException as error:
        why = str(error).strip().splitlines()[-1]
        msg = f"cannot run {program}: {why}"
        raise StateError(msg) from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return process.exit_code, timed_out


def _spawn(
    command: Any, args: Sequence[str], files: Mapping[str, object], env: dict[str, str], cwd: str | None, mask: _Mask
) -> Any:
    with warnings.catch_warnings():
        # Python 3.12 and later warn of a fork beside threads; those are sh's own, from its call before.
        warnings.simplefilter("ignore", DeprecationWarning)
        return command(
            list(args),
            **files,
            _env=env,
            _cwd=cwd,
            _bg=True,
            _bg_exc=False,
            _tty_in=False,
            _tty_out=False,
            _new_session=True,
            _close_fds=True,
            _no_pipe=True,
            _ok_code=_EVERY_CODE,
            _preexec_fn=partial(_before_exec, mask),
        )


def _before_exec(mask: _Mask) -> None:  # pragma: no cover - between fork and exec, where nothing is measured
    """In the child: default signals again (sh ignores SIGHUP for background programs, Python ignores SIGXFSZ)."""
    for number in (signal.SIGHUP, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    for number in _INTERRUPTS:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _finish(process: Any, timeout: float, mask: _Mask) -> bool:
    """Wait for the end; True when the time was over first. From here on an interrupt ends the program too."""
    expired = threading.Event()

    def expire() -> None:
        if _kill_group(process):
            expired.set()

    # sh's own timeout ends one process only, and makes every call wait for a thread that looks ten times a second.
    timer = threading.Timer(timeout, expire)
    timer.daemon = True
    timer.start()
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        process.wait()
    except BaseException:
        _kill_group(process)
        process.wait()
        raise
    finally:
        timer.cancel()
        timer.join()
    return expired.is_set()


def _kill_group(process: Any) -> bool:
    """Kill the program and all that stayed in its group, unless it has ended: its number may be another's by then."""
    if not process.is_alive():
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return True


def _trace(argv: Sequence[str], done: Completed) -> None:
    """Append what was run. Only the first arguments, without values of NAME=VALUE, since others may be secret."""
    file = os.environ.get(TRACE)
    if not file:
        return
    args = [name + ("=..." if sep else "") for name, sep, _ in (arg[:80].partition("=") for arg in argv[1:6])]
    row = {"program": argv[0], "args": args, "ms": round(done.seconds * 1000, 1), "code": done.code}
    line = json.dumps(row | ({"timed_out": True} if done.timed_out else {})) + "\n"
    with suppress(OSError):  # a trace must never stop the work
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def replace_process(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Become another program, on this terminal. Raises ProgramMissing."""
    _check(argv)
    os.execve(_find(argv[0], env.get("PATH", os.defpath)), list(argv), dict(env))
