"""The webhook receiver's own process: `python -m loopctl.cli.receive DESCRIPTOR`, started by `loopctl run --webhook`."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from typing import Any


def main(argv: list[str]) -> None:
    """Serve on the socket of the worker."""
    from loopctl.cli.wiring import open_journal
    from loopctl.config import EventLog
    from loopctl.controller.desk import Emit
    from loopctl.controller.serve import serve
    from loopctl.model.secrets import learn

    def make_emit(first: Mapping[str, Any]) -> Emit:
        learn(os.environ, first["secret_env"])
        return open_journal(EventLog(**first["event_log"]), "gh-webhook").emit

    serve(socket.socket(fileno=int(argv[1])), os.environ, make_emit)


if __name__ == "__main__":
    main(sys.argv)
