from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.kit import Box


@pytest.fixture
def box() -> Iterator[Box]:
    made = Box()
    yield made
    made.close()
