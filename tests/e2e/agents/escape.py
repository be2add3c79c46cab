"""An agent whose children cut every tie: forked twice, a session of their own, no environment, no open files.

One such child is there from the start, and each of two that are asked to end leaves another. With an argument, the agent ends by
itself when it reads a line.
"""

import os
import signal
import sys

TAG = os.environ["LOOPCTL_TEST_BOX"]
CHILD = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
def asked(*_):
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
signal.signal(signal.SIGTERM, asked if sys.argv[2] == "multiply" else signal.SIG_IGN)
os.write(int(sys.argv[3]), b".")
os.closerange(0, 20)
while True:
    signal.pause()
"""


def escape(habit: str) -> None:
    told, tell = os.pipe()
    os.set_inheritable(tell, True)
    middle = os.fork()
    if middle == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, "-S", "-c", CHILD, TAG, habit, str(tell)], {})
        os._exit(0)
    os.waitpid(middle, 0)
    os.read(told, 1)


def asked(*_: object) -> None:
    escape("ignore")
    sys.exit(0)


escape("ignore")
escape("multiply")
signal.signal(signal.SIGTERM, asked)
os.write(1, b"ready\n")
if len(sys.argv) > 1:
    sys.stdin.readline()
    sys.exit(3)
while True:
    signal.pause()
