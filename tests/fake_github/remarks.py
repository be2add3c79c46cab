"""Comments on items: one page of them, a new one, and another text for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graphql import GraphQLError

from tests.fake_github.world import Item, Remark, Repository, World

MAX_BODY = 65_536


def error_of(kind: str, message: str) -> GraphQLError:
    return GraphQLError(message, extensions={"type": kind})


def page(
    world: World,
    repo: Repository,
    item: Item,
    _info: object,
    last: int | None = None,
    before: str | None = None,
    first: int | None = None,
    after: str | None = None,
) -> dict[str, Any]:
    """As GitHub pages: `last` with `before` from the end, `first` with `after` from the beginning."""
    size = last or first or 0
    if not 1 <= size <= 100:
        raise error_of("EXCESSIVE_PAGINATION", f"Requesting {size} records exceeds the limit of 100 records.")
    every = repo.remarks.get(item.number, [])
    size = min(size, world.page_size)
    start, end = (int(after) if after else 0), (int(before) if before else len(every))
    start, end = (max(start, end - size), end) if last else (start, min(end, start + size))
    info = {
        "hasNextPage": end < len(every),
        "endCursor": str(end) if end > start else None,
        "hasPreviousPage": start > 0,
        "startCursor": str(start) if end > start else None,
    }
    return {
        "totalCount": len(every),
        "pageInfo": info,
        "nodes": [_node(world, repo, item, r) for r in every[start:end]],
    }


def add(world: World, _info: object, input: Mapping[str, str]) -> dict[str, Any]:
    for repo in world.repositories.values():
        for item in repo.items.values():
            if item.node_id == input["subjectId"] and not repo.hidden:
                _allow(world, repo, item, input["body"])
                made = world.remark(repo.name, item.number, input["body"], world.viewer)
                return {"commentEdge": {"node": _node(world, repo, item, made)}}
    raise error_of("NOT_FOUND", f"Could not resolve to a node with the global id of '{input['subjectId']}'")


def update(world: World, _info: object, input: Mapping[str, str]) -> dict[str, Any]:
    for repo in world.repositories.values():
        for number, found in repo.remarks.items():
            for index, remark in enumerate(found):
                if remark.node_id == input["id"]:
                    _allow(world, repo, repo.items[number], input["body"])
                    if remark.author != world.viewer:
                        raise error_of("FORBIDDEN", f"{world.viewer} does not have permission to update this comment")
                    found[index] = replace(remark, body=input["body"])
                    return {"issueComment": _node(world, repo, repo.items[number], found[index])}
    raise error_of("NOT_FOUND", f"Could not resolve to a node with the global id of '{input['id']}'")


def _allow(world: World, repo: Repository, item: Item, body: str) -> None:
    if repo.archived:
        raise error_of("FORBIDDEN", "Repository was archived so is read-only.")
    if item.locked and not world.may_write:
        raise error_of("FORBIDDEN", "Unable to create comment because issue is locked.")
    if len(body) > MAX_BODY:
        raise error_of("UNPROCESSABLE", f"Body is too long (maximum is {MAX_BODY} characters)")


def _node(world: World, repo: Repository, item: Item, remark: Remark) -> dict[str, Any]:
    path = "issues" if item.kind == "Issue" else "pull"
    number = remark.node_id.partition("_")[2]
    return {
        "id": remark.node_id,
        "url": f"https://{world.host}/{repo.name}/{path}/{item.number}#issuecomment-{number}",
        "body": remark.body,
        "author": {"__typename": "User", "login": remark.author} if remark.author else None,
        "createdAt": remark.created_at,
        "publishedAt": remark.created_at,
        "viewerDidAuthor": remark.author == world.viewer,
    }
