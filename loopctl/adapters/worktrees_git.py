"""How git is run: by nobody's hooks, with no prompt, and without the secrets that it does not need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loopctl.adapters.shell import Completed, clean_env, run
from loopctl.errors import StateError
from loopctl.model.secrets import is_secret_name, mask

#: Seconds that a look, filling a worktree, bringing a clone up to date and making one may take.
LOOK = 60.0
CHECKOUT = 600.0
FETCH = 300.0
CLONE = 1800.0

#: What must hold whatever the user's or the repository's config says. A clone's config is writable for the agents in its
#: worktrees, so nothing that is only a convenience may run a program from there.
_SETTINGS = (
    "core.hooksPath=/dev/null",
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
_NO_PROMPT = {
    # Empty, which is not the same as absent: no program is asked in its place.
    "GIT_ASKPASS": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
}
_LINES = 3


class GitError(StateError):
    """git did not do what it was asked for."""


@dataclass(frozen=True, slots=True)
class Place:
    """A repository, or a worktree of one: the folders are given with each call, since files in a worktree can say anything."""

    git_dir: Path
    tree: Path | None = None
    index: Path | None = None

    @property
    def args(self) -> tuple[str, ...]:
        """Options of git."""
        tree = ("--work-tree", str(self.tree)) if self.tree else ()
        return ("--git-dir", str(self.git_dir), *tree)

    @property
    def env(self) -> Mapping[str, str]:
        """Variables of git."""
        return {"GIT_INDEX_FILE": str(self.index)} if self.index else {}


class Git:
    """The git program."""

    def __init__(self, binary: str, environ: Mapping[str, str]) -> None:
        """`binary` is a name or a path; `environ` loopctl's own environment, of which only what git needs is handed on."""
        self._binary = binary
        plain = {name: value for name, value in clean_env(environ).items() if _is_harmless(name)} | _NO_PROMPT
        self._local = plain
        self._remote = plain | {name: environ[name] for name in _TOKENS if environ.get(name)}

    def run(self, place: Place, *args: str, timeout: float = LOOK, remote: bool = False) -> Completed:
        """Run git on a repository. Raises GitError when it fails or takes too long."""
        done = self.tried(place, *args, timeout=timeout, remote=remote)
        if done.timed_out:
            raise GitError(f"git {args[0]} took longer than {timeout:.0f} s")
        if done.code:
            raise GitError(f"git {args[0]}: {_last_words(done)}")
        return done

    def text(self, place: Place, *args: str) -> str:
        """What git prints, without the last line's end. Raises GitError."""
        return self.run(place, *args).text.removesuffix("\n")

    def succeeds(self, place: Place, *args: str) -> bool:
        """Whether a question of git's is answered with yes (0) rather than no (1). Raises GitError for all else."""
        done = self.tried(place, *args)
        if done.timed_out or done.code not in {0, 1}:
            raise GitError(f"git {args[0]}: {_last_words(done) or 'no answer'}")
        return done.code == 0

    def tried(self, place: Place, *args: str, timeout: float = LOOK, remote: bool = False) -> Completed:
        """Run git, whatever comes of it. Raises StateError when there is no such program."""
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        env = {**(self._remote if remote else self._local), **place.env}
        argv = [self._binary, "--no-pager", "--no-optional-locks", *settings, *place.args, *args]
        return run(argv, env=env, timeout=timeout, cwd=str(place.tree or "/"))


def _is_harmless(name: str) -> bool:
    if name.startswith("GIT_"):
        return name in _REACH
    return name not in {"SSH_ASKPASS", "DISPLAY", "WAYLAND_DISPLAY"} and not is_secret_name(name)


def _last_words(done: Completed) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip() and not line.startswith("hint:")]
    return mask("; ".join(lines[-_LINES:])) or f"ended with status {done.code}"
