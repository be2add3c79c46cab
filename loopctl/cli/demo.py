"""loopctl demo: the main job on a scratch world, from the first plan to the last, with every command shown."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopctl.cli.output import out, say, wants_color
from loopctl.errors import EXIT_OK, DocumentError, LoopctlError, StateError

if TYPE_CHECKING:
    from loopctl.ports import World

AGENT = """\
#!/bin/sh
# Stands in for a coding agent: it talks, and it has helpers that would outlive it.
echo "agent: working on $LOOPCTL_REF"
i=1
while [ "$i" -le 40 ]; do echo "agent: thought $i"; i=$((i + 1)); done
nohup sleep 100000 >/dev/null 2>&1 &
echo "agent: started a helper that ignores hang-ups ($!)"
trap 'echo "agent: told to stop, saving my work"; exit 0' TERM
[ "$1" = --resume ] && echo "agent: going on with conversation $2"
while :; do
    while IFS= read -r line; do
        echo "agent: was told: $line"
        case $line in *"crash now"*) exit 1 ;; esac
    done
    sleep 1
done 2>/dev/null
"""

PLAYBOOK = """\
- name: Every open item has its agent
  rules:
    - name: open
      match:
        item: {state: open}
      ensure:
        session: running

- name: Ended work items leave a retained, read-only pane
  rules:
    - name: closed or merged
      match:
        item: {state: [closed, merged]}
      ensure:
        session: retained
        grace: 3s
        transcript: kept
"""

ITEMS = """\
- ref: demo/app#1
  state: open
  title: Add a dark mode
- ref: demo/app#2
  state: {second}
  title: Fix the login page{second_more}
- ref: demo/app#3
  kind: pull_request
  state: {third}
  title: Speed up the parser
"""
_ELSEWHERE = "set TMPDIR to another folder, with a short path"


@click.command(short_help="See the main job on a scratch world, without any account.")
@click.option(
    "--full", is_flag=True, help="Show a session's whole life instead, with the packaged playbook keep-the-loop."
)
def demo(*, full: bool) -> int:
    """See the main job on a scratch world, without any account.

    Three agents start in a tmux server of the demo's own; one item closes, one pull request merges; the plan is shown and
    applied. At the end all that was made is taken away again, also on Ctrl-C.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    need_tmux()
    with scratch() as folder:
        if full:
            from loopctl.cli.demo_full import play_full

            return play_full(folder)
        return play(folder)


class StepFailedError(LoopctlError):
    """A step of the demo did not end as it should: the rest would only confuse."""

    def __init__(self, command: str, code: int) -> None:
        """Take the command as it was shown, and its exit code, which becomes the demo's."""
        super().__init__(f"`{command}` ended with exit code {code}; the demo stops here")
        self.exit_code = code


def need_tmux() -> None:
    """Raise StateError where there is no tmux, before anything is made or shown."""
    from loopctl.cli.wiring import tmux_version

    try:
        tmux_version(os.environ)
    except StateError as error:
        msg = f"the demo runs its agents in tmux: {error.message}"
        hint = (error.hint or "install tmux").rstrip(".")
        raise StateError(msg, hint=f"{hint[:1].lower()}{hint[1:]}; `loopctl doctor` checks it") from None


def play(folder: Path) -> int:
    """Go through the scenes in a scratch folder. Raises StepFailedError at the first one that fails."""
    items = folder / "items.yaml"
    out(f"$ cd {folder}\n")
    scene(
        "Three work items are open. The playbook says that an open item has an agent; the plan shows what is missing."
    )
    write_items(items, second="open", third="open")
    run("plan", "playbook.yml")

    scene("Apply it: three agents start, each in a tmux session of its own.")
    run("apply", "playbook.yml", "-y")
    run("sessions", "list")

    scene("Now issue #2 is closed and pull request #3 is merged. Their agents go on, and nobody watches them.")
    write_items(items, second="closed", third="merged", second_more="\n  reason: completed")
    out("(edited items.yaml)\n")
    run("plan", "playbook.yml")

    scene("Apply it: agents and helpers end, the panes stay as dead, read-only records.")
    run("apply", "playbook.yml", "-y")
    run("sessions", "list")

    scene("What the agent of #2 said is kept, to its last word.")
    run("sessions", "log", "items:demo/app#2", most=9)

    scene("Plan again: reality and playbook agree.")
    run("plan", "playbook.yml", "--detailed-exitcode")

    scene("That was it. The demo takes away all that it made.")
    return EXIT_OK


