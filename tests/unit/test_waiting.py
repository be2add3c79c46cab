"""How long to wait before something is tried again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from loopctl.model.waiting import wait_after


@pytest.mark.parametrize(("tries", "seconds"), [(1, 2), (2, 8), (3, 32), (4, 100), (25, 100), (5000, 100)])
def test_it_grows_to_a_bound_however_often_something_was_tried(tries: int, seconds: int) -> None:
    assert wait_after(tries, 2.0, 100.0, factor=4) == seconds
    assert wait_after(tries, timedelta(seconds=2), timedelta(seconds=100), factor=4) == timedelta(seconds=seconds)
