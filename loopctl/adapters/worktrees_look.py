"""What stands at a path: whether it is a worktree of ours, and what would be lost with it.

Nothing that lies in a worktree is believed: an agent can write there whatever it likes. A worktree is ours when it is a folder, and
no link, directly below our own folder of worktrees, its `.git` names a part of a clone of ours, and that part names it back.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from loopctl.adapters.worktrees_git import Git, GitError, Place
from loopctl.model.workspaces import Workspace

_POINTER = "gitdir: "
_LONGEST_POINTER = 8192
_STASH = re.compile(r"(?:WIP on|On) (\([^)]*\)|[^:]+):")
_COMMIT = re.compile("[0-9a-f]{40,64}")
_DETACHED = "(detached)"
_UNBORN = "(initial)"
#: What a git command that was left half-way leaves in a worktree's part of the clone.
_HALFWAY = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}


@dataclass(frozen=True, slots=True)
class Tree:
    """A worktree of ours: where its folder is now, its part of the clone, and the clone."""

    path: Path
    admin: Path
    clone: Path

    @property
    def place(self) -> Place:
        """For git commands on the worktree."""
        return Place(self.clone, self.admin, self.path)


@dataclass(frozen=True, slots=True)
class Stash:
    """One stash of a clone: its commit and the branch that it was made on, `(detached)` for none."""

    commit: str
    branch: str


def own(path: Path, name: str, clones: Path, trees: Path) -> Tree | str:
    """The worktree called `name` whose folder is at `path` now (it may have been put aside), or why it is none of ours."""
    if reason := folder_problem(path):
        return reason
    try:
        admin = _pointed(path / ".git")
        back, shared = _named(admin / "gitdir"), _named(admin / "commondir")
    except (OSError, ValueError) as error:
        return f"its .git is no pointer to a worktree: {_why(error)}"
    clone = admin.parent.parent
    home = Path(os.path.realpath(clones))
    if clone.parent != home or clone.suffix != ".git" or admin.parent.name != "worktrees":
        return "its .git points to a repository that is none of our clones"
    if shared != clone:
        return f"its part of {clone.name} says that it belongs to another repository"
    if back != Path(os.path.realpath(trees)) / name / ".git":
        return f"its .git points to {admin.name}, which is another worktree"
    return Tree(path, admin, clone)


def folder_problem(path: Path) -> str:
    """Why a path is no folder of its own, or ""."""
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        return _why(error)
    if stat.S_ISLNK(mode):
        return "it is a symbolic link"
    return "" if stat.S_ISDIR(mode) else "it is no folder"


def _pointed(file: Path) -> Path:
    """What the `.git` of a worktree points to, with links resolved. Raises OSError or ValueError."""
    text = _text(file)
    if not text.startswith(_POINTER):
        raise ValueError("it says something else")
    return _resolved(file, text.removeprefix(_POINTER))


def _named(file: Path) -> Path:
    """The path that a file of a worktree's part of the clone names, with links resolved. Raises OSError or ValueError."""
    return _resolved(file, _text(file))


def _resolved(file: Path, text: str) -> Path:
    return Path(os.path.realpath(file.parent / text.rstrip("\n")))


