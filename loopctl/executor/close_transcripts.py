"""What the panes showed is saved before anything is signalled, and again when all has ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from loopctl.errors import StateError
from loopctl.executor.close_case import Case, by_server
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.rules import KEPT
from loopctl.model.sessions import Pane, SessionRecord
from loopctl.ports import World

_GROUP_BYTES = 64 * 1024 * 1024
_LATER = b"\n--- later ---\n"


def save_transcripts(cases: Sequence[Case], world: World) -> None:
    """Save what is there now; a session whose transcript cannot be saved is not ended."""
    wanted = [case for case in cases if case.action.after.transcript == KEPT and case.panes]
    for case in _save(wanted, world):
        case.problem = f"the transcript could not be saved: {case.problem}"
    for case in cases:
        if not (case.transcript or case.record.transcript or case.problem):
            _find_earlier(case, world)


def _find_earlier(case: Case, world: World) -> None:
    """A close that was cut off left its transcript behind: the record is to name it, whatever is asked for now."""
    with suppress(StateError):
        if world.transcripts.load(case.record):
            case.transcript = world.transcripts.path(case.record)


def save_last_words(cases: Sequence[Case], world: World) -> None:
    """What an agent says on its way out belongs to the record. That it could not be had is no failure."""
    kept = [case for case in cases if case.action.after.transcript == KEPT]
    for case in _save([case for case in kept if case.transcript and case.panes], world):
        case.remarks.append(f"its last words could not be saved: {case.problem}")
        case.problem = ""


def joined(before: bytes, now: bytes) -> bytes:
    """One text of two captures of a session, with no line of either lost.

    Where one has all lines of the other, in their order, it stands for both. Else what is new is put after the earlier one: a
    program repaints its screen, clears it or leaves the alternate one, and a history is full at some time.
    """
    then, later = before.splitlines(keepends=True), now.splitlines(keepends=True)
    if _holds(later, then):
        return now
    if _holds(then, later):
        return before
    same = next((n for n, (one, other) in enumerate(zip(then, later, strict=False)) if one != other), 0)
    return before + _LATER + b"".join(later[same:])


def _holds(whole: Iterable[bytes], part: Iterable[bytes]) -> bool:
    """Whether all lines of the one stand in the other, in their order; blank ones do not count."""
    lines = iter(whole)
    return all(line in lines for line in part if line.strip())


def _capture(cases: Sequence[Case], world: World) -> Iterable[tuple[Case, Known[bytes] | Unknown]]:
    for (socket, server), group in by_server(cases).items():
        texts = world.terminals.capture(socket, server, [pane for case in group for pane in case.panes])
        for case in group:
            yield case, _whole(case.panes, texts)


def _whole(panes: Sequence[Pane], texts: Mapping[str, Fact[bytes]]) -> Known[bytes] | Unknown:
    """The text of all panes of a session, each but the first under a heading."""
    whole = b""
    for number, pane in enumerate(panes):
        text = texts.get(pane.pane_id, Unknown("no text"))
        if isinstance(text, Unknown):
            return text
        whole += (f"\n--- pane {pane.pane_id} ---\n".encode() if number else b"") + text.value
    return Known(whole)


def _save(cases: Sequence[Case], world: World) -> list[Case]:
    """Save what the panes of these sessions show; returns those with a problem."""
    for group in _groups(cases):
        _save_group(group, world)
    return [case for case in cases if case.problem]


def _groups(cases: Sequence[Case]) -> Iterable[list[Case]]:
    """So many at a time that their texts fit into memory well."""
    group: list[Case] = []
    size = 0
    for case in cases:
        cost = sum((pane.history + pane.height) * pane.width for pane in case.panes)
        if group and size + cost > _GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(case)
        size += cost
    yield group


def _save_group(cases: Sequence[Case], world: World) -> None:
    texts: dict[str, tuple[SessionRecord, bytes]] = {}
    for case, text in _capture(cases, world):
        try:
            if isinstance(text, Unknown):
                raise StateError(text.reason)
            before = world.transcripts.load(case.record)
            whole = joined(before, text.value)
        except StateError as error:
            case.problem = error.message
            continue
        if whole != before or not case.transcript:
            texts[case.record.id] = (case.record, whole)
        case.transcript = world.transcripts.path(case.record)
    saved = world.transcripts.save_all(list(texts.values())) if texts else {}
    for case in cases:
        fact = saved.get(case.record.id)
        if isinstance(fact, Unknown):
            case.problem = fact.reason
