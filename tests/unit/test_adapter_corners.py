"""What adapters say of a machine that is not as it should be: programs that hang or lie, files that are none, and locks that are held."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket as sockets
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from loopctl.adapters import processes, registry_lock, tmux_capture, worktrees
from loopctl.adapters.harnesses import CommandHarness
from loopctl.adapters.harnesses_health import health
from loopctl.adapters.registry import SqliteRegistry
from loopctl.adapters.tmux import Tmux
from loopctl.adapters.tmux_format import quote
from loopctl.adapters.transcripts import TranscriptFolder
from loopctl.adapters.worktrees_git import Git, GitError, Place
from loopctl.adapters.worktrees_look import own
from loopctl.errors import RefusedError, StateError
from loopctl.model.facts import REFUSED, Known, Unknown
from loopctl.model.health import GOOD, WARN
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import Pane, ServerId, SessionRecord
from loopctl.ports import PaneRef, StartSpec

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
REF = WorkItemRef.parse("github:octo/app#15")
SERVER = ServerId(7, 1)
PANE = PaneRef("%1", "$1", "a-1")


def script(folder: Path, text: str, name: str = "program") -> str:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[str]:
    """A socket behind which somebody listens who is no tmux."""
    path = str(tmp_path / "s")
    with sockets.socket(sockets.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        yield path


def tmux(folder: Path, text: str, timeout: float = 20.0) -> Tmux:
    env = {"PATH": os.environ["PATH"]}
    return Tmux(env, own_socket="/nowhere", program=script(folder, text, "tmux"), timeout=timeout)


def test_a_tmux_that_hangs_did_nothing_that_can_be_told(tmp_path: Path, listening: str) -> None:
    slow = tmux(tmp_path, "sleep 600", timeout=0.2)
    assert slow.secure(listening, SERVER, [PANE]) == "tmux did not answer within 0.2 s"
    assert slow.look(listening) == Unknown(f"tmux did not answer within 0.2 s ({listening})")
    fact = slow.start(listening, [StartSpec("a-1", REF, "loop", ("true",), str(tmp_path), {})])["a-1"]
    assert isinstance(fact, Unknown)
    assert fact.kind != REFUSED


def test_a_server_that_goes_away_is_asked_once_more_and_never_taken_for_none(tmp_path: Path, listening: str) -> None:
    leaving = tmux(tmp_path, f"echo x >>{tmp_path}/calls; echo 'server exited unexpectedly' >&2; exit 1")
    assert isinstance(leaving.look(listening), Unknown)
    # The third is the question for its version.
    assert (tmp_path / "calls").read_text().count("x") == 3


def test_what_tmux_is_not_even_asked(tmp_path: Path, listening: str) -> None:
    never = tmux(tmp_path, f"touch {tmp_path}/asked")
    spec = StartSpec("a-1", REF, "loop", ("true",), str(tmp_path), {})
    assert never.secure(listening, SERVER, []) == ""
    too_long = never.start("/" + "x" * 120, [spec])["a-1"]
    assert isinstance(too_long, Unknown)
    assert (too_long.kind, "too long for a socket" in too_long.reason) == (REFUSED, True)
    nothing = never.start(listening, [StartSpec("a-1", REF, "loop", (), str(tmp_path), {})])["a-1"]
    assert nothing == Unknown("the harness has no command line", REFUSED)
    (tmp_path / "file").touch()
    assert never.paste(str(tmp_path / "file"), SERVER, PANE, "text") == Unknown(
        f"{tmp_path / 'file'} is not a socket", REFUSED
    )
    for wrong in ("a;b", "a b", "#{pid}"):
        with pytest.raises(ValueError, match="is no session id"):
            never.release(listening, SERVER, [PaneRef("%1", "$1", wrong)])
    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")
    assert not (tmp_path / "asked").exists()


def test_a_link_to_a_socket_is_followed_and_one_to_nothing_is_no_server(tmp_path: Path, listening: str) -> None:
    (tmp_path / "link").symlink_to(listening)
    (tmp_path / "broken").symlink_to(tmp_path / "gone")
    liar = tmux(tmp_path, "exit 0")
    assert isinstance(liar.look(str(tmp_path / "link")), Unknown)
    assert isinstance(liar.look(str(tmp_path / "broken")), Known)


def test_a_git_that_hangs_or_fails_is_no_answer(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"]}
    slow = Git(script(tmp_path, "sleep 600", "slow"), env)
    with pytest.raises(GitError, match="git status took longer than 0 s"):
        slow.run(Place(tmp_path), "status", timeout=0.2)
    broken = Git(script(tmp_path, "echo 'fatal: broken' >&2; exit 128", "broken"), env)
    with pytest.raises(GitError, match="git status: fatal: broken"):
        broken.text(Place(tmp_path), "status")
    assert broken.tried(Place(tmp_path), "merge-base").code == 128


@pytest.mark.parametrize("content", ["something else\n", "gitdir: /nowhere\n", None])
def test_a_folder_whose_pointer_is_none_is_not_ours(tmp_path: Path, content: str | None) -> None:
    tree = tmp_path / "trees" / "one"
    tree.mkdir(parents=True)
    if content is None:
        os.mkfifo(tree / ".git")
    else:
        (tree / ".git").write_text(content)
    found = own(tree, "one", tmp_path / "clones", tmp_path / "trees")
    assert isinstance(found, str)
    assert "no pointer to a worktree" in found


def test_worktrees_wait_for_one_another_with_patience_and_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worktrees, "_PATIENCE", 0.2)
    with (
        worktrees._lock(tmp_path),
        pytest.raises(StateError, match="another loopctl has been at work"),
        worktrees._lock(tmp_path),
    ):
        pass

    def broken(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", broken)
    with pytest.raises(StateError, match="No locks available"), worktrees._lock(tmp_path):
        pass


def test_a_file_system_that_locks_no_folders_locks_files_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = fcntl.flock

    def files_only(handle: int, how: int) -> None:
        if Path(f"/proc/self/fd/{handle}").is_dir():
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        really(handle, how)

    tmp_path.chmod(0o700)
    monkeypatch.setattr(registry_lock.fcntl, "flock", files_only)
    registry = SqliteRegistry(tmp_path, now=lambda: NOW, lock_timeout=0.1)
    with registry.lock(), pytest.raises(RefusedError), registry.lock():
        pass

    def broken(handle: int, how: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(registry_lock.fcntl, "flock", broken)
    with pytest.raises(StateError, match=r"apply\.lock"), registry.lock():
        pass


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE sessions SET ref_key = 'github:octo/app#16'", "does not belong to"),
        ("UPDATE sessions SET status = 'resting'", "'resting' is not one of"),
    ],
)
def test_a_row_that_cannot_be_is_refused_by_name(tmp_path: Path, statement: str, named: str) -> None:
    tmp_path.chmod(0o700)
    registry = SqliteRegistry(tmp_path, now=lambda: NOW)
    registry.add(SessionRecord("a-1", REF, "desk", "claude"))
    db = sqlite3.connect(tmp_path / "registry.db")
    with db:
        db.execute(statement)
    db.close()
    with pytest.raises(StateError, match=named):
        registry.all()


def test_many_transcripts_are_flushed_side_by_side_and_none_is_nothing(tmp_path: Path) -> None:
    folder = TranscriptFolder(tmp_path / "transcripts")
    records = [SessionRecord(str(uuid4()), REF, "desk", "claude") for _ in range(9)]
    assert folder.load(records[0]) == b""
    saved = folder.save_all([(record, record.id.encode()) for record in records])
    assert all(isinstance(fact, Known) for fact in saved.values())
    assert [folder.load(record) for record in records] == [record.id.encode() for record in records]


def test_what_doctor_says_of_agent_programs(tmp_path: Path) -> None:
    there = CommandHarness("there", (script(tmp_path, "echo 1.2.3", "agent"),))
    gone = CommandHarness("gone", ("no-such-program",))
    unused = CommandHarness("unused", ("no-such-program",))
    harnesses = {one.name: one for one in (there, gone, unused)}
    found = list(health(harnesses, "nobody", ["gone"]))
    assert [(finding.level, finding.text.partition(":")[0]) for finding in found] == [
        (WARN, "no harness is called 'nobody'"),
        (WARN, "harness gone"),
        (GOOD, "there"),
    ]


def test_where_there_is_no_handle_of_a_process_its_identity_is_compared_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "_pidfd", lambda pid: None)
    machine = processes.LocalProcesses()
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            view = machine.look()
            assert isinstance(view, Known)
            row = view.value.get(child.pid)
            assert row
            assert machine.signal([replace(row.id, start="another")], signal.SIGKILL) == {}
            assert machine.wait([row.id], 0.0) == {row.id}
            assert machine.signal([row.id], signal.SIGKILL) == {}
            assert machine.wait([row.id], 20.0) == frozenset()
        finally:
            child.kill()


def test_panes_with_much_text_are_captured_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes back of one call fits into memory."""
    monkeypatch.setattr(tmux_capture, "_BYTES", 100)
    small, large = (
        Pane("$1", "@1", id_, 7, dead=False, session="s", width=width, height=4)
        for id_, width in (("%1", 9), ("%2", 99))
    )
    assert [[p.pane_id for p in batch] for batch in tmux_capture.batches([small, small, large, small])] == [
        ["%1", "%1"],
        ["%2"],
        ["%1"],
    ]
    assert list(tmux_capture.batches([])) == []
