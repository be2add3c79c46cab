"""Session records as rows of a table, and back; a row that cannot be a record is a ValueError that names the field."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime

from loopctl.model.processes import ProcessId
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import STATUSES, ServerId, SessionRecord

#: What a mark in tmux may be: an id goes there as it is.
_ID = re.compile(r"[0-9a-f-]{1,64}\Z")
NUMBERS = {"server_pid", "server_start", "pane_pid", "generation"}
_TIMES = ("created_at", "updated_at", "closed_at")
#: What version 2 of the file added.
ADDED_2 = ("workspace", "branch", "resumes")
_PLAIN = tuple(f.name for f in fields(SessionRecord) if f.name not in {"ref", "server", "pane", *_TIMES})
COLUMNS = ("ref", "ref_key", "server_pid", "server_start", "pane_pid", "pane_start", *_TIMES, *_PLAIN)


def time_text(value: datetime | None) -> str | None:
    """UTC with microseconds; sorts as text."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if value else None


def _time(value: object, name: str) -> datetime | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC)
    except (ValueError, OverflowError):
        msg = f"{name}: {value!r} is not a time"
        raise ValueError(msg) from None


def to_row(record: SessionRecord) -> dict[str, object]:
    """Column -> value."""
    row: dict[str, object] = {name: getattr(record, name) for name in _PLAIN}
    row |= {name: time_text(getattr(record, name)) for name in _TIMES}
    row |= {"ref": str(record.ref), "ref_key": record.ref.key}
    row |= (
        {"server_pid": record.server.pid, "server_start": record.server.start}
        if record.server
        else dict.fromkeys(("server_pid", "server_start"))
    )
    row |= (
        {"pane_pid": record.pane.pid, "pane_start": record.pane.start}
        if record.pane
        else dict.fromkeys(("pane_pid", "pane_start"))
    )
    return row


def _pid(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 < value < 2**31:
        msg = f"{name}: {value!r} is not the process id of a session"
        raise ValueError(msg)
    return value


def to_record(row: dict[str, object]) -> SessionRecord:
    """Read a row. Raises ValueError for what cannot be, such as the process id 0."""
    if not _ID.match(str(row["id"])):
        msg = "id: not a session id (0-9, a-f and -)"
        raise ValueError(msg)
    ref = WorkItemRef.parse(str(row["ref"]))
    if ref.key != row["ref_key"]:
        msg = f"ref_key: {row['ref_key']!r} does not belong to {ref}"
        raise ValueError(msg)
    if row["status"] not in STATUSES:
        msg = f"status: {row['status']!r} is not one of {', '.join(STATUSES)}"
        raise ValueError(msg)
    if name := next((name for name, value in row.items() if "\0" in str(value)), ""):
        msg = f"{name}: holds a NUL, which no program takes"
        raise ValueError(msg)
    plain = {name: row[name] if row[name] is not None else "" for name in _PLAIN if name in row}
    server = pane = None
    if row["server_pid"] is not None:
        server = ServerId(_pid(row["server_pid"], "server_pid"), int(str(row["server_start"])))
    if row["pane_pid"] is not None:
        pane = ProcessId(_pid(row["pane_pid"], "pane_pid"), str(row["pane_start"] or ""))
    times = {name: _time(row[name], name) for name in _TIMES}
    return SessionRecord(ref=ref, server=server, pane=pane, **times, **plain)  # type: ignore[arg-type]
