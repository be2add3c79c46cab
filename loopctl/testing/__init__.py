"""Fakes of each port that share one simulated world: test playbooks, and loopctl itself, without tmux or processes.

`FakeWorld` builds such a world; `Faults.fail` and `Faults.crash_at` break it; `Machine.effects` are all changes that
loopctl made to it, each with whose thing it was in truth. `ProviderContract` are the tests of a provider, for its author.
"""

from loopctl.testing.faults import CRASH, RAISE, UNKNOWN, Crash, Faults
from loopctl.testing.machine import FORKS, IGNORES, POLITE, STUBBORN, Effect, Habit, Machine, SimProcess
from loopctl.testing.processes import FakeProcesses
from loopctl.testing.provider_contract import CONTRACT_ITEMS, CONTRACT_LABEL, ProviderCase, ProviderContract
from loopctl.testing.servers import Servers, SimPane, SimServer, SimSession
from loopctl.testing.sources import FakeHarness, FakeProvider
from loopctl.testing.stores import Event, FakeJournal, FakeRegistry, FakeTranscripts
from loopctl.testing.terminals import FakeTerminals
from loopctl.testing.world import CHILD, DAEMON, KINDS_OF_CHILDREN, NOHUP, SETSID, FakeWorld, SimRecord

__all__ = [
    "CHILD",
    "CONTRACT_ITEMS",
    "CONTRACT_LABEL",
    "CRASH",
    "DAEMON",
    "FORKS",
    "IGNORES",
    "KINDS_OF_CHILDREN",
    "NOHUP",
    "POLITE",
    "RAISE",
    "SETSID",
    "STUBBORN",
    "UNKNOWN",
    "Crash",
    "Effect",
    "Event",
    "FakeHarness",
    "FakeJournal",
    "FakeProcesses",
    "FakeProvider",
    "FakeRegistry",
    "FakeTerminals",
    "FakeTranscripts",
    "FakeWorld",
    "Faults",
    "Habit",
    "Machine",
    "ProviderCase",
    "ProviderContract",
    "Servers",
    "SimPane",
    "SimProcess",
    "SimRecord",
    "SimServer",
    "SimSession",
]
