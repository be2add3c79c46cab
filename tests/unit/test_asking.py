"""What `apply` says where it gets no answer."""

from __future__ import annotations

import sys

import click
import pytest

from loopctl.cli.apply import apply, ask_first
from loopctl.errors import LoopctlError


@pytest.mark.parametrize("how", [click.Abort, KeyboardInterrupt])
def test_who_is_interrupted_has_done_nothing(
    how: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nobody(*_: object, **__: object) -> str:
        raise how

    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(click, "prompt", nobody)
    with pytest.raises(LoopctlError, match="interrupted; nothing was done"):
        ask_first(1)
    assert capsys.readouterr().err.endswith("\n\n")


def test_a_count_that_is_none() -> None:
    with pytest.raises(click.BadParameter, match="'x' is not a valid whole number"):
        apply.main(["p.yml", "--max-changes", "x"], standalone_mode=False)
