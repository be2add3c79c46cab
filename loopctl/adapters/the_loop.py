"""Reads the session records of the-loop: one JSON file an item, as v0.19 and as v11 write them.

v11 leaves `runner` out, knows `paused`, and keeps the sessions of an item's pull requests in the item's own record.
The folder is somebody else's: nothing in it is changed, and no link in it is followed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from loopctl.errors import StateError
from loopctl.model.foreign_json import parse_json
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import STATUSES, TMUX_RUNNER
from loopctl.model.text import cut
from loopctl.model.the_loop import LoopFolder, LoopRecord, NotRead, loop_slug

#: Where records lie below what a person may name: the registry itself, the state root, or the project's .the-loop.
_FOLDERS = ("", "sessions", "local", "local/sessions", "state/sessions", "state/local", "state/local/sessions")
_RECORD_FILE = re.compile(r"[A-Za-z0-9._-]+-\d+\.json")
_HARNESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MOST_BYTES = 1024 * 1024
_PROCESS_RUNNER = "process"
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def read_loop_folder(folder: Path) -> LoopFolder:
    """Read every record in a registry folder of the-loop, or in the registry below a state root or a `.the-loop`.

    Raises StateError when the folder itself cannot be read.
    """
    records: list[LoopRecord] = []
    skipped: list[NotRead] = []
    ignored = 0
    for place in _places(folder):
        for item in _read_place(place):
            if isinstance(item, LoopRecord):
                records.append(item)
            elif isinstance(item, NotRead):
                skipped.append(item)
            else:
                ignored += 1
    return LoopFolder(tuple(records), tuple(skipped), ignored)


def _places(folder: Path) -> Iterator[Path]:
    yield folder
    for below in _FOLDERS[1:]:
        parts = [folder.joinpath(*below.split("/")[: n + 1]) for n in range(below.count("/") + 1)]
        if all(map(_is_folder, parts)):
            yield parts[-1]


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _read_place(place: Path) -> Iterator[LoopRecord | NotRead | None]:
    """Records, what could not be read, and None for each JSON file that is none of the-loop's sessions."""
    try:
        handle = os.open(place, _OPEN_FOLDER)
    except OSError as error:
        msg = f"{place}: {error.strerror}"
        raise StateError(msg, hint="name the folder in which the-loop keeps its session records") from None
    try:
        for name in sorted(os.listdir(handle)):  # noqa: PTH208 - of a descriptor: a path could be swapped
            if name.endswith(".json"):
                yield from _read_file(handle, place, name)
    finally:
        os.close(handle)


def _read_file(folder: int, place: Path, name: str) -> Iterator[LoopRecord | NotRead | None]:
    path = str(place / name)
    if not _RECORD_FILE.fullmatch(name):
        yield None
        return
    try:
        data = parse_json(_text(folder, name))
    except OSError as error:
        yield NotRead(path, "is a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error))
        return
    except (ValueError, RecursionError) as error:
        yield NotRead(path, f"not readable as JSON: {error}")
        return
    if not isinstance(data, Mapping) or "workItem" not in data:
        yield None
        return
    item = _parsed(data, path)
    if isinstance(item, LoopRecord) and f"{loop_slug(item.ref)}.json" != name:
        # Two items may share one name, and a file may have been edited or copied: then it does not speak for its item.
        yield NotRead(
            path,
            f"is not the file of {cut(str(item.ref), 200)}, which is {cut(loop_slug(item.ref), 200)}.json",
            str(item.ref),
        )
        return
    yield item
    if isinstance(item, LoopRecord):
        yield from _pull_requests(data, item, path)


def _pull_requests(data: Mapping[str, object], owner: LoopRecord, path: str) -> Iterator[LoopRecord | NotRead]:
    entries = data.get("pullRequests") or []
    if not isinstance(entries, list):
        yield NotRead(path, "pullRequests is no list", str(owner.ref))
        return
    for index, entry in enumerate(entries):
        item = _parsed(entry, path, f"pullRequests[{index}]: ")
        if isinstance(item, LoopRecord) and not item.tmux_target:
            item = NotRead(path, f"has no session of its own: that of {owner.ref} serves it", str(item.ref))
        yield item


def _text(folder: int, name: str) -> str:
    handle = os.open(name, _OPEN_FILE, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "is no regular file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(_MOST_BYTES + 1)
    finally:
        os.close(handle)
    if len(data) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"is larger than {_MOST_BYTES // 1024} KiB")
    return data.decode("utf-8")


def _parsed(data: object, path: str, where: str = "") -> LoopRecord | NotRead:
    ref = ""
    try:
        if not isinstance(data, Mapping):
            raise ValueError("is no object")
        item = data.get("workItem")
        ref = _string(item if isinstance(item, Mapping) else {}, "ref")
        return _record(WorkItemRef.parse(ref), data, path)
    except ValueError as error:
        return NotRead(path, f"{where}{error}", ref)


def _record(ref: WorkItemRef, data: Mapping[str, object], path: str) -> LoopRecord:
    target = _string(data, "tmuxTarget", "")
    status = _string(data, "status", "active")
    if status not in STATUSES:
        raise ValueError(f"status: {_short(status)} is not one of {', '.join(STATUSES)}")
    # v11 has but one runner and writes none down; before it, what is not said is `process`.
    runner = TMUX_RUNNER if target else _string(data, "runner", _PROCESS_RUNNER)
    if runner not in {TMUX_RUNNER, _PROCESS_RUNNER}:
        raise ValueError(f"runner: {_short(runner)} is not one of {TMUX_RUNNER}, {_PROCESS_RUNNER}")
    cwd = _string(data, "cwd")
    return LoopRecord(
        ref=ref,
        harness=_word(data, "harness", _HARNESS),
        harness_session_id=_word(data, "harnessSessionId", _SESSION_ID),
        # A relative folder means something only to the process that wrote it.
        cwd=cwd if cwd.startswith("/") and not _CONTROL.search(cwd) else "",
        status=status,
        created_at=_time(data, "createdAt"),
        last_event_at=_time(data, "lastEventAt"),
        runner=runner,
        tmux_target=target,
        path=path,
    )


def _string(data: Mapping[str, object], key: str, default: str | None = None) -> str:
    value = data.get(key)
    if value is None and default is not None:
        return default
    if value is None:
        raise ValueError(f"{key}: is missing")
    if not isinstance(value, str):
        raise ValueError(f"{key}: must be a string")
    return value


def _word(data: Mapping[str, object], key: str, allowed: re.Pattern[str]) -> str:
    value = _string(data, key)
    if not allowed.fullmatch(value):
        raise ValueError(f"{key}: {_short(value)} cannot be one")
    return value


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _time(data: Mapping[str, object], key: str) -> datetime | None:
    text = _string(data, key, "")
    try:
        moment = datetime.fromisoformat(text) if text else None
        return moment.astimezone(UTC) if moment and moment.tzinfo else None
    except (ValueError, OverflowError):
        raise ValueError(f"{key}: {_short(text)} is no time") from None
