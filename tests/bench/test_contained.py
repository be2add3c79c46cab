"""What a keeper costs a pane: the time until its agent runs, processor time and memory, beside the same panes without."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import pytest

from loopctl.adapters.keeper import keeper_argv
from loopctl.adapters.processes import LocalProcesses
from loopctl.adapters.shell import clean_env
from loopctl.adapters.tmux import Tmux
from loopctl.model.facts import Known
from loopctl.model.processes import ProcessInfo
from loopctl.model.refs import WorkItemRef
from loopctl.ports import StartSpec
from tests.support import wait_until
from tests.tmux.strangers import Server

pytestmark = pytest.mark.bench
REF = WorkItemRef.parse("items:demo/app#1")
ROUNDS = 3


@pytest.mark.parametrize("number", [1, 100])
def test_panes_with_a_keeper_against_panes_without(tmux_socket: str, tmp_path: Path, number: int) -> None:
    plain = min(started(tmux_socket, tmp_path, number, ())[0] for _ in range(ROUNDS))
    rounds = [started(tmux_socket, tmp_path, number, keeper_argv()) for _ in range(ROUNDS)]
    kept = min(took for took, _, _ in rounds)
    _, processor, memory = min(rounds, key=lambda row: row[1])
    print(
        f"\n{number} panes: {plain * 1000:.0f} ms without, {kept * 1000:.0f} ms with; a pane: "
        f"{(kept - plain) * 1000 / number:.1f} ms, {processor * 1000 / number:.0f} ms of processor, {memory / number / 1024:.1f} MiB"
    )
    assert memory / number < 8 * 1024


def started(socket: str, folder: Path, number: int, keeper: tuple[str, ...]) -> tuple[float, float, float]:
    """Seconds until all agents run, the keepers' processor seconds, and their memory in KiB (PSS: what is shared, in parts)."""
    host = Tmux(clean_env(os.environ), own_socket=socket, keeper=keeper)
    run = str(uuid.uuid4())
    specs = [
        StartSpec(str(uuid.uuid4()), REF, f"loop-{n}", ("sleep", "100000"), str(folder), {"LOOPCTL_SESSION": run})
        for n in range(number)
    ]
    begin = time.perf_counter()
    host.start(socket, specs)
    # The agents themselves say when they run: a look at all processes would be measured too.
    wait_until(
        lambda: Server(socket).run("list-panes", "-a", "-F", "#{pane_current_command}").split() == ["sleep"] * number
    )
    took = time.perf_counter() - begin
    keepers = [row for row in table() if row.mark == run and row.is_keeper]
    assert len(keepers) == (2 * number if keeper else 0)
    processor = sum(ticks(row.id.pid) for row in keepers) / os.sysconf("SC_CLK_TCK")
    memory = sum(pss(row.id.pid) for row in keepers)
    Server(socket).run("kill-server")
    wait_until(lambda: not any(row.mark == run for row in table()), what="all have ended")
    return took, processor, memory


def table() -> list[ProcessInfo]:
    fact = LocalProcesses().look()
    assert isinstance(fact, Known)
    return list(fact.value.processes.values())


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


def pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
