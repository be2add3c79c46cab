from __future__ import annotations

from pathlib import Path

import pytest

from loopctl.adapters.items_file import ItemsFile
from loopctl.model.facts import OUTSIDE, UNOBSERVED, Known, Unknown
from loopctl.model.refs import WorkItemRef

FILE = """
- {ref: demo/app#1, state: open, labels: [Loop]}
- {ref: demo/app#2, state: closed, reason: completed}
- {ref: demo/web#3, kind: pull_request, state: merged}
- {ref: demo/web#4, state: open}
"""


def ref(text: str) -> WorkItemRef:
    return WorkItemRef.parse(text, "items")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "items.yaml"
    file.write_text(FILE)
    return file


def states(provider: ItemsFile, *texts: str) -> dict[str, str]:
    facts = provider.get([ref(text) for text in texts])
    return {str(r): f.value.state if isinstance(f, Known) else f"{f.kind}: {f.reason}" for r, f in facts.items()}


def test_items_are_answered_and_missing_only_beside_others(file: Path) -> None:
    assert states(ItemsFile(str(file)), "demo/APP#1", "demo/app#2", "demo/web#3", "demo/app#9", "demo/other#1") == {
        "items:demo/APP#1": "open",
        "items:demo/app#2": "closed",
        "items:demo/web#3": "merged",
        "items:demo/app#9": "missing",
        "items:demo/other#1": f"{OUTSIDE}: no source answers for items:demo/other#1",
    }


def test_only_its_repositories_are_its_own(file: Path) -> None:
    provider = ItemsFile(str(file))
    assert provider.owns(ref("DEMO/app#77"))
    assert not provider.owns(ref("demo/other#1"))
    assert not provider.owns(WorkItemRef.parse("github:demo/app#1"))


def test_an_edit_is_seen_at_once(file: Path) -> None:
    provider = ItemsFile(str(file))
    assert states(provider, "demo/app#1") == {"items:demo/app#1": "open"}
    file.write_text("- {ref: demo/app#1, state: closed}\n- {ref: new/app#1, state: open}\n")
    assert provider.owns(ref("new/app#5"))
    assert states(provider, "demo/app#1") == {"items:demo/app#1": "closed"}


def test_ownership_of_many_items_reads_the_file_once(file: Path) -> None:
    reads: list[str] = []
    provider = ItemsFile(str(file), load=lambda path: reads.append(path) or ())
    assert not any(provider.owns(ref(f"demo/app#{n}")) for n in range(1, 50))
    assert len(reads) == 1


def test_the_listing_is_what_is_open_and_labelled(file: Path) -> None:
    def listed(label: str) -> list[str]:
        fact = ItemsFile(str(file), label).listed()
        assert isinstance(fact, Known)
        return [str(item.ref) for item in fact.value]

    assert listed("") == ["items:demo/app#1", "items:demo/web#4"]
    assert listed("loop") == ["items:demo/app#1"]
    assert listed("other") == []


@pytest.mark.parametrize(
    "content", [None, "", "- {ref: demo/app#1", "- {ref: demo/app#1, state: closedd}", "\0", "é: ["]
)
def test_a_file_that_cannot_be_read_is_unknown_and_owns_what_may_be_its_own(file: Path, content: str | None) -> None:
    file.unlink()
    if content is not None:
        file.write_bytes(content.encode("latin-1"))
    provider = ItemsFile(str(file))
    fact = provider.get([ref("demo/app#2")])[ref("demo/app#2")]
    assert isinstance(fact, Unknown)
    assert fact.kind == UNOBSERVED
    assert f"items file {file.name}: " in fact.reason
    assert isinstance(provider.listed(), Unknown)
    assert provider.owns(ref("any/thing#1"))
    assert not provider.owns(WorkItemRef.parse("github:demo/app#1"))
