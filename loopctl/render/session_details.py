"""What `sessions show --format json` says beside the row of `sessions list`."""

from __future__ import annotations

from typing import Any

from loopctl.model.encode import UNKNOWN_PHASE
from loopctl.model.facts import Fact, Unknown
from loopctl.model.items import WorkItem
from loopctl.model.secrets import mask
from loopctl.model.sessions import LIVE, SessionView


def session_details(session: SessionView, item: Fact[WorkItem] | None) -> dict[str, Any]:
    """All that is seen of one session. What is unknown says so in `state`, with the reason in `detail`."""
    record, tree = session.record, session.tree
    terminal = _terminal(session)
    return {
        "item": _item(item),
        "conversation": record.harness_session_id,
        "cwd": record.cwd,
        "terminal": terminal,
        "processes": [process.label for process in tree.members],
        "spared": [process.label for process in tree.spared],
        "contained": terminal["state"] == LIVE and bool(tree.keepers),
    }


def _item(item: Fact[WorkItem] | None) -> dict[str, str]:
    if item is None or isinstance(item, Unknown):
        detail = mask(item.reason) if item else "not asked"
        return {"state": UNKNOWN_PHASE, "reason": "", "kind": "", "title": "", "url": "", "detail": detail}
    found = item.value
    told = {"reason": found.reason, "kind": found.kind, "title": found.title, "url": found.url}
    return {"state": found.state} | {name: mask(text) for name, text in told.items()} | {"detail": ""}


def _terminal(session: SessionView) -> dict[str, Any]:
    if isinstance(session.sighting, Unknown):
        detail = mask(session.sighting.reason)
        return {"state": UNKNOWN_PHASE, "input": "", "remain_on_exit": "", "attached": 0, "detail": detail}
    pane = session.sighting.value.pane
    return {
        "state": session.sighting.value.state,
        "input": ("off" if pane.input_off else "on") if pane else "",
        "remain_on_exit": pane.remain_on_exit if pane else "",
        "attached": pane.attached if pane else 0,
        "detail": "",
    }
