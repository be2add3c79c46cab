"""Every answer that GitHub can give about an item, the state that it becomes, and what the plan does.

The one list that test_answers.py proves and that the table in docs/github.md is made from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.fake_github import FakeGitHub, Fault, faults

REPO = "octo/app"
NODE = "I_R_1_15"

ENDS = "ends the session"
STAYS = "leaves it running"
HELD = "holds it"

Prepare = Callable[[FakeGitHub], object]


@dataclass(frozen=True)
class Case:
    """One answer about issue (or pull request) octo/app#15, which has a running session.

    `state` is the item's state with its reason, or unknown. `plan` is what a rule for closed and merged items does, `words`
    what the plan must say. `missing_rule` is what happens where the rule names missing items too. `node` is the node id that
    the session's record holds.
    """

    name: str
    prepare: Prepare
    state: str
    plan: str
    words: str = ""
    missing_rule: str = ""
    node: str = NODE
    timeout: float = 60.0

    @property
    def with_missing(self) -> str:
        return self.missing_rule or self.plan


def issue(state: str, **fields: object) -> Prepare:
    return lambda fake: fake.issue(REPO, 15, state, **fields)


def pull(state: str) -> Prepare:
    return lambda fake: fake.pull(REPO, 15, state)


def open_with(then: Prepare) -> Prepare:
    """An issue, and then what befell it."""

    def prepare(fake: FakeGitHub) -> None:
        fake.issue(REPO, 15, "CLOSED")
        fake.issue(REPO, 1)
        then(fake)

    return prepare


def http(fault: Fault) -> Prepare:
    """A closed issue whose state nobody gets to see."""
    return open_with(lambda fake: fake.fail(fault))


def closed_with_open_pull(fake: FakeGitHub) -> None:
    fake.issue(REPO, 15, "CLOSED")
    fake.pull(REPO, 7, closes=(f"{REPO}#15",))
    fake.pull(REPO, 6, "MERGED", closes=(f"{REPO}#15",))


def _lost_then(fault: Fault) -> Prepare:
    def befalls(fake: FakeGitHub) -> None:
        fake.delete(REPO, 15)
        fake.fail_later(fault)

    return open_with(befalls)


def _transfer_to(name: str, *, hidden: bool = False) -> Prepare:
    def befalls(fake: FakeGitHub) -> None:
        fake.transfer(REPO, 15, name, 40)
        if hidden:
            fake.hide(name)

    return open_with(befalls)


def _contradiction(fake: FakeGitHub) -> None:
    fake.break_item(REPO, 15, "NOT_FOUND", "Could not resolve to an issue or pull request with the number of 15.")


def _unknown_kind(fake: FakeGitHub) -> None:
    item = {"__typename": "Discussion", "number": 15}
    fake.answer({"data": {"r0": {"nameWithOwner": REPO, "id": "R_1", "i15": item}, "rateLimit": None}})


CASES: tuple[Case, ...] = (
    Case("issue, open", issue("OPEN"), "open", STAYS),
    Case("issue, open and locked", issue("OPEN", locked=True), "open", STAYS),
    Case("issue, closed as completed", issue("CLOSED"), "closed (completed)", ENDS, "issue closed as completed"),
    Case("issue, closed as not planned", issue("CLOSED", state_reason="NOT_PLANNED"), "closed (not_planned)", ENDS),
    Case("issue, closed as duplicate", issue("CLOSED", state_reason="DUPLICATE"), "closed (duplicate)", ENDS),
    Case("issue, closed without a reason", issue("CLOSED", state_reason=None), "closed", ENDS),
    Case("issue, closed for a reason that is new", issue("CLOSED", state_reason="WONTFIX_2027"), "closed (wontfix_2027)", ENDS),
    Case("issue, converted to a discussion", issue("CLOSED", converted=True, locked=True), "closed (converted)", ENDS, "as converted"),
    Case("issue, closed while its pull request is open", closed_with_open_pull, "closed (completed)", STAYS, "github:octo/app#7 is open"),
    Case("pull request, open", pull("OPEN"), "open", STAYS, node="PR_R_1_15"),
    Case("pull request, closed", pull("CLOSED"), "closed", ENDS, "pull request closed", node="PR_R_1_15"),
    Case("pull request, merged", pull("MERGED"), "merged", ENDS, "pull request merged", node="PR_R_1_15"),
    Case("`null` with NOT_FOUND, REST 410", open_with(lambda fake: fake.delete(REPO, 15)), "missing (deleted)", HELD, "the item was deleted", ENDS),
    Case("`null` with NOT_FOUND, REST 404", open_with(lambda fake: fake.repository(REPO).items.pop(15)), "missing (not_found)", HELD, "not there any more", ENDS),
    Case("`null` with NOT_FOUND, REST 301 to another repository", _transfer_to("octo/new"), "moved", HELD, "moved to github:octo/new#40"),
    Case("`null` with NOT_FOUND, REST 404, since it went where we may not look", _transfer_to("octo/secret", hidden=True), "missing (not_found)", HELD, "not there any more", ENDS),
    Case("`null` with NOT_FOUND, REST 502", _lost_then(faults.BAD_GATEWAY), "unknown", HELD, "Bad Gateway"),
    Case("`null` with NOT_FOUND, REST 403 for a secondary limit", _lost_then(faults.SECONDARY), "unknown", HELD, "secondary rate limit"),
    Case("`null` with NOT_FOUND, REST 200", open_with(_contradiction), "unknown", HELD, "contradicts itself"),
    Case("`null` with FORBIDDEN", open_with(lambda f: f.break_item(REPO, 15, "FORBIDDEN", "Resource not accessible")), "forbidden", HELD, "may not be read"),
    Case("`null` with FORBIDDEN, single sign-on", open_with(lambda f: f.break_item(REPO, 15, "FORBIDDEN", "protected by organization SAML enforcement")), "unknown", HELD, "single sign-on"),
    Case("`null` with INSUFFICIENT_SCOPES", open_with(lambda f: f.break_item(REPO, 15, "INSUFFICIENT_SCOPES", "Your token has not been granted the required scopes")), "unknown", HELD, "gh auth refresh"),
    Case("`null` with any other error", open_with(lambda f: f.break_item(REPO, 15, "INTERNAL", "Something went wrong")), "unknown", HELD, "Something went wrong"),
    Case("an error within the item", open_with(lambda f: f.break_field(REPO, 15, "labels")), "unknown", HELD, "timed out"),
    Case("repository NOT_FOUND", open_with(lambda f: f.hide(REPO)), "unknown", HELD, "not found (or not visible)"),
    Case("repository renamed, node id as recorded", open_with(lambda f: f.rename(REPO, "octo/application")), "closed (completed)", ENDS, "now at github:octo/application#15"),
    Case("repository renamed, no node id recorded", open_with(lambda f: f.rename(REPO, "octo/application")), "moved", HELD, "moved to github:octo/application#15", node=""),
    Case("another node id than recorded", issue("CLOSED", node_id="I_other"), "unknown", HELD, "another item has this number"),
    Case("another item than was asked for", open_with(lambda f: f.impostor(REPO, 15, 1)), "unknown", HELD, "instead of #15"),
    Case("neither issue nor pull request", open_with(_unknown_kind), "unknown", HELD, "neither an issue nor a pull request"),
    Case("HTTP 301", http(faults.MOVED_PERMANENTLY), "unknown", HELD),
    Case("HTTP 401", http(faults.BAD_CREDENTIALS), "unknown", HELD, "gh auth login"),
    Case("HTTP 403", http(faults.FORBIDDEN), "unknown", HELD, "read access to issues"),
    Case("HTTP 403, the token lacks a scope", http(faults.SCOPES), "unknown", HELD, "gh auth refresh"),
    Case("HTTP 403, single sign-on", http(faults.SSO), "unknown", HELD, "single sign-on"),
    Case("HTTP 403, secondary limit without headers", http(faults.SECONDARY), "unknown", HELD, "secondary rate limit"),
    Case("HTTP 403, secondary limit with Retry-After", http(faults.SECONDARY_WITH_WAIT), "unknown", HELD, "secondary rate limit"),
    Case("HTTP 403, no points left", http(faults.PRIMARY), "unknown", HELD, "rate limit"),
    Case("HTTP 429", http(faults.TOO_MANY), "unknown", HELD, "rate limit"),
    Case("200 with RATE_LIMITED", http(faults.RATE_LIMITED), "unknown", HELD, "rate limit"),
    Case("HTTP 410", http(faults.GONE), "unknown", HELD, "HTTP 410"),
    Case("HTTP 500 or 502, a page of HTML", http(faults.BAD_GATEWAY), "unknown", HELD, "Bad Gateway"),
    Case("HTTP 503", http(faults.UNAVAILABLE), "unknown", HELD, "HTTP 503"),
    Case("200 without data, an error", http(faults.BROKEN_QUERY), "unknown", HELD, "Something went wrong"),
    Case("200, a page of HTML", http(faults.HTML_PAGE), "unknown", HELD, "no JSON"),
    Case("200, empty", http(faults.EMPTY), "unknown", HELD, "no JSON"),
    Case("200, cut short", http(faults.CUT_JSON), "unknown", HELD, "no JSON"),
    Case("200, the connection breaks off", http(faults.TRUNCATED), "unknown", HELD),
    Case("no answer in time", http(faults.HANG), "unknown", HELD, "no answer within", timeout=1.0),
)  # fmt: skip


def table() -> str:
    """The table of docs/github.md."""
    rows = [("GitHub answers", "The item is", "A rule for `closed, merged`", "A rule for `missing` too")]
    rows += [(case.name, case.state, case.plan, case.with_missing) for case in CASES]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "| --- | --- | --- | --- |", *lines[1:]])
