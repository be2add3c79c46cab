"""A program of ours that runs beside us. It holds one end of a socket, and is to end when the other end is closed."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from loopctl.errors import StateError

_PATIENCE = 5.0


class Child:
    """Started at once; `argv` gets the number of its socket as one more argument.

    It is in a session of its own, so that an interrupt from the keyboard is ours alone. Raises StateError when it cannot be
    started.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Without standard input and output; what it says on stderr goes where ours goes."""
        self.socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*argv, str(theirs.fileno())],
                    env=dict(env),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except OSError as error:
                self.socket.close()
                raise StateError(f"cannot run {argv[0]}: {error.strerror}") from None

    def end(self) -> int:
        """Close our end and wait; one that does not go by itself is killed. Returns its exit code, negative for a signal."""
        self.socket.close()
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(_PATIENCE)
        self._process.kill()
        return self._process.wait()
