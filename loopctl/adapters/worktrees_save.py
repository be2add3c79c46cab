"""Work that is about to be taken away is saved first: commits as a bundle, files as they lie there, changes as patches.

Readable by the owner only, durable.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from loopctl.adapters.worktrees_git import CHECKOUT, Git, GitError, Place
from loopctl.adapters.worktrees_look import Tree, changed_files, is_staged_apart, stashes
from loopctl.errors import StateError
from loopctl.model.workspaces import Workspace

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BUNDLE = "commits.bundle"
_FILES = "files.tar"
_PATCH = "changes.patch"
_STAGED = "staged.patch"
_ABOUT = """\
Saved by loopctl before it removed {path} (branch {branch}), at {now}.

{bundle}  commits that the default branch of origin has not: in a clone, `git fetch THIS/{bundle} HEAD`, then look at FETCH_HEAD
{files}   files that were changed or untracked, byte for byte: `tar -xf THIS/{files}` where the worktree is to be
{patch}   the same on top of {head}, deleted files too, as git would commit it (with the filters and line ends of your
git config): `git apply THIS/{patch}`
{staged}   what was staged on top of {head}, where its files were changed again since
stash-N.patch   the stashes of its branch, the newest first: `git apply THIS/stash-0.patch`

What is not there was not needed. Files that git ignores are not saved.
"""


def save(tree: Tree, state: Workspace, folder: Path, name: str, now: datetime, git: Git) -> str:
    """Save the work of a worktree in a new folder below `folder`; its path. Raises StateError: then not all of it is saved."""
    target = folder / f"{name}-{now.astimezone(UTC).strftime('%Y%m%dT%H%M%SZ')}-{secrets.token_hex(4)}"
    try:
        with _filled(target) as half:
            head = _head(tree, git)
            _bundle(tree, state, half, git)
            if state.uncommitted:
                _files(tree, half, git)
                _patch(tree, head, half, git)
            if is_staged_apart(tree, git):
                _write(half / _STAGED, _difference(tree.place, head or _nothing(tree.place, git), "", git))
            _stashes(tree, state, half, git)
            about = _ABOUT.format(
                path=state.path,
                branch=state.branch or "none",
                now=now,
                head=head,
                bundle=_BUNDLE,
                files=_FILES,
                patch=_PATCH,
                staged=_STAGED,
            )
            _write(half / "README.txt", about.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise StateError(f"its work cannot be saved below {folder}: {error.strerror or error}") from None
    return str(target)


@contextmanager
def _filled(target: Path) -> Iterator[Path]:
    """A folder that gets its name when it is filled to the end, and goes again when that fails. Raises OSError."""
    import shutil

    half = target.with_name(f".{target.name}.new")
    if not target.parent.is_dir():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _flush(target.parent.parent.resolve())
    half.mkdir(mode=0o700)
    try:
        yield half
        _flush(half)
        half.rename(target)
        _flush(target.parent)
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(half)
        raise


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, _NEW, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _head(tree: Tree, git: Git) -> str:
    """The commit that a worktree stands on, "" on a branch without any."""
    done = git.tried(tree.place, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return done.text.strip() if done.code == 0 else ""


def _bundle(tree: Tree, state: Workspace, target: Path, git: Git) -> None:
    """All commits beyond origin's default branch, which alone is sure to stay: whoever has that can read the bundle."""
    base = ["--not", "refs/remotes/origin/HEAD"] if _is_there(tree, "refs/remotes/origin/HEAD", git) else []
    if not state.unpushed or git.text(tree.place, "rev-list", "--count", "HEAD", *base) == "0":
        return
    refs = ["HEAD", *([f"refs/heads/{state.branch}"] if state.branch else [])]
    file = target / _BUNDLE
    git.run(tree.place, "bundle", "create", "--quiet", str(file), *refs, *base, timeout=CHECKOUT)
    file.chmod(0o600)
    _flush(file)


def _is_there(tree: Tree, ref: str, git: Git) -> bool:
    return git.tried(tree.place, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").code == 0


def _files(tree: Tree, target: Path, git: Git) -> None:
    """Files as they lie there: what git makes of them goes through filters, and not all of that can be undone."""
    import tarfile

    names = [os.fsdecode(name) for name in changed_files(tree, git)]
    there = [name for name in names if os.path.lexists(tree.path / name)]
    with os.fdopen(os.open(target / _FILES, _NEW, 0o600), "wb") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8") as archive:
            for name in there:
                archive.add(tree.path / name, name, recursive=False)
        file.flush()
        os.fsync(file.fileno())


def _patch(tree: Tree, head: str, target: Path, git: Git) -> None:
    """All that differs from HEAD, staged or not, untracked files too. A fresh index has no flags that would hide a file."""
    index = target / "index"
    place = Place(tree.clone, tree.admin, tree.path, index)
    try:
        git.run(place, "read-tree", *([head] if head else ["--empty"]))
        git.run(place, "add", "--all", "--", ".", timeout=CHECKOUT)
        whole = git.text(place, "write-tree")
        _refuse_repositories(place, whole, git)
        _write(target / _PATCH, _difference(place, head or _nothing(place, git), whole, git))
    finally:
        for file in (index, index.with_suffix(".lock")):
            file.unlink(missing_ok=True)


def _nothing(place: Place, git: Git) -> str:
    """The empty tree: which hash it has depends on the repository."""
    return git.text(place, "hash-object", "-t", "tree", "/dev/null")


def _refuse_repositories(place: Place, whole: str, git: Git) -> None:
    """A repository within the worktree is only named by a patch: its content would be lost."""
    rows = git.run(place, "ls-tree", "-r", "-z", whole).text.split("\0")
    inner = [row.partition("\t")[2] for row in rows if row.startswith("160000 ")]
    mine = [name for name in inner if place.tree and (place.tree / name / ".git").exists()]
    if mine:
        raise GitError(f"{', '.join(mine[:3])} is a repository of its own, which cannot be saved: move it away first")


def _difference(place: Place, old: str, new: str, git: Git) -> bytes:
    """From a tree to another; "" is what is staged."""
    return git.run(
        place,
        *(("diff-tree", "-r") if new else ("diff-index", "--cached")),
        *("-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv"),
        *("--no-color", "--src-prefix=a/", "--dst-prefix=b/", old, *([new] if new else [])),
        timeout=CHECKOUT,
    ).stdout


def _stashes(tree: Tree, state: Workspace, target: Path, git: Git) -> None:
    mine = [stash for stash in stashes(tree.clone, git) if stash.branch == (state.branch or "(detached)")]
    for number, stash in enumerate(mine):
        patch = _difference(tree.place, f"{stash.commit}^1", stash.commit, git)
        if _is_there(tree, f"{stash.commit}^3", git):
            patch += _difference(tree.place, _nothing(tree.place, git), f"{stash.commit}^3", git)
        _write(target / f"stash-{number}.patch", patch)
