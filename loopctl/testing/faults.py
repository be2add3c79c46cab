"""Faults on purpose: every call of a fake port passes here, is counted, and may fail or be the last."""

from __future__ import annotations

from dataclasses import dataclass, field

from loopctl.errors import StateError
from loopctl.model.facts import Unknown

#: The port raises StateError, as for a full disk or an unusable file.
RAISE = "raise"
#: The port answers that it does not know, or that it could not.
UNKNOWN = "unknown"
#: loopctl is gone between two calls, as after kill -9.
CRASH = "crash"

# What each port can do when it fails; a port never raises where its contract says that it does not.
_KINDS = {
    "registry": {RAISE, CRASH},
    "transcripts": {RAISE, CRASH},
    "journal": {CRASH},
    "terminals": {UNKNOWN, CRASH},
    "processes": {UNKNOWN, CRASH},
    "provider": {UNKNOWN, CRASH},
    "ledger": {RAISE, CRASH},
    "workspaces": {RAISE, UNKNOWN, CRASH},
}


class Crash(BaseException):
    """loopctl was killed here. No code catches it; the simulated world stays as it was at this moment."""


@dataclass(slots=True)
class _Fault:
    call: str
    nth: int
    kind: str
    reason: str


@dataclass(slots=True)
class Faults:
    """Counts the calls of all ports of one world and strikes where it was told to.

    `calls` are the names of all calls so far (`registry.replace`), so that a test can crash at each of them.
    """

    calls: list[str] = field(default_factory=list)
    _faults: list[_Fault] = field(default_factory=list)
    _crash_at: int | None = None

    def fail(
        self, port: str, method: str, nth: int = 1, kind: str = UNKNOWN, reason: str = "it was told to fail"
    ) -> None:
        """Let the nth call from now on of `port.method` fail (0: every call). Raises ValueError for what a port cannot do."""
        if kind not in _KINDS.get(port, set()):
            msg = f"{port} cannot fail with {kind!r}"
            raise ValueError(msg)
        self._faults.append(_Fault(f"{port}.{method}", nth, kind, reason))

    def crash_at(self, call: int) -> None:
        """Crash instead of making the call with this number, counted from 1 from now on."""
        self._crash_at = len(self.calls) + call

    def clear(self) -> None:
        """No more faults; the count goes on."""
        self._faults.clear()
        self._crash_at = None

    def enter(self, call: str) -> Unknown | None:
        """Called by each fake as a call begins. Raises Crash or StateError; returns the Unknown to answer with, or None."""
        self.calls.append(call)
        if self._crash_at is not None and len(self.calls) >= self._crash_at:
            raise Crash(f"before call {len(self.calls)}, {call}")
        for fault in self._faults:
            if fault.call == call and fault.nth >= 0:
                if fault.nth > 1:
                    fault.nth -= 1
                    continue
                # Struck once, it is over; a standing fault (0) stays.
                fault.nth = -1 if fault.nth == 1 else 0
                return _strike(fault)
        return None


def _strike(fault: _Fault) -> Unknown:
    if fault.kind == CRASH:
        raise Crash(f"at {fault.call}")
    if fault.kind == RAISE:
        raise StateError(f"{fault.call}: {fault.reason}")
    return Unknown(fault.reason)
