"""The part of GitHub's GraphQL schema that loopctl uses, executed on a World."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from graphql import GraphQLError, GraphQLSchema, build_schema, graphql_sync, parse, validate

from tests.fake_github import remarks, reviews
from tests.fake_github.remarks import error_of
from tests.fake_github.world import Item, Repository, World, split

# IssueStateReason is a scalar here, so that a test can answer with a reason that GitHub does not have yet.
SDL = """
scalar DateTime
scalar URI
scalar IssueStateReason
enum IssueState { OPEN CLOSED }
enum PullRequestState { OPEN CLOSED MERGED }
enum IssueOrderField { CREATED_AT UPDATED_AT COMMENTS }
enum OrderDirection { ASC DESC }
input IssueOrder { field: IssueOrderField! direction: OrderDirection! }
interface Actor { login: String! }
interface Node { id: ID! }
type User implements Actor { login: String! }
type Bot implements Actor { login: String! }
type Label { name: String! }
type Milestone { title: String! }
type PageInfo { hasNextPage: Boolean! endCursor: String hasPreviousPage: Boolean! startCursor: String }
type LabelConnection { nodes: [Label] }
type UserConnection { nodes: [User] }
enum IssueTimelineItemsItemType { CONVERTED_TO_DISCUSSION_EVENT CLOSED_EVENT }
type ConvertedToDiscussionEvent { id: ID! createdAt: DateTime! }
union IssueTimelineItems = ConvertedToDiscussionEvent
type IssueTimelineItemsConnection { nodes: [IssueTimelineItems] }
type RateLimit { cost: Int! remaining: Int! resetAt: DateTime! limit: Int! }
union IssueOrPullRequest = Issue | PullRequest

