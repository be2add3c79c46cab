"""How much is tried, and what is said of it: as a table, and as JSON where FAULTS_REPORT says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


@pytest.fixture
def everything() -> bool:
    """Whether all faults are tried, as `make faults` does; a sample is else."""
    return bool(os.environ.get("FAULTS_REPORT"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    report = os.environ.get("FAULTS_REPORT")
    if not report:
        return
    kinds = ("passed", "failed")
    reports = [report for kind in kinds for report in terminalreporter.stats.get(kind, ()) if report.when == "call"]
    rows = sorted(value for report in reports for name, value in report.user_properties if name == "faults")
    terminalreporter.write_line(f"\n{'what was done':<36}{'calls':>8}{'faults':>8}")
    for name, calls, injected in rows:
        terminalreporter.write_line(f"{name:<36}{calls:>8}{injected:>8,}")
    all_calls, all_faults = sum(row[1] for row in rows), sum(row[2] for row in rows)
    terminalreporter.write_line(f"{'all':<36}{all_calls:>8}{all_faults:>8,}")
    signals = sorted(value for report in reports for name, value in report.user_properties if name == "signals")
    for what, signal, places in signals:
        terminalreporter.write_line(f"{what + ', ' + signal:<36}{places:>8} places")
    figures = {name: {"calls": calls, "faults": injected} for name, calls, injected in rows}
    path = Path(report)
    path.parent.mkdir(parents=True, exist_ok=True)
    failed = len(terminalreporter.stats.get("failed", ()))
    real = {f"{what} {signal}": places for what, signal, places in signals}
    whole = {"scenarios": figures, "calls": all_calls, "faults": all_faults, "signals": real, "failed": failed}
    path.write_text(json.dumps(whole, indent=2))
