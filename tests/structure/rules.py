"""The rules of the house that no import contract can say. Each takes one module and returns what breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.structure.source import Module

Rule = Callable[[Module], Iterator[str]]

#: Who ends sessions.
CLOSERS = "loopctl.executor.close"
#: Who builds the adapters.
WIRING = ("loopctl.cli.wiring", "loopctl.cli.wiring_controller", "loopctl.cli.wiring_github")
#: Modules outside cli.wiring that may import an adapter, each with the reason.
ADAPTER_USERS: dict[str, str] = {
    "loopctl.controller.routing": "github_links is pure, and the one place that knows which issues a pull request names",
}
#: Modules outside the tmux adapter that may name a tmux command which ends something, each with the reason.
TMUX_ENDERS: dict[str, str] = {}

#: Who runs programs: `shell` to their end, `shell_child` beside us.
SHELLS = ("loopctl.adapters.shell", "loopctl.adapters.shell_child")

_IMPURE = {"os", "pathlib", "subprocess", "sh", "yaml", "sqlite3", "time", "random", "socket"}
_RUNNERS = {"sh", "subprocess", "pty", "multiprocessing"}
_OS_RUNNERS = {"system", "popen", "posix_spawn", "posix_spawnp", "spawnl", "spawnv", "spawnve", "spawnvp", "spawnvpe"}
_OS_KILLERS = {"kill", "killpg", "pidfd_send_signal", "send_signal", "terminate"}
_TMUX_ENDERS = {"kill-server", "kill-session", "kill-window", "kill-pane", "respawn-pane", "respawn-window"}
_BY_NAME = {"pkill", "killall", "skill"}


def model_and_planner_are_pure(module: Module) -> Iterator[str]:
    if module.within("loopctl.model", "loopctl.planner"):
        for line, name in module.imports():
            if name.split(".")[0] in _IMPURE:
                yield f"{module.name}:{line} imports {name}"


def only_shell_runs_programs(module: Module) -> Iterator[str]:
    if module.name in SHELLS:
        return
    for line, name in module.imports():
        if name.split(".")[0] in _RUNNERS or _from_os(name, _OS_RUNNERS):
            yield f"{module.name}:{line} imports {name}"
    for line, receiver, attribute in module.attributes():
        if (receiver == "os" and attribute in _OS_RUNNERS) or attribute.startswith("create_subprocess_"):
            yield f"{module.name}:{line} uses {receiver}.{attribute}"


#: Who may take worktrees away.
_FREES = {"loopctl.executor.workspace": ("workspaces",)}


def only_close_ends_sessions(module: Module) -> Iterator[str]:
    """Outside it nobody says `processes.signal`, `x.kill` or `terminals.remove`; `registry.remove` forgets a record only, and
    worktrees have one module too.

    `signal.signal` and its like, which set a handler, are not meant.
    """
    if module.within("loopctl.adapters", "loopctl.testing") or is_closer(module):
        return
    for line, receiver, attribute in module.attributes():
        ends = attribute in ("signal", "kill") and receiver != "signal"
        removes = attribute == "remove" and receiver not in {"registry", *_FREES.get(module.name, ())}
        if ends or removes:
            yield f"{module.name}:{line} uses {receiver}.{attribute}"


def only_processes_sends_signals(module: Module) -> Iterator[str]:
    """`os.kill` and its like live in the adapter of processes; the shell may end what it started itself, and a keeper passes on
    to its agent what it is sent."""
    if module.within("loopctl.adapters.processes", "loopctl.adapters.keeper", *SHELLS):
        return
    for line, name in module.imports():
        if _from_os(name, _OS_KILLERS):
            yield f"{module.name}:{line} imports {name}"
    for line, receiver, attribute in module.attributes():
        if attribute in _OS_KILLERS:
            yield f"{module.name}:{line} uses {receiver}.{attribute}"


def only_tmux_names_its_enders(module: Module) -> Iterator[str]:
    for line, word in module.words():
        if word in _BY_NAME:
            yield f"{module.name}:{line} ends by name: {word}"
        if word in _TMUX_ENDERS and not module.within("loopctl.adapters.tmux", *TMUX_ENDERS):
            yield f"{module.name}:{line} says {word}"


def only_wiring_builds_adapters(module: Module) -> Iterator[str]:
    if module.within(*WIRING, "loopctl.adapters", "loopctl.testing", *ADAPTER_USERS):
        return
    for line, name in module.imports():
        if (name + ".").startswith("loopctl.adapters.") or name.startswith("."):
            yield f"{module.name}:{line} imports {name}"


def adapters_do_not_know_each_other(module: Module) -> Iterator[str]:
    """A vendor's modules share the first word of their name: `tmux`, `tmux_format`. All may use the shell."""
    if not module.within("loopctl.adapters"):
        return
    for line, name in module.imports():
        other = name.removeprefix("loopctl.adapters.")
        if other != name and _vendor(other) not in ("shell", _vendor(module.name.removeprefix("loopctl.adapters."))):
            yield f"{module.name}:{line} imports {name}"


def no_test_sleeps(module: Module) -> Iterator[str]:
    """Waiting is done by `wait_until`, which looks at the state."""
    if module.name == "tests.support":
        return
    for line, name in module.imports():
        if name in ("time.sleep", "asyncio.sleep"):
            yield f"{module.name}:{line} imports {name}"
    for line, receiver, attribute in module.attributes():
        if attribute == "sleep" and receiver in ("time", "asyncio"):
            yield f"{module.name}:{line} uses {receiver}.sleep"


def is_closer(module: Module) -> bool:
    return module.name.startswith(CLOSERS)


def _vendor(adapter: str) -> str:
    return adapter.split(".")[0].split("_")[0]


def _from_os(name: str, wanted: set[str]) -> bool:
    base, _, last = name.rpartition(".")
    return base in ("os", "signal") and last in wanted


PACKAGE_RULES: tuple[Rule, ...] = (
    model_and_planner_are_pure,
    only_shell_runs_programs,
    only_close_ends_sessions,
    only_processes_sends_signals,
    only_tmux_names_its_enders,
    only_wiring_builds_adapters,
    adapters_do_not_know_each_other,
)
