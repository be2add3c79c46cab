"""The process table and signals: /proc and pidfds on Linux, psutil elsewhere."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal as signals
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.processes import ProcessId, ProcessInfo, ProcessTable

#: Every process started for a session carries its id under this name.
MARK = "LOOPCTL_SESSION"

_POLL_SECONDS = 0.05
_MOST_PIDFDS = 400
_TICKS = os.sysconf("SC_CLK_TCK")


class _Source(Protocol):
    def pids(self) -> Iterable[int]: ...

    def row(self, pid: int, *, full: bool = False) -> ProcessInfo | None:
        """One process, None when there is none. Raises PermissionError for one that is hidden from this user."""


class LocalProcesses:
    """ports.Processes for the machine that loopctl runs on."""

    def __init__(self) -> None:
        """Choose the way to read the table."""
        self._source: _Source = _ProcFs() if sys.platform == "linux" else _Psutil()

    def look(self) -> Fact[ProcessTable]:
        """Read the whole table in one pass."""
        rows: list[ProcessInfo] = []
        hidden = False
        try:
            for pid in self._source.pids():
                try:
                    row = self._source.row(pid, full=True)
                except PermissionError:
                    hidden |= pid > 0
                else:
                    rows += [row] if row else []
        except OSError as error:
            return Unknown(f"the process table cannot be read: {error}")
        # Where hidden ones are not even listed, init is one of them: there is always an init.
        partial = hidden or all(row.id.pid != 1 for row in rows)
        table = ProcessTable.of(rows, self._own(rows), partial=partial)
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
        """Raises OSError where that cannot be told."""
        row = self._source.row(target.pid)
        return row is not None and row.id == target and not row.ended

    def _may_live(self, target: ProcessId) -> bool:
        try:
            return self._is_alive(target)
        except OSError:
            return True

    def wait(self, targets: Iterable[ProcessId], seconds: float) -> frozenset[ProcessId]:
        """Wait until one of the targets ends or the time is over; returns those still alive. One that has ended already counts.

        Of what cannot be read any more it is taken that it lives.
        """
        targets = list(targets)
        wanted = [target for target in targets if self._may_live(target)]
        deadline = time.monotonic() + (max(0.0, seconds) if len(wanted) == len(targets) else 0.0)
        handles = self._handles(wanted)
        if handles:
            try:
                _poll(handles, deadline - time.monotonic())
            finally:
                _close(handles)
        else:
            while wanted and time.monotonic() < deadline and all(map(self._may_live, wanted)):
                time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
        return frozenset(target for target in wanted if self._may_live(target))

    @staticmethod
    def _handles(targets: Sequence[ProcessId]) -> list[int]:
        """A handle of each, or none at all: without one for each, looking again and again must do."""
        handles: list[int] = []
        if len(targets) > _most_pidfds():
            return handles
        for target in targets:
            try:
                handle = _pidfd(target.pid)
            except OSError:
                handle = None
            if handle is None:
                _close(handles)
                return []
            handles.append(handle)
        return handles


def _close(handles: Iterable[int]) -> None:
    for handle in handles:
        os.close(handle)


def _most_pidfds() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The rest of the program needs some too.
    return _MOST_PIDFDS if soft == resource.RLIM_INFINITY else min(_MOST_PIDFDS, soft // 4)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _pidfd(pid: int) -> int | None:
    if sys.platform != "linux":
        return None  # pragma: no cover - another operating system
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
        self._booted_at: float | None = None
        self._boot = boot.read_text(encoding="ascii").strip()[:8] if boot.exists() else "boot"

    def pids(self) -> Iterator[int]:
        self._booted_at = _booted_at()
        return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - a Path for each costs more

    def row(self, pid: int, *, full: bool = False) -> ProcessInfo | None:
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
        return ProcessInfo(
            id=ProcessId(pid, f"{self._boot}:{start.decode()}"),
            ppid=int(ppid),
            pgid=int(pgid),
            sid=int(sid),
            foreground=int(foreground),
            uid=_uid(pid) if full else -1,
            name=name,
            argv=tuple(read(pid, "cmdline").decode(errors="replace").rstrip("\0").split("\0")) if full else (),
            mark=_value(environ, MARK),
            pane=(_value(environ, "TMUX"), _value(environ, "TMUX_PANE")),
            ended=state in {b"Z", b"X", b"x"} and not headless,
            started_at=self._booted_at + int(start) / _TICKS if self._booted_at and full else None,
        )


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


def _value(environ: bytes, name: str) -> str:
    start = environ.find(b"\0" + name.encode() + b"=")
    if start < 0:
        return ""
    start += len(name) + 2
    end = environ.find(b"\0", start)
    return environ[start : end if end >= 0 else None].decode(errors="replace")


class _Psutil:
    """Elsewhere: psutil. The foreground group is not to be had there; the pane's own group stands for it."""

    def pids(self) -> Iterable[int]:
        import psutil

        return psutil.pids()

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
                    started_at=process.create_time(),
                )
        except (psutil.NoSuchProcess, ProcessLookupError):
            return None
        except psutil.AccessDenied as error:
            raise PermissionError(errno.EACCES, "hidden") from error


_T = TypeVar("_T")
_NOTHING: dict[str, str] = {}


def _quietly(read: Callable[[], _T], otherwise: _T) -> _T:
    import psutil

    try:
        return read()
    except (psutil.AccessDenied, psutil.ZombieProcess, OSError):
        return otherwise
