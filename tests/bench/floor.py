"""The bare batched floor of ending many sessions: list, remain-on-exit, SIGTERM, confirm, and one gh call.

    python -m tests.bench.floor SOCKET NUMBER QUERY.json

Prints nothing; its whole run is what is timed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support import wait_until


def main(socket: str, number: int, body: str) -> None:
    def tmux(*args: str, stdin: str | None = None) -> str:
        done = subprocess.run(["tmux", "-S", socket, *args], check=True, capture_output=True, text=True, input=stdin)
        return done.stdout

    query = Path(body).read_bytes()
    subprocess.run(["gh", "api", "graphql", "--input", "-"], check=True, capture_output=True, input=query)
    panes = [line.split() for line in tmux("list-panes", "-a", "-F", "#{pane_id} #{pane_pid}").splitlines()]
    assert len(panes) == number
    tmux("source-file", "-", stdin="".join(f"set-option -p -t {pane} remain-on-exit on\n" for pane, _ in panes))
    for _, pid in panes:
        os.kill(int(pid), signal.SIGTERM)
    wait_until(lambda: "0" not in tmux("list-panes", "-a", "-F", "#{pane_dead}").split(), what="all panes are dead")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
