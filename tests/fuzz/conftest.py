"""Sums up what was tried: as a table, and as JSON where FUZZ_REPORT says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    report = os.environ.get("FUZZ_REPORT")
    if not report:
        return
    kinds = ("passed", "failed")
    reports = [report for kind in kinds for report in terminalreporter.stats.get(kind, ()) if report.when == "call"]
    rows = sorted(value for report in reports for name, value in report.user_properties if name == "fuzz")
    terminalreporter.write_line(f"\n{'input':<24}{'tried':>10}{'accepted':>10}{'slowest':>10}")
    for name, tried, accepted, slowest in rows:
        terminalreporter.write_line(f"{name:<24}{tried:>10,}{accepted:>10,}{slowest:>9.2f}s")
    terminalreporter.write_line(f"{'all':<24}{sum(row[1] for row in rows):>10,}")
    figures = {name: {"tried": tried, "accepted": accepted} for name, tried, accepted, _ in rows}
    path = Path(report)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"inputs": figures, "failed": len(terminalreporter.stats.get("failed", ()))}, indent=2))
