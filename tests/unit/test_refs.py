"""The identity of a work item, and the names that come of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopctl.model.refs import WorkItemRef


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("github:octo/app#15", "github:octo/app#15"),
        ("github:github.com/octo/app#15", "github:octo/app#15"),
        ("github:ghe.corp:8443/octo/app#15", "github:ghe.corp:8443/octo/app#15"),
        ("items:demo/app#3", "items:demo/app#3"),
    ],
)
def test_a_ref_is_written_as_short_as_it_can_be(text: str, shown: str) -> None:
    assert str(WorkItemRef.parse(text)) == shown
    assert WorkItemRef.parse(shown) == WorkItemRef.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "octo/app#15",
        "github:octo/app",
        "github:octo/app#0",
        "github:octo/app#015",
        "github:octo/app#1x",
        "github:a/b/c/d#1",
        "github:../app#1",
        "github:octo/..#1",
        "github:octo/a b#1",
        "GitHub:octo/app#1",
        "github:octo/app#-1",
        "github:octo#1",
        "github:octo/$(id)#1",
        "github:octo/app#1\n",
        "github:öcto/app#1",
        "github:octo/app#1#2",
        "github:-host-/octo/app#1",
    ],
)
def test_what_is_no_ref_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is no work item"):
        WorkItemRef.parse(text)


def test_letter_case_is_kept_and_does_not_count() -> None:
    one, other = WorkItemRef.parse("github:Octo/App#15"), WorkItemRef.parse("github:octo/app#15")
    assert one == other and hash(one) == hash(other) and one.slug == other.slug
    assert str(one) == "github:Octo/App#15"


names = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True).filter(lambda name: name not in {".", ".."})
refs = st.builds(
    WorkItemRef,
    provider=st.sampled_from(("github", "items")),
    host=st.sampled_from(("github.com", "", "ghe.corp")),
    owner=names,
    repo=names,
    number=st.integers(1, 99),
).filter(lambda ref: ref.provider == "items" or bool(ref.host))
close = st.sampled_from(("a", "a-b", "a_b", "a.b", "b-a", "b", "A", "a--b", "1"))
near = st.builds(WorkItemRef, st.just("github"), st.just("github.com"), close, close, st.integers(1, 3))


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(st.one_of(st.tuples(refs, refs), st.tuples(near, near)))
def test_two_items_never_share_a_name(pair: tuple[WorkItemRef, WorkItemRef]) -> None:
    one, other = pair
    assert (one.slug == other.slug) == (one == other)
    assert re.fullmatch(r"[a-z0-9_-]+", one.slug)
    assert WorkItemRef.parse(str(one)) == one
