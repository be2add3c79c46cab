"""`loopctl run` and `status` as commands: what they need, what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi, Tally
from loopctl.adapters.github_reply import Failure
from loopctl.adapters.registry_lock import APPLY, CONTROLLER, hold_lock, holder
from loopctl.cli.run import Options, load
from loopctl.cli.where import here, read_config
from loopctl.cli.wiring import Setup, Stop
from loopctl.cli.wiring_github import Hosts
from loopctl.config import Config
from loopctl.controller.log import Log
from loopctl.controller.reload import Loaded, Reloader
from loopctl.errors import RefusedError, StateError
from loopctl.model.secrets import forget, mask

EXTRA = ("gidgethub", "prometheus_client", "starlette", "uvicorn", "watchfiles")


def now() -> datetime:
    return datetime(2026, 7, 25, tzinfo=UTC)


def without_the_extra(folder: Path, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run loopctl where the packages of the extra are not installed."""
    blocked = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {EXTRA!r}: raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, package=None: None if name in {EXTRA!r} else real(name, package)\n"
        "from loopctl.cli.main import main\n"
        f"main({list(args)!r})\n"
    )
    home = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(folder / "state"), **(env or {})}
    command = [sys.executable, "-c", blocked]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=home, check=False, timeout=60)


def test_polling_needs_no_extra(tmp_path: Path) -> None:
    done = without_the_extra(tmp_path, "run", "close-ended-items", "--once")
    assert done.returncode == 0, done
    assert '"message": "looked"' in done.stderr
    assert done.stdout == ""


def test_webhooks_say_which_extra_they_need(tmp_path: Path) -> None:
    done = without_the_extra(tmp_path, "run", "close-ended-items", "--webhook", env={"THE_LOOP_GH_WEBHOOK_SECRET": "x"})
    assert done.returncode == 64, done
    assert "loopctl[serve]" in done.stderr


@pytest.mark.parametrize("args", [("--once", "--webhook"), ("--insecure",), ("--interval", "0")])
def test_what_does_not_fit_together(tmp_path: Path, args: tuple[str, ...]) -> None:
    assert without_the_extra(tmp_path, "run", "close-ended-items", *args).returncode == 64


def test_a_wrong_playbook_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text("- rules: 5\n")
    done = without_the_extra(tmp_path, "run", "p.yml")
    assert done.returncode == 65
    assert "p.yml:1:" in done.stderr


