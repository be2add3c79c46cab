"""What GitHub is asked, as GraphQL text. Pure: values in, values out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loopctl.model.refs import WorkItemRef

#: Items in one call: at most 7 points of the hourly 5,000.
BATCH = 100
#: Items on one page of a listing: GitHub's maximum.
PAGE = 100
#: Repositories in one listing call; ten would come near GitHub's limit of 500,000 nodes and of ten seconds.
LISTING_REPOSITORIES = 4

ISSUES = "issues"
PULL_REQUESTS = "pullRequests"

_COMMON = """id number url title updatedAt closedAt
  repository { nameWithOwner } author { login } milestone { title }
  labels(first: 100) { nodes { name } } assignees(first: 20) { nodes { login } }"""
# Without enableDuplicate a duplicate is reported as not planned.
_ISSUE = f"""
fragment issue on Issue {{
  state stateReason(enableDuplicate: true) {_COMMON}
  closedByPullRequestsReferences(first: 20) {{ nodes {{ number state repository {{ nameWithOwner }} }} }}
}}
"""
# What servers know that do not know the rest: an older GitHub Enterprise Server.
_PLAIN_ISSUE = f"""
fragment issue on Issue {{
  state stateReason {_COMMON}
}}
"""
# The two kinds of state have different types, so GraphQL wants different names for them where both may be answered.
_PULL = f"""
fragment pull on PullRequest {{
  pullState: state {_COMMON}
  closingIssuesReferences(first: 50) {{ nodes {{ number repository {{ nameWithOwner }} }} }}
}}
"""
# GitHub leaves a discussion's issue closed and locked, and says so in its timeline only.
_CONVERTED = "converted: timelineItems(last: 1, itemTypes: [CONVERTED_TO_DISCUSSION_EVENT]) { nodes { __typename } }"
_BUDGET = "rateLimit { limit cost remaining resetAt }"


@dataclass(frozen=True, slots=True)
class Query:
    """A GraphQL request. `body` is what `gh api graphql --input -` reads."""

    text: str
    variables: Mapping[str, object] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The request as JSON."""
        return json.dumps({"query": self.text, "variables": dict(self.variables)}).encode()


@dataclass(frozen=True, slots=True)
class Place:
    """Where the answer for one item stands: the aliases of its repository and of itself."""

    ref: WorkItemRef
    repository: str
    item: str


@dataclass(frozen=True, slots=True)
class Want:
    """The next page of one listing: a repository as `owner/repo`, issues or pullRequests, the cursor it starts after
    and how many items came before it."""

    repository: str
    connection: str
    after: str | None = None
    seen: int = 0


def batches(refs: Sequence[WorkItemRef]) -> list[tuple[WorkItemRef, ...]]:
    """The refs, each once, in groups that fit one call; items of one repository stay together."""
    unique = sorted(dict.fromkeys(refs), key=lambda ref: ref.sort_key)
    return [tuple(unique[start : start + BATCH]) for start in range(0, len(unique), BATCH)]


def items_query(refs: Sequence[WorkItemRef], *, plain: bool = False) -> tuple[Query, tuple[Place, ...]]:
    """One query for these items (of one host, at most BATCH) and where each answer will stand.

    `plain` leaves out what an older GitHub Enterprise Server does not know.
    """
    item = "__typename ... on Issue { ...issue %s } ... on PullRequest { ...pull }" % ("" if plain else _CONVERTED)
    repositories: dict[str, list[WorkItemRef]] = {}
    for ref in refs:
        repositories.setdefault(f"{ref.owner}/{ref.repo}".lower(), []).append(ref)
    places, parts = [], []
    for index, items in enumerate(repositories.values()):
        alias = f"r{index}"
        own = [Place(ref, alias, f"i{ref.number}") for ref in items]
        lines = [
            f"  {place.item}: issueOrPullRequest(number: {place.ref.number}) {{ {item} }}"
            for place in {place.item: place for place in own}.values()
        ]
        head = f"{alias}: {_repository(items[0].owner, items[0].repo)} {{ nameWithOwner id"
        parts.append("\n".join([head, *lines, "}"]))
        places += own
    # Fragments that nothing uses are an error, but every item uses both.
    text = "query {\n" + "\n".join([*parts, _BUDGET]) + "\n}" + _fragments({ISSUES, PULL_REQUESTS}, plain)
    return Query(text), tuple(places)


def listing_query(
    wants: Sequence[Want], label: str, *, plain: bool = False
) -> tuple[Query, tuple[tuple[Want, str], ...]]:
    """One query for these pages, oldest items first, and the alias of each one's repository. No label: all open items."""
    aliases: dict[str, str] = {}
    fields: dict[str, list[str]] = {}
    for want in wants:
        alias = aliases.setdefault(want.repository, f"r{len(aliases)}")
        fields.setdefault(alias, []).append(_connection(want, label))
    parts = [
        f"{alias}: {_repository(*name.split('/'))} {{ nameWithOwner id\n" + "\n".join(fields[alias]) + "\n}"
        for name, alias in aliases.items()
    ]
    head, variables = ("query($labels: [String!]) {\n", {"labels": [label]}) if label else ("query {\n", {})
    text = head + "\n".join([*parts, _BUDGET]) + "\n}" + _fragments({want.connection for want in wants}, plain)
    return Query(text, variables), tuple((want, aliases[want.repository]) for want in wants)


def health_query(repos: Sequence[str]) -> tuple[Query, tuple[tuple[str, str], ...]]:
    """Who asks, what is left of the hour, and whether these repositories answer; the alias of each."""
    aliases = tuple((name, f"r{index}") for index, name in enumerate(repos))
    parts = [f"{alias}: {_repository(*name.split('/'))} {{ nameWithOwner }}" for name, alias in aliases]
    return Query("query {\n" + "\n".join(["viewer { login }", *parts, _BUDGET]) + "\n}"), aliases


def _connection(want: Want, label: str) -> str:
    arguments = [f"first: {PAGE}", "states: OPEN", "orderBy: {field: CREATED_AT, direction: ASC}"]
    arguments += ["labels: $labels"] if label else []
    arguments += [f"after: {json.dumps(want.after)}"] if want.after is not None else []
    # The branch and the text may name issues; that matters only where it is decided whose a new session is.
    fragment = "...issue" if want.connection == ISSUES else "...pull headRefName body"
    page = f"totalCount pageInfo {{ hasNextPage endCursor }} nodes {{ __typename {fragment} }}"
    return f"  {want.connection}({', '.join(arguments)}) {{ {page} }}"


def _repository(owner: str, name: str) -> str:
    # A JSON string is a valid GraphQL string.
    return f"repository(owner: {json.dumps(owner)}, name: {json.dumps(name)})"


def _fragments(connections: set[str], plain: bool) -> str:
    issue = (_PLAIN_ISSUE if plain else _ISSUE) if ISSUES in connections else "\n"
    return issue + (_PULL if PULL_REQUESTS in connections else "")
