"""The state folder and the locks in it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from loopctl.errors import LoopctlError, RefusedError, StateError
from loopctl.model.plain import plain


def make_root(root: Path) -> None:
    """Make the state folder, 0700, and check it. Raises StateError."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{root}: {error.strerror}"
        raise StateError(msg, hint="set state.root to a folder of yours") from None
    check_root(root)


def check_root(root: Path) -> None:
    """Refuse a state folder that others could write to. A missing one is fine. Raises StateError."""
    try:
        info = root.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        msg = f"{root}: {error.strerror}"
        raise StateError(msg, hint="set state.root to a folder of yours") from None
    if not root.is_dir():
        msg = f"{root} is not a folder"
        raise StateError(msg, hint="set state.root to a folder of yours")
    if info.st_uid != os.geteuid():
        msg = f"{root} belongs to another user"
        raise StateError(msg, hint="set state.root to a folder of yours")
    if info.st_mode & 0o022:
        msg = f"{root} can be written by others"
        raise StateError(msg, hint=f"chmod go-w {root}")


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock of the state folder: its file, what its holder does there, and the way on for who is refused.

    With `whole` the folder itself is locked too: a file that is removed meanwhile lets nobody in.
    """

    file: str
    holder_does: str
    hint: str
    whole: bool = False


APPLY = Lock("apply.lock", "another loopctl is at work on", "wait for it, or raise lock.timeoutSeconds", whole=True)
CONTROLLER = Lock(
    "controller.lock", "another controller runs for", "stop that one, or give this one a state.root of its own"
)


_ACCESS = "give yourself access to it, or set state.root to a folder of yours"
# Some network file systems lock only what is open for writing, which a folder never is.
_NO_FOLDER_LOCKS = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP}


@contextmanager
def hold_lock(
    root: Path,
    timeout: float,
    now: Callable[[], datetime],
    lock: Lock = APPLY,
    tell: Callable[[str], object] = lambda text: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold a lock. The descriptor is not inherited, so no tmux server keeps it alive.

    Waits `timeout` seconds, then raises RefusedError naming the holder. `tell` is told once who is waited for, and `interrupted`
    ends the waiting with a LoopctlError.
    """
    make_root(root)
    path = root / lock.file
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        msg = f"{path}: {error.strerror}"
        raise StateError(msg, hint=_ACCESS) from None
    folder = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        wait = _Wait(lock, root, handle, time.monotonic() + timeout, tell, interrupted)
        wait.acquire(handle)
        if lock.whole:
            wait.acquire(folder)
        note = {
            "pid": os.getpid(),
            "command": Path(sys.argv[0]).name,
            "since": now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        # For people only: the lock holds without it, where the disk is full or the file is none.
        with suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(note).encode(), 0)
        yield
    finally:
        os.close(folder)
        os.close(handle)


def holder(root: Path, lock: Lock) -> str:
    """Who holds a lock now, or "". Raises StateError when that cannot be told."""
    try:
        handle = os.open(root / lock.file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return ""
    except OSError as error:
        msg = f"{root / lock.file}: {error.strerror}"
        raise StateError(msg, hint=_ACCESS) from None
    try:
        # Shared, so that two who ask do not see each other; a holder's lock is exclusive.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _holder(handle)
    finally:
        os.close(handle)
    return ""


@dataclass(slots=True)
class _Wait:
    """The waiting for a lock. In its file, `handle`, is its holder's note."""

    lock: Lock
    root: Path
    handle: int
    deadline: float
    tell: Callable[[str], object]
    interrupted: Callable[[], bool]
    told: bool = False

    def acquire(self, wanted: int) -> None:
        """Lock `wanted`, the lock's file or the folder."""
        while not self._taken(wanted):
            who = f"{self.lock.holder_does} {self.root}: {_holder(self.handle)}"
            if self.interrupted():
                raise LoopctlError("interrupted; nothing was done")
            if time.monotonic() >= self.deadline:
                raise RefusedError(who, hint=self.lock.hint)
            if not self.told:
                self.tell(f"waiting: {who}")
            self.told = True
            time.sleep(0.05)

    def _taken(self, wanted: int) -> bool:
        try:
            fcntl.flock(wanted, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK}:
                return False
            if wanted == self.handle or error.errno not in _NO_FOLDER_LOCKS:
                msg = f"{self.root / self.lock.file}: {error.strerror}"
                raise StateError(msg) from None
        return True


def _holder(handle: int) -> str:
    try:
        note = json.loads(os.pread(handle, 4096, 0))
        # Whoever can write there may have: it is shown as one line.
        return " ".join(plain(f"{note['command']}, pid {note['pid']}, since {note['since']}").split())
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return "its holder did not say who it is"
