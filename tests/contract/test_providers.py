"""What every provider must do, whoever wrote it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.adapters.items_file import ItemsFile
from loopctl.model.facts import OUTSIDE, UNOBSERVED, Known, Unknown
from loopctl.model.refs import WorkItemRef
from loopctl.ports import Provider
from tests.fake_github import FakeGitHub, faults

ITEMS = [
    {"ref": "octo/app#1", "kind": "issue", "state": "open", "labels": ["loop"]},
    {"ref": "octo/app#2", "kind": "issue", "state": "closed", "reason": "not_planned", "labels": ["loop"]},
    {"ref": "octo/app#3", "kind": "pull_request", "state": "merged", "title": "Deliver"},
    {"ref": "octo/app#4", "kind": "pull_request", "state": "closed"},
    {"ref": "octo/web#5", "kind": "pull_request", "state": "open", "labels": ["loop", "b"], "author": "ann"},
    {"ref": "octo/web#6", "kind": "issue", "state": "open"},
]


@dataclass
class Case:
    """One provider over ITEMS with the label `loop`; `silence` makes its source unreadable."""

    name: str
    provider: Provider
    silence: Callable[[], None]

    def ref(self, text: str) -> WorkItemRef:
        return WorkItemRef.parse(text, self.name)


@pytest.fixture(params=["items", pytest.param("github", marks=pytest.mark.gh)])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    if request.param == "items":
        file = tmp_path / "items.yaml"
        file.write_text(json.dumps(ITEMS))
        yield Case("items", ItemsFile(str(file), "loop"), file.unlink)
        return
    gh = shutil.which("gh", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if gh is None:
        pytest.skip("there is no gh here")
    with FakeGitHub() as fake:
        fake.load({"items": ITEMS})
        provider = GitHub(GitHubApi("github.com", os.environ | fake.env(), gh), ["octo/app", "octo/web"], "loop")
        yield Case("github", provider, lambda: fake.fail(faults.BAD_GATEWAY))


def test_every_ref_that_is_asked_is_answered(case: Case) -> None:
    texts = ["octo/app#1", "octo/app#2", "octo/app#3", "octo/app#4", "octo/web#5", "octo/app#99", "OCTO/web#6"]
    refs = [case.ref(text) for text in texts]
    facts = case.provider.get(refs)
    assert set(facts) == set(refs)
    items = [fact.value for fact in (facts[ref] for ref in refs) if isinstance(fact, Known)]
    assert [item.ref for item in items] == refs
    assert [(item.state, item.reason) for item in items] == [
        ("open", ""),
        ("closed", "not_planned"),
        ("merged", ""),
        ("closed", ""),
        ("open", ""),
        ("missing", items[5].reason),
        ("open", ""),
    ]
    assert [item.kind for item in items[:5]] == ["issue", "issue", "pull_request", "pull_request", "pull_request"]
    assert (items[4].labels, items[4].author, items[2].title) == ({"loop", "b"}, "ann", "Deliver")


def test_nothing_asked_is_nothing_answered(case: Case) -> None:
    assert case.provider.get([]) == {}


def test_what_it_does_not_own_is_outside(case: Case) -> None:
    foreign = [case.ref("octo/other#1"), WorkItemRef.parse("elsewhere:octo/app#1")]
    assert not any(case.provider.owns(ref) for ref in foreign)
    facts = case.provider.get([*foreign, case.ref("octo/app#2")])
    assert {fact.kind for ref, fact in facts.items() if ref in foreign and isinstance(fact, Unknown)} == {OUTSIDE}
    assert isinstance(facts[case.ref("octo/app#2")], Known)
    assert len(facts) == 3


def test_ownership_is_without_letter_case_and_does_not_need_the_item_to_exist(case: Case) -> None:
    assert case.provider.owns(case.ref("OCTO/App#1"))
    assert case.provider.owns(case.ref("octo/app#12345"))


def test_the_listing_is_all_that_is_open_and_labelled(case: Case) -> None:
    listed = case.provider.listed()
    assert isinstance(listed, Known)
    assert {str(item.ref).partition(":")[2] for item in listed.value} == {"octo/app#1", "octo/web#5"}
    facts = case.provider.get([item.ref for item in listed.value])
    assert [facts[item.ref] for item in listed.value] == [Known(item) for item in listed.value]


def test_it_fails_and_does_not_omit(case: Case) -> None:
    case.silence()
    refs = [case.ref("octo/app#1"), case.ref("octo/app#99")]
    assert all(case.provider.owns(ref) for ref in refs)
    facts = case.provider.get(refs)
    for fact in (*(facts[ref] for ref in refs), case.provider.listed()):
        assert isinstance(fact, Unknown)
        assert fact.kind == UNOBSERVED
        assert fact.reason
        assert "\n" not in fact.reason


def test_it_says_what_it_looks_at_and_what_that_cost(case: Case) -> None:
    assert case.provider.asked() == ()
    assert case.provider.describe()
    assert "\n" not in case.provider.describe()
    case.provider.get([case.ref("octo/app#1"), case.ref("octo/web#5")])
    case.provider.listed()
    asked, listed = case.provider.asked()
    assert (asked.provider, asked.items, listed.items) == (case.name, 2, 2)
    assert asked.calls in (0, 1)
