"""Secrets that do not look like one, known by the variable that holds them: masked by their value, and handed to nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loopctl.adapters.github_gh import gh_env
from loopctl.adapters.journal import EventLog
from loopctl.cli import wiring, wiring_controller, wiring_github
from loopctl.cli.output import error_text
from loopctl.errors import DocumentError, Problem, StateError
from loopctl.model import secrets
from loopctl.model.encode import plan_digest, plan_from_dict, plan_to_dict
from loopctl.model.secrets import is_secret_name, learn, mask, mask_certain
from loopctl.render import RENDERERS, View
from tests.unit.render.samples import closing, rich_plan

CANARY = "tweety-0123-bird"


@pytest.fixture(autouse=True)
def unknown() -> Iterator[None]:
    secrets.forget()
    yield
    secrets.forget()


@pytest.mark.parametrize(
    ("name", "holds_one"),
    [
        *((name, True) for name in ("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "THE_LOOP_GH_WEBHOOK_SECRET")),
        *((name, True) for name in ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "ACTIONS_RUNTIME_TOKEN")),
        *((name, False) for name in ("HOME", "PATH", "GH_TOKEN_FILE", "PASSWORD_STORE_DIR", "SSH_AUTH_SOCK", "TOKENIZERS")),
    ],
)  # fmt: skip
def test_which_variables_hold_a_secret(name: str, holds_one: bool) -> None:
    assert is_secret_name(name) is holds_one
    learn({name: CANARY})
    assert (CANARY not in mask(f"it said {CANARY}!")) is holds_one


def test_a_short_value_is_found_in_words_that_are_none() -> None:
    learn({"GH_TOKEN": "closed", "API_KEY": ""})
    assert mask("it is closed") == "it is closed"


def test_a_variable_that_config_names_holds_one_whatever_its_name() -> None:
    learn({"HOOK": CANARY, "OTHER": "another-value"}, "HOOK")
    assert mask(f"{CANARY} another-value") == "*** another-value"


def test_the_longer_of_two_is_masked_whole() -> None:
    learn({"A_TOKEN": CANARY, "B_TOKEN": f"{CANARY}-and-more"})
    assert mask(f"{CANARY}-and-more") == "***"
    assert mask(mask(f"a {CANARY}")) == "a ***"


def test_what_an_agent_reads_keeps_what_only_looks_like_a_secret() -> None:
    learn({"GH_TOKEN": CANARY})
    text = "the line `password = hunter2hunter2` and Authorization: Basic abc are what it is about"
    assert mask_certain(text) == text
    assert mask_certain(f"use {CANARY} or ghp_EXAMPLEexample") == "use *** or ***"


def test_no_format_and_no_saved_plan_shows_a_prompt_with_a_secret() -> None:
    learn({"GH_TOKEN": CANARY})
    action = closing(why=f"because of {CANARY}")
    after = replace(action.after, prompt=f"do it with {CANARY}")
    plan = replace(rich_plan(), actions=(replace(action, after=after),), notes=(CANARY,), problems=(CANARY,))
    for name, form in RENDERERS.items():
        assert CANARY not in form.plan(plan, View(refusal=CANARY)), name
    saved = json.loads(json.dumps(plan_to_dict(plan)))
    assert CANARY not in json.dumps(saved)
    secrets.forget()
    # Also where nobody knows the secret any more.
    read = plan_from_dict(saved)
    assert read.actions[0].after.prompt == "do it with ***"
    assert plan_digest(read) == saved["digest"]


def test_no_event_and_no_error_shows_one(tmp_path: Path) -> None:
    learn({"GH_TOKEN": CANARY})
    log = EventLog(tmp_path / "e", lambda: datetime(2026, 7, 25, tzinfo=UTC), "apply")
    log.emit("session.closed", reason=f"x {CANARY}", argv=["a", CANARY], nested={"a": [CANARY]})
    assert CANARY not in (tmp_path / "e").read_text()
    problem = Problem("f.yml", 1, 3, f"bad {CANARY}", f"not {CANARY}", f"a: {CANARY}")
    for error in (StateError(f"gh said {CANARY}", hint=CANARY), DocumentError([problem])):
        assert CANARY not in error_text(error)


def test_foreign_text_in_an_error_steers_no_terminal() -> None:
    text = error_text(StateError("a\x1b[31mb\r\n::error::c\u202e", hint="\x1b]0;x\x07d"))
    assert text == "loopctl: ab ::error::c\n  hint: d"


ENVIRON = {
    "HOME": "/home/me",
    "PATH": "/usr/bin:/bin",
    "HTTPS_PROXY": "http://proxy:3128",
    "GH_TOKEN": "gh-own",
    "GITHUB_TOKEN": "gh-own-too",
    "ANTHROPIC_API_KEY": CANARY,
    "AWS_SECRET_ACCESS_KEY": CANARY,
    "ACTIONS_RUNTIME_TOKEN": CANARY,
    "HOOK_SECRET": CANARY,
    "PLAIN_HOOK": "hook-value",
}


def test_gh_gets_its_own_secrets_only() -> None:
    env = gh_env(ENVIRON)
    assert CANARY not in env.values()
    assert (
        env.items()
        >= {name: ENVIRON[name] for name in ("HOME", "PATH", "HTTPS_PROXY", "GH_TOKEN", "GITHUB_TOKEN")}.items()
    )


def test_tmux_and_so_each_agent_gets_none() -> None:
    env = wiring.agents_env(ENVIRON)
    assert not {CANARY, "gh-own", "gh-own-too", "hook-value", "http://proxy:3128"} & set(env.values())
    assert (env["HOME"], env["PATH"]) == ("/home/me", "/usr/bin:/bin")


def test_the_receiver_gets_its_own_only(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Mapping[str, str]] = []
    monkeypatch.setattr(wiring_controller, "Child", lambda argv, environ: got.append(environ))
    monkeypatch.setattr("os.environ", ENVIRON)
    wiring_controller.start_receiver("HOOK_SECRET")
    (environ,) = got
    assert environ["HOOK_SECRET"] == CANARY
    assert not {"GH_TOKEN", "GITHUB_TOKEN", "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY"} & environ.keys()


def test_the_webhook_secret_is_kept_from_gh_whatever_its_name(tmp_path: Path) -> None:
    from loopctl.config import load_config

    (tmp_path / "c.yaml").write_text(
        "webhooks: {ghWebhook: {secretEnv: PLAIN_HOOK}}\npolling: {sources: [{provider: github, repos: [octo/app]}]}\n"
    )
    config = load_config(str(tmp_path / "c.yaml"), {}, tmp_path)
    (api,) = wiring_github.github_hosts(config, ENVIRON, {}).values()
    assert "hook-value" not in api._env.values()
    assert api._env["GH_TOKEN"] == "gh-own"
