"""An agent whose helpers try everything to outlive it. Ends at once when asked to; its helpers do not."""

import os
import signal
import sys

IGNORED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def helper(*, setsid: bool = False, double: bool = False, stubborn: bool = True) -> None:
    if os.fork():
        return
    if setsid:
        os.setsid()
    if double and os.fork():
        os._exit(0)
    for number in IGNORED if stubborn else ():
        signal.signal(number, signal.SIG_IGN)
    while True:
        signal.pause()


os.write(1, b"first line\n")
helper()
helper(stubborn=False)
helper(setsid=True)
helper(double=True)
helper(setsid=True, double=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
os.write(1, b"ready\n")
while True:
    signal.pause()
