"""An agent whose helpers multiply when they are asked to end, and one of which has no environment at all."""

import os
import signal
import sys

TAG = os.environ["LOOPCTL_TEST_BOX"]


def sleep_for_ever() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        signal.pause()


def multiply(*_: object) -> None:
    """Leave two children that cannot be asked, each in a session of its own, and end."""
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            sleep_for_ever()
    os._exit(0)


def head(*, setsid: bool) -> None:
    if os.fork():
        return
    if setsid:
        os.setsid()
    signal.signal(signal.SIGTERM, multiply)
    while True:
        signal.pause()


def bare() -> None:
    """A helper that nothing but its parent ties to the session: no environment, a session of its own."""
    if os.fork():
        return
    os.setsid()
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    os.execve(sys.executable, [sys.executable, "-S", "-c", code, TAG], {})


head(setsid=True)
head(setsid=False)
bare()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
os.write(1, b"ready\n")
while True:
    signal.pause()
