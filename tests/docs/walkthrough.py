"""A page is executed: its files are written, its commands run in order, and what they print is held against the page.

A block after the comment `file: NAME` is a file of the reader's. A `console` block holds commands (`$ ...`, more
lines after a trailing backslash) and what each prints. A `sh` block is for the reader only and is not run.
Times, ids, process numbers and the scratch folder differ from run to run: both sides are normalised before they are compared.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.pages import Fence, fences

#: What the reader's home folder is called on the pages.
HOME = "/home/you"
FOLDER = "loops"

_FILE = re.compile(r"(?:not checked: .*; )?file: (?P<name>[A-Za-z0-9._/-]+)\Z")
_STEADY: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-05-04T09:30:00Z"),
    (r"\b\d+s(?=  )", lambda match: "8s".ljust(len(match[0]))),
    (r"\b(\d+[smhd]|\d+ min)\b", "8s"),
    (r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}", "Mon May  4 09:30:00 2026"),
    (r"\b\d+ process(es)?\b", "3 processes"),
    (r"\b(?P<name>[a-z][\w.-]*) \(\d{2,8}\)", r"\g<name> (4711)"),
    (r"signalled=\d+", "signalled=3"),
)
_ID = re.compile(
    r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?<=-)[0-9a-f]{8}(?=\.txt)|(?<=  )[0-9a-f]{8}(?=  )"
    r"|(?:(?<=\bsession )|(?<=\battach )|(?<=\blog ))[0-9a-f]{8}\b"
)


@dataclass(slots=True)
class Ids:
    """The n-th id that is met has the same name in every run."""

    known: dict[str, str] = field(default_factory=dict)

    def steady(self, match: re.Match[str]) -> str:
        """The name of a whole id or of its first letters."""
        made = uuid.UUID(int=random.Random(len(self.known)).getrandbits(128), version=4)
        return self.known.setdefault(match[0][:8], str(made))[: len(match[0])]


@dataclass(slots=True)
class Step:
    """One command of a page, what the page says that it prints, and what it does print."""

    command: str
    line: int
    expected: str
    actual: str = ""


@dataclass(slots=True)
class Walk:
    """A reader's machine: a home folder with a project folder in it. `elsewhere` are commands that another service would
    carry out, each with what stands for it here."""

    env: dict[str, str]
    base: Path
    code: int = 0
    ids: Ids = field(default_factory=Ids)
    elsewhere: dict[str, Callable[[], object]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.base / FOLDER

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, command: str) -> str:
        """What a shell prints for a command, both streams together; `$?` is the code of the command before."""
        if command in self.elsewhere:
            self.elsewhere[command]()
            return ""
        done = subprocess.run(
            ["bash", "-c", f"(exit {self.code})\n{command}"],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=120,
        )
        self.code = done.returncode
        return tidy(done.stdout.decode(errors="replace"), self.base, self.ids)


@contextmanager
def reader() -> Iterator[Walk]:
    """A fresh machine; its tmux server and its processes are ended and its files removed afterwards."""
    # Not under pytest's folder: a socket's path has room for about a hundred bytes.
    base = Path(tempfile.mkdtemp(dir="/tmp", prefix="lc-"))
    tag = base.name
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"HOME": str(base), "PATH": path, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    walk = Walk(env, base)
    walk.folder.mkdir()
    try:
        yield walk
    finally:
        for socket in base.rglob("*.sock"):
            subprocess.run(["tmux", "-S", str(socket), "kill-server"], check=False, capture_output=True, timeout=20)
        _end_processes(tag)
        shutil.rmtree(base, ignore_errors=True)


def _end_processes(tag: str) -> None:
    """End what was started with this home folder, by pid, should a page leave anything behind."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"/{tag}".encode() in (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue


def steps_of(fence: Fence) -> list[Step]:
    """The commands of a console block."""
    steps: list[Step] = []
    open_command = False
    for offset, line in enumerate(fence.text.splitlines(keepends=True)):
        if line.startswith("$ "):
            steps.append(Step(line[2:].rstrip("\n"), fence.line + offset, ""))
        elif open_command:
            steps[-1].command += "\n" + line.rstrip("\n")
        elif steps:
            steps[-1].expected += line
        open_command = bool(steps) and not steps[-1].expected and steps[-1].command.endswith("\\")
    return steps


def play(text: str, walk: Walk) -> list[tuple[Fence, list[Step]]]:
    """Go through a page. Returns its console blocks with what the commands printed."""
    played = []
    for fence in fences(text):
        named = _FILE.match(fence.note)
        if named:
            walk.write(named["name"], fence.text)
        elif fence.language == "console":
            steps = steps_of(fence)
            for step in steps:
                step.actual = walk.run(step.command)
            played.append((fence, steps))
    return played


def rewritten(text: str, played: list[tuple[Fence, list[Step]]]) -> str:
    """The page with what the commands really print; what differs only by times and ids stays as it was.

    Raises RuntimeError where a command fell over: a page must not come to say so.
    """
    fallen = [step for _, steps in played for step in steps if "Traceback (most recent call last)" in step.actual]
    if fallen:
        raise RuntimeError(f"line {fallen[0].line}: $ {fallen[0].command}\n{fallen[0].actual}")
    for fence, steps in reversed(played):
        if all(normal(step.expected) == normal(step.actual) for step in steps):
            continue
        block = "".join(f"$ {step.command}\n{step.actual}" for step in steps)
        text = text[: fence.start] + block + text[fence.end :]
    return text


def tidy(text: str, base: Path, ids: Ids | None = None) -> str:
    """Output as a reader at HOME would see it; with `ids`, those of this run have their steady names."""
    spare = len(str(base)) - len(HOME)
    lines = []
    for line in text.splitlines(keepends=True):
        if line.startswith("PHASE "):
            # The head of the one table with a column of paths.
            line = line.replace("SOCKET" + " " * spare, "SOCKET")
        line = _ID.sub(ids.steady, line) if ids else line
        for pattern, steady in _STEADY:
            line = re.sub(pattern, steady, line)
        lines.append(line.replace(str(base), HOME))
    return "".join(lines)


def normal(text: str) -> str:
    """Text in which everything that differs from run to run is the same."""
    text = tidy(text, Path(HOME))
    return re.sub(r" {2,}", "  ", "\n".join(line.rstrip() for line in text.splitlines())).strip()
