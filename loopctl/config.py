"""Where the world is: one file, found, checked and turned into typed values, each with a working default."""

from __future__ import annotations

import os.path
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopctl.errors import DocumentError
from loopctl.model.refs import WorkItemRef, repository
from loopctl.model.rules import Expression, Policy
from loopctl.model.text import cut
from loopctl.playbook.document import Document, load_document
from loopctl.playbook.schema import ignored_keys, schema, validate
from loopctl.playbook.templates import compile_template
from loopctl.playbook.texts import COMMENT_ENDED, COMMENT_RUNNING, DELIVERY, START, texts

_APP = "loopctl"
_PROJECT_FOLDER = ".loopctl"
_FILE = "config.yaml"
_TEMPLATES = {
    "start": START,
    "delivery": DELIVERY,
    "commentRunning": COMMENT_RUNNING,
    "commentEnded": COMMENT_ENDED,
}
#: What fits into a socket address on every system we run on, without its final NUL.
_MAX_SOCKET = 103


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


def load_config(explicit: str | None, env: Mapping[str, str], cwd: Path) -> Config:
    """Find and read the config: `explicit`, `$LOOPCTL_CONFIG`, `.loopctl/config.yaml` in `cwd`, the XDG config folder.

    Without one, everything has its default. Raises DocumentError with all problems of the file, and where a file that was
    named does not exist.
    """
    named, *others = config_places(explicit, env, cwd)
    path = next((place for place in (named, *others) if place.exists()), None if others else named)
    if path is None:
        return _build(Document("config", "", {}), "", _Paths(cwd, env))
    document = load_document(path)
    if document.value is None:
        document = Document(document.source, document.text, {})
    problems = validate(document, "config")
    if problems:
        raise DocumentError(problems)
    folder = path.parent.parent if path.parent.name == _PROJECT_FOLDER else path.parent
    return _build(document, str(path), _Paths(folder, env))


def config_places(explicit: str | None, env: Mapping[str, str], cwd: Path) -> tuple[Path, ...]:
    """Where the config may be: one place where it is named, else those that are looked at, the first of them first."""
    paths = _Paths(cwd, env)
    named = explicit if explicit is not None else env.get("LOOPCTL_CONFIG", "")
    if named or explicit is not None:
        return (paths.absolute(named),)
    home = Path(env["XDG_CONFIG_HOME"]) if env.get("XDG_CONFIG_HOME") else paths.absolute("~/.config")
    return (cwd.absolute() / _PROJECT_FOLDER / _FILE, home / _APP / _FILE)


@dataclass(frozen=True, slots=True)
class _Paths:
    """Makes paths absolute: relative ones count from `base`."""

    base: Path
    env: Mapping[str, str]

    def absolute(self, text: str) -> Path:
        home = self.env.get("HOME", "")
        if home and (text == "~" or text.startswith("~/")):
            text = home + text[1:]
        path = Path(text)
        if text.startswith("~"):
            try:
                path = path.expanduser()
            except RuntimeError:
                path = Path(text)
        return Path(_normal(self.base.absolute() / path))

    def state(self) -> Path:
        """`loopctl` in the XDG state folder, or what stands for it on this system."""
        chosen = self.env.get("XDG_STATE_HOME", "")
        if Path(chosen).is_absolute():
            return Path(chosen) / _APP
        from platformdirs import user_state_path

        return user_state_path(_APP)


def _normal(path: Path) -> str:
    # Removes "." and "..", and leaves symbolic links as the user wrote them.
    return os.path.normpath(path)


