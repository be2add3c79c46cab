"""A state folder that somebody else had his hands in: links, files that are none, other owners."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loopctl.adapters.registry import SqliteRegistry
from loopctl.adapters.registry_lock import APPLY, CONTROLLER, Lock, hold_lock, holder
from loopctl.cli.files import write_private
from loopctl.errors import RefusedError, StateError

NOW = datetime(2026, 7, 25, 10, tzinfo=UTC)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir(mode=0o700)
    return made


def use(root: Path) -> list[str]:
    """What every use of a state folder says to be wrong with it."""
    registry = SqliteRegistry(root, now=lambda: NOW, lock_timeout=0.0)
    said = []
    for work in (registry.all, registry.prove_writable, lambda: registry.lock().__enter__()):
        with pytest.raises(StateError) as caught:
            work()
        said.append(caught.value.message)
    return said


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o720, 0o1777])
def test_a_folder_that_others_can_write_to_is_refused_by_all(root: Path, mode: int) -> None:
    root.chmod(mode)
    assert use(root) == [f"{root} can be written by others"] * 3
    assert list(root.iterdir()) == []


def test_a_link_to_a_folder_that_others_can_write_to_is_no_way_in(root: Path, tmp_path: Path) -> None:
    root.chmod(0o777)
    (tmp_path / "link").symlink_to(root)
    assert use(tmp_path / "link") == [f"{tmp_path / 'link'} can be written by others"] * 3


@as_root
def test_a_folder_of_another_user_is_refused_by_all(root: Path) -> None:
    os.chown(root, 12345, -1)
    assert use(root) == [f"{root} belongs to another user"] * 3


def test_a_file_in_the_place_of_the_folder_is_refused_by_all(root: Path) -> None:
    root.rmdir()
    root.write_text("x")
    assert all(str(root) in said for said in use(root))


def as_link(path: Path) -> None:
    (path.parent.parent / "victim").write_text("precious")
    path.symlink_to(path.parent.parent / "victim")


def as_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("lock", [APPLY, CONTROLLER], ids=lambda lock: lock.file)
@pytest.mark.parametrize("spoil", [as_link, as_folder])
def test_a_lock_that_is_no_file_is_refused(root: Path, lock: Lock, spoil: Callable[[Path], None]) -> None:
    path = root / lock.file
    spoil(path)
    with pytest.raises(StateError, match=str(path)), hold_lock(root, 0.0, lambda: NOW, lock):
        pass
    victim = root.parent / "victim"
    assert not victim.exists() or victim.read_text() == "precious"


def test_a_lock_whose_note_cannot_be_written_excludes_all_the_same(root: Path) -> None:
    os.mkfifo(root / APPLY.file)
    with hold_lock(root, 0.0, lambda: NOW):
        with pytest.raises(RefusedError, match="its holder did not say who it is"), hold_lock(root, 0.0, lambda: NOW):
            pass
        (root / APPLY.file).unlink()
        # The folder is locked too.
        with pytest.raises(RefusedError), hold_lock(root, 0.0, lambda: NOW):
            pass


def test_a_full_disk_keeps_nobody_from_the_lock(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with hold_lock(root, 0.0, lambda: NOW):
        assert holder(root, APPLY) == "its holder did not say who it is"
    assert holder(root, APPLY) == ""


def test_what_is_written_for_the_owner_follows_no_link(root: Path) -> None:
    """A saved plan, and the controller's snapshot."""
    as_link(root / "p.json")
    write_private(root / "p.json", "{}")
    assert (root.parent / "victim").read_text() == "precious"
    assert (root / "p.json").read_text() == "{}"
    assert stat.S_IMODE((root / "p.json").lstat().st_mode) == 0o600
