"""What a file is, by its content."""

from __future__ import annotations

from pathlib import Path

from loopctl.errors import DocumentError
from loopctl.playbook.document import decode, inspect_text, read_bytes
from loopctl.playbook.plans import MAX_PLAN_BYTES

PLAYBOOK = "playbook"
CONFIG = "config"
ITEMS = "items"
PLAN = "plan"
UNKNOWN = "unknown"

_OF_A_PLAY = frozenset({"rules", "hosts", "vars", "limits", "name"})
_OF_AN_ITEM = frozenset({"ref", "state", "links", "kind"})


def kind_of_file(path: str) -> str:
    """The kind of a file; unknown for what cannot be read, or only once (a pipe). Never raises."""
    try:
        if not Path(path).is_file():
            return UNKNOWN
        data = read_bytes(Path(path), path, MAX_PLAN_BYTES)
        if is_plan(path, data):
            return PLAN
        return kind_of_value(inspect_text(decode(data, path), path, times=True)[0].value)
    except (DocumentError, OSError, ValueError):
        return UNKNOWN


def is_plan(path: str, data: bytes) -> bool:
    """JSON with a plan's own words; a config may be written in JSON too."""
    start = data[:4096].lstrip()
    return start.startswith(b"{") and (b'"created_at"' in start or b'"actions"' in data or path.endswith("plan.json"))


def kind_of_value(value: object) -> str:
    """The kind of a document that was read; a plan is a config to this one."""
    if isinstance(value, dict):
        return CONFIG
    if not isinstance(value, list):
        return UNKNOWN
    keys = {key for entry in value if isinstance(entry, dict) for key in entry}
    return ITEMS if len(keys & _OF_AN_ITEM) > len(keys & _OF_A_PLAY) else PLAYBOOK
