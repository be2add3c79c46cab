"""Work items on GitHub or GitHub Enterprise Server, asked through the user's `gh` (its account, hosts and keyring)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from loopctl.adapters import github_answer, github_lookup, github_query
from loopctl.adapters.github_answer import NOT_FOUND, PROVIDER
from loopctl.adapters.github_api import GitHubApi, Tally
from loopctl.adapters.github_query import Want
from loopctl.adapters.github_reply import Failure, http_failure
from loopctl.adapters.github_say import say
from loopctl.adapters.github_threads import read_threads
from loopctl.model.facts import OUTSIDE, Fact, Known, Unknown
from loopctl.model.items import WorkItem
from loopctl.model.observed import QUESTIONS_KEPT, Question
from loopctl.model.refs import WorkItemRef, repository
from loopctl.model.talk import Comment


class GitHub:
    """A `Provider` for repositories of one host. One gh call for each hundred items, whatever their repositories."""

    def __init__(
        self,
        api: GitHubApi,
        repos: Sequence[str],
        label: str = "",
        *,
        beside: Sequence[str] = (),
        monitor_issues: bool = True,
        monitor_pulls: bool = True,
    ) -> None:
        """Look at `repos` (`owner/repo`, or `host/owner/repo` of the host of `api`).

        `label` narrows the listing ("" lists all open items), `monitor_*` say what it lists; neither narrows `get`.
        `beside` are repositories that other sources of the host list: one that answers for all needs fewer calls.
        Raises ValueError for a repository of another host.
        """
        self._api, self._host = api, api.host
        self._repos = self._names(repos)
        self._label = label
        self._connections = [github_query.ISSUES] * monitor_issues + [github_query.PULL_REQUESTS] * monitor_pulls
        self._owned = frozenset(name.lower() for name in (*self._repos, *self._names(beside)))
        self._questions: deque[Question] = deque(maxlen=QUESTIONS_KEPT)

    def _names(self, repos: Sequence[str]) -> tuple[str, ...]:
        names = [repository(text, self._host) for text in repos]
        if wrong := [text for text, (own, _) in zip(repos, names, strict=True) if own.lower() != self._host.lower()]:
            msg = f"{wrong[0]} is not on {self._host}"
            raise ValueError(msg)
        return tuple({name.lower(): name for _, name in names}.values())

    def owns(self, ref: WorkItemRef) -> bool:
        """Whether the item is in one of the repositories, on this very host."""
        here = ref.provider == PROVIDER and ref.host.lower() == self._host.lower()
        return here and f"{ref.owner}/{ref.repo}".lower() in self._owned

    def get(self, refs: Sequence[WorkItemRef]) -> Mapping[WorkItemRef, Fact[WorkItem]]:
        """An answer for every ref; what could not be read is Unknown with a reason."""
        facts: dict[WorkItemRef, Fact[WorkItem]] = {
            ref: Unknown(f"no source answers for {ref}", OUTSIDE) for ref in refs if not self.owns(ref)
        }
        owned = [ref for ref in refs if ref not in facts]
        tally = Tally()
        stopped: Failure | None = None
        for batch in github_query.batches(owned):
            answer = stopped or self._items(batch, tally)
            if isinstance(answer, Failure):
                stopped = answer if answer.stop else None
                facts |= {ref: Unknown(answer.reason) for ref in batch}
            else:
                facts |= answer
        facts |= self._look_up([ref for ref, fact in facts.items() if fact is NOT_FOUND], tally)
        if owned:
            self._note(f"items on {self._host}", len(set(owned)), tally)
        return facts

    def listed(self) -> Fact[tuple[WorkItem, ...]]:
        """All open items with the label, each listing read to its end; Unknown when any could not be."""
        tally = Tally()
        fact = self._listing(tally)
        what = f"open items on {self._host}" + (f" with label {self._label}" if self._label else "")
        self._note(what, len(fact.value) if isinstance(fact, Known) else 0, tally)
        return fact

    def threads(self, refs: Sequence[WorkItemRef]) -> Mapping[WorkItemRef, Fact[tuple[Comment, ...]]]:
        """Comments, reviews and comments beside lines. A call for each twenty-five items, and as many again for older pages."""
        facts: dict[WorkItemRef, Fact[tuple[Comment, ...]]] = {
            ref: Unknown(f"no source answers for {ref}", OUTSIDE) for ref in refs if not self.owns(ref)
        }
        owned = [ref for ref in dict.fromkeys(refs) if ref not in facts]
        if owned:
            tally = Tally()
            facts |= read_threads(self._api, owned, tally)
            self._note(f"comments on {self._host}", len(owned), tally)
        return facts

    def mute(self) -> str:
        """GitHub takes comments."""
        return ""

    def comment(self, ref: WorkItemRef, key: str, text: str) -> Fact[str]:
        """Post a comment, or update ours."""
        tally = Tally()
        fact = say(self._api, ref, key, text, tally)
        self._note(f"our comment on {ref}", 1, tally)
        return fact

    def describe(self) -> str:
        """The host, the repositories and the label."""
        return f"{self._host}: {', '.join(self._repos)}" + (f" (label {self._label})" if self._label else "")

    def asked(self) -> tuple[Question, ...]:
        """One entry for each `get` and each `listed`."""
        return tuple(self._questions)

    def _items(self, batch: Sequence[WorkItemRef], tally: Tally) -> dict[WorkItemRef, Fact[WorkItem]] | Failure:
        query, places = github_query.items_query(batch, plain=self._api.plain)
        answer = self._api.graphql(query, tally)
        if isinstance(answer, Failure) and self._is_old(answer):
            return self._items(batch, tally)
        return answer if isinstance(answer, Failure) else github_answer.item_facts(places, answer)

    def _look_up(self, absent: Sequence[WorkItemRef], tally: Tally) -> Mapping[WorkItemRef, Fact[WorkItem]]:
        """Tell the deleted from the transferred, a few in each run."""
        chosen = github_lookup.turn(absent, self._api.now())
        facts: dict[WorkItemRef, Fact[WorkItem]] = {}
        for ref in chosen:
            http = self._api.rest(github_lookup.lookup_path(ref), tally)
            failure = http if isinstance(http, Failure) else None
            if not isinstance(http, Failure):
                facts[ref] = github_lookup.lookup_fact(ref, http)
                failure = http_failure(http, self._host) if http.status in (401, 403, 429) else None
            if failure:
                facts[ref] = Unknown(failure.reason)
                if failure.limited:
                    self._api.limited(failure)
                if failure.stop:
                    return facts | {left: Unknown(failure.reason) for left in absent if left not in facts}
        return facts | {ref: github_lookup.too_many(len(absent)) for ref in absent if ref not in facts}

    def _listing(self, tally: Tally) -> Fact[tuple[WorkItem, ...]]:
        items: dict[WorkItemRef, WorkItem] = {}
        wants = [Want(repo, connection) for repo in self._repos for connection in self._connections]
        while wants:
            chosen = tuple(dict.fromkeys(want.repository for want in wants))[: github_query.LISTING_REPOSITORIES]
            asked = [want for want in wants if want.repository in chosen]
            query, places = github_query.listing_query(asked, self._label, plain=self._api.plain)
            answer = self._api.graphql(query, tally)
            if isinstance(answer, Failure):
                if self._is_old(answer):
                    continue
                return Unknown(answer.reason)
            wants = [want for want in wants if want.repository not in chosen]
            for want, alias in places:
                page = github_answer.listing_page(want, alias, self._host, answer)
                if isinstance(page, Unknown):
                    return page
                items |= {item.ref: item for item in page.items}
                wants += [page.next] if page.next else []
        return self._twice(items) or Known(tuple(items.values()))

    def _twice(self, items: Mapping[WorkItemRef, WorkItem]) -> Unknown | None:
        """A repository that is configured under its old name and its new one would have two sessions for each item."""
        for item in items.values():
            if item.moved_to and self.owns(home := WorkItemRef.parse(item.moved_to)):
                return Unknown(
                    f"GitHub: {item.ref.repository} is {home.repository} now: name only one of them in the config"
                )
        return None

    def _is_old(self, failure: Failure) -> bool:
        """Whether the server does not know all that was asked: it is asked for less from now on."""
        first = failure.old_server and not self._api.plain
        self._api.plain = self._api.plain or first
        return first

    def _note(self, what: str, items: int, tally: Tally) -> None:
        if tally.calls:
            self._questions.append(Question(PROVIDER, what, tally.calls, items, tally.remaining, tally.points))
