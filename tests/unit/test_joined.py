from __future__ import annotations

import pytest

from loopctl.executor.close_transcripts import joined

OLD = b"1\n2\n3\n4\n5\n6\n"


@pytest.mark.parametrize(
    ("before", "now", "whole"),
    [
        pytest.param(b"", OLD, OLD, id="nothing before"),
        pytest.param(OLD, OLD, OLD, id="the same"),
        pytest.param(OLD, OLD + b"bye\n", OLD + b"bye\n", id="last words"),
        pytest.param(OLD, b"1\n2\n3\n4\nfive!\nsix!\n", OLD + b"\n--- later ---\nfive!\nsix!\n", id="repainted"),
        pytest.param(
            OLD + b"\n--- later ---\nfive!\nsix!\n",
            b"1\n2\n3\n4\nfive!\nsix!\n",
            OLD + b"\n--- later ---\nfive!\nsix!\n",
            id="repainted, and saved again",
        ),
        pytest.param(
            b"1\n2\n\n--- alternate screen ---\na conversation\n",
            b"1\n2\nbye\n",
            b"1\n2\n\n--- alternate screen ---\na conversation\n\n--- later ---\nbye\n",
            id="left the alternate screen",
        ),
        pytest.param(
            b"1\n2\n\n--- pane %2 ---\nsplit\n",
            b"1\n2\n3\n4\n5\n",
            b"1\n2\n\n--- pane %2 ---\nsplit\n\n--- later ---\n3\n4\n5\n",
            id="another pane has gone",
        ),
        pytest.param(OLD, b"bye\n", OLD + b"\n--- later ---\nbye\n", id="cleared"),
        pytest.param(OLD, b"2\n3\n4\n5\n6\n7\n", OLD + b"\n--- later ---\n2\n3\n4\n5\n6\n7\n", id="history full"),
        pytest.param(OLD, b"\n\n", OLD, id="gone blank"),
        pytest.param(OLD + b"\n--- later ---\nbye\n", b"bye\n", OLD + b"\n--- later ---\nbye\n", id="twice"),
        pytest.param(b"1\n2\n", b"other\n", b"1\n2\n\n--- later ---\nother\n", id="a short one, cleared"),
    ],
)
def test_no_word_is_lost(before: bytes, now: bytes, whole: bytes) -> None:
    assert joined(before, now) == whole