def _build(document: Document, path: str, paths: _Paths) -> Config:
    value: Any = document.value
    hook = value.get("webhooks", {}).get("ghWebhook", {})
    routing = value.get("routing", hook.get("routing", {}))
    value = {**value, "routing": routing}
    state, tmux = value.get("state", {}), value.get("tmux", {})
    polling, log = value.get("polling", {}), value.get("eventLog", {})
    root = paths.absolute(state["root"]) if "root" in state else paths.state()
    label = _get(value, "routing", "autoExecuteLabel")
    return Config(
        path=path,
        warnings=ignored_keys(document, "config"),
        state_root=str(root),
        machine=state.get("machine") or socket.gethostname(),
        socket=_socket(document, tmux, root, paths),
        contain=_get(value, "processes", "contain"),
        history_limit=int(_get(value, "tmux", "historyLimit")),
        tmux_timeout_seconds=float(_get(value, "tmux", "timeoutSeconds")),
        policy=_policy(value, document, paths),
        spawn_workdir=str(paths.absolute(_get(value, "routing", "spawnWorkdir"))),
        harness_args={name: tuple(args) for name, args in routing.get("harnessArgs", {}).items()},
        harnesses={name: _harness(given) for name, given in value.get("harnesses", {}).items()},
        sources=tuple(
            _source(given, label, paths, document, number) for number, given in enumerate(polling.get("sources", []))
        ),
        polling=Polling(
            float(_get(value, "polling", "intervalSeconds")),
            int(_get(value, "polling", "maxRetries")),
        ),
        webhook=_webhook(value),
        workspace=_workspace(value, document, paths),
        event_log=EventLog(
            _get(value, "eventLog", "enabled"),
            str(paths.absolute(log["path"]) if "path" in log else root / "events.jsonl"),
            int(_get(value, "eventLog", "maxBytes")),
        ),
        github_timeout_seconds=float(_get(value, "github", "timeoutSeconds")),
        github_patience_seconds=float(_get(value, "github", "patienceSeconds")),
        github_budget_share=float(_get(value, "github", "budgetShare")),
        lock_timeout_seconds=float(_get(value, "lock", "timeoutSeconds")),
    )


def _get(value: Mapping[str, Any], *keys: str) -> Any:
    here: Any = value
    for key in keys:
        if key not in here:
            return _default(*keys)
        here = here[key]
    return here


def _default(*keys: str) -> Any:
    """The default that the schema states: the one place for it."""
    root = schema("config")
    here: Mapping[str, Any] = root
    for key in keys:
        here = here["properties"][key]
        if "$ref" in here:
            here = root["$defs"][here["$ref"].rpartition("/")[2]]
    return here["default"]


def _policy(value: Mapping[str, Any], document: Document, paths: _Paths) -> Policy:
    spare: Sequence[str] = _get(value, "processes", "spare")
    return Policy(
        keep_session_on_close=_get(value, "routing", "tmux", "keepSessionOnClose"),
        kill_harness_on_close=_get(value, "routing", "tmux", "killHarnessOnClose"),
        harness_kill_grace_seconds=float(_get(value, "routing", "tmux", "harnessKillGraceSeconds")),
        remain_on_exit=_get(value, "routing", "tmux", "remainOnExit"),
        default_harness=_get(value, "routing", "defaultHarness"),
        spare=tuple(spare),
        linked_items=_get(value, "routing", "linkedItems"),
        max_concurrent_sessions=int(_get(value, "routing", "maxConcurrentSessions")),
        max_retries=int(_get(value, "polling", "maxRetries")),
        resume_on_respawn=_get(value, "routing", "tmux", "resumeOnRespawn"),
        resume_probe_seconds=float(_get(value, "routing", "tmux", "resumeProbeSeconds")),
        authorized_users=frozenset(login.lower() for login in _get(value, "routing", "authorizedUsers")),
        templates=_templates(value, document, paths),
        workspace_root=_workspace_root(value, paths),
        workspace_branch=_branch(value, document, paths),
        keep_checkout_on_close=_get(value, "routing", "workspace", "keepCheckoutOnClose"),
    )


def _workspace_root(value: Mapping[str, Any], paths: _Paths) -> str:
    root: str = _get(value, "routing", "workspace", "root")
    return str(paths.absolute(root)) if root else ""


