"""Payloads of webhooks as GitHub sends them, as far as they matter."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

NOON = "2026-01-01T12:00:00Z"


def issue(number: int, state: str = "open", *, at: str = NOON, repo: str = "octo/app", **fields: Any) -> dict[str, Any]:
    """An issue in REST's words. `at` is when it was changed last, and where it is closed that was then."""
    closed = state == "closed"
    return {
        "number": number,
        "state": state,
        "state_reason": "completed" if closed else None,
        "node_id": f"NODE_{number}",
        "html_url": f"https://github.com/{repo}/issues/{number}",
        "title": f"Item {number}",
        "user": {"login": "octocat", "type": "User"},
        "labels": [],
        "assignees": [],
        "milestone": None,
        "updated_at": at,
        "closed_at": at if closed else None,
        **fields,
    }


def pull(
    number: int,
    state: str = "open",
    *,
    merged: bool = False,
    at: str = NOON,
    repo: str = "octo/app",
    **fields: Any,
) -> dict[str, Any]:
    """A pull request in REST's words."""
    node = issue(number, state, at=at, repo=repo)
    del node["state_reason"]
    return {**node, "html_url": f"https://github.com/{repo}/pull/{number}", "merged": merged, **fields}


def payload(action: str, *, repo: str = "octo/app", actor: str = "octocat", **parts: Any) -> dict[str, Any]:
    """An event about an item of the repository."""
    return {
        "action": action,
        "repository": {"full_name": repo, "html_url": f"https://github.com/{repo}"},
        "sender": {"login": actor},
        **parts,
    }


def stamp(moment: datetime) -> str:
    """A time as GitHub writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
