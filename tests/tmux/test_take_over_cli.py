"""The two commands as a person types them; the default tmux server is never among the sockets used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loopctl.adapters.shell import clean_env
from loopctl.cli.sessions_take import current_pane, default_server
from tests.support import ROOT, wait_until
from tests.tmux.strangers import NAME, REF, Server, write

pytestmark = pytest.mark.tmux

Done = subprocess.CompletedProcess[str]
Cli = Callable[..., Done]


@pytest.fixture
def server(tmux_socket: str) -> Server:
    return Server(tmux_socket)


@pytest.fixture
def cli(tmp_path: Path, tmux_socket: str) -> Cli:
    config = tmp_path / "config.yaml"
    config.write_text(f"state:\n  root: {tmp_path / 'state'}\ntmux:\n  socket: {tmux_socket}\n")
    base = clean_env(os.environ) | {"LOOPCTL_CONFIG": str(config), "PYTHONPATH": str(ROOT)}

    def run(*words: str, env: dict[str, str] | None = None) -> Done:
        argv = [sys.executable, "-m", "loopctl.cli.main", "sessions", *words]
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=60, env=base | (env or {}), cwd=tmp_path, check=False
        )

    return run


def test_register_by_name(server: Server, cli: Cli) -> None:
    server.session(NAME)
    done = cli("register", "octo/app#15", "--harness", "claude", "--name", NAME)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{REF} is session " in done.stdout and f"claude, pane %0 of {NAME} at {server.socket}" in done.stdout
    again = cli("register", "octo/app#15", "--harness", "claude", "--name", NAME, "--format", "json")
    shown = json.loads(again.stdout)
    assert (shown["ref"], shown["phase"], shown["pane"]) == (str(REF), "running", "%0")
    assert shown["attach"] == f"loopctl sessions attach {REF}"


def test_a_harness_that_nobody_knows_is_a_slip(server: Server, cli: Cli) -> None:
    server.session(NAME)
    done = cli("register", str(REF), "--harness", "cluade", "--name", NAME)
    assert done.returncode == 64 and "no harness is called 'cluade': did you mean 'claude'?" in done.stderr
    done = cli("register", str(REF), "--harness", "claude", "--name", NAME, "--cwd", "/\udcff")
    assert done.returncode == 64 and "not UTF-8" in done.stderr
    assert json.loads(cli("list", "--format", "json").stdout) == {"sessions": []}


def test_register_the_pane_that_it_runs_in(server: Server, cli: Cli, tmp_path: Path) -> None:
    """As typed inside of the session: only closing would refuse that."""
    out = tmp_path / "env"
    server.session(NAME, "sh", "-c", f'printf "%s\\n%s\\n" "$TMUX" "$TMUX_PANE" > {out}; exec sleep 3600')
    tmux, pane = wait_until(lambda: out.read_text().split() if out.exists() else [], what="the pane's environment")
    done = cli("register", str(REF), "--harness", "claude", env={"TMUX": tmux, "TMUX_PANE": pane})
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"taking the pane that this runs in: %0 at {server.socket}\n"
    socket, pid, session = tmux.split(",")
    stale = cli(
        "register", "octo/app#16", "--harness", "codex", env={"TMUX": f"{socket},1{pid},{session}", "TMUX_PANE": pane}
    )
    assert stale.returncode == 1 and "another tmux server answers" in stale.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 64, "which session?"),
        (("--name", "issue-1"), 1, "there is no session 'issue-1'"),
        (("--pane", "0"), 64, "a pane's id is % and a number"),
        (("--runner", "process", "--pane", "%0"), 64, "--runner process has none"),
        (("--harness-session-id", "--yolo", "--name", "issue-10"), 64, "no '-' in front"),
        (("--name", "issue-10", "--socket", "/nowhere/s"), 1, "no tmux server runs at /nowhere/s"),
    ],
)
def test_what_register_refuses(server: Server, cli: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    server.session("issue-10")
    done = cli("register", str(REF), "--harness", "claude", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert server.marks() == {"%0": ""}


def test_import(server: Server, cli: Cli, tmp_path: Path) -> None:
    server.session(NAME)
    folder = tmp_path / ".the-loop" / "sessions"
    folder.parent.mkdir()
    write(folder, 15)
    write(folder, 16, tmuxTarget="mine")
    write(folder, 17).write_text("{torn")
    (folder / "poll-state.json").write_text("{}")
    words = ("import", str(folder.parent), "--socket", server.socket)
    dry = cli(*words, "--dry-run")
    assert dry.stdout.endswith("Import: 1 would be taken, 0 already here, 2 skipped; 1 other files.\n")
    assert server.marks() == {"%0": ""}
    done = cli(*words)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["taken", str(REF), *f"active, running in pane %0 of {NAME}".split()]
    assert lines[1].startswith("skipped") and "use `loopctl sessions register`" in lines[1]
    assert lines[2].startswith("skipped") and "not readable as JSON" in lines[2]
    assert lines[3] == "Import: 1 taken, 0 already here, 2 skipped; 1 other files."
    report = json.loads(cli(*words, "--format", "json").stdout)
    assert report["summary"] == {"taken": 0, "already_here": 1, "skipped": 2, "ignored": 1}
    assert [row["outcome"] for row in report["sessions"]] == ["already here", "skipped", "skipped"]
    assert report["sessions"][0]["session"] == server.marks()["%0"]


def test_import_from_a_server_that_is_not_there_is_incomplete(cli: Cli, tmp_path: Path, tmux_socket: str) -> None:
    write(tmp_path / "sessions", 15)
    done = cli("import", str(tmp_path / "sessions"), "--socket", tmux_socket)
    assert done.returncode == 5
    assert f"no tmux server runs at {tmux_socket}" in done.stdout
    assert json.loads(cli("list", "--format", "json").stdout) == {"sessions": []}


def test_import_from_nowhere(cli: Cli, tmp_path: Path, tmux_socket: str) -> None:
    done = cli("import", str(tmp_path / "nowhere"), "--socket", tmux_socket)
    assert done.returncode == 1 and "No such file or directory" in done.stderr


def test_the_default_server_is_where_tmux_has_it(tmp_path: Path) -> None:
    assert default_server({"TMUX_TMPDIR": str(tmp_path)}, 7) == f"{tmp_path}/tmux-7/default"
    assert default_server({}, 7) == f"{Path('/tmp').resolve()}/tmux-7/default"
    assert default_server({"TMUX_TMPDIR": str(tmp_path / "gone")}, 7) == f"{Path('/tmp').resolve()}/tmux-7/default"


@pytest.mark.parametrize(
    ("tmux", "pane", "found"),
    [
        ("/tmp/s,12,0", "%3", ("/tmp/s", 12, "%3")),
        ("/tmp/a,b,12,0", "%3", ("/tmp/a,b", 12, "%3")),
        ("", "%3", None),
        ("/tmp/s,12,0", "", None),
        ("/tmp/s,x,0", "%3", None),
        ("/tmp/s,12,0", "3", None),
    ],
)
def test_the_current_pane(tmux: str, pane: str, found: tuple[str, int, str] | None) -> None:
    assert current_pane({"TMUX": tmux, "TMUX_PANE": pane}) == found