def _text(file: Path) -> str:
    """A short file that is neither link nor pipe."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no plain file")
        return os.fsdecode(opened.read(_LONGEST_POINTER))


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def state_of(tree: Tree, git: Git, shown: str) -> Workspace:
    """What a worktree of ours shows; `shown` is the path that it is known by. Raises GitError."""
    rows = _status(tree, git)
    head = dict(_shown(row[2:]).split(" ", 1) for row in rows if row.startswith(b"# branch."))
    changed = [_shown(_path(row)) for row in rows if not row.startswith(b"#")]
    hidden = [f"{_shown(name)} (hidden from git status)" for name in _hidden(tree, git)]
    unborn = head.get("branch.oid") == _UNBORN
    unpushed = "0" if unborn else git.text(tree.place, "rev-list", "--count", "HEAD", "--not", "--remotes")
    name = head.get("branch.head", _DETACHED)
    return Workspace(
        path=shown,
        exists=True,
        ours=True,
        branch="" if name == _DETACHED else name,
        uncommitted=(*changed, *hidden, *_halfway(tree), *_submodules(tree, git)),
        unpushed=_number(unpushed),
        stashed=sum(stash.branch == name for stash in stashes(tree.clone, git)),
    )


def changed_files(tree: Tree, git: Git) -> list[bytes]:
    """The names of all files with work in them, those that are gone too. Raises GitError."""
    return [*(_path(row) for row in _status(tree, git) if not row.startswith(b"#")), *_hidden(tree, git)]


def is_staged_apart(tree: Tree, git: Git) -> bool:
    """Whether a file was changed again after it was staged: what is staged is then neither in HEAD nor in a file. Raises GitError."""
    return any(row.startswith(b"1 ") and b"." not in row[2:4] for row in _status(tree, git))


def _status(tree: Tree, git: Git) -> list[bytes]:
    status = git.run(
        tree.place,
        *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames"),
        *("--ignore-submodules=none", "--no-ahead-behind"),
    )
    return [row for row in status.stdout.split(b"\0") if row]


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _path(row: bytes) -> bytes:
    fields = {b"1": 8, b"2": 9, b"u": 10}.get(row[:1], 1)
    return row.split(b" ", fields)[-1]


def _number(text: str) -> int:
    if not text.isdecimal():
        raise GitError(f"git rev-list printed {text[:40]!r}")
    return int(text)


def _hidden(tree: Tree, git: Git) -> list[bytes]:
    """Files that `git status` was told to overlook (assume-unchanged, skip-worktree): whether they changed is not known."""
    rows = git.run(tree.place, "ls-files", "-v", "-z").stdout.split(b"\0")
    flagged = [row[2:] for row in rows if row and (row[:1].islower() or row[:1] == b"S")]
    return [name for name in flagged if os.path.lexists(tree.path / os.fsdecode(name))]


def _halfway(tree: Tree) -> list[str]:
    return sorted({f"({what} is under way)" for file, what in _HALFWAY.items() if (tree.admin / file).exists()})


def _submodules(tree: Tree, git: Git) -> list[str]:
    """Repositories of submodules, which go with the worktree, that have commits or stashes of their own."""
    inside = git.run(tree.place, "ls-files", "-s", "-z").stdout.split(b"\0")
    links = [os.fsdecode(row.partition(b"\t")[2]) for row in inside if row.startswith(b"160000 ")]
    folders = [tree.path / name / ".git" for name in links] + [
        Path(folder) for folder, names, _ in os.walk(tree.admin / "modules") if "objects" in names
    ]
    found = [folder for folder in folders if (folder / "HEAD").is_file() and not folder.is_symlink()]
    return [
        f"({_shown(os.fsencode(_module(tree, folder)))} has commits of its own)"
        for folder in found
        if _beyond(folder, git)
    ]


def _module(tree: Tree, folder: Path) -> str:
    name = folder.relative_to(tree.admin if folder.is_relative_to(tree.admin) else tree.path)
    return f"submodule {name.as_posix().removeprefix('modules/').removesuffix('/.git')}"


def _beyond(repository: Path, git: Git) -> bool:
    """Whether a repository has a commit that no remote branch has."""
    head = _text(repository / "HEAD").strip()
    tips = ["--all", *([head] if _COMMIT.fullmatch(head) else [])]
    return git.text(Place(repository), "rev-list", "--count", *tips, "--not", "--remotes") != "0"


def stashes(clone: Path, git: Git) -> list[Stash]:
    """All stashes of a clone, the newest first: its worktrees share them. Raises GitError."""
    if not (clone / "logs" / "refs" / "stash").exists():
        return []
    rows = git.run(Place(clone), "log", "--walk-reflogs", "-z", "--format=%H %gs", "refs/stash", "--").text.split("\0")
    made = []
    for row in rows:
        commit, _, message = row.partition(" ")
        found = _STASH.match(message)
        if found:
            made.append(Stash(commit, _DETACHED if found[1].startswith("(") else found[1]))
    return made
