"""The process table of Linux, read from /proc."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from loopctl.model.processes import MARK, ProcessId, ProcessInfo

_TICKS = os.sysconf("SC_CLK_TCK")


class ProcFs:
    """Linux: one read of stat, cmdline and environ a process. Start = boot id and clock ticks since boot."""

    def __init__(self) -> None:
        """Learn which boot this is."""
        boot = Path("/proc/sys/kernel/random/boot_id")
        self._booted_at: float | None = None
        self._boot = boot.read_text(encoding="ascii").strip()[:8] if boot.exists() else "boot"

    def pids(self) -> Iterator[int]:
        """The numbers of all that are listed."""
        self._booted_at = _booted_at()
        return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - a Path for each costs more

    def row(self, pid: int, *, full: bool = False) -> ProcessInfo | None:
        """One process, None when there is none. Raises PermissionError for one that is hidden from this user."""
        stat = _read(f"/proc/{pid}/stat", hidden=True)
        # The name may hold spaces and parentheses: the fields begin after the last ")".
        head, found, tail = stat.rpartition(b") ")
        if not found:
            # Some are as if they were not there at all.
            if not full and _exists(pid):
                raise PermissionError(errno.EACCES, "hidden")
            return None
        field = tail.split()
        state, ppid, pgid, sid, foreground, threads, start = (field[i] for i in (0, 1, 2, 3, 5, 17, 19))
        name = head.partition(b"(")[2].decode(errors="replace")
        # When only its first thread has ended it is alive, and its other threads show what it runs.
        headless = state == b"Z" and int(threads) > 1
        read = _read_of_threads if headless else _read_of
        environ = b"\0" + read(pid, "environ") if full else b""
        mark, pane = _value(environ, MARK), (_value(environ, "TMUX"), _value(environ, "TMUX_PANE"))
        if pane[1] and not _shares_pids(pid):
            # Its TMUX has the number of a server that has another number here.
            pane = ("", "")
        return ProcessInfo(
            id=ProcessId(pid, f"{self._boot}:{start.decode()}"),
            ppid=int(ppid),
            pgid=int(pgid),
            sid=int(sid),
            foreground=int(foreground),
            uid=_uid(pid) if full else -1,
            name=name,
            argv=tuple(read(pid, "cmdline").decode(errors="replace").rstrip("\0").split("\0")) if full else (),
            mark=mark,
            pane=pane,
            service=_service(_read(f"/proc/{pid}/cgroup")) if mark or pane[1] or b"tmux" in head else "",
            ended=state in {b"Z", b"X", b"x"} and not headless,
            started_at=self._booted_at + int(start) / _TICKS if self._booted_at and full else None,
        )


def _exists(pid: int) -> bool:
    try:
        os.getpgid(pid)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _booted_at() -> float | None:
    """Read at each look: it moves with the clock."""
    found = _read("/proc/stat").partition(b"\nbtime ")[2].split(maxsplit=1)
    return float(found[0]) if found else None


def _read(path: str, *, hidden: bool = False) -> bytes:
    """What the file holds, nothing where there is none. One that must not be read raises PermissionError if `hidden`."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - the table is read often
            return file.read()
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ESRCH}:
            return b""
        if error.errno in {errno.EACCES, errno.EPERM} and not hidden:
            return b""
        raise


def _read_of(pid: int, name: str) -> bytes:
    return _read(f"/proc/{pid}/{name}")


def _read_of_threads(pid: int, name: str) -> bytes:
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return b""
    return next(filter(None, (_read(f"/proc/{pid}/task/{thread}/{name}") for thread in threads)), b"")


def _uid(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116
    except OSError:
        return -1


def _shares_pids(pid: int) -> bool:
    """Whether numbers of processes mean the same to it as to us; where that is not told, they do."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return True


def _service(cgroups: bytes) -> str:
    """The service of systemd that /proc/PID/cgroup names, "" for what is in none (a login, a container, a scope)."""
    units = (line.rpartition(b"/")[2] for line in cgroups.splitlines())
    return next((unit.decode(errors="replace") for unit in units if unit.endswith(b".service")), "")


def _value(environ: bytes, name: str) -> str:
    start = environ.find(b"\0" + name.encode() + b"=")
    if start < 0:
        return ""
    start += len(name) + 2
    end = environ.find(b"\0", start)
    return environ[start : end if end >= 0 else None].decode(errors="replace")
