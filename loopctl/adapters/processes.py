"""The process table and signals: /proc and pidfds on Linux, psutil elsewhere."""

from __future__ import annotations

import os
import resource
import select
import signal as signals
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from loopctl.adapters.processes_proc import ProcFs
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.processes import ProcessId, ProcessInfo, ProcessTable

_POLL_SECONDS = 0.05
_MOST_PIDFDS = 400


class Source(Protocol):
    """One way to read the process table."""

    def pids(self) -> Iterable[int]:
        """The numbers of all that are listed."""

    def row(self, pid: int, *, full: bool = False) -> ProcessInfo | None:
        """One process, None when there is none. Raises PermissionError for one that is hidden from this user."""


def _source() -> Source:
    if sys.platform == "linux":
        return ProcFs()
    from loopctl.adapters.processes_psutil import Psutil

    return Psutil()


class LocalProcesses:
    """ports.Processes for the machine that loopctl runs on."""

    def __init__(self, source: Source | None = None) -> None:
        """`source` is how the table is read; without one it is this machine's own way."""
        self._source = source or _source()

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