def _workspace(value: Mapping[str, Any], document: Document, paths: _Paths) -> WorkspaceConfig:
    git, protocol, host, url = (
        _get(value, "routing", "workspace", key) for key in ("gitBinary", "cloneProtocol", "defaultHost", "cloneUrl")
    )
    where = (*_routing_path(document), "workspace", "cloneUrl")
    template = compile_template(document, where, {}, frozenset({"item"})) if url else None
    return WorkspaceConfig(_workspace_root(value, paths), git, protocol, host, template)


def _branch(value: Mapping[str, Any], document: Document, paths: _Paths) -> Expression | None:
    """How branches are called. Nothing is compiled where there are no worktrees."""
    given: str = _get(value, "routing", "workspace", "branch")
    if "branch" in value["routing"].get("workspace", {}):
        return compile_template(document, (*_routing_path(document), "workspace", "branch"), {})
    return compile_template(Document("config", given, given), (), {}) if _workspace_root(value, paths) else None


def _routing_path(document: Document) -> tuple[str, ...]:
    top = document.value
    return ("routing",) if isinstance(top, dict) and "routing" in top else ("webhooks", "ghWebhook", "routing")


def _templates(value: Mapping[str, Any], document: Document, paths: _Paths) -> Mapping[str, Expression]:
    files = {_TEMPLATES[key]: paths.absolute(path) for key, path in value.get("templates", {}).items()}
    missing = [key for key, name in _TEMPLATES.items() if name in files and not files[name].is_file()]
    if missing:
        wrong = [(key, f"there is no file {files[_TEMPLATES[key]]}") for key in missing]
        raise DocumentError([document.problem(("templates", key), problem) for key, problem in wrong])
    return texts(files)


def _harness(given: Mapping[str, Any]) -> HarnessConfig:
    grace = given.get("graceSeconds")
    return HarnessConfig(
        tuple(given.get("argv", ())),
        dict(given.get("env", {})),
        tuple(given.get("passEnv", ())),
        tuple(given.get("resumeArgv", ())),
        tuple(given.get("versionArgv", ())),
        given.get("stopSignal", "TERM"),
        None if grace is None else float(grace),
    )


def _source(given: Mapping[str, Any], label: str, paths: _Paths, document: Document, number: int) -> Source:
    monitor = given.get("monitor", {})
    for index, name in enumerate(given.get("repos", ())):
        try:
            repository(name)
        except ValueError as error:
            where = ("polling", "sources", number, "repos", index)
            raise DocumentError([document.problem(where, str(error))]) from None
    return Source(
        provider=given.get("provider", "items"),
        repos=tuple(given.get("repos", ())),
        # A file lists what is meant; only a repository's items need a label to tell.
        label=given.get("label") or ("" if "items" in given else label),
        items=str(paths.absolute(given["items"])) if "items" in given else "",
        issues=monitor.get("issues", True),
        pull_requests=monitor.get("pullRequests", True),
        gh_binary=given.get("ghBinary", "gh"),
    )


def _webhook(value: Mapping[str, Any]) -> Webhook:
    host, port, path, secret = (
        _get(value, "webhooks", "ghWebhook", key) for key in ("host", "port", "path", "secretEnv")
    )
    return Webhook(
        host,
        int(port),
        path,
        secret,
        events=tuple(_get(value, "webhooks", "ghWebhook", "events")),
        authorized_users=tuple(_get(value, "routing", "authorizedUsers")),
        dedup_cache_size=int(_get(value, "routing", "dedupCacheSize")),
        trust_state=_get(value, "routing", "trustWebhookState"),
    )


def _socket(document: Document, tmux: Mapping[str, Any], root: Path, paths: _Paths) -> str:
    path = str(paths.absolute(tmux["socket"]) if "socket" in tmux else root / "tmux.sock")
    if len(path.encode()) > _MAX_SOCKET:
        message = f"the path of the tmux socket is longer than {_MAX_SOCKET} bytes: {cut(' '.join(path.split()), 200)}"
        where = ("tmux", "socket") if "socket" in tmux else ("state", "root")
        raise DocumentError([document.problem(where, message, "set tmux.socket to a shorter path")])
    return path
