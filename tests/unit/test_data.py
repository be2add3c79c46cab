from __future__ import annotations

from pathlib import Path

import pytest

from loopctl import data


def test_names_with_and_without_their_ending() -> None:
    assert "close-ended-items" in data.playbook_names()
    assert data.playbook_path("close-ended-items") == data.playbook_path("close-ended-items.yml")
    assert data.playbook_path("../pyproject") is None and data.playbook_path("none") is None


def test_schemas() -> None:
    assert data.schema_names() == ("config", "items", "plan", "playbook")
    assert all(data.schema_text(name).startswith("{") for name in data.schema_names())
    with pytest.raises(KeyError):
        data.schema_text("../pyproject")


def test_the_wheel_carries_them_inside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = tmp_path / "loopctl/_data/playbooks"
    packaged.mkdir(parents=True)
    (packaged / "mine.yml").write_text("")
    monkeypatch.setattr(data, "_PACKAGE", tmp_path / "loopctl")
    assert data.playbook_names() == ("mine",)
    assert data.playbook_path("mine") == packaged / "mine.yml"
