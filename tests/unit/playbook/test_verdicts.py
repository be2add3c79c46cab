from __future__ import annotations

from pathlib import Path

import pytest

from loopctl.playbook import schema, verdicts
from loopctl.playbook.document import parse_text
from loopctl.playbook.schema import validate

GOOD = "- rules:\n    - match: {item: {state: closed}}\n      ensure: {session: closed}\n"
BAD = "- rules:\n    - match: {item: {state: closed}}\n      ensure: {session: shut}\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "loopctl" / "valid"


def test_what_was_found_valid_is_not_validated_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert validate(parse_text(GOOD, "a"), "playbook") == []
    assert len(list(cache.iterdir())) == 1

    def never(name: str) -> None:
        raise AssertionError(f"{name} was validated again")

    monkeypatch.setattr(schema, "_validator", never)
    assert validate(parse_text("# another text, the same value\n" + GOOD, "b"), "playbook") == []
    with pytest.raises(AssertionError):
        validate(parse_text(BAD, "c"), "playbook")


def test_what_is_wrong_is_never_remembered(cache: Path) -> None:
    for _ in range(2):
        assert len(validate(parse_text(BAD, "a"), "playbook")) == 1
    assert not cache.exists()


def test_values_that_differ_in_type_only_are_different() -> None:
    keys = {verdicts.verdict_key("s", value) for value in (1, 1.0, True, "1", [1], None)}
    assert len(keys) == 6
    assert verdicts.verdict_key("s", 1) != verdicts.verdict_key("t", 1)
    assert verdicts.verdict_key("s", object()) == ""


@pytest.mark.parametrize("home", ["", "relative", "/dev/null"])
def test_without_a_cache_folder_all_is_as_before(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    assert validate(parse_text(GOOD, "a"), "playbook") == []
    assert len(validate(parse_text(BAD, "a"), "playbook")) == 1


def test_a_file_with_something_in_it_is_no_verdict(cache: Path) -> None:
    cache.mkdir(parents=True)
    key = verdicts.verdict_key("s", 1)
    (cache / key).write_text("x")
    assert not verdicts.is_known_valid(key)
    (cache / key).write_text("")
    assert verdicts.is_known_valid(key)


def test_the_folder_does_not_grow_for_ever(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "_MOST", 3)
    for value in range(10):
        verdicts.remember_valid(verdicts.verdict_key("s", value))
    assert len(list(cache.iterdir())) <= 3
