"""Work items on GitHub or GitHub Enterprise Server, asked through the user's `gh` (its account, hosts and keyring)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopctl.adapters import github_answer, github_query, github_reply, shell
from loopctl.adapters.github_answer import PROVIDER
from loopctl.adapters.github_query import Query, Want
from loopctl.adapters.github_reply import Answer, Failure
from loopctl.errors import StateError
from loopctl.model.facts import OUTSIDE, Fact, Known, Unknown
from loopctl.model.items import WorkItem
from loopctl.model.observed import Question
from loopctl.model.refs import DEFAULT_HOSTS, WorkItemRef

#: gh variables that name another host or repository, force a terminal's output, or log: what is asked is said in full.
_UNWANTED = frozenset(
    {
        "GH_BROWSER",
        "GH_COLOR_LABELS",
        "GH_DEBUG",
        "GH_EDITOR",
        "GH_FORCE_TTY",
        "GH_HOST",
        "GH_MDWIDTH",
        "GH_PATH",
        "GH_REPO",
    }
)
_FIXED: Mapping[str, str] = {
    "DO_NOT_TRACK": "1",
    "GH_NO_EXTENSION_UPDATE_NOTIFIER": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_PAGER": "cat",
    "GH_PROMPT_DISABLED": "1",
    "GH_SPINNER_DISABLED": "1",
    "GH_TELEMETRY": "false",
}


def gh_env(base: Mapping[str, str]) -> dict[str, str]:
    """The environment of gh: `shell.clean_env` without prompts, notices and telemetry.

    The account (GH_TOKEN, GITHUB_TOKEN, GH_ENTERPRISE_TOKEN, GH_CONFIG_DIR, HOME, XDG_*) and the proxies stay.
    """
    return {name: value for name, value in shell.clean_env(base).items() if name not in _UNWANTED} | dict(_FIXED)


def repository(text: str, host: str = DEFAULT_HOSTS[PROVIDER]) -> tuple[str, str]:
    """Split `owner/repo` or `host/owner/repo` into the host and `owner/repo`; `host` is for the short form.

    Raises ValueError with a sentence that says what is wrong.
    """
    short = text.count("/") == 1
    try:
        ref = WorkItemRef.parse(f"{host}/{text}#1" if short else f"{text}#1", PROVIDER)
    except ValueError:
        msg = f"{text!r} is no repository: write owner/repo or host/owner/repo"
        raise ValueError(msg) from None
    return ref.host, f"{ref.owner}/{ref.repo}"


class GitHub:
    """A `Provider` for repositories of one host. One gh call for each hundred items, whatever their repositories."""

    def __init__(
        self,
        host: str,
        repos: Sequence[str],
        label: str = "",
        *,
        env: Mapping[str, str],
        monitor_issues: bool = True,
        monitor_pulls: bool = True,
        gh: str = "gh",
        timeout: float = 60.0,
        retry: bool = False,
    ) -> None:
        """Look at `repos` (`owner/repo`, or `host/owner/repo` of this host).

        `label` narrows the listing ("" lists all open items), `monitor_*` say what it lists; neither narrows `get`.
        `env` is what gh's environment is made from, `timeout` is in seconds for one call, and with `retry` a call that
        met a passing server error is made once more. Raises ValueError for a repository of another host.
        """
        names = [repository(text, host) for text in repos]
        if wrong := [text for text, (own, _) in zip(repos, names, strict=True) if own.lower() != host.lower()]:
            msg = f"{wrong[0]} is not on {host}"
            raise ValueError(msg)
        self._host = host
        self._repos = tuple({name.lower(): name for _, name in names}.values())
        self._label = label
        self._connections = [github_query.ISSUES] * monitor_issues + [github_query.PULL_REQUESTS] * monitor_pulls
        self._gh, self._timeout, self._retry = gh, timeout, retry
        self._env = gh_env(env)
        self._owned = frozenset(name.lower() for name in self._repos)
        self._questions: list[Question] = []

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
        tally = _Tally()
        stopped: Failure | None = None
        for batch in github_query.batches(owned):
            query, places = github_query.items_query(batch)
            answer = stopped or self._ask(query, tally)
            if isinstance(answer, Failure):
                stopped = answer if answer.stop else None
                facts |= {ref: Unknown(answer.reason) for ref in batch}
            else:
                facts |= github_answer.item_facts(places, answer)
        if owned:
            self._note(f"items on {self._host}", len(set(owned)), tally)
        return facts

    def listed(self) -> Fact[tuple[WorkItem, ...]]:
        """All open items with the label, each listing read to its end; Unknown when any could not be."""
        tally = _Tally()
        fact = self._listing(tally)
        what = f"open items on {self._host}" + (f" with label {self._label}" if self._label else "")
        self._note(what, len(fact.value) if isinstance(fact, Known) else 0, tally)
        return fact

    def describe(self) -> str:
        """The host, the repositories and the label."""
        return f"{self._host}: {', '.join(self._repos)}" + (f" (label {self._label})" if self._label else "")

    def asked(self) -> tuple[Question, ...]:
        """One entry for each `get` and each `listed`."""
        return tuple(self._questions)

    def _listing(self, tally: _Tally) -> Fact[tuple[WorkItem, ...]]:
        items: dict[WorkItemRef, WorkItem] = {}
        wants = [Want(repo, connection) for repo in self._repos for connection in self._connections]
        while wants:
            chosen = tuple(dict.fromkeys(want.repository for want in wants))[: github_query.LISTING_REPOSITORIES]
            query, places = github_query.listing_query([w for w in wants if w.repository in chosen], self._label)
            answer = self._ask(query, tally)
            if isinstance(answer, Failure):
                return Unknown(answer.reason)
            wants = [want for want in wants if want.repository not in chosen]
            for want, alias in places:
                page = github_answer.listing_page(want, alias, self._host, answer)
                if isinstance(page, Unknown):
                    return page
                items |= {item.ref: item for item in page.items}
                wants += [page.next] if page.next else []
        return Known(tuple(items.values()))

    def _ask(self, query: Query, tally: _Tally) -> Answer | Failure:
        answer = self._call(query, tally)
        if self._retry and isinstance(answer, Failure) and answer.transient:
            answer = self._call(query, tally)
        return answer

    def _call(self, query: Query, tally: _Tally) -> Answer | Failure:
        # The host is said on each call, since gh would fall back to another. The query goes in by stdin: argv is public.
        argv = [self._gh, "api", "graphql", "--hostname", self._host, "--include", "--input", "-"]
        tally.calls += 1
        try:
            done = shell.run(argv, stdin=query.body, env=self._env, timeout=self._timeout)
        except StateError as error:
            return Failure(f"GitHub: {error.message}. {error.hint}".strip(), stop=True)
        if done.timed_out:
            return Failure(f"GitHub: no answer within {self._timeout:g} s", stop=True)
        answer = github_reply.read_reply(done.code, done.stdout, done.stderr, self._host)
        if isinstance(answer, Answer):
            tally.remaining = answer.remaining
        return answer

    def _note(self, what: str, items: int, tally: _Tally) -> None:
        self._questions.append(Question(PROVIDER, what, tally.calls, items, tally.remaining))


@dataclass(slots=True)
class _Tally:
    """What one question has cost so far."""

    calls: int = 0
    remaining: int | None = None
