"""What the socket of a tmux server tells without its server."""

from __future__ import annotations

import os
import socket as sockets
import stat
from pathlib import Path

from loopctl.adapters.tmux_format import first_line
from loopctl.model.facts import Fact, Known, Unknown
from loopctl.model.sessions import ServerView


def socket_doubt(socket: str) -> Fact[ServerView] | None:
    """What the socket file alone tells: no server, or a reason for doubt; None = ask the server."""
    try:
        info = Path(socket).lstat()
        if stat.S_ISLNK(info.st_mode):
            info = Path(socket).stat()
    except FileNotFoundError:
        return Known(ServerView(socket))
    except OSError as error:
        return Unknown(f"{socket}: {error.strerror}")
    if not stat.S_ISSOCK(info.st_mode):
        return Unknown(f"{socket} is not a socket")
    if info.st_uid != os.geteuid():
        return Unknown(f"{socket} belongs to another user")
    return None


def no_server(socket: str, said: str) -> Fact[ServerView]:
    """Believe that no server runs only when the kernel says that nobody listens."""
    probe = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        probe.settimeout(2)
        probe.connect(socket)
    except (ConnectionRefusedError, FileNotFoundError):
        return Known(ServerView(socket))
    except OSError as error:
        return Unknown(f"{socket}: {error.strerror or error}")
    finally:
        probe.close()
    return Unknown(f"tmux: {first_line(said) or 'no answer'} ({socket})")
