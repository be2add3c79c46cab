"""How git is run: by nobody's hooks, with no prompt, and without the secrets that it does not need.

Agents can write to a clone, and what its config names is run by whoever uses it. So git never sees a clone itself, only a view of it:
a folder of ours with a config of ours, in which objects and refs are links into the clone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from loopctl.adapters.shell import Completed, clean_env, run
from loopctl.errors import StateError
from loopctl.model.secrets import is_secret_name, mask

#: Seconds that a look, filling a worktree, bringing a clone up to date and making one may take.
LOOK = 60.0
CHECKOUT = 600.0
FETCH = 300.0
CLONE = 1800.0

#: What must hold whatever the user's config says.
_SETTINGS = (
    "core.hooksPath=/dev/null",
    # Asked of repositories that a clone borrows objects from, which need not be ours.
    "core.alternateRefsCommand=true",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.prune=false",
    "fetch.pruneTags=false",
    "remote.origin.prune=false",
    "submodule.recurse=false",
    "protocol.ext.allow=never",
    "worktree.useRelativePaths=false",
    "advice.detachedHead=false",
)
#: Of git's own variables, those that say how to reach a remote; all others would point it at another repository.
_REACH = frozenset({"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"})
#: What gh's credential helper needs where there is no keyring.
_TOKENS = frozenset({"GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"})
_ALWAYS = {
    # A ref in the clone could make one commit look like another.
    "GIT_NO_REPLACE_OBJECTS": "1",
    # Old and new versions of git read each other's clones, and a view of them is easily made.
    "GIT_DEFAULT_HASH": "sha1",
    "GIT_DEFAULT_REF_FORMAT": "files",
    # Empty, which is not the same as absent: no program is asked in its place.
    "GIT_ASKPASS": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
}
_LINES = 3

#: What a view shares with its clone. Not shared: config, hooks, and what `info` says of attributes and of files to ignore.
_SHARED = ("objects", "refs", "packed-refs", "logs", "shallow", "worktrees")
_CONFIG = "[core]\n\trepositoryformatversion = 0\n"
_MAC = "\tignorecase = true\n\tprecomposeunicode = true\n"


class GitError(StateError):
    """git did not do what it was asked for."""


@dataclass(frozen=True, slots=True)
class Place:
    """A clone, or a worktree of one (`admin` is its part of the clone): the folders are given with each call, since files in a
    worktree can say anything."""

    clone: Path
    admin: Path | None = None
    tree: Path | None = None
    index: Path | None = None

    def args(self, view: Path) -> tuple[str, ...]:
        """Options of git."""
        if not self.admin:
            return ("--bare", "--git-dir", str(view))
        tree = ("--work-tree", str(self.tree)) if self.tree else ()
        return ("--git-dir", str(self.admin), *tree)

    def env(self, view: Path) -> Mapping[str, str]:
        """Variables of git."""
        return {"GIT_COMMON_DIR": str(view)} | ({"GIT_INDEX_FILE": str(self.index)} if self.index else {})


@contextmanager
def _view(clone: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="loopctl-git-") as folder:
        view = Path(folder)
        for name in _SHARED:
            (view / name).symlink_to(clone / name)
        (view / "config").write_text(_CONFIG + (_MAC if sys.platform == "darwin" else ""), "utf-8")
        (view / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
        yield view


class Git:
    """The git program."""

    def __init__(self, binary: str, environ: Mapping[str, str]) -> None:
        """`binary` is a name or a path; `environ` loopctl's own environment, of which only what git needs is handed on."""
        self._binary = binary
        self._local = {name: value for name, value in clean_env(environ).items() if _is_harmless(name)} | _ALWAYS
        self._tokens = {name: environ[name] for name in _TOKENS if environ.get(name)}

    def run(self, place: Place, *args: str, timeout: float = LOOK, origin: str = "") -> Completed:
        """Run git on a repository; `origin` is the URL of the remote that it may talk to. Raises GitError when it fails or takes
        too long."""
        return _good(args[0], self.tried(place, *args, timeout=timeout, origin=origin), timeout)

    def text(self, place: Place, *args: str) -> str:
        """What git prints, without the last line's end. Raises GitError."""
        return self.run(place, *args).text.removesuffix("\n")

    def tried(self, place: Place, *args: str, timeout: float = LOOK, origin: str = "") -> Completed:
        """Run git, whatever comes of it. Raises StateError when there is no such program."""
        settings, tokens = ((f"remote.origin.url={origin}",), self._tokens) if origin else ((), {})
        with _view(place.clone) as view:
            env = {**self._local, **tokens, **place.env(view)}
            done = self._call((*place.args(view), *args), env, timeout, place.tree or Path("/"), settings)
        # What it complains of lies in the clone.
        return replace(done, stderr=done.stderr.replace(str(view), str(place.clone)))

    def make(self, folder: Path) -> None:
        """A new bare repository. Raises GitError."""
        # No template: the user's may have hooks.
        words = ("init", "--quiet", "--bare", "--template=", str(folder))
        _good("init", self._call(words, self._local, LOOK, Path("/")), LOOK)

    def said(self, clone: Path, name: str) -> str:
        """What a clone's own config says under a name, "" for nothing."""
        words = ("config", "--file", str(clone / "config"), "--no-includes", "--get", name)
        return self._call(words, self._local, LOOK, Path("/")).text.strip()

    def say(self, clone: Path, name: str, value: str) -> None:
        """Write into a clone's own config, for the agents in its worktrees. Raises GitError."""
        words = ("config", "--file", str(clone / "config"), name, value)
        _good("config", self._call(words, self._local, LOOK, Path("/")), LOOK)

    def _call(
        self, words: tuple[str, ...], env: Mapping[str, str], timeout: float, cwd: Path, settings: tuple[str, ...] = ()
    ) -> Completed:
        options = [word for setting in (*_SETTINGS, *settings) for word in ("-c", setting)]
        argv = [self._binary, "--no-pager", "--no-optional-locks", *options, *words]
        return run(argv, env=env, timeout=timeout, cwd=str(cwd))


def _good(command: str, done: Completed, timeout: float) -> Completed:
    if done.timed_out:
        raise GitError(f"git {command} took longer than {timeout:.0f} s")
    if done.code:
        raise GitError(f"git {command}: {_told(done)}")
    return done


def _is_harmless(name: str) -> bool:
    if name.startswith("GIT_"):
        return name in _REACH
    return name not in {"SSH_ASKPASS", "DISPLAY", "WAYLAND_DISPLAY"} and not is_secret_name(name)


def _told(done: Completed) -> str:
    """What git says went wrong: its first line, and those that it calls an error. Much advice may follow."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip() and not line.startswith("hint:")]
    errors = [line for line in lines[1:] if line.startswith(("error:", "fatal:"))]
    return mask("; ".join([*lines[:1], *errors][:_LINES])) or f"ended with status {done.code}"
