"""A fake of ports.Processes over a simulated machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopctl.model.facts import Fact, Known
from loopctl.model.processes import ProcessId, ProcessTable
from loopctl.testing.faults import Faults
from loopctl.testing.machine import Machine


class FakeProcesses:
    """ports.Processes: the same refusals as the real one, and signals that are logged in `machine.effects`."""

    def __init__(self, machine: Machine, faults: Faults) -> None:
        """Look at this machine; each call and each single signal passes `faults`."""
        self._machine = machine
        self._faults = faults

    def look(self) -> Fact[ProcessTable]:
        """The table as it is now."""
        doubt = self._faults.enter("processes.look")
        if doubt:
            return doubt
        return Known(ProcessTable.of([p.row for p in self._machine.processes.values()], self._own()))

    def _own(self) -> set[int]:
        own: set[int] = set()
        pid = self._machine.own
        while pid > 0 and pid not in own:
            own.add(pid)
            found = self._machine.processes.get(pid)
            pid = found.row.ppid if found else 0
        return own

    def signal(self, targets: Iterable[ProcessId], signum: int) -> Mapping[ProcessId, str]:
        """Signal each target whose identity holds."""
        failures: dict[ProcessId, str] = {}
        for target in targets:
            # A crash may fall between two signals of one call.
            doubt = self._faults.enter("processes.signal")
            if doubt:
                failures[target] = doubt.reason
            elif target.pid <= 1 or target.pid == self._machine.own:
                failures[target] = "refused: not a process of a session"
            elif problem := self._machine.signal(target, signum):
                failures[target] = problem
        return failures

    def wait(self, targets: Iterable[ProcessId], seconds: float) -> frozenset[ProcessId]:
        """Let time pass until one of the targets has ended or the time is over."""
        self._faults.enter("processes.wait")
        alive = self._machine.alive
        targets = list(targets)
        wanted = [target for target in targets if alive(target)]
        if wanted and len(wanted) == len(targets):
            self._machine.advance(seconds, until=lambda: not all(map(alive, wanted)))
        return frozenset(target for target in wanted if alive(target))
