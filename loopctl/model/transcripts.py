"""What a session's transcript file is called."""

from __future__ import annotations

import re

from loopctl.model.refs import WorkItemRef

_RECORD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")


def transcript_name(ref: WorkItemRef, record_id: str) -> str:
    """`<slug>-<first 8 of the record's id>.txt`. Raises ValueError for an id that could leave the folder."""
    if not _RECORD_ID.match(record_id):
        msg = f"{record_id!r} is no session id"
        raise ValueError(msg)
    return f"{ref.slug}-{record_id[:8]}.txt"
