"""The process table and signals: /proc and pidfds on Linux, psutil elsewhere."""

from __future__ import annotations

import errno
import os
import select
import signal as signals
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.processes import ProcessId, ProcessInfo, ProcessTable

#: Every process started for a session carries its id under this name.
MARK = "LOOPCTL_SESSION"

_POLL_SECONDS = 0.05
_MOST_PIDFDS = 400


class _Source(Protocol):
    def rows(self) -> Iterator[ProcessInfo]: ...

    def row(self, pid: int) -> ProcessInfo | None: ...


class LocalProcesses:
    """ports.Processes for the machine that loopctl runs on."""

    def __init__(self) -> None:
        """Choose the way to read the table."""
        self._source: _Source = _ProcFs() if sys.platform == "linux" else _Psutil()

    def look(self) -> Fact[ProcessTable]:
        """Read the whole table in one pass."""
        try:
            rows = list(self._source.rows())
        except OSError as error:
            return Unknown(f"the process table cannot be read: {error}")
        table = ProcessTable.of(rows, self._own(rows))
        return Known(table) if table.get(os.getpid()) else Unknown("the process table does not show loopctl itself")

    @staticmethod
    def _own(rows: Iterable[ProcessInfo]) -> frozenset[int]:
        parents = {row.id.pid: row.ppid for row in rows}
        own: set[int] = set()
        pid = os.getpid()
        while pid > 0 and pid not in own:
            own.add(pid)
            pid = parents.get(pid, 0)
        return frozenset(own)

    def signal(self, targets: Iterable[ProcessId], signum: int) -> Mapping[ProcessId, str]:
        """Signal each process whose identity still holds; returns the failures.

        Never signals pid 1 or below, nor this process.
        """
        failures: dict[ProcessId, str] = {}
        for target in targets:
            if target.pid <= 1 or target.pid == os.getpid():
                failures[target] = "refused: not a process of a session"
                continue
            problem = self._signal_one(target, signum)
            if problem:
                failures[target] = problem
        return failures

    def _signal_one(self, target: ProcessId, signum: int) -> str:
        try:
            handle = _pidfd(target.pid)
        except ProcessLookupError:
            return ""
        try:
            # The handle pins the process: what is compared now is what gets the signal.
            if not self._is_alive(target):
                return ""
            if handle is None:
                os.kill(target.pid, signum)
            else:
                signals.pidfd_send_signal(handle, signum)
        except ProcessLookupError:
            return ""
        except OSError as error:
            return os.strerror(error.errno or 0).lower()
        finally:
            if handle is not None:
                os.close(handle)
        return ""

    def _is_alive(self, target: ProcessId) -> bool:
        row = self._source.row(target.pid)
        return row is not None and row.id == target and not row.ended

    def wait(self, targets: Iterable[ProcessId], seconds: float) -> frozenset[ProcessId]:
        """Wait until one of the targets ends or the time is over; returns those still alive. One that has ended already counts."""
        targets = list(targets)
        wanted = [target for target in targets if self._is_alive(target)]
        deadline = time.monotonic() + (max(0.0, seconds) if len(wanted) == len(targets) else 0.0)
        handles = self._handles(wanted[:_MOST_PIDFDS])
        try:
            if handles and len(handles) == len(wanted):
                _poll(list(handles.values()), deadline - time.monotonic())
            else:
                while wanted and time.monotonic() < deadline and all(map(self._is_alive, wanted)):
                    time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
        finally:
            for handle in handles.values():
                os.close(handle)
        return frozenset(target for target in wanted if self._is_alive(target))

    @staticmethod
    def _handles(targets: Iterable[ProcessId]) -> dict[ProcessId, int]:
        handles: dict[ProcessId, int] = {}
        for target in targets:
            try:
                handle = _pidfd(target.pid)
            except OSError:
                continue
            if handle is not None:
                handles[target] = handle
        return handles


def _pidfd(pid: int) -> int | None:
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None  # an old kernel, or too many open files: the identity check alone must do


