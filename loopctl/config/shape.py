"""What a config says, as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Expression, Policy


@dataclass(frozen=True, slots=True)
class HarnessConfig:
    """An agent program: its argv, environment variables to set and names of those to hand over, what goes on with a
    conversation, what prints its version, and how it is asked to end (`grace_seconds` None: as all others)."""

    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    resume_argv: tuple[str, ...] = ()
    version_argv: tuple[str, ...] = ()
    stop_signal: str = "TERM"
    grace_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where work items come from: repositories on GitHub, or an items file (an absolute path)."""

    provider: str
    repos: tuple[str, ...] = ()
    label: str = ""
    items: str = ""
    issues: bool = True
    pull_requests: bool = True
    gh_binary: str = "gh"


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where the controller listens for GitHub's webhooks; `secret_env` names the variable with the secret."""

    host: str
    port: int
    path: str
    secret_env: str
    events: tuple[str, ...] = ()
    #: Logins whose events may start something.
    authorized_users: tuple[str, ...] = ()
    #: How many deliveries are remembered.
    dedup_cache_size: int = 1024
    #: Whether a signed payload that is provably news stands for an answer of GitHub.
    trust_state: bool = False


@dataclass(frozen=True, slots=True)
class Polling:
    """How often the controller looks (seconds) and how often it tries again."""

    interval_seconds: float
    max_retries: int


@dataclass(frozen=True, slots=True)
class EventLog:
    """Whether events are written, the absolute path of their file, and the size at which a new one is begun (0: never)."""

    enabled: bool
    path: str
    max_bytes: int = 0


@dataclass(frozen=True, slots=True)
class WorkspaceConfig:
    """Where worktrees are made (`root` absolute, "" for nowhere), with which git, and where repositories are cloned from:
    `clone_url` by a template, else by protocol and host, `default_host` for items that name none."""

    root: str = ""
    git_binary: str = "git"
    clone_protocol: str = "https"
    default_host: str = "github.com"
    clone_url: Expression | None = None

    def url(self, ref: WorkItemRef) -> str:
        """Where the repository of an item is. Raises DocumentError when the template fails."""
        host = ref.host or self.default_host
        if self.clone_url:
            return str(self.clone_url({"item": {"host": host, "owner": ref.owner, "repo": ref.repo}})).strip()
        if self.clone_protocol == "ssh":
            # Its port would be that of the web server.
            return f"ssh://git@{host.partition(':')[0]}/{ref.owner}/{ref.repo}.git"
        return f"https://{host}/{ref.owner}/{ref.repo}.git"


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a config says, defaults filled in. Paths are absolute, times are in seconds.

    `path` is the file it came from ("" for none), `warnings` name keys of the-loop that have no meaning here.
    """

    path: str
    warnings: tuple[str, ...]
    state_root: str
    machine: str
    socket: str
    history_limit: int
    #: Whether agents run below a keeper, where the system has such a thing.
    contain: bool
    tmux_timeout_seconds: float
    policy: Policy
    spawn_workdir: str
    harness_args: Mapping[str, tuple[str, ...]]
    harnesses: Mapping[str, HarnessConfig]
    sources: tuple[Source, ...]
    polling: Polling
    webhook: Webhook
    event_log: EventLog
    workspace: WorkspaceConfig
    github_timeout_seconds: float
    github_patience_seconds: float
    github_budget_share: float
    lock_timeout_seconds: float
