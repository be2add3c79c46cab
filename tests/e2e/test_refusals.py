"""Locks, limits, and a state folder that cannot be trusted: said, and nothing done."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.kit import Box, close_rule
from tests.support import wait_until

pytestmark = pytest.mark.tmux


def untouched(box: Box) -> bool:
    """Whether all agents live, and nobody's input was turned off."""
    lines = box.tmux("list-panes", "-a", "-F", "#{pane_dead}#{pane_input_off}").split()
    return bool(lines) and set(lines) == {"00"}


def test_one_apply_at_a_time(box: Box) -> None:
    box.settings["lock"] = {"timeoutSeconds": 0.2}
    box.write_config()
    box.start(["demo/app#1"], "stubborn")
    box.start(["demo/app#2"])
    box.items({"demo/app#1": "closed", "demo/app#2": "closed"})
    box.playbook("long.yml", close_rule(1000))
    with (box.folder / "err").open("wb") as err, box.popen("apply", "long.yml", "-y", stderr=err) as first:
        wait_until(lambda: b"waiting" in (box.folder / "err").read_bytes(), what="the first one waits for its agent")
        done = box.run("apply", "close.yml", "-y")
        assert done.code == 3, done
        assert f"pid {first.pid}" in done.err
        assert "lock.timeoutSeconds" in done.err
        # Looking never waits for it.
        assert box.run("plan", "close.yml").code == 0
        assert len(box.sessions()) == 2
        first.kill()
    # A killed holder holds nothing, and neither does the tmux server.
    box.playbook("close.yml", close_rule(0.2))
    done = box.run("apply", "close.yml", "-y")
    assert done.code == 0, done


def test_too_much_at_once_is_refused(box: Box) -> None:
    refs = [f"demo/app#{number}" for number in range(1, 12)]
    box.start([*refs, *(f"demo/app#{number}" for number in range(12, 30))])
    box.items(dict.fromkeys(refs, "closed") | {f"demo/app#{number}": "open" for number in range(12, 30)})
    done = box.run("apply", "close-ended-items", "-y")
    assert done.code == 3, done
    assert "--max-changes 11" in done.err
    assert "Plan: 0 to start, 11 to close" in done.out
    # A saved plan is no way round, and neither is a smaller number.
    assert box.run("plan", "close-ended-items", "--out", "p.json").code == 0
    assert box.run("apply", "p.json", "-y").code == 3
    assert box.run("apply", "close-ended-items", "-y", "--max-changes", "10").code == 3
    assert untouched(box)
    done = box.run("apply", "close-ended-items", "-y", "--max-changes", "11")
    assert done.code == 0, done
    assert [row["status"] for row in box.records()].count("closed") == 11


def test_a_registry_that_cannot_be_read_is_no_empty_registry(box: Box) -> None:
    box.start(["demo/app#1", "demo/app#2"])
    box.items({"demo/app#1": "closed", "demo/app#2": "closed"})
    file = box.state / "registry.db"
    box.edit("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = file.read_bytes()
    broken = {
        "empty": b"",
        "half": whole[: len(whole) // 2],
        "foreign": b"SQLite format 3\0" + b"\0" * 4080,
        "text": b'{"sessions": []}\n' * 300,
        "torn": whole[:4096] + os.urandom(len(whole) - 4096),
    }
    for name, content in broken.items():
        for leftover in ("-wal", "-shm"):
            Path(f"{file}{leftover}").unlink(missing_ok=True)
        file.write_bytes(content)
        # A start would be the worst: with an empty registry, everything were to be started again.
        for book in ("close.yml", "start.yml"):
            done = box.run("apply", book, "-y")
            assert done.code == 1, (name, book, done)
            assert str(file) in done.err, (name, done)
            assert "Traceback" not in done.err, (name, done)
        assert file.read_bytes() == content, name
        assert untouched(box), name
    file.write_bytes(whole)
    assert box.run("apply", "close.yml", "-y").code == 0


def test_a_state_folder_that_others_can_write_to_is_refused(box: Box) -> None:
    box.start(["demo/app#1"])
    box.items({"demo/app#1": "closed"})
    for mode in (0o777, 0o770):
        box.state.chmod(mode)
        done = box.run("apply", "close.yml", "-y")
        assert done.code == 1, done
        assert str(box.state) in done.err
        assert "can be written by others" in done.err
        assert untouched(box)
    box.state.chmod(0o700)
    assert box.run("apply", "close.yml", "-y").code == 0


@pytest.fixture
def small_disk(box: Box) -> Path:
    """The box's state root on a file system of its own, with room for little."""
    box.state.mkdir(mode=0o700)
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root can mount a small file system")
    argv = ["mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "none", str(box.state)]
    if subprocess.run(argv, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let us mount")
    return box.state


def test_a_full_disk_ends_nobody(box: Box, small_disk: Path) -> None:
    try:
        box.start(["demo/app#1"])
        box.items({"demo/app#1": "closed"})
        before = box.records()
        with (small_disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(b"\0" * 512)
        done = box.run("apply", "close.yml", "-y")
        assert done.code == 1, done
        assert str(small_disk) in done.out + done.err
        assert "full" in done.out + done.err or "No space left" in done.out + done.err
        assert "Traceback" not in done.err
        assert untouched(box)
        assert box.records() == before
        (small_disk / "ballast").unlink()
        done = box.run("apply", "close.yml", "-y")
        assert done.code == 0, done
        assert box.session("items:demo/app#1")["phase"] == "retained"
    finally:
        subprocess.run(["umount", "-l", str(small_disk)], check=False)


@pytest.mark.parametrize("grace", ["nan", "inf", "-1"])
def test_a_grace_that_never_ends_is_refused(box: Box, grace: str) -> None:
    box.start(["demo/app#1"])
    done = box.run("sessions", "close", "items:demo/app#1", "--grace", grace)
    assert done.code == 64, done
    assert untouched(box)
