from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from loopctl.adapters import shell
from loopctl.errors import StateError
from tests.support import ROOT, wait_until

ENV = shell.clean_env({"PATH": os.environ["PATH"]})


def run(*argv: str, stdin: bytes | None = None, timeout: float = 30, cwd: str | None = None) -> shell.Completed:
    return shell.run(argv, stdin=stdin, env=ENV, timeout=timeout, cwd=cwd)


def sh(script: str, **options: float) -> shell.Completed:
    return run("sh", "-c", script, **options)


def python(code: str) -> shell.Completed:
    return run(sys.executable, "-c", code)


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            return stat.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def children() -> set[str]:
    """The processes whose parent is this one, zombies included, without the one that lists them."""
    rows = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    fields = (row.split(None, 2) for row in rows.splitlines())
    return {pid for pid, ppid, name in fields if int(ppid) == os.getpid() and name != "ps"}


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 1", 1),
        ("exit 255", 255),
        ("kill -TERM $$", -signal.SIGTERM),
        ("kill -KILL $$", -signal.SIGKILL),
    ],
)
def test_an_exit_code_never_raises(script: str, code: int) -> None:
    done = sh(f"echo out; echo err >&2; {script}")
    assert (done.code, done.stdout, done.stderr, done.timed_out) == (code, b"out\n", "err\n", False)


def test_default_signals_are_restored_in_the_program() -> None:
    # sh ignores SIGHUP for what runs in the background, and Python SIGXFSZ: a tmux server would pass both on.
    assert sh("kill -HUP $$").code == -signal.SIGHUP
    assert sh("kill -XFSZ $$").code == -signal.SIGXFSZ
    assert sh("kill -INT $$").code == -signal.SIGINT


def test_nothing_is_a_terminal_and_the_session_is_its_own() -> None:
    done = python("import os; print([os.isatty(n) for n in range(3)], os.getsid(0) == os.getpid())")
    assert done.text == "[False, False, False] True\n"


def test_large_input_and_output_arrive_whole() -> None:
    sent = b"".join(b"%07d\n" % n for n in range(500_000))
    assert run("cat", stdin=sent).stdout == sent


def test_without_input_a_reader_sees_the_end_at_once() -> None:
    assert run("cat").stdout == b""


def test_bytes_that_are_no_text_are_kept_in_stdout_and_replaced_elsewhere() -> None:
    done = sh(r"printf '\377a'; printf '\377b' >&2")
    assert (done.stdout, done.text, done.stderr) == (b"\xffa", "�a", "�b")


def test_the_environment_is_the_given_one_and_nothing_else() -> None:
    lines = shell.run(["env"], env={"PATH": ENV["PATH"], "A": "b c"}, timeout=30).text.splitlines()
    assert set(lines) - {line for line in lines if line.startswith("__CF")} == {f"PATH={ENV['PATH']}", "A=b c"}


@pytest.mark.parametrize("bad", [None, 7, b"bytes", Path("x")])
def test_an_argument_that_is_no_string_is_refused(bad: object) -> None:
    with pytest.raises(TypeError, match="must be a string"):
        shell.run(["echo", "a", bad], env=ENV, timeout=30)  # type: ignore[list-item]


def test_no_list_a_nul_or_half_a_character_is_refused() -> None:
    for argv in ("echo", []):
        with pytest.raises(TypeError, match="argv"):
            shell.run(argv, env=ENV, timeout=30)
    for arg in ("a\0b", "\ud800"):
        with pytest.raises(ValueError, match=r"NUL|surrogates"):
            run("echo", arg)


def test_empty_odd_and_option_like_arguments_arrive_as_they_are() -> None:
    args = ["", " ", "a b", "*", "$HOME", "-n", "é", "x\ny", ";"]
    assert (
        json.loads(run(sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *args).text) == args
    )


def test_a_missing_program_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(shell.ProgramMissing) as caught:
        run("no-such-program")
    assert "no-such-program was not found" in caught.value.message
    assert caught.value.hint
    with pytest.raises(shell.ProgramMissing):  # the PATH of the environment given decides, not our own
        shell.run(["cat"], env={"PATH": str(tmp_path)}, timeout=30)


def test_a_program_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x00\x01 neither a script nor a program")
    broken.chmod(0o755)
    with pytest.raises(StateError, match="cannot run"):
        run(str(broken))
    with pytest.raises(StateError, match="no such folder"):
        run("cat", cwd=str(tmp_path / "vanished"))
    assert run("pwd", cwd=str(tmp_path)).text.strip() == str(tmp_path.resolve())


