"""`plan --out` replaces an earlier plan, and nothing else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click
import pytest

from loopctl.cli.plan import plan as command
from loopctl.cli.plan import write_plan
from loopctl.cli.wiring import Setup
from loopctl.errors import LoopctlError, RefusedError, StateError, UsageError
from loopctl.testing import FakeWorld
from tests.unit.playbooks import ending


@pytest.fixture
def text(tmp_path: Path) -> str:
    """What a saved plan holds."""
    write_plan(FakeWorld().plan(ending()), str(tmp_path / "first"))
    return (tmp_path / "first").read_text()


@pytest.mark.parametrize("there", [None, "", "{plan}", "{edited}"])
@pytest.mark.parametrize("linked", [False, True])
def test_an_earlier_plan_and_an_empty_file_are_replaced(
    tmp_path: Path, text: str, there: str | None, linked: bool
) -> None:
    target, name = tmp_path / "p.json", tmp_path / "p.json"
    if there is not None:
        target.write_text({"{plan}": text, "{edited}": text.replace('"notes": []', '"notes": ["x"]')}.get(there, there))
    if linked:
        name = tmp_path / "link"
        name.symlink_to("p.json")
    write_plan(FakeWorld().plan(ending()), str(name))
    assert target.read_text() == text
    assert name.is_symlink() == linked
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} <= {"first", "p.json", "link"}


@pytest.mark.parametrize("there", ["- rules: []\n", "{}", '{"actions": [], "created_at": ""}', "{", "[" * 100_000])
def test_another_file_is_left_as_it_is(tmp_path: Path, there: str) -> None:
    for name in (tmp_path / "plan.json", tmp_path / "link"):
        if name.name == "link":
            name.symlink_to(tmp_path / "plan.json")
        else:
            name.write_text(there)
        with pytest.raises(RefusedError, match="no saved plan") as refused:
            write_plan(FakeWorld().plan(ending()), str(name))
        assert refused.value.hint
    assert (tmp_path / "plan.json").read_text() == there
    assert (tmp_path / "link").is_symlink()


def test_what_is_no_file_is_left_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("fifo", "circle", "null", "."):
        with pytest.raises(RefusedError):
            write_plan(FakeWorld().plan(ending()), str(tmp_path / name))
    assert stat.S_ISFIFO((tmp_path / "fifo").lstat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["circle", "fifo", "null"]


@pytest.mark.parametrize("name", ["file/p.json", "none/p.json", "x" * 300, "x" * 250])
def test_where_nothing_can_be_written_it_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=name.partition("/")[0]):
        write_plan(FakeWorld().plan(ending()), str(tmp_path / name))


@pytest.mark.parametrize(
    ("out", "error", "word"),
    [
        ("-", UsageError, "--format json"),
        ("", click.BadParameter, "an empty word"),
        ("book.yml", RefusedError, "another file"),
    ],
)
def test_it_is_refused_before_anything_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, error: type[Exception], word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("book.yml").write_text("[]")
    monkeypatch.setattr(Setup, "load", lambda *_: pytest.fail("it looked"))
    with pytest.raises(error) as refused:
        command.main(["book.yml", "--out", out], standalone_mode=False)
    said = refused.value
    assert word in (f"{said.message} {said.hint}" if isinstance(said, LoopctlError) else str(said))
    assert [path.name for path in tmp_path.iterdir()] == ["book.yml"]
