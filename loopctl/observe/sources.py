"""What the providers say: asked only about what matters, and believed only of the very item that a session was made for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from loopctl.model.facts import OUTSIDE, Fact, Known, Unknown
from loopctl.model.items import ELSEWHERE, ISSUE, MOVED, OPEN, WorkItem
from loopctl.model.observed import Observation, Question, Subject
from loopctl.model.refs import WorkItemRef
from loopctl.model.sessions import CLOSED_STATUS
from loopctl.model.talk import Comment
from loopctl.ports import Provider, World


def discover(world: World, observation: Observation) -> Observation:
    """Add what the sources list, and the issues that listed pull requests deliver: those without a session become subjects.

    A failed listing is a problem, not an end.
    """
    listed: dict[WorkItemRef, WorkItem] = {}
    problems = dict(observation.problems)
    for provider in world.providers:
        answer = provider.listed()
        if isinstance(answer, Unknown):
            problems[f"listing of {provider.describe()}"] = answer.reason
        else:
            listed |= {item.ref: item for item in answer.value if item.state == OPEN}
    known = {subject.ref for subject in observation.subjects}
    listed = _at_their_sessions(listed, observation.subjects)
    named = _named(world, listed, known)
    issues = {ref for ref, fact in named.items() if isinstance(fact, Known)} | known
    issues |= {ref for ref, item in listed.items() if item.kind == ISSUE}
    facts: dict[WorkItemRef, Fact[WorkItem]] = {
        ref: _with_links(item, named, issues, has_session=ref in known) for ref, item in listed.items()
    }
    links = {link for fact in facts.values() if isinstance(fact, Known) for link in fact.value.links}
    facts = {ref: fact for ref, fact in named.items() if ref in links} | facts
    subjects = [_found(subject, facts, links) for subject in observation.subjects]
    subjects += [Subject(ref, fact, listed=True) for ref, fact in facts.items() if ref not in known]
    return replace(observation, subjects=tuple(subjects), problems=problems, questions=_questions(world))


def ask(world: World, observation: Observation, refs: Iterable[WorkItemRef]) -> Observation:
    """Ask the providers about these items, in bulk, and put their answers into the observation."""
    return replace(answered(observation, ask_about(world, refs)), questions=_questions(world))


def answered(observation: Observation, answers: Mapping[WorkItemRef, Fact[WorkItem]]) -> Observation:
    """The observation with these answers in it."""
    subjects = tuple(
        replace(s, item=_of_record(s, answers[s.ref])) if s.ref in answers else s for s in observation.subjects
    )
    return replace(observation, subjects=subjects)


def ask_about(world: World, refs: Iterable[WorkItemRef]) -> dict[WorkItemRef, Fact[WorkItem]]:
    """What the providers say of these items; an answer for each."""
    wanted = list(dict.fromkeys(refs))
    answers: dict[WorkItemRef, Fact[WorkItem]] = {}
    for provider in world.providers:
        mine = [ref for ref in wanted if ref not in answers and provider.owns(ref)]
        if mine:
            answers |= _answers(provider, mine)
    return answers | {ref: Unknown(f"no source answers for {ref}", OUTSIDE) for ref in wanted if ref not in answers}


def muted(world: World, observation: Observation) -> dict[WorkItemRef, str]:
    """The items on which nobody can comment, and why."""
    silent = [(provider, reason) for provider in world.providers if (reason := provider.mute())]
    refs = {subject.ref for subject in observation.subjects}
    return {ref: reason for provider, reason in silent for ref in refs if provider.owns(ref)}


def hear(world: World, observation: Observation, refs: Iterable[WorkItemRef]) -> Observation:
    """Read the comments on these items, in bulk, and put them into the observation."""
    wanted = list(dict.fromkeys(refs))
    threads: dict[WorkItemRef, Fact[tuple[Comment, ...]]] = {}
    for provider in world.providers:
        mine = [ref for ref in wanted if ref not in threads and provider.owns(ref)]
        given = provider.threads(mine) if mine else {}
        threads |= {ref: given.get(ref, Unknown(f"{provider.describe()} gave no answer")) for ref in mine}
    threads |= {ref: Unknown(f"no source answers for {ref}", OUTSIDE) for ref in wanted if ref not in threads}
    return replace(observation, threads=threads, questions=_questions(world))


def _answers(provider: Provider, refs: list[WorkItemRef]) -> Mapping[WorkItemRef, Fact[WorkItem]]:
    given = provider.get(refs)
    # A provider that omits has not answered.
    return {ref: given.get(ref, Unknown(f"{provider.describe()} gave no answer")) for ref in refs}


def _questions(world: World) -> tuple[Question, ...]:
    return tuple(question for provider in world.providers for question in provider.asked())


def _found(subject: Subject, facts: Mapping[WorkItemRef, Fact[WorkItem]], delivered: set[WorkItemRef]) -> Subject:
    if subject.ref in facts:
        return replace(subject, item=_of_record(subject, facts[subject.ref]), listed=True)
    return replace(subject, listed=True) if subject.ref in delivered else subject


def _of_record(subject: Subject, fact: Fact[WorkItem]) -> Fact[WorkItem]:
    """Another item under the same number is not the one that the session was made for."""
    record = subject.record
    if record is None or isinstance(fact, Unknown) or fact.value.state in ELSEWHERE:
        return fact
    item = fact.value
    if record.node_id and item.node_id not in {"", record.node_id}:
        return Unknown("another item has this number now (its node id differs)")
    if item.moved_to and record.node_id != item.node_id:
        # Only the node id could prove that the new address is the same item's.
        return Known(replace(item, state=MOVED, reason=""))
    return fact


def _at_their_sessions(
    listed: Mapping[WorkItemRef, WorkItem], subjects: Sequence[Subject]
) -> dict[WorkItemRef, WorkItem]:
    """An item whose session is still registered at its old address is that session's, and no new one."""
    homes = {s.record.node_id: s.ref for s in subjects if s.record and s.record.status != CLOSED_STATUS}
    found = {}
    for item in listed.values():
        home = homes.get(item.node_id, item.ref) if item.node_id else item.ref
        found[home] = item if home == item.ref else replace(item, ref=home, moved_to=str(item.ref))
    return found


def _named(
    world: World, listed: Mapping[WorkItemRef, WorkItem], known: set[WorkItemRef]
) -> dict[WorkItemRef, Fact[WorkItem]]:
    """The issues that listed pull requests name and that neither a source nor the registry shows. A name invents none."""
    named = dict.fromkeys(ref for item in listed.values() for ref in (*item.links, *item.hints))
    new = [ref for ref in named if ref not in listed and ref not in known]
    answers = ask_about(world, [ref for ref in new if any(provider.owns(ref) for provider in world.providers)])
    return {ref: fact for ref, fact in answers.items() if isinstance(fact, Unknown) or _is_issue(fact.value)}


def _is_issue(item: WorkItem) -> bool:
    return item.kind == ISSUE and item.state not in ELSEWHERE


def _with_links(
    item: WorkItem, named: Mapping[WorkItemRef, Fact[WorkItem]], issues: set[WorkItemRef], *, has_session: bool
) -> Fact[WorkItem]:
    """The item with those of its hints that are issues. Whose work it is cannot be told while one of them is unknown."""
    for ref in () if has_session else item.hints:
        if isinstance(fact := named.get(ref), Unknown):
            return Unknown(f"it names {ref}, which could not be read: {fact.reason}")
    proved = tuple(ref for ref in item.hints if ref in issues)
    return Known(replace(item, links=(*item.links, *proved), hints=()))
