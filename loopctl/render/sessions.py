"""Sessions for people: the table of `sessions list` and the block of `sessions show`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from loopctl.model.encode import SHORT_ID, UNKNOWN_PHASE, time_text
from loopctl.model.facts import Fact, Unknown
from loopctl.model.items import WorkItem
from loopctl.model.observed import Unmanaged
from loopctl.model.sessions import CLOSED_STATUS, EXITED, LIVE, LOST, RETAINED, RUNNING, UNDEAD, Pane, SessionView
from loopctl.model.talk import COMMENT_ID, DELIVERED, FAILED_DELIVERY, SENDING, Delivery
from loopctl.model.text import plural
from loopctl.render.clean import shown
from loopctl.render.view import View, age, state_text

_HEADS = ("PHASE", "ITEM", "ID", "HARNESS", "AGE", "SOCKET", "ATTACH")
_COLORS = {RUNNING: "32", RETAINED: "2", EXITED: "33", LOST: "33", UNDEAD: "31", UNKNOWN_PHASE: "35"}


def sessions_text(views: Sequence[SessionView], attach: Mapping[str, str], view: View) -> str:
    """The table of sessions in the order given; `attach` has each session's command by record id."""
    if not views:
        return "No sessions.\n"
    rows = [_row(session, attach.get(session.record.id, ""), view.now) for session in views]
    widths = [max(len(row[column]) for row in (_HEADS, *rows)) for column in range(len(_HEADS))]
    lines = [_line(_HEADS, widths)]
    for row in rows:
        line = _line(row, widths)
        code = _COLORS.get(row[0])
        lines.append(f"\x1b[{code}m{row[0]}\x1b[0m{line[len(row[0]) :]}" if view.color and code else line)
    return "\n".join(lines) + "\n"


def unmanaged_text(panes: Sequence[Unmanaged], restore: str) -> str:
    """A line for each pane that is not ours; `restore` is the command that looks at those which carry our marks."""
    rows = [
        ("unmanaged", stray.pane.session, stray.pane.pane_id, stray.socket, _mark(stray.pane, restore))
        for stray in panes
    ]
    cells = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "".join(_line(row, widths) + "\n" for row in cells)


def session_text(
    session: SessionView,
    item: Fact[WorkItem] | None,
    attach: str,
    view: View,
    told: Sequence[Delivery] = (),
    waits: str = "",
) -> str:
    """One session: a name and a value a line. Lines without a value are left out. `waits` is why its agent, which ended by
    itself, is not started again now."""
    fields = [
        *_item_fields(item),
        *_record_fields(session, view.now),
        *_pane_fields(session),
        *_told_fields(told),
        ("restart", waits),
        ("attach", attach),
    ]
    lines = [str(session.record.ref)]
    lines += [f"  {name:<12}{shown(value)}" for name, value in fields if value]
    return "\n".join(lines) + "\n"


def _mark(pane: Pane, restore: str) -> str:
    return f"marked for {pane.ref_mark}: see `{restore}`" if pane.mark else ""


def _row(session: SessionView, attach: str, now: datetime | None) -> tuple[str, ...]:
    record = session.record
    cells = (session.phase or UNKNOWN_PHASE, str(record.ref), record.id[:SHORT_ID], record.harness)
    return tuple(shown(cell) or "-" for cell in (*cells, age(record.created_at, now), record.socket, attach))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _item_fields(item: Fact[WorkItem] | None) -> Iterable[tuple[str, str]]:
    if item is None:
        return
    yield "item", state_text(item)
    if not isinstance(item, Unknown):
        yield "title", item.value.title
        yield "url", item.value.url


def _record_fields(session: SessionView, now: datetime | None) -> Iterable[tuple[str, str]]:
    record = session.record
    yield "phase", session.phase or UNKNOWN_PHASE
    yield "record", f"{record.status} ({record.reason})" if record.reason else record.status
    yield "id", record.id
    yield "harness", record.harness
    yield "conversation", record.harness_session_id
    yield "runner", record.runner
    yield "folder", record.cwd
    yield "branch", f"{record.branch} (a worktree of its own)" if record.workspace else ""
    yield "created", _moment(record.created_at, now)
    yield "closed", _moment(record.closed_at, now) if record.status == CLOSED_STATUS else ""
    yield "transcript", record.transcript


def _pane_fields(session: SessionView) -> Iterable[tuple[str, str]]:
    record = session.record
    yield "socket", record.socket
    yield "session", record.name or record.session_id
    if isinstance(session.sighting, Unknown):
        yield "pane", f"unknown: {session.sighting.reason}"
        return
    sighting = session.sighting.value
    pane = sighting.pane
    parts = [f"{record.pane_id} {sighting.state}".strip()]
    if pane:
        parts += ["input off" if pane.input_off else "input on", f"remain-on-exit {pane.remain_on_exit}"]
        parts += [f"{pane.attached} attached"] if pane.attached else []
    yield "pane", ", ".join(parts)
    yield "processes", ", ".join(process.label for process in session.tree.members)
    if sighting.state == LIVE and not session.tree.keepers:
        yield "contained", "no: a child that cuts every tie to it cannot be found"
    yield "spared", ", ".join(process.label for process in session.tree.spared)


def _told_fields(lines: Sequence[Delivery]) -> Iterable[tuple[str, str]]:
    """How many messages the agent was given, and each that it may not have."""
    mine = [line for line in lines if not line.id.startswith(COMMENT_ID)]
    counts = [(status, sum(line.status == status for line in mine)) for status in (DELIVERED, FAILED_DELIVERY, SENDING)]
    words = {SENDING: "of which it cannot be told"}
    yield "messages", ", ".join(f"{count} {words.get(status, status)}" for status, count in counts if count)
    for line in mine:
        if line.status != DELIVERED:
            reason = f": {line.detail}" if line.detail else ""
            yield "", f"{line.id}, tried {plural(line.attempts, 'time')}{reason}"


def _moment(moment: datetime | None, now: datetime | None) -> str:
    text, since = time_text(moment) or "", age(moment, now)
    return f"{text} ({since} ago)" if text and since else text
