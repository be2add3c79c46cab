"""The only place that builds adapters: config -> World."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from loopctl.adapters.harnesses import CommandHarness, build_harnesses
from loopctl.adapters.items_file import ItemsFile
from loopctl.adapters.journal import EventLog, NullJournal
from loopctl.adapters.journal_reader import parse_since
from loopctl.adapters.journal_reader import read_events as read_log
from loopctl.adapters.keeper import keeper_argv
from loopctl.adapters.processes import LocalProcesses
from loopctl.adapters.registry import SqliteRegistry
from loopctl.adapters.registry_ledger import SqliteLedger
from loopctl.adapters.shell import clean_env, replace_process
from loopctl.adapters.tmux import Tmux
from loopctl.adapters.tmux_program import program_version
from loopctl.adapters.transcripts import TranscriptFolder
from loopctl.adapters.worktrees_none import NoWorkspaces
from loopctl.cli.output import Progress, out, say, wants_color
from loopctl.cli.where import here, read_config
from loopctl.config import Config, Source
from loopctl.config import EventLog as EventLogConfig
from loopctl.errors import StateError
from loopctl.executor.limits import excess, way_on
from loopctl.model.health import Finding
from loopctl.model.plan import Outcome, Plan
from loopctl.model.rules import Policy
from loopctl.model.the_loop import LoopFolder
from loopctl.model.tmux import OLDEST, unsupported
from loopctl.ports import Journal, Provider, Workspaces, World
from loopctl.render import RENDERERS, View

if TYPE_CHECKING:
    from loopctl.cli.wiring_github import Hosts

# What an agent needs of the user's environment to work at all. A tmux server keeps the environment that it was started
# with and hands it to every pane, so nothing else (a CI token, say) may get in.
_FOR_AGENTS = frozenset(
    {
        "HOME",
        "LANG",
        "LOGNAME",
        "PATH",
        "SHELL",
        "SSH_AUTH_SOCK",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    }
)


@dataclass(slots=True)
class Setup:
    """A command's world, its config, and how it talks."""

    config: Config
    world: World
    progress: Progress
    stop: Stop

    @classmethod
    def load(cls, config: str | None, source: str) -> Setup:
        """Read the config and build the world. Raises DocumentError and StateError."""
        loaded = read_config(config, here())
        if loaded.warnings:
            say(f"warning: {loaded.path}: without meaning in loopctl: {', '.join(loaded.warnings)}")
        progress, stop = Progress(), Stop()
        return cls(loaded, build_world(loaded, source, os.environ, progress, stop), progress, stop)

    def view(self, *, to_stderr: bool = False, refusal: str = "") -> View:
        """How to show things on the stream that they go to."""
        return View(
            now=datetime.now(UTC),
            color=wants_color(sys.stderr if to_stderr else sys.stdout),
            refusal=refusal,
            transcripts=_short(Path(self.config.state_root, "transcripts")),
        )

    def show_plan(self, plan: Plan, form: str, *, to_stderr: bool = False, max_changes: int | None = None) -> None:
        """Print a plan, with a word on the limits that it is over."""
        reason = excess(plan, max_changes)
        refusal = f"over its limits: {reason}; apply will refuse it. {way_on(plan).capitalize()}" if reason else ""
        text = RENDERERS[form].plan(plan, self.view(to_stderr=to_stderr, refusal=refusal))
        if to_stderr:
            say(text.rstrip("\n"))
        else:
            out(text)

    def show_outcome(self, outcome: Outcome, form: str) -> None:
        """Print what became of a plan."""
        out(RENDERERS[form].outcome(outcome, self.view()))

    @contextmanager
    def until_interrupted(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM ask for an orderly stop instead of ending us between two steps."""

        def ask(signum: int, frame: FrameType | None) -> None:
            if not self.stop.asked:
                self.progress.interrupt("stopping after the step in hand ...")
            self.stop.asked = True

        before = {signum: signal.signal(signum, ask) for signum in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            self.progress.clear()
            # Asking again must not cut off the report of what was done.
            for signum, handler in before.items():
                signal.signal(signum, signal.SIG_IGN if self.stop.asked else handler)


@dataclass(slots=True)
class Stop:
    """Whether a signal asked to stop."""

    asked: bool = False

    def __call__(self) -> bool:
        """What ports.World.interrupted is."""
        return self.asked


def build_world(
    config: Config,
    source: str,
    environ: Mapping[str, str],
    progress: Callable[[str], None],
    stop: Stop,
    hosts: Hosts | None = None,
) -> World:
    """Build every adapter. Nothing is opened, made or run yet. `hosts` is what is known of GitHub from an earlier world."""
    root = Path(config.state_root)
    harnesses = agent_programs(config, environ)

    def now() -> datetime:
        return datetime.now(UTC)

    return World(
        machine=config.machine,
        registry=SqliteRegistry(
            root, now=now, lock_timeout=config.lock_timeout_seconds, tell=progress, interrupted=stop
        ),
        terminals=Tmux(
            agents_env(environ),
            own_socket=config.socket,
            history_limit=config.history_limit,
            remain_on_exit=config.policy.remain_on_exit,
            keeper=keeper_argv() if config.contain else (),
            timeout=config.tmux_timeout_seconds,
        ),
        processes=LocalProcesses(),
        providers=tuple(_providers(config, environ, {} if hosts is None else hosts)),
        harnesses=harnesses,
        journal=open_journal(config.event_log, source),
        transcripts=TranscriptFolder(root / "transcripts"),
        ledger=SqliteLedger(root, now=now),
        workspaces=_workspaces(config, environ, now),
        policy=_policy(config, harnesses),
        socket=config.socket,
        now=now,
        clock=time.monotonic,
        pause=time.sleep,
        interrupted=stop,
        progress=progress,
    )


def agent_programs(config: Config, environ: Mapping[str, str]) -> dict[str, CommandHarness]:
    """Every harness by name."""
    return build_harnesses(config.harnesses, environ, config.harness_args, agents_env(environ))


def _policy(config: Config, harnesses: Mapping[str, CommandHarness]) -> Policy:
    """What the config says, with what only its harnesses know."""
    graces = {name: harness.grace_seconds for name, harness in harnesses.items()}
    return replace(
        config.policy,
        spawn_workdir=config.spawn_workdir,
        resumable=frozenset(name for name, harness in harnesses.items() if harness.resumes),
        prompted=frozenset(name for name, harness in harnesses.items() if harness.takes_prompt),
        harness_grace={name: grace for name, grace in graces.items() if grace is not None},
    )


def _workspaces(config: Config, environ: Mapping[str, str], now: Callable[[], datetime]) -> Workspaces:
    """Worktrees below the root that the config names. What is saved before one goes lies in the state folder."""
    where = config.workspace
    if not where.root:
        return NoWorkspaces()
    from loopctl.adapters.worktrees import GitWorktrees
    from loopctl.adapters.worktrees_git import Git

    environ = {name: value for name, value in environ.items() if name != config.webhook.secret_env}
    saved = Path(config.state_root, "saved-work")
    return GitWorktrees(Path(where.root), saved, Git(where.git_binary, environ), where.url, now)


def open_journal(log: EventLogConfig, source: str, warn: Callable[[str], object] = say) -> Journal:
    """The event log that a config names; `source` says who writes, `warn` is told once when it cannot be written."""
    if not log.enabled:
        return NullJournal()
    return EventLog(Path(log.path), lambda: datetime.now(UTC), source, warn, max_bytes=log.max_bytes)


def agents_env(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of tmux, and so of every agent on a server that we start."""
    mine = {name: value for name, value in environ.items() if name in _FOR_AGENTS}
    # Their terminal is tmux's own: it must not be told that it is dumb, or that colour is unwelcome.
    return {
        name: value for name, value in clean_env(mine).items() if name not in {"TERM", "NO_COLOR", "PAGER", "GIT_PAGER"}
    }


def _providers(config: Config, environ: Mapping[str, str], hosts: Hosts) -> Iterable[Provider]:
    hubs: Mapping[Source, Sequence[Provider]] = {}
    if any(source.repos for source in config.sources):
        # A good part of a start is reading what talks to GitHub: only where something does.
        from loopctl.cli.wiring_github import providers

        hubs = providers(config, environ, hosts)
    for source in config.sources:
        if source.provider == "items":
            yield ItemsFile(source.items, source.label)
        yield from hubs.get(source, ())


def agents_health(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether each agent program that may be used can be."""
    from loopctl.adapters.harnesses_health import health

    return health(agent_programs(config, environ), config.policy.default_harness, config.harnesses)


def tmux_version(environ: Mapping[str, str]) -> str:
    """What `tmux -V` prints. Raises StateError when there is none, or one that is too old."""
    version = program_version(agents_env(environ))
    old = unsupported(version)
    if old:
        raise StateError(old, hint=f"install tmux {OLDEST} or later")
    return version


def read_events(
    config: Config, types: tuple[str, ...], item: str, since: str | None, limit: int, *, follow: bool
) -> Iterable[Mapping[str, object]]:
    """The events of the log that a config names."""
    if not config.event_log.enabled:
        say("the event log is off (eventLog.enabled)")
        return ()
    start = parse_since(since, datetime.now(UTC)) if since else None
    return read_log(Path(config.event_log.path), types, item, start, limit, follow)


def read_the_loop(folder: str) -> LoopFolder:
    """The session records of the-loop in a folder. Raises StateError when it cannot be read."""
    from loopctl.adapters.the_loop import read_loop_folder

    return read_loop_folder(Path(folder).expanduser().absolute())


def attach_terminal(socket: str, pane: str, *, read_only: bool) -> None:
    """Become a tmux client of a pane."""
    flags = ["-r"] if read_only else []
    environ = {name: value for name, value in os.environ.items() if name not in {"TMUX", "TMUX_PANE"}}
    replace_process(["tmux", "-u", "-S", socket, "-f", "/dev/null", "attach-session", *flags, "-t", pane], environ)


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
