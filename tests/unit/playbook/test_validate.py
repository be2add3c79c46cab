from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopctl import data
from loopctl.cli.plan import write_plan
from loopctl.errors import DocumentError
from loopctl.playbook.plans import load_plan
from loopctl.playbook.validate import validate_file
from loopctl.testing import FakeWorld
from tests.unit.playbooks import ending

GOOD = {
    "playbook": "- rules: [{when: 'true', ensure: {session: closed}}]\n",
    "items": "- {ref: 'a/b#1', state: closed, closed_at: 2026-09-01}\n",
    "config": "state: {root: x}\nrouting: {runner: tmux}\n",
}


@pytest.mark.parametrize("kind", GOOD)
def test_the_kind_follows_from_the_content(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    path.write_text(GOOD[kind])
    assert validate_file(str(path)) == (kind, [])


@pytest.mark.parametrize(
    ("text", "kind", "place"),
    [
        ("- {ruels: []}\n", "playbook", (1, 4)),
        ("- {rules: [], on: 1}\n", "playbook", (1, 15)),
        ("- {vars: {day: 2026-09-01}, rules: [{when: 'true', ensure: {grace: 1}}]}\n", "playbook", (1, 16)),
        ("- {ref: 'a/b#1', state: opne, closed_at: 2026-09-01}\n", "items", (1, 18)),
        ("- {ref: 'a/b#1', state: open, title: no, closed_at: 2026-09-01}\n", "items", (1, 38)),
        ("rooting: {}\n", "config", (1, 1)),
        ('{"version": 1, "actions": []}', "plan", (1, 1)),
        ("", "unknown", (0, 0)),
        ("x", "unknown", (0, 0)),
        ("- rules:\n    - {when: 'x +', ensure: {grace: 1}}\n", "playbook", (2, 8)),
        ("- rules:\n    - {match: {item: {state: open}}, ensure: {grace: 1}}\n    - {match: {item: {kind: issue}}, ensure: {grace: 2}}\n", "playbook", (3, 7)),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, kind: str, place: tuple[int, int]) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    found, problems = validate_file(str(path))
    assert (found, (problems[0].line, problems[0].column)) == (kind, place)
    assert {p.source for p in problems} == {str(path)}


def test_a_plan_that_was_edited_is_wrong_here_as_it_is_for_apply(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    write_plan(FakeWorld().plan(ending()), str(path))
    assert validate_file(str(path)) == ("plan", [])
    path.write_text(path.read_text().replace('"notes": []', '"notes": ["x"]'))
    kind, (problem,) = validate_file(str(path))
    assert (kind, problem.message) == ("plan", "digest: the plan was changed after it was made")
    with pytest.raises(DocumentError) as refused:
        load_plan(str(path))
    assert refused.value.problems == (problem,)


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    kind, problems = validate_file(str(tmp_path / "none"))
    assert (kind, problems[0].message) == ("unknown", "cannot be read: No such file or directory")


@pytest.mark.parametrize("name", data.playbook_names())
def test_packaged_playbooks_are_valid(name: str) -> None:
    assert validate_file(str(data.playbook_path(name))) == ("playbook", [])


TEXTS = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            [*"\n -:{}[]'\"", "rules", "ref", "actions", "when", "{{", "}}", "a/b#1", "match", "vars", "no"]
        )
    ).map("".join),
)


@given(TEXTS)
def test_no_file_makes_it_raise(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    kind, problems = validate_file(str(path))
    assert kind in {"playbook", "config", "items", "plan", "unknown"}
    assert problems or kind != "unknown"
