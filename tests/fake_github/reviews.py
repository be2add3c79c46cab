"""Reviews of pull requests, with their comments beside lines."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.fake_github.remarks import error_of
from tests.fake_github.world import Inline, Item, Repository, Review, World


def page(
    world: World, repo: Repository, item: Item, _info: object, last: int = 0, before: str | None = None
) -> dict[str, Any]:
    _check(last)
    every = repo.reviews.get(item.number, [])
    end = int(before) if before else len(every)
    start = max(0, end - min(last, world.page_size))
    info = {"hasNextPage": end < len(every), "hasPreviousPage": start > 0, "startCursor": str(start)}
    nodes = [_review(world, f"{repo.name}/pull/{item.number}", review) for review in every[start:end]]
    return {"totalCount": len(every), "pageInfo": info, "nodes": nodes}


def node(world: World, _info: object, id: str) -> dict[str, Any] | None:
    for repo in world.repositories.values():
        for number, found in repo.reviews.items():
            for review in found:
                if review.node_id == id and not repo.hidden:
                    return _review(world, f"{repo.name}/pull/{number}", review)
    raise error_of("NOT_FOUND", f"Could not resolve to a node with the global id of '{id}'")


def _review(world: World, where: str, review: Review) -> dict[str, Any]:
    url = f"https://{world.host}/{where}#pullrequestreview-{review.node_id.partition('_')[2]}"
    return _said(world, review, review.node_id, review.body, url) | {
        "__typename": "PullRequestReview",
        "state": review.state,
        "submittedAt": review.submitted_at,
        "comments": partial(_inline_page, world, where, review),
    }


def _inline_page(
    world: World, where: str, review: Review, _info: object, first: int = 0, after: str | None = None
) -> dict[str, Any]:
    _check(first)
    start = int(after) if after else 0
    end = min(start + min(first, world.page_size), len(review.inline))
    nodes = [_inline(world, where, review, index, review.inline[index]) for index in range(start, end)]
    info = {"hasPreviousPage": start > 0, "hasNextPage": end < len(review.inline), "endCursor": str(end)}
    return {"totalCount": len(review.inline), "pageInfo": info, "nodes": nodes}


def _inline(world: World, where: str, review: Review, index: int, inline: Inline) -> dict[str, Any]:
    id_ = f"PRRC_{review.node_id.partition('_')[2]}_{index}"
    url = f"https://{world.host}/{where}#discussion_r{index}"
    at = review.submitted_at
    return _said(world, review, id_, inline.body, url) | {"path": inline.path, "createdAt": at, "publishedAt": at}


def _said(world: World, review: Review, id_: str, body: str, url: str) -> dict[str, Any]:
    kind = "Bot" if (review.author or "").endswith("[bot]") else "User"
    login = (review.author or "").removesuffix("[bot]")
    author = {"__typename": kind, "login": login} if login else None
    return {
        "id": id_,
        "url": url,
        "body": body,
        "author": author,
        "viewerDidAuthor": review.author == world.viewer,
    }


def _check(size: int) -> None:
    if not 1 <= size <= 100:
        raise error_of("EXCESSIVE_PAGINATION", f"Requesting {size} records exceeds the limit of 100 records.")
