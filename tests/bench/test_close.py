"""How long ending a hundred sessions takes, as a ratio to the bare floor of the same run."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.e2e.kit import LOOPCTL, Box, close_rule
from tests.fake_github.server import FakeGitHub
from tests.support import ROOT, wait_until

pytestmark = pytest.mark.bench
NUMBER = 100
ROUNDS = 3


def test_closing_a_hundred_polite_agents_against_the_floor() -> None:
    floors, ours = [], []
    for _ in range(ROUNDS):
        took, query = close_a_hundred()
        ours.append(took)
        floors.append(floor(query))
    ratio = min(ours) / min(floors)
    print(f"\nfloor {min(floors):.3f} s, loopctl {min(ours):.3f} s, ratio {ratio:.2f}")
    assert ratio <= 3


def test_version_against_importing_click() -> None:
    ratios = []
    for _ in range(15):
        base = timed([sys.executable, "-c", "import click"])
        ratios.append(timed([LOOPCTL, "version"]) / base)
    ratio = sorted(ratios)[len(ratios) // 2]
    print(f"\nloopctl version / import click: {ratio:.2f}")
    assert ratio <= 2.5


def timed(argv: list[str], env: dict[str, str] | None = None) -> float:
    start = time.perf_counter()
    done = subprocess.run(argv, check=False, capture_output=True, env=env, cwd=ROOT)
    took = time.perf_counter() - start
    assert done.returncode == 0, done
    return took


def floor(query: bytes) -> float:
    with FakeGitHub() as fake:
        box = Box(fake.env())
        for n in range(1, NUMBER + 1):
            fake.issue("octo/app", n)
        try:
            chain = [f"new-session -d -s s{n} -- sleep 100000" for n in range(NUMBER)]
            box.tmux("new-session", "-d", "-s", "first", "--", "sleep", "1")
            body = box.folder / "query.json"
            body.write_bytes(query)
            script = "set -gw remain-on-exit on\n" + "\n".join(chain) + "\nkill-session -t =first:\n"
            subprocess.run(["tmux", "-S", box.socket, "source-file", "-"], check=True, input=script.encode())
            return timed([sys.executable, "-m", "tests.bench.floor", box.socket, str(NUMBER), str(body)], box.env)
        finally:
            box.close()


def close_a_hundred() -> tuple[float, bytes]:
    with FakeGitHub() as fake:
        box = Box(fake.env())
        try:
            box.harness("sleeper", "sleep", "100000")
            refs = [f"octo/app#{n}" for n in range(1, NUMBER + 1)]
            for n in range(1, NUMBER + 1):
                fake.issue("octo/app", n, labels=["agent"])
            box.github("octo/app")
            box.settings["routing"]["defaultHarness"] = "sleeper"
            box.write_config()
            started = box.run("apply", "start.yml", "-y")
            assert started.code == 0, started
            wait_until(lambda: len(box.sessions()) == len(refs))
            for n in range(1, NUMBER + 1):
                fake.change("octo/app", n, state="CLOSED", state_reason="COMPLETED")
            book = box.playbook("close.yml", close_rule())
            box.clear_trace()
            took = timed([LOOPCTL, "apply", book, "-y"], box.env)
            print("tmux calls", box.calls("tmux"), "gh calls", box.calls("gh"))
            assert box.calls("tmux") <= 15
            assert box.calls("gh") <= 2
            return took, fake.requests[-1].body
        finally:
            box.close()
