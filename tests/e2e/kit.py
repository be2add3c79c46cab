"""The installed command on a scratch world: own HOME, state root, tmux server, config and agents."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import wait_until

# One for all boxes: what is remembered there only saves time.
CACHE = tempfile.TemporaryDirectory(prefix="lc-cache-")
LOOPCTL = str(Path(sys.executable).parent / "loopctl")
AGENTS = Path(__file__).parent / "agents"


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Box:
    """A scratch world. `items` are written to its items file unless it is told of repositories on a fake GitHub."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        # Not under pytest's folder: a socket's path has room for about a hundred bytes.
        self.folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="lc-"))
        self.state = self.folder / "state"
        self.socket = str(self.folder / "s")
        self.config = self.folder / "config.yaml"
        self.items_file = self.folder / "items.yaml"
        self.trace = self.folder / "calls.jsonl"
        self.tag = uuid.uuid4().hex
        home = self.folder / "home"
        home.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "XDG_CACHE_HOME": CACHE.name,
            "LOOPCTL_CONFIG": str(self.config),
            "LOOPCTL_TRACE_CALLS": str(self.trace),
            **(env or {}),
        }
        self.settings: dict[str, Any] = {
            "state": {"root": str(self.state)},
            "tmux": {"socket": self.socket},
            "polling": {"sources": [{"items": str(self.items_file)}]},
            "routing": {"defaultHarness": "polite", "spawnWorkdir": str(self.folder)},
            "harnesses": {},
        }
        for name in ("polite", "stubborn"):
            self.harness(name, "sh", str(AGENTS / f"{name}.sh"))
        for name in ("nasty", "hydra", "shielded"):
            self.harness(name, sys.executable, str(AGENTS / f"{name}.py"))
        self.items({})
        self.playbook(
            "start.yml",
            "[{name: start, limits: {max_changes: 1000}, rules: [{name: open, "
            "match: {item: {state: open}}, ensure: {session: running}}]}]",
        )
        self.playbook("close.yml", close_rule())

    def harness(self, name: str, *argv: str) -> None:
        """Add a harness; its processes are known by the box's tag, for the clean-up."""
        self.settings["harnesses"][name] = {"argv": list(argv), "env": {"LOOPCTL_TEST_BOX": self.tag}}
        self.write_config()

    def write_config(self) -> None:
        # JSON is YAML.
        self.config.write_text(json.dumps(self.settings), encoding="utf-8")

    def github(self, *repos: str) -> None:
        """Look at these repositories instead of the items file."""
        self.settings["polling"]["sources"] = [{"provider": "github", "repos": list(repos), "label": "agent"}]
        self.write_config()

    def playbook(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def items(self, states: Mapping[str, str | Mapping[str, object]]) -> None:
        """Write the items file: `demo/app#1` -> a state, or fields."""
        rows = [{"ref": ref, **({"state": it} if isinstance(it, str) else it)} for ref, it in states.items()]
        self.items_file.write_text(json.dumps(rows), encoding="utf-8")

    def run(
        self, *args: str, env: Mapping[str, str] | None = None, stdin: str | None = None, cwd: Path | None = None
    ) -> Done:
        """Run loopctl in this world, without a terminal."""
        done = subprocess.run(
            [LOOPCTL, *args],
            check=False,
            capture_output=True,
            env={**self.env, **(env or {})},
            input=stdin.encode() if stdin is not None else None,
            stdin=subprocess.DEVNULL if stdin is None else None,
            cwd=cwd or self.folder,
            timeout=120,
        )
        return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def popen(self, *args: str, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[bytes]:
        """Start loopctl in this world."""
        return subprocess.Popen([LOOPCTL, *args], env={**self.env, **(env or {})}, cwd=self.folder, **more)

    def start(self, refs: Sequence[str], harness: str = "polite") -> None:
        """Start agents for items (`demo/app#1`) and wait until each says that it is ready."""
        before = {row["ref"] for row in self.records() if row["status"] != "closed"}
        known = json.loads(self.items_file.read_text())
        self.items({row["ref"]: row for row in known} | dict.fromkeys(refs, "open"))
        book = self.playbook(
            "start-these.yml",
            "[{name: start, limits: {max_changes: 1000}, rules: [{name: open, match: {item: {state: open}}, "
            f"ensure: {{session: running, harness: {harness}}}}}]}}]",
        )
        done = self.run("apply", book, "-y", "--limit", ",".join(f"items:{ref}" for ref in refs))
        assert done.code == 0, done
        self.wait_ready({f"items:{ref}" for ref in refs} - before)

    def wait_ready(self, refs: Iterable[str]) -> None:
        """Wait until the agents of these items have printed `ready`."""
        panes = {row["ref"]: row["pane_id"] for row in self.records() if row["status"] != "closed"}
        for ref in refs:
            wait_until(lambda ref=ref: "ready" in self.screen(panes[ref]), what=f"{ref} is ready")

    def sessions(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.run("sessions", "list", "--format", "json").json["sessions"]
        return rows

    def session(self, ref: str) -> dict[str, Any]:
        return next(row for row in reversed(self.sessions()) if row["ref"] == ref)

    def records(self) -> list[dict[str, Any]]:
        """The rows of the registry, the oldest first, read without loopctl."""
        path = self.state / "registry.db"
        if not path.exists():
            return []
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        db.row_factory = sqlite3.Row
        rows = [dict(row) for row in db.execute("SELECT * FROM sessions ORDER BY created_at, id")]
        db.close()
        return rows

    def record(self, ref: str) -> dict[str, Any]:
        """The newest row of an item (`items:demo/app#1`)."""
        return next(row for row in reversed(self.records()) if row["ref"] == ref)

    def add_record(self, **fields: object) -> dict[str, Any]:
        """Insert a row by hand: another one with these fields in place of its own."""
        row = {**self.records()[0], "id": str(uuid.uuid4()), **fields}
        row["ref_key"] = str(row["ref"]).lower()
        names = ", ".join(row)
        self.edit(f"INSERT INTO sessions ({names}) VALUES ({', '.join('?' * len(row))})", *row.values())
        return row

    def tmux(self, *args: str) -> str:
        """Ask the box's own tmux server."""
        done = subprocess.run(
            ["tmux", "-u", "-S", self.socket, *args],
            check=False,
            capture_output=True,
            text=True,
            env=self.env,
            timeout=30,
        )
        return done.stdout

    def wait_dead(self, pane: str) -> None:
        """Wait until the server shows a pane as dead. Debian's 3.3a misses an exit now and then: a job makes it look."""

        def dead() -> bool:
            self.tmux("run-shell", "-b", "true")
            return self.pane(pane, "pane_dead") == "1"

        wait_until(dead, what=f"{pane} is dead")

    def run_which(self, program: str) -> str:
        """Where a program is."""
        return shutil.which(program, path=self.env["PATH"]) or program

    def screen(self, pane: str) -> str:
        return self.tmux("capture-pane", "-p", "-S", "-", "-t", pane)

    def pane(self, pane: str, field: str) -> str:
        rows = self.tmux("list-panes", "-a", "-F", f"#{{pane_id}} #{{{field}}}").splitlines()
        return next((row.partition(" ")[2] for row in rows if row.split(" ")[0] == pane), "")

    def calls(self, program: str) -> int:
        """How often a program was run since the trace was cleared."""
        if not self.trace.exists():
            return 0
        rows = [json.loads(line) for line in self.trace.read_text().splitlines()]
        return sum(Path(row["program"]).name == program for row in rows)

    def clear_trace(self) -> None:
        self.trace.unlink(missing_ok=True)

    def events(self, *types: str) -> list[dict[str, Any]]:
        path = self.state / "events.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [row for row in rows if not types or row["event"] in types]

    def edit(self, sql: str, *values: object) -> None:
        """Change the registry by hand."""
        with sqlite3.connect(self.state / "registry.db") as db:
            db.execute(sql, values)
        db.close()

    def processes(self) -> dict[int, str]:
        """The live processes of this box's agents, known by its tag in environment or arguments: pid -> command line."""
        return {pid: line for pid, line in self._tagged().items() if not line.startswith("keeper:")}

    def keepers(self) -> dict[int, str]:
        """The live processes that stand between tmux and this box's agents."""
        return {pid: line for pid, line in self._tagged().items() if line.startswith("keeper:")}

    def _tagged(self) -> dict[int, str]:
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environ = (entry / "environ").read_bytes()
                state = (entry / "stat").read_bytes().rpartition(b") ")[2][:1]
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if (self.tag.encode() in environ or self.tag in line) and state not in b"ZX":
                found[int(entry.name)] = line
        return found

    def close(self) -> None:
        """End this world: its own tmux server, its own processes, its folder."""
        if Path(self.socket).exists():
            self.tmux("kill-server")
        for pid in self._tagged():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        shutil.rmtree(self.folder, ignore_errors=True)


def close_rule(grace: float | None = None, **ensure: object) -> str:
    """A playbook that closes the sessions of ended items."""
    wanted: dict[str, object] = {"session": "closed", "transcript": "kept", **ensure}
    if grace is not None:
        wanted["grace"] = grace
    rule = {"name": "ended", "match": {"item": {"state": ["closed", "merged"]}}, "ensure": wanted}
    return json.dumps([{"name": "close", "limits": {"max_changes": 1000, "max_fraction": 1}, "rules": [rule]}])


class Saboteur:
    """Stands before a program on PATH: counts its runs, and kills loopctl (its parent) before or after one of them, or sends it
    another signal."""

    def __init__(self, box: Box, program: str = "tmux", signum: int = signal.SIGKILL) -> None:
        self.folder = box.folder / f"before-{program}"
        self.folder.mkdir()
        self._count, self._when = self.folder / "count", self.folder / "when"
        real = shutil.which(program, path=box.env["PATH"])
        script = self.folder / program
        script.write_text(
            f"#!/bin/sh\nn=$(($(cat {self._count}) + 1)); echo $n >{self._count}; when=$(cat {self._when})\n"
            f'[ "$when" = "before $n" ] && kill -{signum:d} $PPID{" && exit 1" if signum == signal.SIGKILL else ""}\n'
            f'{real} "$@"; code=$?\n'
            f'[ "$when" = "after $n" ] && kill -{signum:d} $PPID\n'
            "exit $code\n"
        )
        script.chmod(0o755)
        self.env = {"PATH": f"{self.folder}:{box.env['PATH']}"}
        self.arm("never")

    def arm(self, when: str) -> None:
        """Begin to count; `before 3` kills loopctl before its third run of the program, `after 3` when it is over."""
        self._count.write_text("0\n")
        self._when.write_text(f"{when}\n")

    @property
    def count(self) -> int:
        return int(self._count.read_text())