def write_items(path: Path, *, second: str, third: str, second_more: str = "") -> None:
    """Say what the work items are now."""
    path.write_text(ITEMS.format(second=second, third=third, second_more=second_more), encoding="utf-8")


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Give a world of its own: state root, tmux server, items file. All of it goes at the end, whatever happened.

    Raises StateError where none can be had.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="loopctl-demo-"))
    except OSError as error:
        raise StateError(f"the demo has no place for its folder: {error.strerror}", hint=_ELSEWHERE) from None
    # Whatever the user's own config is: the demo never touches that world, and leaves nothing in the home folder.
    ours = {"LOOPCTL_CONFIG": str(folder / ".loopctl" / "config.yaml"), "XDG_CACHE_HOME": str(folder / "cache")}
    with environment(ours):
        try:
            furnish(folder)
            check(folder)
            with contextlib.chdir(folder):
                yield folder
        finally:
            # A second Ctrl-C must not leave half of it.
            for signum in (signal.SIGINT, signal.SIGTERM):
                signal.signal(signum, signal.SIG_IGN)
            clean_up(folder)


def furnish(folder: Path) -> None:
    """Write the agent, the playbook and the config."""
    (folder / "agent.sh").write_text(AGENT, encoding="utf-8")
    (folder / "playbook.yml").write_text(PLAYBOOK, encoding="utf-8")
    agent = json.dumps(str(folder / "agent.sh"))
    (folder / ".loopctl").mkdir()
    (folder / ".loopctl" / "config.yaml").write_text(
        "state: {root: state}\ntmux: {socket: tmux.sock}\n"
        "polling:\n  sources:\n    - items: items.yaml\n"
        f"harnesses:\n  demo-agent:\n    argv: [sh, {agent}, '{{session_id}}']\n"
        f"    resumeArgv: [sh, {agent}, --resume, '{{session_id}}']\n"
        "routing:\n  defaultHarness: demo-agent\n  spawnWorkdir: .\n",
        encoding="utf-8",
    )


def check(folder: Path) -> None:
    """Raise StateError, and leave nothing, where no tmux server can have its socket in this folder."""
    from loopctl.config import load_config

    try:
        load_config(None, os.environ, folder)
    except DocumentError as error:
        shutil.rmtree(folder, ignore_errors=True)
        message = error.problems[0].message
        raise StateError(f"no demo can be played in {folder}: {message}", hint=_ELSEWHERE) from None


@contextlib.contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables for a while."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def clean_up(folder: Path) -> None:
    """End every session of the scratch world, then remove the folder."""
    from loopctl.cli.wiring import Setup

    if not folder.exists():
        return
    try:
        setup = Setup.load(str(folder / ".loopctl" / "config.yaml"), "demo")
        try:
            failed = end_all(setup.world)
        finally:
            setup.progress.clear()
    except LoopctlError as error:
        say(f"loopctl: could not clean up {folder}: {error.message}")
        return
    if failed:
        say(f"loopctl: left behind in {folder}: {'; '.join(failed)}")
        return
    shutil.rmtree(folder, ignore_errors=True)


def end_all(world: World) -> list[str]:
    """End every session, one after the other, and remove its pane. Returns what failed."""
    from loopctl.cli.session_words import one_rule
    from loopctl.model.plan import FAILED
    from loopctl.observe import observe
    from loopctl.run import apply_plan, plan_of

    failed: list[str] = []
    for subject in observe(world).subjects:
        if subject.session:
            plan = plan_of(one_rule(subject.session, gone=True, kill=True, grace=1.0), observe(world), world)
            failed += [r.detail for r in apply_plan(plan, world).results if r.status == FAILED]
    return failed


def scene(text: str) -> None:
    """Print one line of explanation."""
    bold, plain = ("\x1b[1m", "\x1b[0m") if wants_color(sys.stdout) else ("", "")
    out(f"\n{bold}# {text}{plain}\n")


def run(*args: str, most: int = 0) -> None:
    """Print a command as a person would type it, and run it here.

    Raises StepFailedError unless it exits with 0, and KeyboardInterrupt where it was asked to stop.
    """
    import io
    import shlex

    from loopctl.cli.main import cli

    command = f"loopctl {shlex.join(args)}"
    out(f"$ {command}\n")
    shown = io.StringIO()
    handler = signal.getsignal(signal.SIGINT)
    with contextlib.redirect_stdout(shown) if most else contextlib.nullcontext():
        code: Sequence[str] | int | None = cli.main(args=list(args), standalone_mode=False)
    if most:
        lines = shown.getvalue().splitlines(keepends=True)
        out("".join([f"  ... {len(lines) - most} lines before ...\n"] * (len(lines) > most) + lines[-most:]))
    if signal.getsignal(signal.SIGINT) != handler:
        # Who was asked to stop listens no more.
        raise KeyboardInterrupt
    if isinstance(code, int) and code != EXIT_OK:
        raise StepFailedError(command, code)
