"""The tmux program itself: which version it is, and what that explains of what went wrong."""

from __future__ import annotations

from collections.abc import Mapping

from loopctl.adapters import shell
from loopctl.model.tmux import is_version, unsupported

_PATIENCE = 10.0
#: What a client says that cannot read what the server sends. Which of them, depends on the two versions.
_NO_COMMON_WORDS = ("server exited unexpectedly", "protocol version mismatch", "too old for client")


def program_version(env: Mapping[str, str], program: str = "tmux") -> str:
    """What `tmux -V` prints, or "" when it fails. Raises ProgramMissing when there is no tmux."""
    done = shell.run([program, "-V"], env=env, timeout=_PATIENCE)
    return done.text.strip() if done.code == 0 and not done.timed_out else ""


def explained(reason: str, env: Mapping[str, str], program: str) -> str:
    """What went wrong, and what the version of the program has to do with it. Runs tmux: not for the good case."""
    version = program_version(env, program)
    if not is_version(version):
        return reason
    mixed = any(words in reason for words in _NO_COMMON_WORDS)
    hint = f"; perhaps another version than {version} started that server: only that one can talk to it"
    return unsupported(version) or (reason + hint if mixed else reason)
