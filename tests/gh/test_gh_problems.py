"""gh itself: whatever is wrong with it is a clear message with the remedy, and never 'no items'."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.adapters.github_gh import gh_failure, version_of
from loopctl.adapters.github_health import health
from loopctl.model.facts import Known, Unknown
from loopctl.model.health import FAIL, GOOD, WARN
from loopctl.model.refs import WorkItemRef
from loopctl.render.clean import shown
from tests.fake_github import FakeGitHub, faults

pytestmark = pytest.mark.gh


@dataclass(frozen=True)
class Problem:
    """What is wrong with gh: the script that stands in its place, or the environment of the real one."""

    reason: str
    script: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    host: str = "github.com"


SAY = "#!/bin/sh\n"
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")
NO_PROXY = dict.fromkeys(_PROXIES, "")
PROBLEMS = {
    "not installed": Problem("gh was not found. Install gh, or put it on PATH.", env={"PATH": "/nonexistent"}),
    "too old": Problem(
        "unknown flag: --hostname: this gh is too old: install gh 2.20 or later",
        SAY + "echo 'unknown flag: --hostname' >&2\necho 'Usage:  gh api <endpoint> [flags]' >&2\nexit 1\n",
    ),
    "not logged in": Problem(
        "gh is not logged in to github.com: run gh auth login --hostname github.com",
        env={"GH_TOKEN": "", "GH_ENTERPRISE_TOKEN": "", "GH_CONFIG_DIR": "/nonexistent"},
    ),
    "not logged in to that host": Problem(
        "(HTTP 401): run gh auth login --hostname ghe.example.test, or set GH_ENTERPRISE_TOKEN",
        env={"GH_ENTERPRISE_TOKEN": ""},
        host="ghe.example.test",
    ),
    "wrong host": Problem(
        "check the network, that ghe.invalid is the right name, and HTTPS_PROXY",
        env=NO_PROXY | {"GH_CONFIG_DIR": "/nonexistent"},
        host="ghe.invalid",
    ),
    "a proxy that is not there": Problem(
        "check the proxy in HTTPS_PROXY, and NO_PROXY",
        env=NO_PROXY | {"GH_CONFIG_DIR": "/nonexistent", "HTTPS_PROXY": "http://127.0.0.1:1"},
    ),
    "an unknown authority": Problem(
        "the certificate of github.com is not trusted here",
        SAY + "echo 'Post \"https://api.github.com/graphql\": tls: failed to verify certificate: x509: unknown' >&2\nexit 1\n",
    ),
    "a broken configuration": Problem(
        "gh cannot use its configuration: check GH_CONFIG_DIR",
        SAY + "echo 'failed to read configuration: invalid config file ~/.config/gh/config.yml' >&2\nexit 1\n",
    ),
    "asks a question": Problem(
        "gh asks a question instead of answering",
        SAY + "printf 'What account do you want to log into? ' >&2\nread answer || exit 1\necho \"$answer\"\n",
    ),
    "killed": Problem("GitHub: gh was ended by signal 9", SAY + "kill -9 $$\n"),
    "prints something else": Problem("GitHub: gh printed no answer", SAY + "echo '[]'\n"),
    "prints colour": Problem("GitHub: gh printed no answer", SAY + r"printf '\033[32mHTTP/2.0 200 OK\033[0m\r\n\r\n{}'" + "\n"),
    "prints two documents": Problem(
        "GitHub: the answer is no JSON",
        SAY + r"""printf 'HTTP/2.0 200 OK\r\n\r\n{"data":{"r0":null}}\n{"data":{"r0":null}}\n'""" + "\n",
    ),
    "prints a list": Problem("GitHub: the answer is no JSON", SAY + r"printf 'HTTP/2.0 200 OK\r\n\r\n[]'" + "\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_of_gh_is_named_with_its_remedy(fake_github: FakeGitHub, gh: str, tmp_path: Path, name: str) -> None:
    problem = PROBLEMS[name]
    fake_github.issue("octo/app", 1, "CLOSED")
    script = tmp_path / "gh"
    if problem.script:
        script.write_text(problem.script)
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    program = "gh" if "PATH" in problem.env else str(script) if problem.script else gh
    env = os.environ | fake_github.env() | problem.env
    provider = GitHub(GitHubApi(problem.host, env, program), ["octo/app"], "loop")
    ref = WorkItemRef("github", problem.host, "octo", "app", 1)
    for fact in (provider.get([ref])[ref], provider.listed()):
        assert isinstance(fact, Unknown), fact
        assert problem.reason in fact.reason
        assert "\n" not in fact.reason
    assert {request.authorization for request in fake_github.requests} <= {""}


def test_an_update_notice_is_no_problem(fake_github: FakeGitHub, gh: str, tmp_path: Path) -> None:
    fake_github.issue("octo/app", 1, "CLOSED")
    script = tmp_path / "gh"
    notice = "A new release of gh is available: 2.23.0 -> 2.103.3\nhttps://github.com/cli/cli/releases/tag/v2.103.3"
    script.write_text(f"#!/bin/sh\n'{gh}' \"$@\"\ncode=$?\necho '{notice}' >&2\nexit $code\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    provider = GitHub(GitHubApi("github.com", os.environ | fake_github.env(), str(script)), ["octo/app"])
    ref = WorkItemRef.parse("github:octo/app#1")
    assert isinstance(provider.get([ref])[ref], Known)
    fake_github.break_item("octo/app", 1, "INTERNAL", "Something went wrong")
    fact = provider.get([ref])[ref]
    assert fact == Unknown("GitHub: Something went wrong")


def test_what_a_notice_hides_is_found() -> None:
    failure = gh_failure(1, "A new release of gh is available: 1 -> 2\n\nerror connecting to ghe.corp\n", "ghe.corp")
    assert failure.reason.startswith("GitHub: error connecting to ghe.corp: check the network")
    assert failure.stop


def test_a_remedy_is_told_apart_and_outlives_the_cut_of_a_plan(tmp_path: Path) -> None:
    said = 'Post "https://api.github.com/graphql": proxyconnect tcp: dial tcp 127.0.0.1:1: ' + "connect: refused " * 9
    script = tmp_path / "gh"
    script.write_text(f"#!/bin/sh\n[ $1 = api ] || exec echo 'gh version 2.50.0'\necho '{said}' >&2\nexit 1\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    _, finding = health(GitHubApi("github.com", os.environ, str(script)), ["octo/app"])
    assert finding.text.startswith("proxyconnect tcp: dial tcp")
    assert finding.remedy == "check the proxy in HTTPS_PROXY, and NO_PROXY"
    assert shown(gh_failure(1, said, "github.com").reason, 200).endswith(f": {finding.remedy}")


def test_what_was_not_asked_is_not_said_to_have_been(tmp_path: Path) -> None:
    provider = GitHub(GitHubApi("github.com", os.environ, str(tmp_path / "gone")), ["octo/app"])
    ref = WorkItemRef.parse("github:octo/app#1")
    assert isinstance(provider.get([ref])[ref], Unknown)
    assert provider.asked() == ()


@pytest.mark.parametrize(
    "foreign",
    [
        {"GH_HOST": "ghe.example.test", "GH_REPO": "evil/repo"},
        {"GH_FORCE_TTY": "200", "CLICOLOR_FORCE": "1", "FORCE_COLOR": "1"},
        {"GH_DEBUG": "api", "DEBUG": "api"},
        {"GH_PAGER": "cat >/dev/null", "PAGER": "cat >/dev/null"},
        {"GH_PROMPT_DISABLED": "", "GH_NO_UPDATE_NOTIFIER": "", "GH_SPINNER_DISABLED": ""},
        {"GH_PATH": "/nonexistent", "GH_BROWSER": "/nonexistent", "GH_EDITOR": "/nonexistent", "GH_MDWIDTH": "x"},
        {"LC_ALL": "C", "LANG": "tr_TR.UTF-8", "LANGUAGE": "de"},
    ],
    ids=lambda foreign: " ".join(foreign),
)
def test_what_the_user_set_for_himself_does_not_mislead(
    fake_github: FakeGitHub, gh: str, foreign: Mapping[str, str]
) -> None:
    fake_github.issue("octo/app", 1, "CLOSED", title="Ünï\u2028 🎉")
    env = os.environ | fake_github.env() | foreign
    ref = WorkItemRef.parse("github:octo/app#1")
    fact = GitHub(GitHubApi("github.com", env, gh), ["octo/app"]).get([ref])[ref]
    assert isinstance(fact, Known), fact
    assert (fact.value.state, fact.value.title) == ("closed", "Ünï\u2028 🎉")
    assert {request.host for request in fake_github.requests} == {"api.github.com"}


def test_versions_are_read() -> None:
    assert version_of("gh version 2.23.0 (2023-02-27 Debian 2.23.0+dfsg1-1)\n") == (2, 23, 0)
    assert version_of("gh version 2.103.3 (2026-10-26)\nhttps://github.com") == (2, 103, 3)
    assert version_of("hub version 2.14") is None


def test_health_of_a_host(fake_github: FakeGitHub, gh: str, tmp_path: Path) -> None:
    fake_github.issue("octo/app", 1)
    fake_github.issue("octo/secret", 1)
    api = GitHubApi("github.com", os.environ | fake_github.env(), gh)
    found = list(health(api, ["octo/app"]))
    assert [finding.level for finding in found] == [GOOD, GOOD, GOOD]
    assert found[1].text == "logged in as octocat"
    assert found[2].text.startswith("4999 of 5000 points left until ")
    assert len(fake_github.requests) == 1

    fake_github.hide("octo/secret")
    fake_github.remaining = 40
    found = list(health(api, ["octo/app", "octo/secret"]))
    assert [(f.level, bool(f.remedy)) for f in found] == [(GOOD, False), (GOOD, False), (FAIL, True), (WARN, True)]
    assert "octo/secret does not answer" in found[2].text

    fake_github.fail(faults.BAD_CREDENTIALS)
    *_, last = health(api, ["octo/app"])
    assert (last.level, last.text) == (FAIL, "Bad credentials (HTTP 401)")
    assert last.remedy == "run gh auth login --hostname github.com"


@pytest.mark.parametrize(
    ("said", "level", "text"),
    [
        ("gh version 1.9.2 (2021-04-20)", FAIL, "1.9.2 is too old"),
        ("gh version 2.19.9 (2022-10-20)", FAIL, "2.19.9 is too old"),
        ("hub version 2", FAIL, "does not say its version: hub version 2"),
    ],
)
def test_health_of_a_gh(tmp_path: Path, said: str, level: str, text: str) -> None:
    script = tmp_path / "gh"
    script.write_text(f"#!/bin/sh\necho '{said}'\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    (finding,) = health(GitHubApi("github.com", os.environ, str(script)), ["octo/app"])
    assert (finding.level, finding.text) == (level, text)
    assert finding.remedy.startswith("install gh 2.20 or later")
