"""How the text of panes is had from tmux, as a script, and what it becomes. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from loopctl.adapters.tmux_format import quote
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.sessions import Pane

# One call returns at most about this much; more panes go into the next call.
_BYTES = 32 * 1024 * 1024
_EPITAPH = re.compile(rb"Pane is dead(?: \(.*\))?")
_ALTERNATE = b"\n--- alternate screen ---\n"


def batches(panes: Sequence[Pane]) -> Iterator[list[Pane]]:
    """The panes in groups, each for one call."""
    batch: list[Pane] = []
    size = 0
    for pane in panes:
        cost = (pane.history + pane.height + 1) * (pane.width + 1)
        if batch and size + cost > _BYTES:
            yield batch
            batch, size = [], 0
        batch.append(pane)
        size += cost
    if batch:
        yield batch


def capture_lines(pane: Pane, nonce: str) -> Iterator[str]:
    """The script that prints one pane, each part between two lines that begin with the nonce."""
    target = quote(pane.pane_id)
    # While a program shows the alternate screen, -a is the screen it covers and the history lies above that.
    parts = {"main": "-S - -E -"}
    if pane.alternate:
        parts = {"covered": "-a -q", "alternate": ""}
        if pane.history:
            parts = {"history": "-S - -E -1"} | parts
    for name, flags in parts.items():
        # Without the pane's "%": display-message reads that as a time format.
        begin, end = (quote(f"{nonce} {pane.pane_id[1:]} {word}") for word in (name, "end"))
        # A chain stops at its first error: a part without its end is of a pane that is not there.
        yield f"display-message -p {begin} ; capture-pane -p -J {flags} -t {target} ; display-message -p {end}"


def assembled(pane: Pane, parts: Mapping[tuple[str, str], bytes], problem: str) -> Fact[bytes]:
    """The text of a pane from its parts; without them `problem`, or that there is none."""

    def part(name: str) -> bytes:
        return parts.get((pane.pane_id, name), b"")

    wanted = "alternate" if pane.alternate else "main"
    if (pane.pane_id, wanted) not in parts:
        return Unknown(problem or "tmux returned no text for this pane")
    if not pane.alternate:
        return Known(tidy(part("main"), dead=pane.dead))
    return Known(tidy(part("history") + part("covered")) + _ALTERNATE + tidy(part("alternate"), dead=pane.dead))


def split_captures(data: bytes, nonce: str) -> dict[tuple[str, str], bytes]:
    """Cut the output of many captures at our marker lines: (pane id, part) -> text, whole parts only."""
    parts: dict[tuple[str, str], bytes] = {}
    pieces = re.split(rb"^" + nonce.encode() + rb" (\d+) (\w+)\n", data, flags=re.MULTILINE)
    # pieces: text before, then (pane, word, text) for each marker.
    markers = list(zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True))
    for (pane, name, text), (next_pane, next_name, _) in itertools.pairwise(markers):
        if name != b"end" and (next_pane, next_name) == (pane, b"end"):
            parts[f"%{pane.decode()}", name.decode()] = text
    return parts


def tidy(text: bytes, *, dead: bool = False) -> bytes:
    """Take away what the program did not write: blanks at line ends, empty lines at the end of the screen, and tmux's
    own last line on a dead pane."""
    lines = [line.rstrip() for line in text.split(b"\n")]
    while lines and (not lines[-1] or (dead and _EPITAPH.fullmatch(lines[-1]))):
        dead = dead and not lines[-1]
        lines.pop()
    return b"\n".join(lines) + b"\n" if lines else b""
