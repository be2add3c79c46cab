"""The repositories, issues and pull requests that the fake GitHub has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

CREATED = "2026-01-01T00:00:00Z"
ENDED = "2026-01-02T00:00:00Z"
STATE_REASONS = {"completed": "COMPLETED", "not_planned": "NOT_PLANNED", "duplicate": "DUPLICATE"}


@dataclass(frozen=True)
class Item:
    """An issue or pull request, in GitHub's own words. `closes` are texts such as `octo/app#3`."""

    kind: str
    number: int
    state: str = "OPEN"
    state_reason: str | None = None
    title: str = ""
    labels: tuple[str, ...] = ()
    author: str | None = "octocat"
    assignees: tuple[str, ...] = ()
    milestone: str | None = None
    closes: tuple[str, ...] = ()
    updated_at: str = ENDED
    closed_at: str | None = None
    node_id: str = ""
    branch: str = "main"
    body: str = ""
    locked: bool = False
    #: Whether its timeline says that it became a discussion.
    converted: bool = False


@dataclass(frozen=True)
class Remark:
    """A comment on an item."""

    node_id: str
    body: str
    author: str | None = "octocat"
    created_at: str = ENDED


@dataclass(frozen=True)
class Inline:
    """A comment beside a line."""

    body: str
    path: str = "src/app.py"


@dataclass(frozen=True)
class Review:
    """A review of a pull request; a pending one has no time."""

    node_id: str
    body: str
    author: str | None
    state: str
    submitted_at: str | None
    inline: tuple[Inline, ...] = ()