def test_status_without_a_controller(tmp_path: Path) -> None:
    done = without_the_extra(tmp_path, "status")
    assert (done.returncode, done.stdout.split()[0]) == (1, "stopped")
    assert not (tmp_path / "state").exists()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a project without a config."""
    for name in ("LOOPCTL_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, folder in (("HOME", "home"), ("XDG_STATE_HOME", "state")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def config_at(path: Path, repo: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"polling: {{sources: [{{provider: github, repos: [{repo}]}}]}}\n")


def reloader(config: str | None = None, playbook: str = "close-ended-items") -> Reloader:
    options = Options(here(), (playbook,), config, (), (), None, webhook=False, insecure=False)
    silent = Log(lambda text: None, now, as_json=True)
    hosts: Hosts = {}
    return Reloader(lambda keep: load(options, keep, Stop(), silent, hosts))


def repos(loaded: Loaded) -> list[str]:
    return [repo for source in loaded.config.sources for repo in source.repos]


def test_a_config_that_appears_later_is_used(elsewhere: Path) -> None:
    home, project = elsewhere / "home/.config/loopctl/config.yaml", elsewhere / "project/.loopctl/config.yaml"
    running = reloader()
    assert [*running.loaded.files][:2] == [str(project), str(home)]
    assert running.check() is None
    config_at(home, "octo/app")
    change = running.check()
    assert change
    assert "sources" in change.changed
    assert (repos(running.loaded), running.check()) == (["octo/app"], None)
    # The project's own comes first, also when it comes later.
    config_at(project, "octo/lib")
    assert running.check()
    assert repos(running.loaded) == ["octo/lib"]
    # And the one behind it does not matter any more.
    config_at(home, "octo/else")
    assert running.check() is None
    project.unlink()
    assert running.check()
    assert repos(running.loaded) == ["octo/else"]


def test_an_edit_while_the_files_are_read_is_seen_by_the_next_look(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = elsewhere / "project/.loopctl/config.yaml"
    config_at(place, "octo/app")
    real = read_config

    def slow(explicit: str | None, folder: Path) -> Config:
        config = real(explicit, folder)
        if edits:
            config_at(place, edits.pop())
        return config

    monkeypatch.setattr("loopctl.cli.run.read_config", slow)
    edits = ["octo/during-the-start"]
    running = reloader()
    assert repos(running.loaded) == ["octo/app"]
    edits = ["octo/during-the-edit"]
    for expected in ("octo/during-the-start", "octo/during-the-edit"):
        assert running.check()
        assert repos(running.loaded) == [expected]
    assert running.check() is None


def test_a_pipe_in_place_of_the_config_is_refused_and_not_waited_for(elsewhere: Path) -> None:
    place = elsewhere / "project/.loopctl/config.yaml"
    config_at(place, "octo/app")
    running = reloader()
    place.unlink()
    os.mkfifo(place)
    change = running.check()
    assert change
    assert "no regular file" in str(change)
    assert (repos(running.loaded), running.check()) == (["octo/app"], None)


def test_an_edit_makes_no_limit_forgotten(elsewhere: Path) -> None:
    place = elsewhere / "project/.loopctl/config.yaml"
    config_at(place, "octo/app")
    running = reloader()

    def api() -> GitHubApi:
        (provider,) = running.loaded.world.providers
        assert isinstance(provider, GitHub)
        return provider._api

    told = api().limited(Failure("GitHub: rate limit", limited=True, retry_after=3600))
    for text in (place.read_text() + "github: {timeoutSeconds: 7}\n", "{}"):
        saved = place.read_text()
        place.write_text(text)
        assert running.check()
    place.write_text(saved)
    assert running.check()
    assert (api().rest("repos/octo/app", Tally()), api().timeout) == (told, 7.0)


def test_what_needs_a_restart_says_so(elsewhere: Path) -> None:
    """Where it listens, and where its state is."""
    place = elsewhere / "project/.loopctl/config.yaml"
    config_at(place, "octo/app")
    running = reloader()
    before = running.loaded.config
    hook = "webhooks: {ghWebhook: {host: 127.0.0.2, port: 99, path: /x, secretEnv: OTHER, events: [issues]}}\n"
    place.write_text(place.read_text() + hook + "state: {root: /other}\n")
    change = running.check()
    assert change
    assert set(change.fixed) == {
        "state_root", "socket", "event_log", "webhook.host", "webhook.port", "webhook.path", "webhook.secret_env"
    }  # fmt: skip
    after = running.loaded.config
    assert (after.state_root, after.webhook.port, after.webhook.events) == (before.state_root, 8787, ("issues",))


def test_a_config_that_is_named_is_the_only_one(elsewhere: Path) -> None:
    named = elsewhere / "mine.yaml"
    config_at(named, "octo/app")
    running = reloader(str(named))
    assert next(iter(running.loaded.files)) == str(named)
    assert len(running.loaded.files) == 2
    named.unlink()
    change = running.check()
    assert change
    assert change.problems
    assert repos(running.loaded) == ["octo/app"]


def test_a_folder_that_is_removed_ends_no_controller(elsewhere: Path) -> None:
    named, book = elsewhere / "mine.yaml", elsewhere / "p.yml"
    config_at(named, "octo/app")
    book.write_text("- rules: [{name: x, match: {item: {number: 1}}, ensure: {session: gone}}]\n")
    running = reloader(str(named), str(book))
    (elsewhere / "project").rmdir()
    config_at(named, "octo/lib")
    assert running.check()
    assert repos(running.loaded) == ["octo/lib"]
    # Whoever starts there is told.
    with pytest.raises(StateError, match="the current folder: No such file"):
        Setup.load(str(named), "plan")
    with pytest.raises(StateError, match="the current folder: No such file"):
        reloader(str(named), str(book))


def test_what_a_running_controller_must_mask_is_learned(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment, from the config, and from an edit of it."""
    forget()
    for name, value in (("MY_TOKEN", "hunter2hunter2"), ("HOOK", "hooked-on-hooks")):
        monkeypatch.setenv(name, value)
    place = elsewhere / "project/.loopctl/config.yaml"
    config_at(place, "octo/app")
    own = "harnesses: {mine: {argv: [x], env: {A_TOKEN: tweety-0123-bird}}}\n"
    place.write_text(place.read_text() + own + "webhooks: {ghWebhook: {secretEnv: HOOK}}\n")
    running = reloader()
    assert mask("hunter2hunter2 hooked-on-hooks tweety-0123-bird") == "*** *** ***"
    place.write_text(place.read_text().replace("tweety-0123-bird", "another-9876-bird"))
    assert running.check()
    assert mask("tweety-0123-bird another-9876-bird") == "*** ***"
    forget()


def test_a_start_without_a_config_says_where_one_is_looked_for(elsewhere: Path) -> None:
    (elsewhere / "p.yml").write_text("- rules: [{name: x, match: {item: {number: 1}}, ensure: {session: gone}}]\n")
    script = "from loopctl.controller.loop import Controller\n"
    script += "Controller.run = lambda self, once: 0\nfrom loopctl.cli.main import main\n"
    script += f"main(['run', {str(elsewhere / 'p.yml')!r}])\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done
    (line,) = [json.loads(line) for line in done.stderr.splitlines() if "there is no config" in line]
    assert line["places"] == [
        str(elsewhere / f) for f in ("project/.loopctl/config.yaml", "home/.config/loopctl/config.yaml")
    ]


def test_the_locks_are_two(tmp_path: Path) -> None:
    with hold_lock(tmp_path, 0, now, CONTROLLER):
        with hold_lock(tmp_path, 0, now, APPLY):
            assert holder(tmp_path, APPLY)
        assert holder(tmp_path, APPLY) == ""
        assert "since 2026-07-25T00:00:00Z" in holder(tmp_path, CONTROLLER)
        with (
            pytest.raises(RefusedError, match=r"another controller runs for .*pid"),
            hold_lock(tmp_path, 0, now, CONTROLLER),
        ):
            pass
    assert holder(tmp_path, CONTROLLER) == ""
