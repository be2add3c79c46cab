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

from loopctl.errors import RefusedError, StateError
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


# Some network file systems lock only what is open for writing, which a folder never is.
_NO_FOLDER_LOCKS = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP}


@contextmanager
def hold_lock(root: Path, timeout: float, now: Callable[[], datetime], lock: Lock = APPLY) -> Iterator[None]:
    """Hold a lock. The descriptor is not inherited, so no tmux server keeps it alive.

    Waits `timeout` seconds, then raises RefusedError naming the holder.
    """
    make_root(root)
    path = root / lock.file
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        msg = f"{path}: {error.strerror}"
        raise StateError(msg) from None
    folder = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + timeout
        _acquire(handle, handle, root, deadline, lock)
        if lock.whole:
            _acquire(folder, handle, root, deadline, lock)
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
        raise StateError(msg) from None
    try:
        # Shared, so that two who ask do not see each other; a holder's lock is exclusive.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _holder(handle)
    finally:
        os.close(handle)
    return ""


def _acquire(wanted: int, handle: int, root: Path, deadline: float, lock: Lock) -> None:
    """Lock `wanted`, the lock's file (`handle`, where its holder's note is) or the folder."""
    while True:
        try:
            fcntl.flock(wanted, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if wanted != handle and error.errno in _NO_FOLDER_LOCKS:
                return
            if error.errno not in {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK}:
                msg = f"{root / lock.file}: {error.strerror}"
                raise StateError(msg) from None
            if time.monotonic() >= deadline:
                msg = f"{lock.holder_does} {root}: {_holder(handle)}"
                raise RefusedError(msg, hint=lock.hint) from None
            time.sleep(0.05)
        else:
            return


def _holder(handle: int) -> str:
    try:
        note = json.loads(os.pread(handle, 4096, 0))
        # Whoever can write there may have: it is shown as one line.
        return " ".join(plain(f"{note['command']}, pid {note['pid']}, since {note['since']}").split())
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return "its holder did not say who it is"
