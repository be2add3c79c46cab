"""Fixtures for tests that need a GitHub."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fake_github.server import FakeGitHub


@pytest.fixture
def fake_github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as fake:
        yield fake
