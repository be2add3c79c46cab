"""What templates and conditions can read of a fact: a closed set, so that a misspelt name is found before it is needed."""

from __future__ import annotations

from collections.abc import Mapping

#: By fact. The state of a session is told in comments only.
# fmt: off
FIELDS: Mapping[str, frozenset[str]] = {
    "item": frozenset((
        "ref", "provider", "host", "owner", "repo", "number", "kind", "state", "reason", "labels", "title", "author",
        "assignees", "milestone", "url", "updated_at", "closed_at", "links", "open_links",
    )),
    "session": frozenset((
        "id", "name", "harness", "status", "phase", "reason", "cwd", "created_at", "closed_at", "state",
    )),
    "comment": frozenset(("id", "author", "body", "url", "kind", "path", "published_at")),
}
# fmt: on
