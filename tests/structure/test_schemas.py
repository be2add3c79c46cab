from __future__ import annotations

from typing import Any

import pytest

from tests.structure import schemas

GOOD: dict[str, Any] = {"$schema": schemas.DIALECT, "title": "T", "description": "D", "type": "object"}


def test_the_schemas_are_good() -> None:
    assert list(schemas.problems()) == []


def test_a_good_schema_has_no_problem() -> None:
    assert list(schemas.schema_problems(GOOD | {"properties": {"a": {"description": "A"}}})) == []


@pytest.mark.parametrize(
    "change",
    [
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"title": ""},
        {"type": "objekt"},
        {"properties": {"a": {"type": "string"}}},
        {"then": {"anyOf": [{"type": "string"}]}},
        {"$defs": {"a": {"oneOf": [{"type": "string"}]}}},
    ],
)
def test_a_bad_schema_is_caught(change: dict[str, Any]) -> None:
    assert list(schemas.schema_problems(GOOD | change))
