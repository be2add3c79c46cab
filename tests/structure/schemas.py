"""Checks of the JSON Schemas; `python -m tests.structure.schemas` prints what is wrong and exits 1."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from tests.support import ROOT

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: The documents that people and programs exchange with loopctl.
NAMES = ("config", "items", "plan", "playbook")


def problems(folder: Path = ROOT / "schemas") -> Iterator[str]:
    for name in NAMES:
        if not (folder / f"{name}.schema.json").exists():
            yield f"{name}.schema.json is missing"
    for path in sorted(folder.glob("*.json")):
        schema = json.loads(path.read_text("utf-8"))
        yield from (f"{path.name}: {problem}" for problem in schema_problems(schema))


def schema_problems(schema: dict[str, Any]) -> Iterator[str]:
    if schema.get("$schema") != DIALECT:
        yield f"$schema is not {DIALECT}"
    for key in ("title", "description"):
        if not schema.get(key):
            yield f"no {key}"
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield f"{error.json_path}: {error.message}"
    yield from _node_problems(schema, "$")


def _node_problems(node: object, where: str, described: bool = True) -> Iterator[str]:
    """Alternatives give errors that no person can read, and a property without description helps nobody in an editor.

    Only a condition's properties need none: it describes nothing anew.
    """
    if isinstance(node, list):
        for index, child in enumerate(node):
            yield from _node_problems(child, f"{where}[{index}]", described)
    if not isinstance(node, dict):
        return
    for key in ("anyOf", "oneOf"):
        if key in node:
            yield f"{where}: {key}"
    for name, child in node.get("properties", {}).items():
        if described and isinstance(child, dict) and not {"description", "$ref", "const"} & child.keys():
            yield f"{where}.{name}: no description"
    for key, child in node.items():
        if key not in ("enum", "const", "examples", "default"):
            yield from _node_problems(child, f"{where}.{key}", described and key not in ("if", "then", "else"))


if __name__ == "__main__":
    found = list(problems())
    sys.stdout.writelines(f"{problem}\n" for problem in found)
    sys.exit(bool(found))
