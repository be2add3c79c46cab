from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["tests.fake_github.plugin"]


# A shell that puts the tests into the background lets them ignore Ctrl-C, and all that they start would do so too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite the expected plans of tests/cases")


_FOREIGN = ("TMUX", "GH_", "GITHUB_", "LOOPCTL_", "XDG_")


@pytest.fixture(autouse=True)
def clean_environ(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nothing of the person or job that runs the tests reaches them; returns the empty HOME."""
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def tmux_socket() -> Iterator[str]:
    """A socket path of this test alone, short enough for a Unix socket; the server behind it is ended afterwards."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="lc-"))
    socket = folder / "s"
    yield str(socket)
    if socket.exists():
        subprocess.run(["tmux", "-S", str(socket), "kill-server"], check=False, capture_output=True, timeout=20)
    shutil.rmtree(folder, ignore_errors=True)
