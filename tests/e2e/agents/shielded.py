"""An agent with a helper that belongs to another user (made by root; a loopctl without CAP_KILL cannot signal it)."""

import os
import signal
import sys

if os.fork() == 0:
    os.setsid()
    os.setgid(65534)
    os.setuid(65534)
    while True:
        signal.pause()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
os.write(1, b"ready\n")
while True:
    signal.pause()
