from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loopctl.config import Config, HarnessConfig, Source, Webhook, load_config
from loopctl.errors import DocumentError
from loopctl.model.processes import ProcessId, ProcessInfo
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Policy
from loopctl.model.trees import is_spared
from loopctl.playbook.schema import schema
from tests.unit.playbook.support import problems_of, told


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    # Sockets have short paths: pytest's own folders are too long for one.
    return {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": str(tmp_path / "xdg")}


def loaded(tmp_path: Path, env: dict[str, str], text: str) -> Config:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return load_config(str(path), env, tmp_path)


def test_without_a_config_everything_has_a_default(tmp_path: Path, env: dict[str, str]) -> None:
    config = load_config(None, env, tmp_path)
    assert (config.path, config.warnings, config.sources, config.harnesses) == ("", (), (), {})
    assert (config.state_root, config.socket, config.event_log.path) == (
        "/s/loopctl",
        "/s/loopctl/tmux.sock",
        "/s/loopctl/events.jsonl",
    )
    assert config.event_log.enabled and config.history_limit == 50_000 and config.machine
    assert config.tmux_timeout_seconds == 20.0
    policy = config.policy
    assert (policy.keep_session_on_close, policy.kill_harness_on_close, policy.remain_on_exit) == (True, True, True)
    assert (policy.harness_kill_grace_seconds, policy.default_harness) == (5.0, "claude")
    assert config.webhook == Webhook("127.0.0.1", 8787, "/gh-webhook", "THE_LOOP_GH_WEBHOOK_SECRET")
    assert (config.polling.interval_seconds, config.polling.max_retries) == (60.0, 3)
    assert config.spawn_workdir == str(tmp_path)


def test_the_defaults_of_the_schema_are_those_of_the_model() -> None:
    tmux = schema("config")["$defs"]["routing"]["properties"]["tmux"]["properties"]
    model = Policy()
    assert tmux["keepSessionOnClose"]["default"] == model.keep_session_on_close
    assert tmux["killHarnessOnClose"]["default"] == model.kill_harness_on_close
    assert tmux["harnessKillGraceSeconds"]["default"] == model.harness_kill_grace_seconds
    assert tmux["remainOnExit"]["default"] == model.remain_on_exit
    assert tmux["resumeOnRespawn"]["default"] == model.resume_on_respawn
    assert tmux["resumeProbeSeconds"]["default"] == model.resume_probe_seconds
    routing = schema("config")["$defs"]["routing"]["properties"]
    assert routing["defaultHarness"]["default"] == model.default_harness
    assert routing["maxConcurrentSessions"]["default"] == model.max_concurrent_sessions
    assert schema("config")["properties"]["polling"]["properties"]["maxRetries"]["default"] == model.max_retries


def test_an_empty_config_is_one(tmp_path: Path, env: dict[str, str]) -> None:
    config = loaded(tmp_path, env, "# nothing yet\n")
    assert (config.path, config.state_root) == (str(tmp_path / "c.yaml"), "/s/loopctl")


def test_the_search_order(tmp_path: Path, env: dict[str, str]) -> None:
    project = tmp_path / "project"
    places = [env["XDG_CONFIG_HOME"] + "/loopctl/config.yaml", project / ".loopctl/config.yaml", tmp_path / "env.yaml", tmp_path / "flag.yaml"]  # fmt: skip
    for number, place in enumerate(places):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_text(f"state: {{machine: m{number}}}\n")
        named = {"LOOPCTL_CONFIG": "../env.yaml"} if number >= 2 else {"LOOPCTL_CONFIG": ""}
        config = load_config(
            "../flag.yaml" if number == 3 else None, env | named, project if project.exists() else tmp_path
        )
        assert (config.machine, config.path) == (f"m{number}", str(place))


def test_the_xdg_default_is_in_the_home_folder(tmp_path: Path, env: dict[str, str]) -> None:
    path = tmp_path / "home/.config/loopctl/config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("state: {machine: home}\n")
    assert load_config(None, {"HOME": env["HOME"], "XDG_STATE_HOME": "/s"}, tmp_path).machine == "home"


@pytest.mark.parametrize("how", ["flag", "env"])
def test_a_named_config_must_exist(tmp_path: Path, env: dict[str, str], how: str) -> None:
    named = str(tmp_path / "none.yaml")
    given = {"LOOPCTL_CONFIG": named} if how == "env" else {}
    problems = problems_of(lambda: load_config(named if how == "flag" else None, env | given, tmp_path))
    said = ("cannot be read: No such file or directory", ""), ("there is no such file", "$LOOPCTL_CONFIG names it")
    assert (problems[0].message, problems[0].hint) == said[how == "env"]


FULL = """\
state: {root: ~/st, machine: desk}
tmux: {socket: run/t.sock, historyLimit: 0, timeoutSeconds: 2}
harnesses:
  fake: {argv: [sh, agent.sh], env: {A: "1"}, passEnv: [TOKEN], resumeArgv: [sh, again.sh], versionArgv: [sh, -c, echo 1], stopSignal: INT, graceSeconds: 0}
  bare: {argv: [x]}
routing:
  defaultHarness: fake
  spawnWorkdir: work
  harnessArgs: {claude: [--verbose]}
  authorizedUsers: [Octo, HUBOT]
  maxConcurrentSessions: 7
  tmux: {keepSessionOnClose: false, killHarnessOnClose: false, harnessKillGraceSeconds: 0, remainOnExit: false, resumeOnRespawn: false, resumeProbeSeconds: 0}
polling:
  intervalSeconds: 5
  maxRetries: 1
  sources:
    - {items: ../items.yaml}
    - {provider: github, repos: [octo/app, ghe.corp/octo/app], monitor: {issues: false}, ghBinary: /usr/bin/gh}
    - {provider: github, repos: [octo/app], label: mine, monitor: {pullRequests: false}}
eventLog: {enabled: false, path: /var/e.jsonl}
processes: {spare: []}
github: {timeoutSeconds: 1.5}
lock: {timeoutSeconds: 0}
"""


def test_everything_that_is_said_is_taken_and_zero_and_false_are_said(tmp_path: Path) -> None:
    config = loaded(tmp_path, {"HOME": "/h"}, FULL)
    assert (config.state_root, config.machine, config.history_limit) == ("/h/st", "desk", 0)
    assert (config.socket, config.tmux_timeout_seconds) == (str(tmp_path / "run/t.sock"), 2.0)
    assert config.harnesses == {
        "fake": HarnessConfig(
            ("sh", "agent.sh"), {"A": "1"}, ("TOKEN",), ("sh", "again.sh"), ("sh", "-c", "echo 1"), "INT", 0.0
        ),
        "bare": HarnessConfig(("x",)),
    }
    assert replace(config.policy, templates={}) == Policy(
        *(False, False, 0.0, False, "fake"),
        spare=(),
        max_concurrent_sessions=7,
        max_retries=1,
        resume_on_respawn=False,
        resume_probe_seconds=0.0,
        authorized_users=frozenset({"octo", "hubot"}),
    )
    assert (config.spawn_workdir, config.harness_args) == (str(tmp_path / "work"), {"claude": ("--verbose",)})
    label = "the-loop: auto-execute"
    assert config.sources == (
        Source("items", items=str(tmp_path.parent / "items.yaml")),
        Source("github", ("octo/app", "ghe.corp/octo/app"), label, issues=False, gh_binary="/usr/bin/gh"),
        Source("github", ("octo/app",), "mine", pull_requests=False),
    )
    assert (config.event_log.enabled, config.event_log.path) == (False, "/var/e.jsonl")
    assert (config.github_timeout_seconds, config.lock_timeout_seconds, config.polling.interval_seconds) == (
        1.5,
        0.0,
        5.0,
    )


TEMPLATE = """\
You work on {{ item.ref }}.
{%- if nothing %} {{ itm }} {% endif %}
"""


def test_templates_of_ones_own(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "start.j2").write_text("Work on {{ item.ref }}!\n")
    (tmp_path / "say.j2").write_text("{{ comment.author }}: {{ comment.body | fenced }}\n")
    found = loaded(tmp_path, env, "templates: {start: start.j2, delivery: ./say.j2}").policy.templates
    facts = {"item": {"ref": "r"}, "comment": {"author": "a", "body": "b"}}
    assert found["start"](facts) == "Work on r!"
    assert found["delivery"](facts) == "a: ```\nb\n```"
    assert found["start"].names == {"item"}
    assert set(found) == {"start", "delivery", "comment_running", "comment_ended"}


def test_what_is_wrong_with_templates_is_said_with_their_lines(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "a.j2").write_text(TEMPLATE)
    (tmp_path / "b.j2").write_text("\n{{ comment }}")
    (tmp_path / "c.j2").write_text("fine\n\n{% for %}")
    text = "templates: {start: a.j2, delivery: b.j2, commentRunning: b.j2, commentEnded: c.j2}"
    problems = problems_of(lambda: loaded(tmp_path, env, text))
    assert [(Path(p.source).name, p.line, p.column) for p in problems] == [
        ("a.j2", 2, 1),
        ("a.j2", 2, 1),
        ("b.j2", 2, 1),
        ("c.j2", 3, 1),
    ]
    assert problems[0].message == "'itm' is not defined"
    assert problems[0].hint == "did you mean 'item'?"
    assert problems[0].text.startswith("{%- if nothing")
    assert problems[2].hint == "this template knows item, session"


def test_relative_paths_count_from_the_project(tmp_path: Path, env: dict[str, str]) -> None:
    folder = tmp_path / ".loopctl"
    folder.mkdir()
    (folder / "config.yaml").write_text("state: {root: .loopctl/state}\ntmux: {socket: /t}\n")
    assert load_config(None, env, tmp_path).state_root == str(folder / "state")
    assert load_config(str(folder / "config.yaml"), env, Path("/")).state_root == str(folder / "state")


def test_routing_under_the_webhook_as_in_the_loop(tmp_path: Path, env: dict[str, str]) -> None:
    text = "webhooks:\n  ghWebhook:\n    port: 99\n    events: [issues]\n    routing: {tmux: {keepSessionOnClose: false}, autoExecuteLabel: go, trustWebhookState: true}\n"
    text += "polling: {sources: [{provider: github, repos: [a/b], label: ''}]}\n"
    config = loaded(tmp_path, env, text)
    assert (config.policy.keep_session_on_close, config.sources[0].label) == (False, "go")
    assert (config.webhook.port, config.webhook.events, config.webhook.trust_state) == (99, ("issues",), True)


THE_LOOP = """\
webhooks:
  ghWebhook:
    pidfile: .the-loop/gh-webhook.pid
    routing:
      enabled: true
      registryDir: .the-loop/sessions
      workspace: {root: x, strategy: worktree}
      runner: tmux
      tmux: {resumeOnRespawn: true, resumeProbeSeconds: 2}
polling: {stateFile: .the-loop/poll-state.json}
collaborators: []
"""


def test_keys_without_a_meaning_are_named_in_a_warning(tmp_path: Path, env: dict[str, str]) -> None:
    warnings = loaded(tmp_path, env, THE_LOOP).warnings
    assert len(warnings) == 6
    assert warnings[0] == "line 3 webhooks.ghWebhook.pidfile"
    assert "line 8 webhooks.ghWebhook.routing.runner" in warnings


@pytest.mark.parametrize("top", ["routing", "webhooks: {ghWebhook: {routing"])
def test_worktrees_have_a_root_a_branch_and_a_place_to_clone_from(
    tmp_path: Path, env: dict[str, str], top: str
) -> None:
    given = (
        "{workspace: {root: trees, cloneProtocol: ssh, defaultHost: ghe.corp, keepCheckoutOnClose: false, gitBinary: /g,"
        " branch: 'x/{{ item.number }}'}}" + "}" * top.count("{")
    )
    config = loaded(tmp_path, env, f"{top}: {given}")
    assert (config.workspace.root, config.policy.workspace_root) == (str(tmp_path / "trees"),) * 2
    assert (config.workspace.git_binary, config.policy.keep_checkout_on_close) == ("/g", False)
    assert config.policy.workspace_branch is not None
    assert config.policy.workspace_branch({"item": {"number": 7}}) == "x/7"
    assert config.workspace.url(WorkItemRef.parse("items:a/b#1")) == "ssh://git@ghe.corp/a/b.git"
    assert config.workspace.url(WorkItemRef.parse("github:h.x:8443/a/b#1")) == "ssh://git@h.x/a/b.git"


def test_without_a_root_there_are_no_worktrees_and_nothing_is_compiled(tmp_path: Path, env: dict[str, str]) -> None:
    config = loaded(tmp_path, env, "routing: {workspace: {}}")
    assert (config.workspace.root, config.policy.workspace_root, config.policy.workspace_branch) == ("", "", None)
    assert config.policy.keep_checkout_on_close
    assert config.workspace.url(WorkItemRef.parse("github:a/b#1")) == "https://github.com/a/b.git"


def test_the_default_branch_names_the_item_and_a_url_can_be_a_path(tmp_path: Path, env: dict[str, str]) -> None:
    text = "routing: {workspace: {root: /r, cloneUrl: '/hub/{{ item.host }}/{{ item.owner }}/{{ item.repo }}'}}"
    config = loaded(tmp_path, env, text)
    branch = config.policy.workspace_branch
    assert branch is not None
    assert branch({"item": {"kind": "pull_request", "number": 7}}) == "loop/pull-request-7"
    assert config.workspace.url(WorkItemRef.parse("items:a/b#1")) == "/hub/github.com/a/b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{strategy: clone}", "strategy: only `worktree` is supported: items of a repository share one clone"),
        ("{cloneUrl: '{{ item.token }}{{ secrets }}'}", "'secrets' is not defined"),
        ("{branch: '{{ itm }}'}", "'itm' is not defined"),
        ("{defaultHost: '-oProxyCommand=x'}", "defaultHost must be a host such as github.com"),
    ],
)
def test_what_is_wrong_with_worktrees_is_said(tmp_path: Path, env: dict[str, str], text: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        loaded(tmp_path, env, f"routing: {{workspace: {text}}}")
    assert caught.value.problems[0].message == message
    assert caught.value.problems[0].line == 1


@pytest.mark.parametrize(
    ("text", "expected", "hint"),
    [
        ("rooting: {}", (1, 1, "unknown key 'rooting'"), "did you mean 'routing'?"),
        ("routing: {tmux: {keepSesionOnClose: true}}", (1, 18, "unknown key 'keepSesionOnClose'"), "did you mean 'keepSessionOnClose'?"),
        ("routing: {tmux: {keep_session_on_close: true}}", (1, 18, "unknown key 'keep_session_on_close'"), "did you mean 'keepSessionOnClose'?"),
        ("routing: {tmux: {harnessKillGraceSeconds: -1}}", (1, 18, "harnessKillGraceSeconds must be at least 0"), ""),
        ("routing: {tmux: {harnessKillGraceSeconds: 5s}}", (1, 18, "harnessKillGraceSeconds must be a number, not text"), ""),
        ("routing: {tmux: {keepSessionOnClose: 'false'}}", (1, 18, "keepSessionOnClose must be true or false, not text"), ""),
        ("routing: {}\nwebhooks: {ghWebhook: {routing: {}}}", (2, 24, "routing: routing stands at the top level too: keep one of them"), ""),
        ("polling: {sources: [{items: x, repos: [a/b]}]}", (1, 32, "repos: a source has either repos or an items file"), ""),
        ("polling: {sources: [{items: x, provider: github}]}", (1, 32, "provider: a source with an items file has the provider items"), ""),
        ("polling: {sources: [{provider: github}]}", (1, 21, "an item of sources has no 'repos'"), ""),
        ("polling: {sources: [{provider: items}]}", (1, 21, "an item of sources has no 'items'"), ""),
        ("polling: {sources: [{label: x}]}", (1, 21, "an item of sources has no 'provider'"), ""),
        ("polling: {sources: [{provider: github, repos: [octo/app, ../..]}]}", (1, 58, "'../..' is no repository: write owner/repo or host/owner/repo"), ""),
        ("polling: {sources: [{provider: github, repos: [app]}]}", (1, 48, "an item of repos must be a repository such as octo/app"), ""),
        ("harnesses: {a: {stopSignal: KILL}}", (1, 17, "stopSignal is 'KILL', not one of: TERM, INT, HUP"), ""),
        ("templates: {strat: x}", (1, 13, "unknown key 'strat'"), "did you mean 'start'?"),
        ("templates: {start: /none/x.j2}", (1, 13, "there is no file /none/x.j2"), ""),
        ("harnesses: {a: {env: {A: 1}}}", (1, 23, "A must be text, not a number"), "quote it"),
        ('tmux: {socket: "/a\\nb' + "x" * 200 + '"}', (1, 8, "the path of the tmux socket is longer than 103 bytes: /a b" + "x" * 193 + "..."), "set tmux.socket to a shorter path"),
        ("tmux: {socket: /" + "x" * 200 + "}", (1, 8, "the path of the tmux socket is longer than 103 bytes: /" + "x" * 196 + "..."), "set tmux.socket to a shorter path"),
        ("state:", (1, 1, "state has no value; it must be a mapping"), ""),
        ("[]", (1, 1, "the document must be a mapping, not a list"), ""),
    ],
)  # fmt: skip
def test_each_fault(tmp_path: Path, env: dict[str, str], text: str, expected: tuple[int, int, str], hint: str) -> None:
    problems = problems_of(lambda: loaded(tmp_path, env, text))
    assert told(problems) == [expected]
    assert problems[0].hint.startswith(hint)


def test_a_long_state_folder_is_told_before_tmux_fails(tmp_path: Path, env: dict[str, str]) -> None:
    problems = problems_of(lambda: load_config(None, env | {"XDG_STATE_HOME": "/" + "x" * 200}, tmp_path))
    assert problems[0].hint == "set tmux.socket to a shorter path"


@pytest.mark.parametrize(("text", "key"), [("{}", ""), ("tmux: {socket: t}", "tmux.socket"), ("state: {root: s}", "state.root")])  # fmt: skip
def test_what_records_cannot_hold_is_told_before(tmp_path: Path, env: dict[str, str], text: str, key: str) -> None:
    """The name of a folder may be any bytes."""
    folder = tmp_path / "\udcff"
    folder.mkdir()
    if not key:
        assert load_config(None, env, folder).spawn_workdir == str(folder)
        return
    problems = problems_of(lambda: loaded(folder, env, text))
    assert problems[0].message.startswith(f"{key} is a path that is not UTF-8")


def process(*argv: str, name: str = "") -> ProcessInfo:
    return ProcessInfo(ProcessId(5, "1"), 1, 5, 5, 5, 0, name or argv[0].rpartition("/")[2][:15], argv)


@pytest.mark.parametrize(
    ("one", "spared"),
    [
        (process("tmux", "new-session", name="tmux: server"), True),
        (process("/usr/bin/SCREEN", "-dmS", "x"), True),
        (process("ssh-agent", "-s"), True),
        (process("/usr/bin/gnome-keyring-daemon", "--start"), True),
        (process("/usr/lib/jvm/bin/java", "-Xmx1g", "org.gradle.launcher.daemon.bootstrap.GradleDaemon", "8"), True),
        (process("/usr/bin/java", "-jar", "app.jar"), False),
        (process("node", "/usr/bin/codex", "app-server"), True),
        (process("node", "/usr/bin/codex", "exec"), False),
        (process("claude"), False),
        (process("sleep", "100"), False),
        (process("node", "server.js"), False),
        (process("docker", "run", "x"), False),
        (process("ssh: /home/u/.ssh/cm-host [mux]", name="ssh"), True),
        (process("ssh", "host"), False),
        (process("emacs", "--daemon=work"), True),
        (process("git", "fsmonitor--daemon", "run", "--detach"), True),
        (process("/usr/bin/node", "/home/u/.vscode-server/bin/1/out/server-main.js"), True),
        (process("bazel(app)", "-server", name="bazel(app)"), True),
        (process("bazel", "build", "//..."), False),
        (process("vim", "pasta.txt"), False),
        (process("python3", "podman_client.py"), False),
    ],
)
def test_what_is_spared_by_default(tmp_path: Path, env: dict[str, str], one: ProcessInfo, spared: bool) -> None:
    assert is_spared(one, load_config(None, env, tmp_path).policy.spare) == spared
