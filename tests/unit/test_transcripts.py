from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from loopctl.adapters.transcripts import TranscriptFolder
from loopctl.errors import StateError
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import SessionRecord
from loopctl.model.transcripts import transcript_name

REF = WorkItemRef.parse("github:octo/app#15")


def record(identity: str = "7b1c9e52-0000-4000-8000-000000000015", ref: WorkItemRef = REF) -> SessionRecord:
    return SessionRecord(identity, ref, "desk", "claude")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "transcripts"


def test_a_transcript_is_saved_whole_for_its_owner_only(folder: Path) -> None:
    text = b"first\n" + b"\xff\x00\x1b" * 100_000 + b"\nlast\n"
    path = TranscriptFolder(folder).save(record(), text)
    assert path == str(folder / "octo-app-15-7b1c9e52.txt") == TranscriptFolder(folder).path(record())
    assert Path(path).read_bytes() == text
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [p.name for p in folder.iterdir()] == ["octo-app-15-7b1c9e52.txt"]


def test_the_umask_makes_no_difference(folder: Path) -> None:
    before = os.umask(0)
    try:
        path = TranscriptFolder(folder).save(record(), b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_others_can_read_is_closed(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o755)
    TranscriptFolder(folder).save(record(), b"x")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_saving_again_replaces_it(folder: Path) -> None:
    transcripts = TranscriptFolder(folder)
    assert transcripts.save(record(), b"one, longer") == transcripts.save(record(), b"two")
    assert Path(transcripts.path(record())).read_bytes() == b"two"


def test_two_sessions_of_an_item_have_two_files(folder: Path) -> None:
    transcripts = TranscriptFolder(folder)
    assert transcripts.path(record("aaaaaaaa-1")) != transcripts.path(record("bbbbbbbb-1"))


@pytest.mark.parametrize(
    "identity", ["", "../../etc/passwd", "a/b", ".hidden", "-flag", "a b", "a\nb", "a\n", "\u00e9", "x" * 200, "a\0"]
)
def test_an_id_that_could_leave_the_folder_is_refused(folder: Path, identity: str) -> None:
    transcripts = TranscriptFolder(folder)
    with pytest.raises(ValueError, match="is no session id"):
        transcript_name(REF, identity)
    for act in (lambda: transcripts.path(record(identity)), lambda: transcripts.save(record(identity), b"x")):
        with pytest.raises(StateError, match="is no session id"):
            act()
    assert not folder.exists()


def test_a_ref_cannot_leave_the_folder_either(folder: Path) -> None:
    hostile = record(ref=WorkItemRef("github", "github.com", "..", "../../x", 1))
    assert Path(TranscriptFolder(folder).path(hostile)).parent == folder


@pytest.mark.parametrize("target", ["victim.txt", "nowhere"])
def test_a_link_in_its_place_is_refused(folder: Path, target: str) -> None:
    transcripts = TranscriptFolder(folder)
    transcripts.prove_writable()
    victim = folder.parent / "victim.txt"
    victim.write_text("precious")
    link = Path(transcripts.path(record()))
    link.symlink_to(folder.parent / target)
    with pytest.raises(StateError, match=rf"{link} cannot be written: something that is no regular file"):
        transcripts.save(record(), b"x")
    assert victim.read_text() == "precious"
    assert link.is_symlink()
    assert [p.name for p in folder.iterdir()] == [link.name]


def test_a_folder_that_is_a_link_is_refused(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir(parents=True)
    folder.symlink_to(elsewhere)
    for act in (lambda: TranscriptFolder(folder).save(record(), b"x"), TranscriptFolder(folder).prove_writable):
        with pytest.raises(StateError, match="cannot be written"):
            act()
    assert list(elsewhere.iterdir()) == []


def test_a_folder_of_somebody_else_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StateError, match="belongs to another user"):
        TranscriptFolder(folder).save(record(), b"x")


def failing(code: int) -> Callable[..., int]:
    def fail(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


def half(code: int) -> Callable[[int, bytes], int]:
    """A disk that takes three bytes and is full then."""
    real, calls = os.write, iter([True])

    def write(descriptor: int, data: bytes) -> int:
        return real(descriptor, data[:3]) if next(calls, False) else failing(code)()

    return write


@pytest.mark.parametrize(
    ("call", "replacement", "cause"),
    [
        ("write", failing(errno.ENOSPC), "No space left on device"),
        ("write", half(errno.ENOSPC), "No space left on device"),
        ("fsync", failing(errno.EIO), "Input/output error"),
        ("rename", failing(errno.EROFS), "Read-only file system"),
    ],
)
def test_a_failure_names_file_and_cause_and_leaves_what_was_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str, replacement: Callable[..., int], cause: str
) -> None:
    transcripts = TranscriptFolder(folder)
    path = Path(transcripts.save(record(), b"old and whole"))
    with (
        monkeypatch.context() as patch,
        pytest.raises(StateError, match=f"{path} cannot be written: {cause}") as caught,
    ):
        patch.setattr(os, call, replacement)
        transcripts.save(record(), b"new and longer than that")
    assert caught.value.hint
    assert path.read_bytes() == b"old and whole"
    assert list(folder.iterdir()) == [path]


def test_a_disk_that_takes_a_little_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
    path = TranscriptFolder(folder).save(record(), b"0123456789" * 10)
    assert Path(path).read_bytes() == b"0123456789" * 10


def test_it_is_durable_before_it_has_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    for name in ("write", "fsync", "rename"):
        real = getattr(os, name)

        def spy(*args: object, _name: str = name, _real: Callable[..., object] = real, **kwargs: object) -> object:
            of_parent = _name == "fsync" and os.path.samestat(os.fstat(int(str(args[0]))), folder.parent.stat())
            steps.append(f"{_name} of what it is in" if of_parent else _name)
            return _real(*args, **kwargs)

        monkeypatch.setattr(os, name, spy)
    TranscriptFolder(folder).save(record(), b"x")
    assert steps == ["fsync of what it is in", "write", "fsync", "rename", "fsync"]
    TranscriptFolder(folder).save(record(), b"x")
    assert steps[5:] == ["write", "fsync", "rename", "fsync"]


def test_writability_is_proved_and_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcripts = TranscriptFolder(folder)
    transcripts.prove_writable()
    assert list(folder.iterdir()) == []
    monkeypatch.setattr(os, "write", failing(errno.ENOSPC))
    with pytest.raises(StateError, match=f"{folder} cannot be written: No space left on device"):
        transcripts.prove_writable()
    assert list(folder.iterdir()) == []


def test_a_path_below_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=rf"{tmp_path}/file/transcripts cannot be written"):
        TranscriptFolder(tmp_path / "file" / "transcripts").prove_writable()
