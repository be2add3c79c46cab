"""loopctl status: is there a controller, and how is it?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loopctl.cli.options import config_option, table_format_option
from loopctl.cli.output import out
from loopctl.cli.where import here, read_config
from loopctl.errors import EXIT_FAILED, EXIT_INCOMPLETE, EXIT_OK

if TYPE_CHECKING:
    from loopctl.controller.status import Snapshot

_CODES = {
    "ok": EXIT_OK,
    "starting": EXIT_OK,
    "degraded": EXIT_INCOMPLETE,
    "stalled": EXIT_FAILED,
    "stopped": EXIT_FAILED,
}


@click.command(short_help="Say how the controller is.")
@config_option
@table_format_option
def status(config: str | None, form: str) -> int:
    """Say whether a controller (`loopctl run`) runs for this state root, and how it is.

    Exit 0: it runs and its last look at everything was whole. 5: it runs, but something was held, failed or refused, or an edit is wrong.
    1: none runs, or its loop does not turn any more.
    """
    from loopctl.cli.run import STATUS_FILE
    from loopctl.cli.wiring_controller import controller_holder
    from loopctl.controller.status import health
    from loopctl.render.json import json_text

    found = read_config(config, here())
    holder = controller_holder(found)
    snapshot = _read(Path(found.state_root, STATUS_FILE))
    if not holder:
        state, why = "stopped", "no controller runs"
    elif f"pid {snapshot.get('pid')}," not in holder:
        state, why = "starting", "it has not looked yet"
    else:
        state, why = health(snapshot, datetime.now(UTC))
    if form == "json":
        out(json_text({"status": state, "why": why, "controller": holder or None, "snapshot": snapshot}))
    else:
        out(_text(state, why, holder, snapshot))
    return _CODES[state]


def _read(path: Path) -> Snapshot:
    """What the controller wrote last; nothing where that is not there, or not what a controller writes."""
    from loopctl.controller.status import is_snapshot

    try:
        snapshot: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return snapshot if is_snapshot(snapshot) else {}


def _text(state: str, why: str, holder: str, snapshot: Snapshot) -> str:
    from loopctl.render.clean import shown

    rows = [(state, why)]
    if holder:
        rows.append(("controller", holder))
    if snapshot:
        last: dict[str, Any] = snapshot.get("last_cycle", {})
        rows.append(("playbooks", ", ".join(snapshot.get("playbooks", []))))
        rows.append(("sessions", _counts(snapshot.get("sessions", {})) or "none"))
        rows.append(("held", _counts(snapshot.get("held", {})) or "none"))
        rows.append(("waiting", f"{snapshot.get('queue_depth', 0)} items"))
        counted: dict[str, int] = {
            name: last[name] for name in ("seen", "changed", "held", "failed", "closures") if name in last
        }
        rows.append(("last look", f"{last.get('at', 'never')} {_counts(counted)}"))
        rows += [(name, str(last[name])) for name in ("refused", "error") if last.get(name)]
        rows += [("trouble", text) for name in ("problems", "troubles") for text in last.get(name) or ()]
    return "".join(f"{name:<11} {shown(text)}\n" for name, text in rows)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
