"""Answers that GitHub, or what stands before it, gives instead of the right one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

HTML = b"<html><head><title>502 Bad Gateway</title></head><body>Unicorn!</body></html>"


@dataclass(frozen=True)
class Fault:
    """A whole response. `cut` bytes of the right answer are sent instead of `body`; `hang` answers never."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    honest_length: bool = False
    hang: bool = False

    @classmethod
    def message(cls, status: int, text: str, headers: Mapping[str, str] | None = None) -> Fault:
        body = json.dumps({"message": text, "documentation_url": "https://docs.github.com/rest"}).encode()
        return cls(status, body, {"Content-Type": "application/json; charset=utf-8"} | dict(headers or {}))

    @classmethod
    def html(cls, status: int) -> Fault:
        return cls(status, HTML, {"Content-Type": "text/html"})

    @classmethod
    def graphql(cls, kind: str, text: str) -> Fault:
        body = json.dumps({"errors": [{"type": kind, "message": text}]}).encode()
        return cls(200, body, {"Content-Type": "application/json; charset=utf-8"})


BAD_GATEWAY = Fault.html(502)
UNAVAILABLE = Fault.message(503, "No server is currently available to service your request.")
BAD_CREDENTIALS = Fault.message(401, "Bad credentials")
FORBIDDEN = Fault.message(403, "Resource not accessible by personal access token")
SECONDARY = Fault.message(403, "You have exceeded a secondary rate limit. Please wait a few minutes.")
SECONDARY_WITH_WAIT = Fault.message(403, "You have exceeded a secondary rate limit.", {"Retry-After": "3"})
PRIMARY = Fault.message(403, "API limit reached", {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800000000"})
PRIMARY_OVER_SOON = Fault.message(
    403, "API rate limit exceeded", {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}
)
TOO_MANY_WITH_WAIT = Fault.message(429, "Too many requests", {"Retry-After": "2"})
SCOPES = Fault.message(
    403,
    "Must have admin rights to Repository.",
    {"X-OAuth-Scopes": "gist", "X-Accepted-OAuth-Scopes": "repo"},
)
SAML = Fault.message(403, "Resource protected by organization SAML enforcement. You must grant your token access.")
SECONDARY_QUERY = Fault.graphql("RATE_LIMIT", "You have exceeded a secondary rate limit.")
TOO_MANY = Fault.message(429, "Too many requests")
RATE_LIMITED = Fault.graphql("RATE_LIMITED", "API rate limit exceeded for user ID 1.")
SSO = Fault.message(
    403,
    "Resource protected by organization SAML enforcement.",
    {"X-GitHub-SSO": "required; url=https://github.com/orgs/octo/sso?authorization_request=1"},
)
BROKEN_QUERY = Fault.graphql("INTERNAL", "Something went wrong while executing your query.")
HTML_PAGE = Fault.html(200)
EMPTY = Fault(200, b"", {"Content-Type": "application/json; charset=utf-8"})
TRUNCATED = Fault(200, cut=120)
CUT_JSON = Fault(200, cut=120, honest_length=True)
HANG = Fault(hang=True)
GONE = Fault.message(410, "This issue was deleted")
MOVED_PERMANENTLY = Fault.message(301, "Moved Permanently")

BY_NAME: Mapping[str, Fault] = {name.lower(): fault for name, fault in globals().items() if isinstance(fault, Fault)}
