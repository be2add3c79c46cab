"""The list of deliberate mistakes fits the code; `make mutants` makes them."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.every import MUTANTS
from tests.mutants.mutant import Mutant
from tests.support import ROOT


def test_there_are_many_and_each_has_its_name() -> None:
    assert len(MUTANTS) >= 30
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_it_changes_is_there_and_what_it_makes_is_python(mutant: Mutant) -> None:
    assert ast.dump(ast.parse(mutant.text(ROOT))) != ast.dump(ast.parse((ROOT / mutant.file).read_text("utf-8")))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_that_must_see_it_are_there(mutant: Mutant) -> None:
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text("utf-8") if name else (ROOT / file).exists()
