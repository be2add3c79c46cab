"""Many of us at once on one state folder: nobody waits for ever, nothing that was written is lost, and no item gets two agents.

STRESS_SECONDS says how long (3), and STRESS_REPORT where the figures go.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.kit import Box, Done
from tests.support import wait_until

pytestmark = pytest.mark.tmux

SECONDS = float(os.environ.get("STRESS_SECONDS", "3"))
WORKERS = 4
FLIPPED = [f"demo/app#{number}" for number in range(1, 5)]
#: One for each worker, which alone pauses and resumes it: what it wrote must be there until it writes again.
OWN = [f"demo/app#{number}" for number in range(11, 11 + WORKERS)]
BOOK = json.dumps(
    [
        {
            "name": "keep",
            "limits": {"max_changes": 1000, "max_fraction": 1},
            "rules": [
                {"name": "open", "match": {"item": {"state": "open"}}, "ensure": {"session": "running"}},
                {
                    "name": "ended",
                    "match": {"item": {"state": "closed"}},
                    "ensure": {"session": "retained", "grace": 0.2},
                },
            ],
        }
    ]
)
#: What may come of each command. Refused: somebody else has the lock. Stale: the world moved. Held: it moves just now.
FINE = {"plan": {0, 5}, "list": {0}, "apply": {0, 1, 3, 4, 5}, "run": {0, 1, 3, 4, 5}}


class Stress:
    """Workers with a loop each, and somebody who opens and closes items."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.box.settings["lock"] = {"timeoutSeconds": 1}
        self.box.write_config()
        box.playbook("keep.yml", BOOK)
        self.states = dict.fromkeys(FLIPPED + OWN, "open")
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.over = threading.Event()
        self.write()

    def write(self) -> None:
        """The items file, whole at any moment."""
        fresh = self.box.folder / "items.new"
        fresh.write_text(json.dumps([{"ref": ref, "state": state} for ref, state in self.states.items()]))
        fresh.rename(self.box.items_file)

    def run(self, name: str, *args: str) -> Done:
        done = self.box.run(*args)
        self.counts[f"{name} {done.code}"] += 1
        if "Traceback" in done.err or done.code not in FINE.get(name, {0}):
            self.wrong.append(f"{name}: {done}")
        return done

    def worker(self, number: int) -> None:
        chance, own, paused = random.Random(number), f"items:{OWN[number]}", False
        while not self.over.is_set():
            match chance.randrange(6):
                case 0:
                    self.run("plan", "plan", "keep.yml", "--format", "json")
                case 1 | 2:
                    self.run("apply", "apply", "keep.yml", "-y")
                case 3:
                    self.run("run", "run", "keep.yml", "--once")
                case 4:
                    paused = not paused
                    self.run("pause", "sessions", "pause" if paused else "resume", own)
                case 5:
                    self.run("list", "sessions", "list", "--format", "json")
            status = self.box.record(own)["status"]
            if (status == "paused") != paused:
                self.wrong.append(f"{own} is {status}, and was {'paused' if paused else 'resumed'}")

    def flipper(self) -> None:
        chance = random.Random(0)
        while not self.over.wait(0.3):
            ref = chance.choice(FLIPPED)
            self.states[ref] = "closed" if self.states[ref] == "open" else "open"
            self.write()
            self.counts["flipped"] += 1
            self.look()

    def look(self) -> None:
        """No item has two live panes, and nobody but us has the lock's file open."""
        rows = self.box.tmux("list-panes", "-a", "-F", "#{pane_dead} #{@loopctl_ref}").splitlines()
        live = Counter(row.partition(" ")[2] for row in rows if row.startswith("0 "))
        self.wrong += [f"{ref} has {number} live panes" for ref, number in live.items() if number > 1]
        self.wrong += [f"{holder} has the lock's file open" for holder in self.holders()]

    def holders(self) -> list[str]:
        """The tmux server and the agents that have the lock's file open."""
        server = self.box.tmux("display-message", "-p", "#{pid}").strip()
        lock = str(self.box.state / "apply.lock")
        return [pid for pid in [server, *map(str, self.box.processes())] if pid and lock in open_files(pid)]


def open_files(pid: str) -> set[str]:
    found = set()
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            found.add(str(entry.readlink()))
    except OSError:
        pass
    return found


@pytest.fixture
def stress(box: Box) -> Stress:
    return Stress(box)


def test_many_at_once_lose_nothing(stress: Stress, box: Box) -> None:
    assert box.run("apply", "keep.yml", "-y").code == 0
    threads = [threading.Thread(target=stress.worker, args=(number,)) for number in range(WORKERS)]
    threads.append(threading.Thread(target=stress.flipper))
    began = time.monotonic()
    for thread in threads:
        thread.start()
    stress.over.wait(SECONDS)
    stress.over.set()
    for thread in threads:
        # Each command has a limit of its own.
        thread.join()
    stress.look()
    assert stress.wrong == []
    comes_to_rest(stress, box)
    report(stress, time.monotonic() - began)


def comes_to_rest(stress: Stress, box: Box) -> None:
    """When all items have ended, nothing is left; the registry is whole."""
    stress.states = dict.fromkeys(stress.states, "closed")
    stress.write()
    wait_until(lambda: box.run("apply", "keep.yml", "-y").code == 0, what="an apply does all")
    plan = box.run("plan", "keep.yml", "--detailed-exitcode")
    assert plan.code == 0, plan
    assert box.processes() == {}
    assert {row["status"] for row in box.records()} == {"closed"}
    with sqlite3.connect(box.state / "registry.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def report(stress: Stress, seconds: float) -> None:
    path = os.environ.get("STRESS_REPORT")
    if path:
        commands = sum(number for name, number in stress.counts.items() if name != "flipped")
        figures = {"seconds": round(seconds), "commands": commands, "by_code": dict(sorted(stress.counts.items()))}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(figures, indent=2))


def test_who_only_reads_does_not_wait_for_the_lock(box: Box) -> None:
    """Nor do those who write one row: an apply that waits for a stubborn agent stops none of them."""
    box.start(["demo/app#1", "demo/app#2"], "stubborn")
    box.items({"demo/app#1": "closed", "demo/app#2": "open"})
    box.settings["lock"] = {"timeoutSeconds": 0}
    box.write_config()
    box.playbook(
        "slow.yml",
        json.dumps(
            [
                {
                    "name": "slow",
                    "rules": [
                        {
                            "name": "ended",
                            "match": {"item": {"state": "closed"}},
                            "ensure": {"session": "retained", "grace": 1000},
                        }
                    ],
                }
            ]
        ),
    )
    err = box.folder / "err"
    with err.open("wb") as two, box.popen("apply", "slow.yml", "-y", stderr=two) as apply:
        wait_until(lambda: b"waiting" in err.read_bytes(), what="it waits for the agent")
        assert box.run("sessions", "list").code == 0
        assert box.run("plan", "slow.yml").code == 0
        assert box.run("sessions", "pause", "items:demo/app#2").code == 0
        assert box.run("apply", "slow.yml", "-y").code == 3
        assert apply.poll() is None
        server = box.tmux("display-message", "-p", "#{pid}").strip()
        lock = str(box.state / "apply.lock")
        assert lock in open_files(str(apply.pid))
        assert [pid for pid in [server, *map(str, box.processes())] if lock in open_files(pid)] == []
        apply.kill()
    assert box.record("items:demo/app#2")["status"] == "paused"