@dataclass
class Repository:
    name: str
    node_id: str
    items: dict[int, Item] = field(default_factory=dict)
    #: Where transferred issues went, as GitHub's REST interface tells.
    transferred: dict[int, tuple[str, int]] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    hidden: bool = False
    #: Comments by the number of their item, the oldest first.
    remarks: dict[int, list[Remark]] = field(default_factory=dict)
    archived: bool = False
    #: Reviews by the number of their pull request, the oldest first.
    reviews: dict[int, list[Review]] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Its number in the REST interface."""
        return int(self.node_id.partition("_")[2])


@dataclass
class World:
    """All that exists, and what goes wrong with single items."""

    host: str = "github.com"
    repositories: dict[str, Repository] = field(default_factory=dict)
    #: Old names of renamed repositories, in lower case.
    renamed: dict[str, str] = field(default_factory=dict)
    #: Item -> (type, message) of the GraphQL error that it meets.
    broken: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    #: Item -> the number that is answered in its place.
    impostors: dict[tuple[str, int], int] = field(default_factory=dict)
    remaining: int = 5000
    #: What one GraphQL query costs (None: there are no limits), and when the next hour begins.
    cost: int | None = 1
    reset_at: str = "2026-01-01T01:00:00Z"
    #: Whether this is a server that does not know everything that github.com knows.
    old: bool = False
    #: The most items on one page, whatever was asked for.
    page_size: int = 100
    #: GraphQL fields of single items that fail: (repository, number, field).
    broken_fields: set[tuple[str, int, str]] = field(default_factory=set)
    #: Who asks. Locked conversations are open to whoever may write, so that has to be said.
    viewer: str = "octocat"
    may_write: bool = True
    made_remarks: int = 0

    def repository(self, name: str) -> Repository:
        """The repository of this exact name (letter case apart), made when it does not exist."""
        made = Repository(name, f"R_{len(self.repositories) + len(self.renamed) + 1}")
        return self.repositories.setdefault(name.lower(), made)

    def by_number(self, number: int) -> Repository | None:
        """The repository of a REST address such as /repositories/1."""
        return next((r for r in self.repositories.values() if r.number == number and not r.hidden), None)

    def find(self, name: str) -> Repository | None:
        """As GitHub does: letter case does not matter, renames are followed, what may not be seen is not there."""
        key = name.lower()
        found = self.repositories.get(self.renamed.get(key, key))
        return None if found is None or found.hidden else found

    def issue(self, repo: str, number: int, state: str = "OPEN", **fields: object) -> Item:
        return self._put(repo, Item("Issue", number, state), fields)

    def pull(self, repo: str, number: int, state: str = "OPEN", **fields: object) -> Item:
        return self._put(repo, Item("PullRequest", number, state), fields)

    def change(self, repo: str, number: int, **fields: object) -> Item:
        """Change fields of an item that exists."""
        return self._put(repo, self.repository(repo).items[number], fields)

    def remark(self, repo: str, number: int, body: str, author: str | None = "octocat", **fields: str) -> Remark:
        """A new comment on an item."""
        self.made_remarks += 1
        made = Remark(f"IC_{self.made_remarks}", body, author, **fields)
        self.repository(repo).remarks.setdefault(number, []).append(made)
        return made

    def said(self, repo: str, number: int, body: str, author: str | None, at: str) -> Remark:
        """A new comment at this time, which changes the item."""
        self.change(repo, number, updated_at=at)
        return self.remark(repo, number, body, author, created_at=at)

    def review(
        self, repo: str, number: int, body: str, author: str, at: str, *inline: Inline, state: str = "COMMENTED"
    ) -> Review:
        """A review of a pull request; a pending one is seen by its author alone and changes nothing."""
        pending = state == "PENDING"
        self.made_remarks += 1
        made = Review(f"PRR_{self.made_remarks}", body, author, state, None if pending else at, inline)
        self.repository(repo).reviews.setdefault(number, []).append(made)
        if not pending:
            self.change(repo, number, updated_at=at)
        return made

    def remarks(self, repo: str, number: int) -> list[Remark]:
        """The comments on an item, the oldest first."""
        return self.repository(repo).remarks.get(number, [])

    def delete(self, repo: str, number: int) -> None:
        del self.repository(repo).items[number]
        self.repository(repo).deleted.add(number)

    def transfer(self, repo: str, number: int, to: str, as_number: int) -> None:
        """Move an issue: it gets a new node id; GraphQL then knows nothing of the old number, and REST redirects."""
        item = self.repository(repo).items.pop(number)
        self.repository(repo).transferred[number] = (to, as_number)
        self._put(to, replace(item, number=as_number, node_id=""), {})

    def rename(self, repo: str, to: str) -> None:
        """Rename a repository; the old name goes on answering."""
        moved = self.repositories.pop(repo.lower())
        moved.name = to
        self.repositories[to.lower()] = moved
        self.renamed[repo.lower()] = to.lower()

    def hide(self, repo: str) -> None:
        """Make a repository private to others: it answers as if it did not exist."""
        self.repository(repo).hidden = True

    def break_item(self, repo: str, number: int, kind: str, message: str) -> None:
        """Make one item answer with a GraphQL error."""
        self.broken[repo.lower(), number] = (kind, message)

    def break_field(self, repo: str, number: int, name: str) -> None:
        """Make one nullable field of one item answer with an error."""
        self.broken_fields.add((repo.lower(), number, name))

    def impostor(self, repo: str, number: int, other: int) -> None:
        """Answer with another item of the repository."""
        self.impostors[repo.lower(), number] = other

    def load(self, document: Mapping[str, object]) -> None:
        """Take the items of a state file: `{"items": [{"ref": "octo/app#15", "kind": "issue", "state": "closed"}]}`. What was said on items stays."""
        said = {name: (home.remarks, home.reviews) for name, home in self.repositories.items()}
        self.repositories.clear()
        rows = document.get("items", [])
        assert isinstance(rows, Iterable)
        for row in rows:
            fields = dict(row)
            repo, number = split(fields.pop("ref"))
            put = self.pull if fields.pop("kind", "issue") == "pull_request" else self.issue
            reason = fields.pop("reason", None)
            if reason:
                fields["state_reason"] = STATE_REASONS.get(reason, reason.upper())
            for name in ("labels", "assignees", "closes"):
                fields[name] = tuple(fields.get(name, ()))
            put(repo, number, fields.pop("state", "open").upper(), **fields)
        for name, (remarks, reviews) in said.items():
            if home := self.repositories.get(name):
                home.remarks, home.reviews = remarks, reviews

    def _put(self, repo: str, item: Item, fields: Mapping[str, object]) -> Item:
        home = self.repository(repo)
        item = replace(item, **fields)  # type: ignore[arg-type]  # a wrong name is an error of the test, raised here
        ended = item.state != "OPEN"
        reason = item.state_reason or (
            "COMPLETED" if ended and item.kind == "Issue" and "state_reason" not in fields else None
        )
        item = replace(
            item,
            title=item.title or f"{item.kind} {item.number}",
            state_reason=reason if ended else None,
            closed_at=(item.closed_at or ENDED) if ended else None,
            node_id=item.node_id or f"{'I' if item.kind == 'Issue' else 'PR'}_{home.node_id}_{item.number}",
        )
        home.items[item.number] = item
        return item


def split(text: str) -> tuple[str, int]:
    """`octo/app#15` in its parts."""
    match = re.fullmatch(r"([^#]+)#(\d+)", text)
    assert match, text
    return match[1], int(match[2])