type Query {
  repository(owner: String!, name: String!, followRenames: Boolean = true): Repository
  rateLimit(dryRun: Boolean = false): RateLimit
  viewer: User!
  node(id: ID!): Node
}
type Mutation {
  addComment(input: AddCommentInput!): AddCommentPayload
  updateIssueComment(input: UpdateIssueCommentInput!): UpdateIssueCommentPayload
}
input AddCommentInput { subjectId: ID! body: String! clientMutationId: String }
type AddCommentPayload { commentEdge: IssueCommentEdge }
type IssueCommentEdge { node: IssueComment }
input UpdateIssueCommentInput { id: ID! body: String! clientMutationId: String }
type UpdateIssueCommentPayload { issueComment: IssueComment }
type IssueComment {
  id: ID! url: URI! body: String! author: Actor createdAt: DateTime! publishedAt: DateTime viewerDidAuthor: Boolean!
}
enum PullRequestReviewState { PENDING COMMENTED APPROVED CHANGES_REQUESTED DISMISSED }
type PullRequestReview implements Node {
  id: ID! url: URI! body: String! author: Actor state: PullRequestReviewState! submittedAt: DateTime
  viewerDidAuthor: Boolean! comments(first: Int, after: String): PullRequestReviewCommentConnection!
}
type PullRequestReviewConnection { totalCount: Int! pageInfo: PageInfo! nodes: [PullRequestReview] }
type PullRequestReviewComment {
  id: ID! url: URI! body: String! author: Actor path: String! createdAt: DateTime! publishedAt: DateTime
  viewerDidAuthor: Boolean!
}
type PullRequestReviewCommentConnection { totalCount: Int! pageInfo: PageInfo! nodes: [PullRequestReviewComment] }
type IssueCommentConnection { totalCount: Int! pageInfo: PageInfo! nodes: [IssueComment] }
type Repository {
  id: ID!
  nameWithOwner: String!
  issueOrPullRequest(number: Int!): IssueOrPullRequest
  issues(after: String, first: Int, labels: [String!], orderBy: IssueOrder, states: [IssueState!]): IssueConnection!
  pullRequests(
    after: String, first: Int, labels: [String!], orderBy: IssueOrder, states: [PullRequestState!]
  ): PullRequestConnection!
}
type IssueConnection { totalCount: Int! pageInfo: PageInfo! nodes: [Issue] }
type PullRequestConnection { totalCount: Int! pageInfo: PageInfo! nodes: [PullRequest] }
type Issue {
  id: ID! number: Int! url: URI! title: String! state: IssueState!
  stateReason(enableDuplicate: Boolean = false): IssueStateReason
  updatedAt: DateTime! closedAt: DateTime author: Actor milestone: Milestone repository: Repository!
  labels(first: Int): LabelConnection assignees(first: Int): UserConnection! locked: Boolean!
  closedByPullRequestsReferences(first: Int, includeClosedPrs: Boolean = false): PullRequestConnection
  timelineItems(last: Int, itemTypes: [IssueTimelineItemsItemType!]): IssueTimelineItemsConnection!
  comments(last: Int, before: String, first: Int, after: String): IssueCommentConnection!
}
type PullRequest {
  id: ID! number: Int! url: URI! title: String! state: PullRequestState!
  updatedAt: DateTime! closedAt: DateTime author: Actor milestone: Milestone repository: Repository!
  labels(first: Int): LabelConnection assignees(first: Int): UserConnection!
  closingIssuesReferences(first: Int): IssueConnection
  headRefName: String! body: String!
  comments(last: Int, before: String, first: Int, after: String): IssueCommentConnection!
  reviews(last: Int, before: String): PullRequestReviewConnection
}
"""


@cache
def schema(old: bool = False) -> GraphQLSchema:
    """The schema of github.com, or of a server of some years ago."""
    if not old:
        return build_schema(SDL)
    lines = SDL.replace("(enableDuplicate: Boolean = false)", "").splitlines()
    return build_schema("\n".join(line for line in lines if "closedByPullRequestsReferences" not in line))


def execute(world: World, query: str, variables: Mapping[str, Any] | None) -> dict[str, Any]:
    """What GitHub would answer: data, and errors with their `type` beside the message."""
    unknown = _unknown(world, query) if world.old else []
    if unknown:
        return {"errors": unknown}
    world.remaining -= world.cost or 0
    result = graphql_sync(schema(world.old), query, _root(world), variable_values=dict(variables or {}))
    answer: dict[str, Any] = {"data": result.data}
    if result.errors:
        answer["errors"] = [_formatted(error) for error in result.errors]
    if result.data is None:
        del answer["data"]
    return answer


def _unknown(world: World, query: str) -> list[dict[str, Any]]:
    """How GitHub rejects a query that names what its schema does not have: no data, and a path of its own kind."""
    found = []
    for error in validate(schema(world.old), parse(query)):
        code = "argumentNotAccepted" if "argument" in error.message else "undefinedField"
        found.append({"path": ["fragment issue"], "extensions": {"code": code}, "message": error.message})
    return found


def _formatted(error: GraphQLError) -> dict[str, Any]:
    shown: dict[str, Any] = dict(error.formatted)
    extensions = shown.pop("extensions", {})
    return {"type": extensions["type"], **shown} if "type" in extensions else shown


def _root(world: World) -> dict[str, Any]:
    def repository(_info: object, owner: str, name: str, **_: object) -> dict[str, Any]:
        found = world.find(f"{owner}/{name}")
        if found is None:
            raise error_of("NOT_FOUND", f"Could not resolve to a Repository with the name '{owner}/{name}'.")
        return _repository(world, found)

    limit = {"cost": world.cost, "limit": 5000, "resetAt": world.reset_at, "remaining": world.remaining}
    return {
        "repository": repository,
        "rateLimit": limit if world.cost is not None else None,
        "viewer": {"login": world.viewer},
        "node": partial(reviews.node, world),
        "addComment": partial(remarks.add, world),
        "updateIssueComment": partial(remarks.update, world),
    }


def _repository(world: World, repo: Repository) -> dict[str, Any]:
    def item(_info: object, number: int) -> dict[str, Any]:
        key = (repo.name.lower(), number)
        if key in world.broken:
            raise error_of(*world.broken[key])
        found = repo.items.get(world.impostors.get(key, number))
        if found is None:
            text = f"Could not resolve to an issue or pull request with the number of {number}."
            raise error_of("NOT_FOUND", text)
        return _item(world, repo, found)

    return {
        "id": repo.node_id,
        "nameWithOwner": repo.name,
        "issueOrPullRequest": item,
        "issues": _listing(world, repo, "Issue"),
        "pullRequests": _listing(world, repo, "PullRequest"),
    }


def _listing(world: World, repo: Repository, kind: str) -> Callable[..., dict[str, Any]]:
    def connection(
        _info: object,
        first: int = 0,
        after: str | None = None,
        labels: Sequence[str] | None = None,
        states: Sequence[str] | None = None,
        **_: object,
    ) -> dict[str, Any]:
        if not 1 <= first <= 100:
            raise error_of(
                "EXCESSIVE_PAGINATION", f"Requesting {first} records exceeds the `first` limit of 100 records."
            )
        wanted = {label.lower() for label in labels or ()}
        found = [
            item
            for _, item in sorted(repo.items.items())
            if item.kind == kind
            and (not states or item.state in states)
            and (not wanted or wanted & {label.lower() for label in item.labels})
        ]
        start = int(base64.b64decode(after).decode().split(":")[1]) if after else 0
        rest = [item for item in found if item.number > start]
        page = rest[: min(first, world.page_size)]
        cursor = base64.b64encode(f"cursor:{page[-1].number}".encode()).decode() if page else None
        return {
            "totalCount": len(found),
            "pageInfo": {"hasNextPage": len(rest) > len(page), "endCursor": cursor, "hasPreviousPage": start > 0},
            "nodes": [_item(world, repo, item) for item in page],
        }

    return connection


def _item(world: World, repo: Repository, item: Item) -> dict[str, Any]:
    path = "issues" if item.kind == "Issue" else "pull"

    def state_reason(_info: object, enableDuplicate: bool = False) -> str | None:
        return "NOT_PLANNED" if item.state_reason == "DUPLICATE" and not enableDuplicate else item.state_reason

    def closing(_info: object, **_: object) -> dict[str, Any]:
        return {"nodes": [_closed(world, text) for text in item.closes]}

    def delivering(_info: object, includeClosedPrs: bool = False, **_: object) -> dict[str, Any]:
        mine = f"{repo.name}#{item.number}".lower()
        pulls = [
            (home, pull)
            for home in world.repositories.values()
            for pull in home.items.values()
            if mine in {text.lower() for text in pull.closes} and (includeClosedPrs or pull.state == "OPEN")
        ]
        return {"nodes": [_item(world, home, pull) for home, pull in pulls]}

    event = {"__typename": "ConvertedToDiscussionEvent", "id": "E_1", "createdAt": item.updated_at}
    node = {
        "__typename": item.kind,
        "id": item.node_id,
        "number": item.number,
        "url": f"https://{world.host}/{repo.name}/{path}/{item.number}",
        "title": item.title,
        "state": item.state,
        "stateReason": state_reason,
        "updatedAt": item.updated_at,
        "closedAt": item.closed_at,
        "author": {"__typename": "User", "login": item.author} if item.author else None,
        "milestone": {"title": item.milestone} if item.milestone else None,
        "repository": {"id": repo.node_id, "nameWithOwner": repo.name},
        "labels": {"nodes": [{"name": name} for name in item.labels]},
        "assignees": {"nodes": [{"login": name} for name in item.assignees]},
        "closingIssuesReferences": closing,
        "closedByPullRequestsReferences": delivering,
        "timelineItems": {"nodes": [event] if item.converted else []},
        "locked": item.locked,
        "headRefName": item.branch,
        "body": item.body,
        "comments": partial(remarks.page, world, repo, item),
        "reviews": partial(reviews.page, world, repo, item),
    }
    return node | {
        name: _broken
        for owner, number, name in world.broken_fields
        if (owner, number) == (repo.name.lower(), item.number)
    }


def _broken(_info: object, **_: object) -> None:
    raise error_of("SERVICE_UNAVAILABLE", "A part of the answer timed out.")


def _closed(world: World, text: str) -> dict[str, Any]:
    name, number = split(text)
    repo = world.find(name)
    assert repo, text
    return _item(world, repo, repo.items[number])
