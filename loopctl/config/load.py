"""Document -> Config: found, checked, and every default filled in."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loopctl.config.places import PROJECT_FOLDER, Paths, config_places
from loopctl.config.shape import Config, EventLog, HarnessConfig, Polling, Source, Webhook, WorkspaceConfig
from loopctl.errors import DocumentError, Problem
from loopctl.model.refs import repository
from loopctl.model.rules import Expression, Policy
from loopctl.model.text import cut, is_text
from loopctl.playbook.document import Document, load_document
from loopctl.playbook.schema import ignored_keys, schema, validate
from loopctl.playbook.templates import compile_template
from loopctl.playbook.texts import COMMENT_ENDED, COMMENT_RUNNING, DELIVERY, START, texts

_TEMPLATES = {
    "start": START,
    "delivery": DELIVERY,
    "commentRunning": COMMENT_RUNNING,
    "commentEnded": COMMENT_ENDED,
}
#: What fits into a socket address on every system we run on, without its final NUL.
_MAX_SOCKET = 103


def load_config(explicit: str | None, env: Mapping[str, str], cwd: Path) -> Config:
    """Find and read the config: `explicit`, `$LOOPCTL_CONFIG`, `.loopctl/config.yaml` in `cwd`, the XDG config folder.

    Without one, everything has its default. Raises DocumentError with all problems of the file, and where a file that was
    named does not exist.
    """
    named, *others = config_places(explicit, env, cwd)
    path = next((place for place in (named, *others) if place.exists()), None if others else named)
    if path is None:
        return _build(Document("config", "", {}), "", Paths(cwd, env))
    if explicit is None and not path.exists():
        raise DocumentError([Problem(str(path), 0, 0, "there is no such file", "$LOOPCTL_CONFIG names it")])
    document = load_document(path)
    if document.value is None:
        document = Document(document.source, document.text, {})
    problems = validate(document, "config")
    if problems:
        raise DocumentError(problems)
    folder = path.parent.parent if path.parent.name == PROJECT_FOLDER else path.parent
    return _build(document, str(path), Paths(folder, env))


def _build(document: Document, path: str, paths: Paths) -> Config:
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


def _policy(value: Mapping[str, Any], document: Document, paths: Paths) -> Policy:
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


def _workspace_root(value: Mapping[str, Any], paths: Paths) -> str:
    root: str = _get(value, "routing", "workspace", "root")
    return str(paths.absolute(root)) if root else ""


def _workspace(value: Mapping[str, Any], document: Document, paths: Paths) -> WorkspaceConfig:
    git, protocol, host, url = (
        _get(value, "routing", "workspace", key) for key in ("gitBinary", "cloneProtocol", "defaultHost", "cloneUrl")
    )
    where = (*_routing_path(document), "workspace", "cloneUrl")
    template = compile_template(document, where, {}, frozenset({"item"})) if url else None
    return WorkspaceConfig(_workspace_root(value, paths), git, protocol, host, template)


def _branch(value: Mapping[str, Any], document: Document, paths: Paths) -> Expression | None:
    """How branches are called. Nothing is compiled where there are no worktrees."""
    given: str = _get(value, "routing", "workspace", "branch")
    if "branch" in value["routing"].get("workspace", {}):
        return compile_template(document, (*_routing_path(document), "workspace", "branch"), {})
    return compile_template(Document("config", given, given), (), {}) if _workspace_root(value, paths) else None


def _routing_path(document: Document) -> tuple[str, ...]:
    top = document.value
    return ("routing",) if isinstance(top, dict) and "routing" in top else ("webhooks", "ghWebhook", "routing")


def _templates(value: Mapping[str, Any], document: Document, paths: Paths) -> Mapping[str, Expression]:
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


def _source(given: Mapping[str, Any], label: str, paths: Paths, document: Document, number: int) -> Source:
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


def _socket(document: Document, tmux: Mapping[str, Any], root: Path, paths: Paths) -> str:
    path = str(paths.absolute(tmux["socket"]) if "socket" in tmux else root / "tmux.sock")
    for where, place in ((("state", "root"), str(root)), (("tmux", "socket"), path)):
        if is_text(place):
            continue
        message = f"{'.'.join(where)} is a path that is not UTF-8, and records are: {os.fsencode(place)!r}"
        raise DocumentError([document.problem(where, message, "name another folder")])
    if len(os.fsencode(path)) > _MAX_SOCKET:
        message = f"the path of the tmux socket is longer than {_MAX_SOCKET} bytes: {cut(' '.join(path.split()), 200)}"
        where = ("tmux", "socket") if "socket" in tmux else ("state", "root")
        raise DocumentError([document.problem(where, message, "set tmux.socket to a shorter path")])
    return path
