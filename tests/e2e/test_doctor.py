"""The remedies that doctor names."""

from __future__ import annotations

import pytest

from tests.e2e.kit import Box


@pytest.mark.parametrize("root", ["file", "file/below"])
def test_a_state_root_that_cannot_be_is_the_remedy_of_all_that_lies_in_it(box: Box, root: str) -> None:
    (box.folder / "file").write_text("")
    box.settings |= {"state": {"root": str(box.folder / root)}, "tmux": {}}
    box.write_config()
    done = box.run("doctor", "--format", "json")
    assert done.code == 1, done
    remedies = {row["what"]: row["remedy"] for row in done.json["findings"] if row["level"] == "fail"}
    assert remedies == dict.fromkeys(("state", "server"), "set state.root to a folder of yours")
