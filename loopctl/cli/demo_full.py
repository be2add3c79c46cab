"""loopctl demo --full: the whole life of a session, kept by the packaged playbook."""

from __future__ import annotations

import time
from pathlib import Path

from loopctl.cli.demo import StepFailedError, run, scene
from loopctl.cli.output import out
from loopctl.errors import EXIT_OK

ITEM = "items:demo/app#1"
KEEP = ("keep-the-loop", "-e", "label=agent")
# How long the demo's agent may take to read a line and to end.
_PATIENCE = 20.0
_TURN = 0.1


def play_full(folder: Path) -> int:
    """Go through a session's life in a scratch folder. Raises StepFailedError at the first scene that fails."""
    out(f"$ cd {folder}\n")
    scene(
        "An item is open. It gets an agent once it carries the label: `keep-the-loop` is packaged, nothing is to be written."
    )
    write_item(folder, "open", "agent")
    run("plan", *KEEP)
    run("apply", *KEEP, "-y")

    scene("A person says something to the agent, in its pane.")
    run("sessions", "send", ITEM, "please add a test, then crash now")

    scene(
        "The agent crashes. The next run takes up its conversation in a fresh pane; what the old pane showed is kept."
    )
    wait_for("exited")
    run("plan", *KEEP)
    run("apply", *KEEP, "-y")
    run("sessions", "list")

    scene("The item is closed: its agent ends, its pane stays as a dead, read-only record.")
    write_item(folder, "closed", "agent")
    run("apply", *KEEP, "-y")

    scene("It is opened again: a fresh pane, beside the old one.")
    write_item(folder, "open", "agent")
    run("apply", *KEEP, "-y")
    run("sessions", "list")

    scene("It is closed for good, and the retained panes go when they were kept long enough: here, at once.")
    write_item(folder, "closed", "agent")
    run("apply", *KEEP, "-y")
    run("apply", *KEEP, "-e", "keep=0s", "-y")
    run("plan", *KEEP, "-e", "keep=0s", "--detailed-exitcode")
    run("sessions", "log", ITEM, most=4)

    scene("That was it. The demo takes away all that it made.")
    return EXIT_OK


def write_item(folder: Path, state: str, label: str) -> None:
    """Say what the item is now."""
    text = f"- ref: demo/app#1\n  state: {state}\n  title: Add a dark mode\n  labels: [{label}]\n"
    (folder / "items.yaml").write_text(text, encoding="utf-8")
    out(f"(items.yaml says: {state}, label {label})\n")


def wait_for(phase: str) -> None:
    """Wait until the newest session is in this phase. Raises StepFailedError when it does not come."""
    from loopctl.cli.wiring import Setup
    from loopctl.observe import observe

    world = Setup.load(None, "demo").world
    deadline = time.monotonic() + _PATIENCE
    while not any(subject.phase == phase for subject in observe(world).subjects if subject.latest):
        if time.monotonic() > deadline:
            raise StepFailedError(f"waiting for the agent to be {phase}", 1)
        time.sleep(_TURN)
