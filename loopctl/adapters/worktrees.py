"""Git worktrees, one for each item that wants one, over one clone for each repository.

    ROOT/clones/<repository>.git      the shared clone, bare
    ROOT/worktrees/<item>             a worktree, on a branch of its own
    ROOT/worktrees/.new/<item>        one that is being made: nobody has worked there yet
    ROOT/worktrees/.leaving/<item>    one that is being taken away, still whole
    ROOT/worktrees/.trash/...         what was decided to go

A worktree comes and goes by one rename, so whatever cuts a step off leaves it whole or not there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from loopctl.adapters.worktrees_clone import Clone, mend
from loopctl.adapters.worktrees_git import Git
from loopctl.adapters.worktrees_look import Tree, folder_problem, own, state_of
from loopctl.adapters.worktrees_save import save
from loopctl.errors import StateError
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.refs import WorkItemRef
from loopctl.model.workspaces import (
    CLONES,
    WORKTREES,
    Prepared,
    Removal,
    Workspace,
    is_branch,
    repository_name,
    worktree_path,
)

_NEW = ".new"
_LEAVING = ".leaving"
_TRASH = ".trash"
_ASIDE = (_NEW, _LEAVING, _TRASH)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class GitWorktrees:
    """ports.Workspaces with git, below one folder of ours."""

    def __init__(
        self, root: Path, saved: Path, git: Git, url: Callable[[WorkItemRef], str], now: Callable[[], datetime]
    ) -> None:
        """`root` is absolute and made when it is needed; work that is removed is saved below `saved`. `url` says where an item's
        repository is cloned from."""
        self._root = root
        self._clones = root / CLONES
        self._trees = root / WORKTREES
        self._saved = saved
        self._git = git
        self._url = url
        self._now = now

    def look(self, paths: Sequence[str]) -> Mapping[str, Fact[Workspace]]:
        """What stands at these paths; changes nothing."""
        return {path: self._look(path) for path in paths}

    def _look(self, path: str) -> Fact[Workspace]:
        try:
            name = self._name(path)
            there = self._where(name) if name else Path(path)
            if there is None or not os.path.lexists(there):
                return Known(Workspace(path, exists=False))
            tree = self._own(there, name)
            if isinstance(tree, str):
                return Known(Workspace(path, exists=True, reason=tree))
            return Known(state_of(tree, self._git, path))
        except StateError as error:
            return Unknown(f"what is in {path} cannot be told: {error.message}")
        except OSError as error:
            return Unknown(f"what is in {path} cannot be told: {error.strerror or error}")

    def _name(self, path: str) -> str:
        """The name of a worktree by its path, "" for a path that is not directly below our folder."""
        folder, name = os.path.split(path)
        return name if Path(folder) == self._trees and name and not name.startswith(".") else ""

    def _where(self, name: str) -> Path | None:
        """Where a worktree's folder is now: a removal that was cut off has put it aside."""
        paths = (self._trees / name, self._trees / _LEAVING / name)
        return next((path for path in paths if os.path.lexists(path)), None)

    def _own(self, there: Path, name: str) -> Tree | str:
        if not name:
            return f"it is not directly below {self._trees}"
        for folder in (self._clones, self._trees, *([there.parent] if there.parent != self._trees else [])):
            if problem := folder_problem(folder):
                return f"{folder}: {problem}"
        return own(there, name, self._clones, self._trees)

    def prepare(self, ref: WorkItemRef, branch: str) -> Prepared:
        """Make the item's worktree, or find it: what is in it stays. Raises StateError."""
        if not is_branch(branch):
            raise StateError(f"{branch!r} is no name for a branch of ours")
        try:
            return self._prepare(ref, branch)
        except OSError as error:
            raise StateError(f"no worktree for {ref}: {error.filename or ''}: {error.strerror or error}") from None

    def _prepare(self, ref: WorkItemRef, branch: str) -> Prepared:
        path = Path(worktree_path(str(self._root), ref))
        with self._locked():
            _restore(self._trees, path.name)
            clone = Clone(self._clones / f"{repository_name(ref)}.git", self._git)
            note = clone.refresh(ref, self._url(ref))
            if os.path.lexists(path):
                return self._found(path, branch, note, clone)
            _sweep(self._trees, _NEW)
            mend(clone, path)
            new = self._trees / _NEW / path.name
            clone.add(new, branch)
            clone.rename(new, path)
            return Prepared(str(path), branch, note)

    def _found(self, path: Path, branch: str, note: str, clone: Clone) -> Prepared:
        tree = self._own(path, path.name)
        if isinstance(tree, str):
            raise StateError(f"{path} is taken: {tree}", hint="move it away")
        if tree.clone != Path(os.path.realpath(clone.path)):
            raise StateError(f"{path} is taken by a worktree of {tree.clone.name}", hint="move it away")
        now = state_of(tree, self._git, str(path))
        notes = [note] if note else []
        if now.branch != branch:
            # Somebody put it there, or the rule has changed: what was begun goes on.
            notes.append(f"its worktree is on {now.branch or 'no branch'}, not on {branch}")
        return Prepared(str(path), now.branch, "; ".join(notes))

    def remove(self, path: str, *, force: bool) -> Removal:
        """Take a worktree of ours away, after saving its work when forced."""
        try:
            name = self._name(path)
            if not name:
                return Removal(f"{path} is not directly below {self._trees}") if os.path.lexists(path) else Removal()
            if self._where(name) is None:
                return Removal()
            with self._locked():
                _restore(self._trees, name)
                return self._remove(self._trees / name, force)
        except StateError as error:
            return Removal(error.message)
        except OSError as error:
            return Removal(f"{path} cannot be removed: {error.strerror or error}")

    def _remove(self, path: Path, force: bool) -> Removal:
        if not os.path.lexists(path):
            return Removal()
        tree = self._own(path, path.name)
        if isinstance(tree, str):
            return Removal(f"{path} is not ours: {tree}")
        if refusal := _refusal(state_of(tree, self._git, str(path)), force):
            return refusal
        # From here on nobody finds it at its path any more; then it is looked at once more.
        with _opened(self._trees) as trees, _opened(self._trees / _LEAVING) as leaving:
            os.rename(path.name, path.name, src_dir_fd=trees, dst_dir_fd=leaving)
            removal = None
            try:
                removal = self._take(path, force)
            finally:
                if removal is None or removal.problem:
                    _back(path.name, leaving, trees)
        _sweep(self._trees, _TRASH)
        return removal

    def _take(self, path: Path, force: bool) -> Removal:
        """Save what is to be saved of a worktree that was put aside, and let it go."""
        aside = self._trees / _LEAVING / path.name
        tree = self._own(aside, path.name)
        if isinstance(tree, str):
            return Removal(f"{path} is not ours: {tree}")
        state = state_of(tree, self._git, str(path))
        if refusal := _refusal(state, force):
            return refusal
        saved = save(tree, state, self._saved, path.name, self._now(), self._git) if state.has_work else ""
        if saved and state_of(tree, self._git, str(path)) != state:
            return Removal(f"somebody is at work in {path}", has_work=True)
        clone = Clone(tree.clone, self._git)
        commit = clone.keep(tree.admin)
        aside.rename(self._trees / _TRASH / f"{path.name}-{secrets.token_hex(4)}")
        clone.forget(tree, state, commit)
        return Removal(saved=saved)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone below the root, which is ours. Raises StateError."""
        folders = (self._root, self._clones, self._trees, *(self._trees / name for name in _ASIDE))
        for folder in folders:
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                # The root itself may be a link: the config says where it is.
                info = folder.stat() if folder == self._root else folder.lstat()
            except OSError as error:
                raise StateError(f"{folder}: {error.strerror or error}") from None
            if not stat.S_ISDIR(info.st_mode):
                raise StateError(f"{folder} is no folder", hint="routing.workspace.root names the folder of worktrees")
            if info.st_uid != os.geteuid() or info.st_mode & 0o022:
                raise StateError(f"{folder} can be written by others", hint=f"chmod go-w {folder}")
        with _lock(self._root):
            yield


def _refusal(state: Workspace, force: bool) -> Removal | None:
    if not state.has_work or force:
        return None
    return Removal(f"it has {' and '.join(state.work)}", has_work=True)


#: Making a clone may take its time; who waits longer is told.
_PATIENCE = 600.0
_TURN = 0.05


@contextmanager
def _lock(root: Path) -> Iterator[None]:
    handle = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in {errno.EAGAIN, errno.EACCES}:
                    raise StateError(f"{root / '.lock'}: {error.strerror}") from None
                if time.monotonic() > deadline:
                    raise StateError(f"another loopctl has been at work below {root} for {_PATIENCE:.0f} s") from None
                time.sleep(_TURN)
        yield
    finally:
        os.close(handle)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _restore(trees: Path, name: str) -> None:
    """Put a worktree back that a removal had put aside when it was cut off. Nothing of it is gone."""
    with _opened(trees) as there, _opened(trees / _LEAVING) as leaving:
        _back(name, leaving, there)


def _back(name: str, leaving: int, trees: int) -> None:
    with suppress(FileNotFoundError):
        os.lstat(name, dir_fd=leaving)
        try:
            os.lstat(name, dir_fd=trees)
        except FileNotFoundError:
            os.rename(name, name, src_dir_fd=leaving, dst_dir_fd=trees)


def _sweep(trees: Path, aside: str) -> None:
    """Delete what lies in one of our own folders. No link is followed; what resists stays there and is tried again next time."""
    with _opened(trees / aside) as folder:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            with suppress(OSError):
                _delete(name, folder)


def _delete(name: str, folder: int) -> None:
    if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
        os.unlink(name, dir_fd=folder)
        return
    for _, _, _, inner in os.fwalk(name, dir_fd=folder, follow_symlinks=False):
        # Caches make their folders read-only.
        with suppress(OSError):
            os.fchmod(inner, 0o700)
    shutil.rmtree(name, dir_fd=folder)
