from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loopctl.cli.init import LAUNCHD, SYSTEMD, unit

LOOPCTL = str(Path(sys.executable).parent / "loopctl")
COMMAND = ["/opt/loop ctl/bin/loopctl", "run", "close-ended-items", "--config", '/home/a/100% "$HOME".yaml']


def loopctl(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LOOPCTL, *args], capture_output=True, text=True, cwd=cwd, check=False, timeout=60)


def test_a_first_config_and_playbook(tmp_path: Path) -> None:
    done = loopctl("init", cwd=tmp_path)
    assert done.returncode == 0, done
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert written == [".loopctl/config.yaml", "playbook.yml"]
    assert loopctl("validate", "playbook.yml", ".loopctl/config.yaml", cwd=tmp_path).returncode == 0


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "here" / ".loopctl").mkdir(parents=True)
    mine = tmp_path / "here" / ".loopctl" / "config.yaml"
    mine.write_text("lock: {timeoutSeconds: 1}\n")
    (tmp_path / "here" / "playbook.yml").symlink_to(tmp_path / "nowhere")
    done = loopctl("init", "here", cwd=tmp_path)
    assert done.returncode == 0, done
    assert mine.read_text() == "lock: {timeoutSeconds: 1}\n"
    assert not (tmp_path / "nowhere").exists()
    assert done.stderr.count("kept") == 2


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = loopctl("init", "file", cwd=tmp_path)
    assert done.returncode == 1
    assert "file" in done.stderr


def test_a_unit_for_systemd(tmp_path: Path) -> None:
    done = loopctl("init", "--service", "systemd", "--playbook", "close-ended-items", "--webhook", cwd=tmp_path)
    assert done.returncode == 0, done
    assert f"ExecStart={shlex.quote(LOOPCTL)} run close-ended-items --webhook\n" in done.stdout
    # Stopping it must not end the tmux server that it started.
    assert "\nKillMode=process\n" in done.stdout
    assert "\nRestartPreventExitStatus=3 64 65\n" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_systemd_would_expand_is_taken_as_it_stands(tmp_path: Path) -> None:
    text = unit(SYSTEMD, COMMAND, tmp_path)
    assert 'ExecStart="/opt/loop ctl/bin/loopctl" run' in text
    assert '"/home/a/100%% \\"$$HOME\\".yaml"' in text


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    file = tmp_path / "loopctl.service"
    file.write_text(unit(SYSTEMD, [LOOPCTL, "run", "close-ended-items"], tmp_path))
    env = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path), "SYSTEMD_LOG_LEVEL": "warning"}
    command = ["systemd-analyze", "verify", "--man=no", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)
    about = [line for line in done.stderr.splitlines() if "loopctl.service" in line and "Failed" not in line]
    assert about == []


def test_a_plist_for_launchd(tmp_path: Path) -> None:
    plist = plistlib.loads(unit(LAUNCHD, [*COMMAND, "<&>"], tmp_path).encode())
    assert plist["ProgramArguments"] == [*COMMAND, "<&>"]
    assert plist["AbandonProcessGroup"] is True
    assert plist["KeepAlive"] == {"SuccessfulExit": False}


def test_the_system_chooses(tmp_path: Path) -> None:
    done = loopctl("init", "--service", cwd=tmp_path)
    assert done.returncode == 0
    assert ("<plist" in done.stdout) is (sys.platform == "darwin")


@pytest.mark.parametrize("option", ["--playbook", "--config"])
def test_a_service_of_what_is_not_there_is_refused(tmp_path: Path, option: str) -> None:
    done = loopctl("init", "--service", "systemd", option, "nosuch.yml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (64, "")
    assert f"{option} nosuch.yml: no such file" in done.stderr


def test_options_of_a_service_need_one(tmp_path: Path) -> None:
    assert loopctl("init", "--webhook", cwd=tmp_path).returncode == 64
