"""What runs as the process of a contained pane, on Linux: nothing that its agent starts can get away from it.

    tmux -- front -- keeper -- agent -- ...

The keeper is a child subreaper (prctl 36): whatever below it loses its parent becomes its child, also after a double fork
with a session of its own and no environment. It ends when it has no child left, which may be long after the agent did.
The front is what tmux sees: it ends when the agent does, and as the agent did. The agent gets a process group of its own in
the terminal's foreground, as from a shell, so that keys, resizes and what tmux calls the current command are the agent's.

Run as a script with `-I -S`, for each pane: it imports built-in modules only.
"""

# ruff: noqa: PTH123, SIM105 - pathlib and contextlib cost more than all the rest

import _signal  # type: ignore[import-not-found] # signal makes enumerations, which cost as much as this whole program
import posix
import sys

# Without a word of loopctl or Python: who ends those by name does not mean these.
PANE_NAME = "keeper:pane"
# With the agent's number behind it, at most the 15 bytes that fit into the name of a process.
NAME = "keeper:"

_CHILD_SUBREAPER = 36
_DUMPABLE = 4
#: What a person or the terminal's end may send to the pane's process, and is meant for the agent.
_PASSED_ON = frozenset(
    {_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2, _signal.SIGTERM}
)
_WAITED = _PASSED_ON | {_signal.SIGCHLD}
# Who is not in the foreground and sets it is stopped, unless this is blocked.
_BLOCKED = _WAITED | {_signal.SIGTTOU}


def keeper_argv() -> tuple[str, ...]:
    """What to put before an agent's command line; nothing where this system has no subreapers."""
    if sys.platform != "linux" or not sys.executable:
        return ()
    return (sys.executable, "-I", "-S", __file__)


def main(command: list[str]) -> None:
    """Be the front, and have the keeper run the command. Does not return."""
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _BLOCKED)
    environ = _environ()
    if not _prctl(_CHILD_SUBREAPER, 1):
        _become(command, environ, mask)
    try:
        told, tell = posix.pipe()
        keeper = posix.fork()
    except OSError:
        _become(command, environ, mask)
    if keeper == 0:
        posix.close(told)
        _keep(command, environ, mask, tell)
    posix.close(tell)
    posix.set_blocking(told, False)
    _rename(PANE_NAME)
    while True:
        number = _signal.sigwaitinfo(_WAITED).si_signo
        if number != _signal.SIGCHLD:
            # Not to the agent itself: its number may be another's once the keeper has collected it.
            posix.kill(keeper, number)
            continue
        try:
            status = posix.read(told, 4)
        except BlockingIOError:
            continue
        # A keeper that was killed could say nothing: end as it did.
        _end_as(int.from_bytes(status, "little") if status else posix.waitpid(keeper, 0)[1])


def _keep(command: list[str], environ: dict[bytes, bytes], mask: set[int], tell: int) -> None:
    front = posix.getppid()
    # What is sent to the group of the front must not come here twice.
    posix.setpgid(0, 0)
    _prctl(_CHILD_SUBREAPER, 1)
    agent = posix.fork()
    if agent == 0:
        posix.setpgid(0, 0)
        _give_terminal(posix.getpid(), 0)
        _become(command, environ, mask)
    # Named only now, since a child is born with its parent's name.
    _rename(f"{NAME}{agent}")
    _let_go_of_the_terminal()
    while True:
        number = _signal.sigwaitinfo(_WAITED).si_signo
        if number == _signal.SIGCHLD:
            status, more = _collect(agent)
            if status is not None:
                agent = 0
                _tell(tell, status, front)
            if not more:
                posix._exit(0)
        elif agent:
            posix.kill(agent, number)
        elif number == _signal.SIGTERM:
            posix._exit(0)


def _tell(pipe: int, status: int, front: int) -> None:
    try:
        posix.write(pipe, status.to_bytes(4, "little"))
    except BrokenPipeError:
        return  # somebody has killed the front
    posix.kill(front, _signal.SIGCHLD)


