"""An agent that reads as agents do: raw, with bracketed paste on. `listener.py LOG`: what it read is in LOG."""

from __future__ import annotations

import os
import sys
import tty
from pathlib import Path


def main() -> None:
    tty.setraw(0)
    with Path(sys.argv[1]).open("wb", 0) as log:
        os.write(1, b"\x1b[?2004hready\r\n")
        while data := os.read(0, 65536):
            log.write(data)


if __name__ == "__main__":
    main()
