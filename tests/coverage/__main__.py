"""Run the tests that run in one process, and say which branches they reach: `python -m tests.coverage`.

Prints a row for each package and what was not reached, and writes a JSON file for the documentation to quote.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.coverage.reasons import reason
from tests.support import ROOT, workers

FOLDER = ROOT / "build" / "coverage"
FIGURES = ROOT / "build" / "figures" / "coverage.json"
#: What has to be reached, in percent of all branches.
LEAST = 95.0
PACKAGES = ("executor", "planner", "adapters")
#: What random worlds reach is chance (tests/properties), and what the installed command reaches is in processes of its own (tests/e2e).
SUITES = ("unit", "contract", "tmux", "git", "gh")
#: They reach little of what is measured here, and turn ten thousand times.
LEFT_OUT = ("unit/controller", "unit/render")
#: Files of which nothing is counted, and why.
APART = {
    "loopctl/adapters/keeper.py": "it is a program of its own that runs without site packages; tests/tmux/test_contained.py",
    "loopctl/adapters/shell_child.py": "it starts a process and is one itself; tests/unit/controller/test_webhook.py",
}


@dataclass(frozen=True)
class Missing:
    """A branch that no test reaches, and why."""

    where: str
    why: str


@dataclass(frozen=True)
class Row:
    """The branches of one package, and those that are not reached."""

    package: str
    branches: int
    covered: int
    missing: tuple[Missing, ...]

    @property
    def percent(self) -> float:
        return 100.0 * self.covered / self.branches if self.branches else 100.0


def main() -> int:
    """Exit 0 when the tests pass and reach enough of each package."""
    options = _options()
    FOLDER.mkdir(parents=True, exist_ok=True)
    passed = options.report or _run(options.args)
    rows = [_row(package, _measured()) for package in PACKAGES]
    for row in rows:
        sys.stdout.writelines(f"    {missing.where}: {missing.why or 'NO REASON'}\n" for missing in row.missing)
    sys.stdout.writelines(f"    {name}: {why}\n" for name, why in APART.items())
    for row in rows:
        sys.stdout.write(f"{row.package:<10} {row.percent:5.1f} %  {row.covered} of {row.branches} branches\n")
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "suites": SUITES,
        "apart": APART,
        "rows": [asdict(row) | {"percent": round(row.percent, 1)} for row in rows],
    }
    FIGURES.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if not passed:
        sys.stdout.write("not all tests passed: see above\n")
    explained = all(missing.why for row in rows for missing in row.missing)
    if not explained:
        sys.stdout.write("give a reason in tests/coverage/reasons.py for each branch that no test reaches\n")
    return 0 if passed and explained and all(row.percent >= LEAST for row in rows) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.coverage", description=__doc__)
    parser.add_argument("--report", action="store_true", help="say again what the last run reached")
    parser.add_argument("args", nargs="*", help="more for pytest, after --")
    return parser.parse_args()


def _run(args: list[str]) -> bool:
    for old in FOLDER.glob(".coverage*"):
        old.unlink()
    suites = [f"tests/{suite}" for suite in SUITES] + [f"--ignore=tests/{suite}" for suite in LEFT_OUT]
    # The workers of xdist are processes of their own, which the patch of pyproject.toml measures too.
    pytest = ["-m", "pytest", "-n", workers(), "--dist", "worksteal", *suites, *args]
    passed = _coverage("run", *pytest) == 0
    return _coverage("combine", "--quiet") == 0 and passed


def _coverage(*words: str) -> int:
    env = {**os.environ, "COVERAGE_FILE": str(FOLDER / ".coverage")}
    return subprocess.run([sys.executable, "-m", "coverage", *words], cwd=ROOT, env=env, check=False).returncode


def _measured() -> dict[str, Any]:
    out = FOLDER / "coverage.json"
    if _coverage("json", "--quiet", "-o", str(out)):
        raise SystemExit("nothing was measured: run it without --report first")
    files: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))["files"]
    return files


def _lines(name: str) -> list[str]:
    return (ROOT / name).read_text(encoding="utf-8").splitlines()


def _row(package: str, files: dict[str, Any]) -> Row:
    ours = {name: file for name, file in files.items() if Path(name).parts[:2] == ("loopctl", package)}
    mine = {name: file for name, file in ours.items() if name not in APART}
    missing = [
        Missing(f"{name}:{start}{f' -> {end}' if end > 0 else ' -> exit'}", reason(name, _lines(name)[start - 1]))
        for name, file in sorted(mine.items())
        for start, end in file["missing_branches"]
    ]
    return Row(
        package,
        sum(file["summary"]["num_branches"] for file in mine.values()),
        sum(file["summary"]["covered_branches"] for file in mine.values()),
        tuple(missing),
    )


if __name__ == "__main__":
    sys.exit(main())
