"""Make each deliberate mistake in a copy of the tree, and see that the tests notice: `python -m tests.mutants`.

Prints a table and writes a JSON file, one row a mistake, for the documentation to quote.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import Queue

from tests.mutants.every import MUTANTS
from tests.mutants.mutant import Mutant
from tests.support import ROOT

FIGURES = ROOT / "build" / "figures" / "mutants.json"
CAUGHT, SURVIVED, BROKEN = "caught", "SURVIVED", "BROKEN"
_NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "htmlcov")
_SECONDS = 300.0
#: How many are tried side by side, each in a copy of its own.
JOBS = max(1, min(4, os.cpu_count() or 1))
_FAILED = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)
# pytest: some test failed. Everything else (no such test, an import that fails) is no proof of anything.
_TESTS_FAILED = 1


@dataclass(frozen=True)
class Row:
    """What became of one mistake; `by` is the test that saw it, or what stood in the way."""

    name: str
    file: str
    why: str
    verdict: str
    by: str
    seconds: float


def main() -> int:
    """Exit 0 when the tests pass without a mistake and see every one."""
    words = " ".join(_options().words)
    wanted = [mutant for mutant in MUTANTS if words in mutant.name]
    width = max((len(mutant.name) for mutant in wanted), default=0)
    with tempfile.TemporaryDirectory(prefix="lc-mutants-") as folder:
        copies = [_copy(Path(folder, str(number))) for number in range(JOBS)]
        sys.stderr.write("the tests without a mistake\n")
        done = _pytest(copies[0], _targets(wanted), seconds=_SECONDS * 10)
        if done.returncode != 0:
            sys.stdout.write(done.stdout)
            sys.stdout.write("\nThe tests do not pass without a mistake: what they say of one is worth nothing.\n")
            return 1
        rows = []
        for row in _all_tried(wanted, copies):
            rows.append(row)
            sys.stdout.write(_line(row, width))
            sys.stdout.flush()
    caught = sum(row.verdict == CAUGHT for row in rows)
    sys.stdout.write(f"{caught} of {len(rows)} caught\n")
    if not words:
        _report(rows)
    return 0 if rows and caught == len(rows) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="only those with these words in their name; then no file is written")
    return parser.parse_args()


def _copy(to: Path) -> Path:
    shutil.copytree(ROOT, to, ignore=_NOT_COPIED, symlinks=True)
    return to


def _all_tried(mutants: Sequence[Mutant], copies: Sequence[Path]) -> Iterator[Row]:
    """As many at a time as there are copies, in the order of the list."""
    free: Queue[Path] = Queue()
    for copy in copies:
        free.put(copy)

    def tried(number: int, mutant: Mutant) -> Row:
        copy = free.get()
        try:
            return _tried(mutant, copy, number)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        yield from pool.map(tried, range(1, len(mutants) + 1), mutants)


def _targets(mutants: Iterable[Mutant]) -> list[str]:
    """All tests of these mutants, each once. A test beside its own file would be run twice."""
    names = {test: None for mutant in mutants for test in mutant.tests}
    return [name for name in names if "::" not in name or name.partition("::")[0] not in names]


def _tried(mutant: Mutant, tree: Path, number: int) -> Row:
    path = tree / mutant.file
    before = path.read_bytes()
    began = time.monotonic()
    try:
        path.write_text(mutant.text(tree), encoding="utf-8")
        # Python tells a stale .pyc by the second and the size only.
        os.utime(path, (number, number))
        done = _pytest(tree, mutant.tests)
        verdict, by = _verdict(done)
    except (ValueError, subprocess.TimeoutExpired) as error:
        verdict, by = BROKEN, str(error)
    finally:
        path.write_bytes(before)
    return Row(mutant.name, mutant.file, mutant.why, verdict, by, round(time.monotonic() - began, 1))


def _pytest(tree: Path, tests: Sequence[str], seconds: float = _SECONDS) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=short", "-rf", "-p", "no:cacheprovider", *tests]
    # So that the copy is imported, in processes of the tests too.
    env = {**os.environ, "PYTHONPATH": str(tree)}
    return subprocess.run(argv, cwd=tree, env=env, check=False, capture_output=True, text=True, timeout=seconds)


def _verdict(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    if done.returncode == 0:
        return SURVIVED, ""
    found = _FAILED.search(done.stdout)
    if done.returncode == _TESTS_FAILED and found:
        return CAUGHT, found[1]
    last = (done.stdout + done.stderr).strip().splitlines()
    return BROKEN, last[-1] if last else f"pytest ended with {done.returncode}"


def _line(row: Row, width: int) -> str:
    return f"{row.name:<{width}}  {row.verdict}{f' by {row.by}' if row.verdict == CAUGHT else f' {row.by}'.rstrip()}\n"


def _report(rows: Sequence[Row]) -> None:
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "mutants": len(rows),
        "caught": sum(row.verdict == CAUGHT for row in rows),
        "rows": [asdict(row) for row in rows],
    }
    FIGURES.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
