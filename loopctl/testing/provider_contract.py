"""What every provider must do, as tests that a provider's author inherits. See docs/providers.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loopctl.model.facts import OUTSIDE, REFUSED, UNOBSERVED, Known, Unknown
from loopctl.model.items import CLOSED, OPEN
from loopctl.model.refs import WorkItemRef
from loopctl.ports import Provider

#: The label that the provider under test lists.
CONTRACT_LABEL = "loop"
#: The items that its source must hold, in the words of an items file; nothing else may exist in octo/app and octo/web.
CONTRACT_ITEMS: Sequence[Mapping[str, object]] = (
    {"ref": "octo/app#1", "kind": "issue", "state": "open", "labels": ["loop"]},
    {"ref": "octo/app#2", "kind": "issue", "state": "closed", "reason": "not_planned", "labels": ["loop"]},
    {"ref": "octo/app#3", "kind": "pull_request", "state": "merged", "title": "Deliver"},
    {"ref": "octo/app#4", "kind": "pull_request", "state": "closed"},
    {"ref": "octo/web#5", "kind": "pull_request", "state": "open", "labels": ["loop", "b"], "author": "ann"},
    {"ref": "octo/web#6", "kind": "issue", "state": "open"},
)

_ANSWERS = {
    "octo/app#1": ("issue", "open", ""),
    "octo/app#2": ("issue", "closed", "not_planned"),
    "octo/app#3": ("pull_request", "merged", ""),
    "octo/app#4": ("pull_request", "closed", ""),
    "octo/web#5": ("pull_request", "open", ""),
    "OCTO/web#6": ("issue", "open", ""),
}


@dataclass(frozen=True, slots=True)
class ProviderCase:
    """A provider over CONTRACT_ITEMS.

    `name` is its provider word in refs. `change` gives an item another state (open, closed), `silence` makes the source
    unreadable from then on.
    """

    name: str
    provider: Provider
    change: Callable[[str, str], None]
    silence: Callable[[], None]

    def ref(self, text: str) -> WorkItemRef:
        """`octo/app#1` as an item of this provider."""
        return WorkItemRef.parse(text, self.name)


class ProviderContract:
    """Inherit it in a test module and define the pytest fixture `case`, which gives a fresh ProviderCase."""

    def test_every_ref_that_is_asked_is_answered(self, case: ProviderCase) -> None:
        """Under the ref that was asked, with what the source says; a missing one only beside others that answer."""
        refs = [case.ref(text) for text in (*_ANSWERS, "octo/app#99")]
        facts = case.provider.get(refs)
        assert set(facts) == set(refs)
        items = [fact.value for fact in (facts[ref] for ref in refs) if isinstance(fact, Known)]
        assert [item.ref for item in items] == refs
        assert [(item.kind, item.state, item.reason) for item in items[:-1]] == list(_ANSWERS.values())
        assert items[-1].state == "missing"
        assert (items[4].labels, items[4].author, items[2].title) == (frozenset({"loop", "b"}), "ann", "Deliver")

    def test_nothing_asked_is_nothing_answered(self, case: ProviderCase) -> None:
        """An empty question is no question about everything."""
        assert case.provider.get([]) == {}

    def test_what_it_does_not_own_is_outside(self, case: ProviderCase) -> None:
        """It answers for its own, and says of others that it does not."""
        foreign = [case.ref("octo/other#1"), WorkItemRef.parse("elsewhere:octo/app#1")]
        assert not any(case.provider.owns(ref) for ref in foreign)
        facts = case.provider.get([*foreign, case.ref("octo/app#2")])
        assert {fact.kind for ref, fact in facts.items() if ref in foreign and isinstance(fact, Unknown)} == {OUTSIDE}
        assert isinstance(facts[case.ref("octo/app#2")], Known)
        assert len(facts) == 3

    def test_ownership_is_without_letter_case_and_does_not_need_the_item_to_exist(self, case: ProviderCase) -> None:
        """A deleted item is still its own to answer for."""
        assert case.provider.owns(case.ref("OCTO/App#1"))
        assert case.provider.owns(case.ref("octo/app#12345"))

    def test_the_listing_is_all_that_is_open_and_labelled(self, case: ProviderCase) -> None:
        """Whole, and the same items that `get` tells of."""
        listed = case.provider.listed()
        assert isinstance(listed, Known)
        assert {str(item.ref).partition(":")[2] for item in listed.value} == {"octo/app#1", "octo/web#5"}
        facts = case.provider.get([item.ref for item in listed.value])
        assert [facts[item.ref] for item in listed.value] == [Known(item) for item in listed.value]

    def test_each_question_is_asked_anew(self, case: ProviderCase) -> None:
        """Closed, reopened, closed again: no memory of an answer gets in the way."""
        ref = case.ref("octo/app#1")
        for state in (CLOSED, OPEN, CLOSED, OPEN):
            case.change("octo/app#1", state)
            fact = case.provider.get([ref])[ref]
            assert isinstance(fact, Known)
            assert fact.value.state == state
            listed = case.provider.listed()
            assert isinstance(listed, Known)
            assert (ref in {item.ref for item in listed.value}) == (state == OPEN)

    def test_it_fails_and_does_not_omit(self, case: ProviderCase) -> None:
        """Silence is Unknown, for an item and for the listing, with one line that says why; nothing is raised."""
        case.silence()
        refs = [case.ref("octo/app#1"), case.ref("octo/app#99")]
        assert all(case.provider.owns(ref) for ref in refs)
        facts = case.provider.get(refs)
        for fact in (*(facts[ref] for ref in refs), case.provider.listed()):
            assert isinstance(fact, Unknown)
            assert fact.kind == UNOBSERVED
            assert fact.reason
            assert "\n" not in fact.reason

    def test_it_says_what_it_looks_at_and_what_that_cost(self, case: ProviderCase) -> None:
        """One entry for each question."""
        assert case.provider.asked() == ()
        assert case.provider.describe()
        assert "\n" not in case.provider.describe()
        case.provider.get([case.ref("octo/app#1"), case.ref("octo/web#5")])
        case.provider.listed()
        asked, listed = case.provider.asked()
        assert (asked.provider, asked.items, listed.items) == (case.name, 2, 2)
        assert asked.calls in (0, 1)

    def test_a_comment_is_left_once_or_nobody_can(self, case: ProviderCase) -> None:
        """Updated under its key and known for ours, or refused: a provider that takes none says so beforehand."""
        ref = case.ref("octo/app#1")
        first, again = (case.provider.comment(ref, "0123456789abcdef", text) for text in ("one", "two"))
        if case.provider.mute():
            assert [fact.kind for fact in (first, again) if isinstance(fact, Unknown)] == [REFUSED, REFUSED]
            return
        assert isinstance(first, Known)
        assert again == first
        thread = case.provider.threads([ref])[ref]
        assert isinstance(thread, Known)
        assert [(comment.ours, comment.body.endswith("two")) for comment in thread.value] == [(True, True)]
        missing = case.provider.comment(case.ref("octo/app#99"), "0123456789abcdef", "three")
        assert isinstance(missing, Unknown)
        assert missing.kind == REFUSED
