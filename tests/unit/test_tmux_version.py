from __future__ import annotations

from pathlib import Path

import pytest

from loopctl.cli.doctor import examine
from loopctl.cli.wiring import tmux_version
from loopctl.errors import StateError
from loopctl.executor.import_loop import TAKEN, import_records
from loopctl.model.health import FAIL, GOOD, WARN
from loopctl.model.refs import WorkItemRef
from loopctl.model.the_loop import LoopRecord
from loopctl.model.tmux import is_version, keeps_dots, unsupported
from loopctl.testing import FakeWorld

GOOD_ONES = [
    "3.2a",
    "3.2b",
    "3.3",
    "3.3-rc",
    "3.3a",
    "3.10",
    "next-3.3",
    "next-3.8",
    "4.0",
    "openbsd-7.0",
    "openbsd-7.4",
]
OLD_ONES = ["1.8", "2.9a", "3.0a", "3.1c", "3.2", "3.2-rc4", "next-3.2", "openbsd-6.9"]


@pytest.mark.parametrize("version", [*GOOD_ONES, "master", ""])
def test_good_enough(version: str) -> None:
    assert unsupported(version) == ""
    assert unsupported(f"tmux {version}") == ""


@pytest.mark.parametrize("version", OLD_ONES)
def test_too_old(version: str) -> None:
    assert unsupported(version) == unsupported(f"tmux {version}")
    assert unsupported(version) == f"tmux {version} is too old: 3.2a or later is needed"


def test_what_is_a_version() -> None:
    assert all(is_version(version) and is_version(f"tmux {version}") for version in GOOD_ONES + OLD_ONES)
    assert not any(map(is_version, ["", "tmux", "master", "3", "usage: tmux 3.3a", "3.3a\n"]))


def test_which_ones_keep_dots() -> None:
    assert [keeps_dots(v) for v in ("3.2a", "3.6b", "3.7", "3.7c", "next-3.8", "3.10")] == [False, False, *[True] * 4]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tmux on PATH, to be written."""
    path = tmp_path / "bin" / "tmux"
    path.parent.mkdir()
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    return path


@pytest.mark.parametrize(
    ("line", "level", "text", "remedy"),
    [
        ("echo tmux 3.3a", GOOD, "3.3a", ""),
        ("echo tmux next-3.8", GOOD, "next-3.8", ""),
        ("echo tmux openbsd-7.4", GOOD, "openbsd-7.4", ""),
        ("echo tmux 3.1c", FAIL, "tmux 3.1c is too old: 3.2a or later is needed", "install tmux 3.2a or later"),
        ("echo tmux 3.2", FAIL, "tmux 3.2 is too old: 3.2a or later is needed", "install tmux 3.2a or later"),
        ("echo hello", WARN, "does not say its version: hello", "install tmux 3.2a or later"),
        ("exit 1", WARN, "does not say its version: nothing", "install tmux 3.2a or later"),
    ],
)
def test_doctor_says_which_tmux_there_is(program: Path, line: str, level: str, text: str, remedy: str) -> None:
    program.write_text(f"#!/bin/sh\n{line}\n")
    program.chmod(0o755)
    finding = next(iter(examine(None)))
    assert (finding.what, finding.level, finding.text, finding.remedy) == ("tmux", level, text, remedy)


def test_the_demo_begins_with_no_tmux_that_is_too_old(program: Path) -> None:
    program.write_text("#!/bin/sh\necho tmux 3.1c\n")
    program.chmod(0o755)
    with pytest.raises(StateError, match=r"tmux 3\.1c is too old: 3\.2a or later is needed"):
        tmux_version({"PATH": str(program.parent)})


@pytest.mark.parametrize(
    ("version", "session", "other"),
    [
        ("3.6b", "loop-github-octo-foo_js-15", "loop-github-octo-foo"),
        ("3.7c", "loop-github-octo-foo.js-15", "loop-github-octo-foo_js-15"),
    ],
)
def test_a_session_is_found_by_the_name_that_its_tmux_gave_it(
    monkeypatch: pytest.MonkeyPatch, version: str, session: str, other: str
) -> None:
    monkeypatch.setattr("loopctl.testing.terminals.TMUX_VERSION", version)
    world = FakeWorld()
    for name in (other, session):
        world.foreign(name)
    ref = WorkItemRef.parse("github:octo/foo.js#15")
    record = LoopRecord(
        ref, "claude", "abc", "", "active", None, None, "tmux", "loop-github-octo-foo.js-15", "/somewhere.json"
    )
    (row,) = import_records([record], world.socket, world.world)
    assert row.outcome == TAKEN, row
    (made,) = world.world.registry.all()
    assert (made.name, made.pane_id) == (session, "%1")
