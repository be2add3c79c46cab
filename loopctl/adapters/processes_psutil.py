"""The process table where there is no /proc, read by psutil, which is only installed there."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

import psutil

from loopctl.model.processes import MARK, ProcessId, ProcessInfo


class Psutil:
    """The foreground group is not to be had there; the pane's own group stands for it."""

    def pids(self) -> Iterable[int]:
        """The numbers of all that are listed."""
        return psutil.pids()

    def row(self, pid: int, *, full: bool = False) -> ProcessInfo | None:
        """One process, None when there is none. Raises PermissionError for one that is hidden from this user."""
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
    try:
        return read()
    except (psutil.AccessDenied, psutil.ZombieProcess, OSError):
        return otherwise