def test_the_time_limit_ends_the_whole_group_and_says_so(tmp_path: Path) -> None:
    # The group is whole before the limit can be over: the script itself waits for the first byte of nothing.
    pids = tmp_path / "pids"
    script = f"trap '' TERM HUP; (trap '' TERM HUP; sleep 600) & echo $! $$ > {pids}; echo partial; wait"
    done = sh(script, timeout=1.5)
    assert done.timed_out
    assert done.code == -signal.SIGKILL
    for pid in pids.read_text().split():
        wait_until(lambda pid=pid: gone(int(pid)), what=f"{pid} to end")


def test_a_grandchild_that_keeps_the_output_open_delays_nobody() -> None:
    done = sh("sleep 600 & echo $!")
    pid = int(done.text)
    try:
        assert not done.timed_out
        assert not gone(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_no_descriptor_of_ours_reaches_a_program(tmp_path: Path) -> None:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)
    fcntl.flock(lock, fcntl.LOCK_EX)
    pid = int(sh("sleep 600 & echo $!").text)
    try:
        os.close(lock)
        again = os.open(tmp_path / "lock", os.O_RDWR)
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while the sleeper holds it
        os.close(again)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_calls_leave_no_thread_descriptor_child_or_mask_behind() -> None:
    run("true")
    others = children()
    before = len(list(Path("/dev/fd").iterdir())), signal.pthread_sigmask(signal.SIG_BLOCK, [])
    for _ in range(5):
        run("true")
        run("sleep", "600", timeout=0.05)
    assert (len(list(Path("/dev/fd").iterdir())), signal.pthread_sigmask(signal.SIG_BLOCK, [])) == before
    wait_until(lambda: threading.active_count() == 1, what="sh's threads to end")
    assert children() <= others


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_program_and_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    pids = tmp_path / "pids"
    code = f"""
import os, signal
from loopctl.adapters import shell
def stop(*_): raise KeyboardInterrupt
signal.signal(signal.SIGINT, stop); signal.signal(signal.SIGTERM, stop)
try:
    shell.run(["sh", "-c", "sleep 600 & echo $! $$ done > {pids}; wait"], env=dict(os.environ), timeout=600)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        wait_until(lambda: pids.exists() and "done" in pids.read_text(), what="the program to run")
        process.send_signal(number)
        assert process.communicate(timeout=60)[0] == "interrupted\n"
    for pid in pids.read_text().split()[:2]:
        wait_until(lambda pid=pid: gone(int(pid)), what=f"{pid} to end")


def test_the_trace_has_a_line_for_each_program_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "trace"
    run("true")
    assert not trace.exists()
    monkeypatch.setenv("LOOPCTL_TRACE_CALLS", str(trace))
    run("echo", "-e", "TOKEN=hunter2", "x" * 500, stdin=b"hunter2")
    sh("exit 3")
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [(line["program"], line["code"]) for line in lines] == [("echo", 0), ("sh", 3)]
    assert lines[0]["args"][:2] == ["-e", "TOKEN=..."]
    assert lines[0]["ms"] > 0
    assert "hunter2" not in trace.read_text()
    assert trace.stat().st_mode & 0o077 == 0


def test_a_trace_that_cannot_be_written_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPCTL_TRACE_CALLS", "/proc/no/such/file")
    assert run("true").code == 0


def test_the_clean_environment_keeps_who_one_is_and_drops_what_would_mislead() -> None:
    kept = {"HOME": "/h", "PATH": "/p", "HTTPS_PROXY": "http://proxy", "XDG_STATE_HOME": "/s", "GH_TOKEN": "t"}
    unwanted = {"TMUX": "/tmp/x,1,0", "TMUX_PANE": "%1", "TMUX_TMPDIR": "/t", "CLICOLOR_FORCE": "1", "FORCE_COLOR": "1"}
    unwanted |= {"LC_CTYPE": "de_DE.ISO-8859-1", "LANGUAGE": "de", "DEBUG": "api", "LOOPCTL_TRACE_CALLS": "/f"}
    base = kept | unwanted | {"LANG": "C", "LC_ALL": "POSIX", "PAGER": "less", "TERM": "xterm-256color"}
    env = shell.clean_env(base)
    assert env.items() >= kept.items()
    assert not env.keys() & unwanted.keys()
    assert env["LC_ALL"] == env["LANG"]
    assert env["LC_ALL"].endswith("UTF-8")
    assert (env["PAGER"], env["NO_COLOR"], env["TERM"]) == ("cat", "1", "dumb")
    assert base["PAGER"] == "less"