def _collect(agent: int) -> tuple[int | None, bool]:
    """Collect all that have ended. Returns the agent's status if it is one of them, and whether any child is left."""
    status = None
    while True:
        try:
            pid, how = posix.waitpid(-1, posix.WNOHANG | posix.WUNTRACED)
        except ChildProcessError:
            return status, False
        if pid == 0:
            return status, True
        if pid == agent and posix.WIFSTOPPED(how):
            _go_on(agent, posix.WSTOPSIG(how))
        elif pid == agent:
            status = how


def _go_on(agent: int, stopped_by: int) -> None:
    """Nobody is here to type `fg`. tmux does the same for the process of a pane."""
    if stopped_by in (_signal.SIGTTIN, _signal.SIGTTOU):
        try:
            terminal = posix.open("/dev/tty", posix.O_RDWR | posix.O_NOCTTY)
        except OSError:
            return
        _give_terminal(agent, terminal)
        posix.close(terminal)
    try:
        posix.killpg(agent, _signal.SIGCONT)
    except OSError:
        posix.kill(agent, _signal.SIGCONT)


def _give_terminal(group: int, terminal: int) -> None:
    try:
        posix.tcsetpgrp(terminal, group)
    except OSError:
        pass  # it is none, or it is gone


def _become(command: list[str], environ: dict[bytes, bytes], mask: set[int]) -> None:
    """Run the command in this process, with the signals and the environment that it was given."""
    for number in (_signal.SIGINT, _signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
    path = environ.get(b"PATH", b"/usr/bin:/bin").decode(errors="surrogateescape")
    folders = [""] if "/" in command[0] else [f"{folder or '.'}/" for folder in path.split(":")]
    problem: OSError = FileNotFoundError(2, "no such program")
    for folder in folders:
        program = folder + command[0]
        try:
            posix.execve(program, command, environ)
        except FileNotFoundError:
            continue
        except OSError as error:
            problem = error
            if error.errno == 8:  # ENOEXEC: a script that does not say of what
                posix.execve("/bin/sh", ["/bin/sh", program, *command[1:]], environ)
    posix.write(2, f"loopctl: {command[0]}: {problem.strerror}\n".encode(errors="replace"))
    posix._exit(127)


def _end_as(status: int) -> None:
    if posix.WIFSIGNALED(status):
        number = posix.WTERMSIG(status)
        _prctl(_DUMPABLE, 0)  # the agent's core is enough
        if number != _signal.SIGKILL:
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {number})
        posix.kill(posix.getpid(), number)
        posix._exit(128 + number)
    posix._exit(posix.WEXITSTATUS(status))


def _let_go_of_the_terminal() -> None:
    """And of the folder: this process may live long, and must keep neither busy."""
    null = posix.open("/dev/null", posix.O_RDWR)
    for descriptor in (0, 1, 2):
        posix.dup2(null, descriptor)
    posix.close(null)
    posix.chdir("/")


def _environ() -> dict[bytes, bytes]:
    """What this process was given: Python itself may have added a locale since."""
    with open("/proc/self/environ", "rb") as file:
        pairs = (pair.partition(b"=") for pair in file.read().split(b"\0"))
        return {name: value for name, _, value in pairs if name}


def _rename(name: str) -> None:
    """Set under which name and command line this process is shown."""
    try:
        with open("/proc/self/comm", "wb", 0) as file:
            file.write(name.encode())
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
        begin, end = int(fields[45]), int(fields[46])
        with open("/proc/self/mem", "r+b", 0) as file:
            file.seek(begin)
            file.write(name.encode()[: end - begin - 1].ljust(end - begin, b"\0"))
    except (OSError, ValueError, IndexError):
        pass


def _prctl(option: int, value: int) -> bool:
    try:
        # A third of the time and memory of `ctypes`, which wraps it.
        import _ctypes

        address = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        return bool(_ctypes.call_function(address, (option, value, 0, 0, 0)) == 0)
    except (ImportError, AttributeError, OSError):
        return False


if __name__ == "__main__":
    main(sys.argv[1:])
