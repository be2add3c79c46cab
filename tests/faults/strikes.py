"""Every port of a fake world behind a proxy that counts calls and strikes at one of them, as the real program behind it could."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loopctl.errors import RefusedError, StateError
from loopctl.model.facts import REFUSED, Known, Unknown
from loopctl.model.items import WorkItem
from loopctl.model.refs import WorkItemRef
from loopctl.model.workspaces import Removal
from loopctl.ports import World
from loopctl.testing import Crash, FakeWorld

WORDS = "a fault on purpose"
#: Longer than any call may take, and than tmux is waited for.
LATE = 20.0
#: A laptop that was asleep in the middle of a wait.
ASLEEP = 3600.0

#: loopctl is gone before the call (after the call before it).
KILLED = "killed"
#: SIGINT or SIGTERM came before the call.
INTERRUPTED = "interrupted"
#: From this call on, nothing that this port does succeeds.
DOWN = "down"


@dataclass(frozen=True)
class Call:
    """One call of a port as it was made: `real` does it."""

    name: str
    real: Callable[[], Any]
    args: tuple[Any, ...]
    fake: FakeWorld
    before: Mapping[WorkItemRef, WorkItem]


Kind = Callable[[Call], Any]


def says(answer: Callable[[Call], Any]) -> Kind:
    """Nothing is done, and that is said."""
    return answer


def hangs(answer: Callable[[Call], Any]) -> Kind:
    """Nothing is done, and it takes until the time-out to know."""

    def do(call: Call) -> Any:
        call.fake.machine.advance(LATE)
        return answer(call)

    return do


def lost(answer: Callable[[Call], Any]) -> Kind:
    """It is done, and the answer does not arrive."""

    def do(call: Call) -> Any:
        call.real()
        return answer(call)

    return do


def comes_late(answer: Callable[[Call], Any], seconds: float) -> Kind:
    """It is not done when the answer fails to come, but a moment later: the program that was called goes on."""

    def do(call: Call) -> Any:
        call.fake.machine.later(seconds, lambda: call.real() and None)
        return answer(call)

    return do


def raises(_: Call) -> Any:
    raise StateError(WORDS)


def refuses(_: Call) -> Any:
    raise RefusedError(WORDS)


def unknown(_: Call) -> Any:
    return Unknown(WORDS)


def text(_: Call) -> str:
    return WORDS


def each(answer: Any, position: int = 0, key: Callable[[Any], Any] = lambda it: it) -> Callable[[Call], Any]:
    """The same answer for all that was asked about."""
    return lambda call: {key(it): answer for it in call.args[position]}


def moved_on(call: Call) -> Any:
    """Somebody else writes the row first."""
    asked = call.args[0] if isinstance(call.args[0], list | tuple) else [call.args[0]]
    for record in asked:
        if record.id in call.fake.registry.records:
            call.fake.registry.edit(record.id)
    return call.real()


def partial(call: Call) -> Any:
    """The machine hides the processes of others (hidepid)."""
    fact = call.real()
    return Known(replace(fact.value, partial=True)) if isinstance(fact, Known) else fact


def spurious(call: Call) -> Any:
    """A wait that ends too soon."""
    call.fake.machine.advance(0.001)
    return frozenset(target for target in call.args[0] if call.fake.machine.alive(target))


def sleeps(call: Call) -> Any:
    """The machine was asleep meanwhile."""
    call.fake.machine.advance(ASLEEP)
    return call.real()


def then_ends(call: Call) -> Any:
    """Right after the call, each agent ends by itself (the bystander is a codex)."""
    seen = call.real()
    for process in list(call.fake.machine.processes.values()):
        if process.owner and process.row.pane[1] and process.row.name == "claude":
            call.fake.machine.end(process.id.pid)
    return seen


def then_types(call: Call) -> Any:
    """Right after the call, somebody turns the input of all our panes on (and off again when asked to)."""
    answer = call.real()
    for server in call.fake.servers.all:
        for _, pane in server.each():
            if pane.owner and not pane.dead:
                pane.input_off = False
    return answer


def stale(call: Call) -> Any:
    """An answer of before the last change, from a cache on the way."""
    answer = call.real()
    old = call.before
    if isinstance(answer, Known):
        return Known(tuple(old.get(item.ref, item) for item in answer.value))
    return {ref: Known(old[ref]) if ref in old and isinstance(fact, Known) else fact for ref, fact in answer.items()}


def _raising(**more: Kind) -> dict[str, Kind]:
    return {"raise": raises, "hang": hangs(raises), **more}


_WRITE = _raising(lost=lost(raises))
_ACT: dict[str, Kind] = {"error": says(text), "hang": hangs(text), "lost": lost(text)}
_LIES: dict[str, Kind] = {**_ACT, "lie": says(lambda _: "")}
_ASK: dict[str, Kind] = {"unknown": says(unknown), "hang": hangs(unknown)}

#: What each call of each port can do when it fails: what its contract allows and the program behind it has been seen to do.
KINDS: dict[str, dict[str, Kind]] = {
    "terminals.look": {**_ASK, "then-ends": then_ends, "then-types": then_types},
    "terminals.secure": {**_LIES, "then-types": then_types},
    "terminals.release": _LIES,
    "terminals.remove": _LIES,
    "terminals.mark": _LIES,
    "terminals.capture": {
        "unknown": each(Unknown(WORDS), 2, lambda pane: pane.pane_id),
        "hang": hangs(each(Unknown(WORDS), 2, lambda pane: pane.pane_id)),
        "omits": says(lambda _: {}),
    },
    "terminals.nudge": {"lie": says(lambda _: None), "hang": hangs(lambda _: None)},
    "terminals.start": {
        "refused": each(Unknown(WORDS, REFUSED), 1, lambda spec: spec.id),
        "raise": raises,
        "unknown": each(Unknown(WORDS), 1, lambda spec: spec.id),
        "hang": hangs(each(Unknown(WORDS), 1, lambda spec: spec.id)),
        "lost": lost(each(Unknown(WORDS), 1, lambda spec: spec.id)),
        "soon": comes_late(each(Unknown(WORDS), 1, lambda spec: spec.id), 0.01),
        "late": comes_late(each(Unknown(WORDS), 1, lambda spec: spec.id), 1.0),
        "omits": says(lambda _: {}),
        "then-ends": then_ends,
    },
    "terminals.paste": {
        "refused": says(lambda _: Unknown(WORDS, REFUSED)),
        "unknown": unknown,
        "hang": hangs(unknown),
        "lost": lost(unknown),
        "lie": says(lambda _: Known(None)),
    },
    "processes.look": {**_ASK, "partial": partial, "then-ends": then_ends},
    "processes.signal": {"refused": each(WORDS), "lie": says(lambda _: {}), "then-ends": then_ends},
    "processes.wait": {"spurious": spurious, "asleep": sleeps},
    "registry.all": _raising(),
    "registry.lock": {"held": refuses, "hang": hangs(refuses)},
    "registry.prove_writable": _raising(),
    "registry.add": _WRITE,
    "registry.replace": {**_WRITE, "moved-on": moved_on},
    "registry.replace_all": {**_WRITE, "moved-on": moved_on},
    "registry.remove": _WRITE,
    "journal.emit": {"lost": says(lambda _: None)},
    "transcripts.prove_writable": _raising(),
    "transcripts.load": _raising(),
    "transcripts.save_all": {
        "unknown": each(Unknown(WORDS), 0, lambda pair: pair[0].id),
        "lost": lost(each(Unknown(WORDS), 0, lambda pair: pair[0].id)),
        "hang": hangs(each(Unknown(WORDS), 0, lambda pair: pair[0].id)),
    },
    "ledger.read": _raising(),
    "ledger.claim": _WRITE,
    "ledger.settle": _WRITE,
    "ledger.set_cursor": _WRITE,
    "ledger.inherit": _WRITE,
    "ledger.posted": _WRITE,
    "ledger.arm": _WRITE,
    "workspaces.look": {"unknown": each(Unknown(WORDS)), "hang": hangs(each(Unknown(WORDS)))},
    "workspaces.prepare": _WRITE,
    "workspaces.remove": {
        "error": says(lambda _: Removal(WORDS)),
        "hang": hangs(lambda _: Removal(WORDS)),
        "lost": lost(lambda _: Removal(WORDS)),
    },
    "provider.get": {
        "unknown": each(Unknown(WORDS)),
        "hang": hangs(each(Unknown(WORDS))),
        "omits": says(lambda _: {}),
        "stale": stale,
    },
    "provider.listed": {**_ASK, "stale": stale},
    "provider.threads": {
        "unknown": each(Unknown(WORDS)),
        "hang": hangs(each(Unknown(WORDS))),
        "omits": says(lambda _: {}),
    },
    "provider.comment": {
        "refused": says(lambda _: Unknown(WORDS, REFUSED)),
        "unknown": unknown,
        "hang": hangs(unknown),
        "lost": lost(unknown),
    },
    "harness.check": {"broken": says(text)},
    "harness.argv": {"raise": raises},
    "harness.resume_argv": {"raise": raises},
}

#: Calls that answer from memory: they cannot fail.
QUIET = {
    "provider.owns",
    "provider.describe",
    "provider.asked",
    "provider.mute",
    "transcripts.path",
    "harness.env",
    "harness.new_session_id",
}
#: One call that does several things, and may be cut off between two of them: where each begins.
_SPLIT: dict[str, Callable[[tuple[Any, ...]], Iterator[tuple[Any, ...]]]] = {
    "processes.signal": lambda args: (([target], args[1]) for target in args[0]),
    "transcripts.save_all": lambda args: (([pair],) for pair in args[0]),
}
#: What a port answers from the fault on that never ends.
_DOWN = ("raise", "unknown", "error", "refused", "held", "broken")


def faults_of(name: str) -> tuple[str, ...]:
    """All that can happen at a call of this name."""
    standing = (DOWN,) if any(kind in KINDS[name] for kind in _DOWN) else ()
    return (KILLED, INTERRUPTED, *standing, *KINDS[name])


@dataclass
class Strike:
    """Counts all calls of one run, strikes at the one with the number `at` (from 1; 0: never), and lets somebody `watch` after
    each. A fault "?3" is one of those that the call can have."""

    fake: FakeWorld
    at: int = 0
    fault: str = ""
    before: Mapping[WorkItemRef, WorkItem] = field(default_factory=dict)
    watch: Callable[[str], None] = lambda _: None
    calls: list[str] = field(default_factory=list)
    interrupted: bool = False
    _down: str = ""

    def world(self) -> World:
        """The fake's world with every port behind this."""
        world = self.fake.world
        return replace(
            world,
            registry=_Port("registry", world.registry, self),
            terminals=_Port("terminals", world.terminals, self),
            processes=_Port("processes", world.processes, self),
            providers=[_Port("provider", provider, self) for provider in world.providers],
            harnesses={name: _Port("harness", harness, self) for name, harness in world.harnesses.items()},
            journal=_Port("journal", world.journal, self),
            transcripts=_Port("transcripts", world.transcripts, self),
            ledger=_Port("ledger", world.ledger, self),
            workspaces=_Port("workspaces", world.workspaces, self),
            interrupted=lambda: self.interrupted or world.interrupted(),
        )

    def make(self, name: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call, in its pieces."""
        if name in QUIET:
            return method(*args, **kwargs)
        pieces = list(_SPLIT[name](args)) if name in _SPLIT else [args]
        answers = [
            self._one(Call(name, _bound(method, piece, kwargs), piece, self.fake, self.before)) for piece in pieces
        ]
        if name not in _SPLIT:
            return answers[0]
        return {key: value for answer in answers for key, value in answer.items()}

    def _one(self, call: Call) -> Any:
        self.calls.append(call.name)
        kind = self._kind(call.name) if self.at else None
        answer = call.real() if kind is None else kind(call)
        self.watch(call.name)
        return answer

    def _kind(self, name: str) -> Kind | None:
        port = name.partition(".")[0]
        if len(self.calls) == self.at:
            if self.fault.startswith("?"):
                self.fault = _numbered(name, int(self.fault[1:]))
            if self.fault == KILLED:
                raise Crash(f"before call {self.at}, {name}")
            self.interrupted = self.fault == INTERRUPTED
            self._down = port if self.fault == DOWN else ""
            if self.fault != DOWN:
                return KINDS[name].get(self.fault)
        if self._down == port:
            return next((KINDS[name][kind] for kind in _DOWN if kind in KINDS[name]), None)
        return None


def _numbered(name: str, number: int) -> str:
    """One of the faults of a call of this name, but for an answer that is not true any more: what follows from that is right."""
    faults = [fault for fault in faults_of(name) if fault != "stale"]
    return faults[number % len(faults)]


def _bound(method: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[[], Any]:
    return lambda: method(*args, **kwargs)


class _Port:
    """Stands before one port: what is called passes the strike, what is read does not."""

    def __init__(self, name: str, inner: Any, strike: Strike) -> None:
        self._name, self._inner, self._strike = name, inner, strike

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._inner, method)
        if not callable(found):
            return found
        name = f"{self._name}.{method}"
        return lambda *args, **kwargs: self._strike.make(name, found, args, kwargs)