def _poll(handles: Iterable[int], seconds: float) -> None:
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    poll.poll(max(0.0, seconds) * 1000)


class _ProcFs:
    """Linux: one read of stat, cmdline and environ a process. Start = boot id and clock ticks since boot."""

    def __init__(self) -> None:
        boot = Path("/proc/sys/kernel/random/boot_id")
        self._boot = boot.read_text(encoding="ascii").strip()[:8] if boot.exists() else "boot"

    def rows(self) -> Iterator[ProcessInfo]:
        for name in os.listdir("/proc"):  # noqa: PTH208 - names only, a Path for each costs more than the read
            if name.isdigit():
                row = self.row(int(name), full=True)
                if row:
                    yield row

    def row(self, pid: int, *, full: bool = False) -> ProcessInfo | None:
        stat = _read(f"/proc/{pid}/stat")
        # The name may hold spaces and parentheses: the fields begin after the last ")".
        head, found, tail = stat.rpartition(b") ")
        if not found:
            return None
        field = tail.split()
        state, ppid, pgid, sid, foreground, start = (field[i] for i in (0, 1, 2, 3, 5, 19))
        name = head.partition(b"(")[2].decode(errors="replace")
        argv, environ = ((), b"") if not full else (_argv(pid), b"\0" + _read(f"/proc/{pid}/environ"))
        return ProcessInfo(
            id=ProcessId(pid, f"{self._boot}:{start.decode()}"),
            ppid=int(ppid),
            pgid=int(pgid),
            sid=int(sid),
            foreground=int(foreground),
            uid=_uid(pid) if full else -1,
            name=name,
            argv=argv,
            mark=_value(environ, MARK),
            pane=(_value(environ, "TMUX"), _value(environ, "TMUX_PANE")),
            ended=state in {b"Z", b"X", b"x"},
        )


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - the table is read often
            return file.read()
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM}:
            return b""
        raise


def _argv(pid: int) -> tuple[str, ...]:
    return tuple(_read(f"/proc/{pid}/cmdline").decode(errors="replace").rstrip("\0").split("\0"))


def _uid(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116
    except OSError:
        return -1


def _value(environ: bytes, name: str) -> str:
    start = environ.find(b"\0" + name.encode() + b"=")
    if start < 0:
        return ""
    start += len(name) + 2
    end = environ.find(b"\0", start)
    return environ[start : end if end >= 0 else None].decode(errors="replace")


class _Psutil:
    """Elsewhere: psutil. The foreground group is not to be had there; the pane's own group stands for it."""

    def rows(self) -> Iterator[ProcessInfo]:
        import psutil

        for pid in psutil.pids():
            row = self.row(pid, full=True)
            if row:
                yield row

    def row(self, pid: int, *, full: bool = False) -> ProcessInfo | None:
        import psutil

        try:
            process = psutil.Process(pid)
            with process.oneshot():
                pgid = os.getpgid(pid)
                environ: dict[str, str] = _quietly(process.environ, _NOTHING) if full else _NOTHING
                return ProcessInfo(
                    id=ProcessId(pid, f"{process.create_time():.6f}"),
                    ppid=process.ppid(),
                    pgid=pgid,
                    sid=os.getsid(pid),
                    foreground=pgid,
                    uid=process.uids().real,
                    name=process.name(),
                    argv=tuple(_quietly(process.cmdline, [])) if full else (),
                    mark=environ.get(MARK, ""),
                    pane=(environ.get("TMUX", ""), environ.get("TMUX_PANE", "")),
                    ended=process.status() == psutil.STATUS_ZOMBIE,
                )
        except (psutil.NoSuchProcess, ProcessLookupError, psutil.AccessDenied, PermissionError):
            return None


_T = TypeVar("_T")
_NOTHING: dict[str, str] = {}


def _quietly(read: Callable[[], _T], otherwise: _T) -> _T:
    import psutil

    try:
        return read()
    except (psutil.AccessDenied, psutil.ZombieProcess, OSError):
        return otherwise
