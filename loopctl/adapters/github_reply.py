"""What `gh api graphql --include` printed: a whole answer, or why there is none. Pure: values in, values out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from loopctl.model.foreign_json import parse_json

_STATUS = re.compile(rb"HTTP/[\d.]+ (\d{3}) ?([^\r\n]*)\r?\n")
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa1-\ud7ff\ue000-\U0010ffff]+")
#: What gh says beside the matter.
_NOTICES = ("A new release of gh is available", "! ")
#: Kinds of GraphQL errors that say that what was asked for was not done; others leave it open.
REFUSALS = frozenset({"FORBIDDEN", "INSUFFICIENT_SCOPES", "NOT_FOUND", "UNPROCESSABLE"})
_PHRASES = {
    403: "Forbidden",
    404: "Not Found",
    410: "Gone",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer that can be trusted.

    `stop` says that asking on would fail as well (or do harm), `limited` that a rate limit was met, `transient` that the
    same call may well succeed soon, `old_server` that the server does not know a part of the query, `refused` that what was
    asked for was certainly not done. `remedy` is what the reason advises at its end, "" for nothing. `retry_after` is in seconds, `reset_at` in seconds since the epoch, where the answer names them.
    """

    reason: str
    stop: bool = False
    transient: bool = False
    limited: bool = False
    old_server: bool = False
    refused: bool = False
    remedy: str = ""
    retry_after: int | None = None
    reset_at: int | None = None


@dataclass(frozen=True, slots=True)
class PathError:
    """A GraphQL error that concerns only the part of the answer at `path`."""

    path: tuple[str | int, ...]
    type: str
    message: str


@dataclass(frozen=True, slots=True)
class Budget:
    """GitHub's points: what one answer cost, what is left of this hour's limit, and when the next hour begins (its text)."""

    cost: int
    remaining: int
    limit: int
    reset_at: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The data of an answer, the errors within it, and the budget, where it is said."""

    data: Mapping[str, object]
    errors: tuple[PathError, ...] = ()
    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class Http:
    """An HTTP response; header names are in lower case."""

    status: int
    phrase: str
    headers: Mapping[str, str]
    body: bytes


def read_reply(http: Http, code: int, stderr: str, host: str) -> Answer | Failure:
    """Judge the response to a GraphQL query. gh exits 1 for a partial answer too, so that alone decides nothing."""
    if http.status != 200:
        return http_failure(http, host)
    document = json_of(http.body)
    if not isinstance(document, dict):
        said = clean(stderr)  # gh drops a body that breaks off, and only says so
        return Failure("GitHub: the answer is no JSON, empty or cut short" + (f" ({said})" if said else ""))
    return _graphql(document, code, stderr)


def read_http(stdout: bytes) -> Http | None:
    """Split what `gh api --include` prints; None when it is no HTTP response."""
    start, blank = _STATUS.match(stdout), _BLANK_LINE.search(stdout)
    if start is None or blank is None:
        return None
    pairs = (
        line.partition(":") for line in stdout[start.end() : blank.start()].decode("utf-8", "replace").splitlines()
    )
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    phrase = clean(start[2].decode("utf-8", "replace"))
    return Http(int(start[1]), phrase, headers, stdout[blank.end() :])


def http_failure(http: Http, host: str) -> Failure:
    """What a response other than 200 means."""
    document = json_of(http.body)
    said = document.get("message") if isinstance(document, dict) else None
    message = (
        clean(said) if isinstance(said, str) and clean(said) else http.phrase or _PHRASES.get(http.status, "error")
    )
    reason = f"GitHub: {message} (HTTP {http.status})"
    if _is_rate_limit(http, message):
        spent = http.headers.get("x-ratelimit-remaining") == "0"
        return Failure(
            _limited(reason),
            stop=True,
            limited=True,
            refused=True,
            retry_after=_seconds(http, "retry-after"),
            reset_at=_seconds(http, "x-ratelimit-reset") if spent else None,
        )
    transient = http.status in (500, 502, 503, 504)
    remedy = _remedy(http, message, host)
    return Failure(
        advised(reason, remedy),
        remedy=remedy,
        stop=http.status in (401, 403),
        transient=transient,
        refused=400 <= http.status < 500 and http.status != 408,
    )


def advised(reason: str, remedy: str) -> str:
    """A reason and what to do about it."""
    return f"{reason}: {remedy}" if remedy else reason


def login_remedy(host: str) -> str:
    """How to give gh an account on a host."""
    # gh does not send GH_TOKEN to an Enterprise host.
    token = "" if host == "github.com" or host.endswith(".ghe.com") else ", or set GH_ENTERPRISE_TOKEN"
    return f"run gh auth login --hostname {host}{token}"


def scopes_remedy(host: str) -> str:
    """How to give gh's token what it lacks."""
    return f"run gh auth refresh --hostname {host} --scopes repo"


def sso_remedy(host: str) -> str:
    """How to let the token into an organization with single sign-on."""
    return f"authorise the token for single sign-on at https://{host}/settings/tokens, or run gh auth refresh --hostname {host}"


def _remedy(http: Http, message: str, host: str) -> str:
    sso = re.search(r"url=(\S+)", http.headers.get("x-github-sso", ""))
    if http.status == 403 and sso:
        return f"authorise the token for single sign-on at {clean(sso[1])}"
    if http.status == 403 and "SAML" in message:
        return sso_remedy(host)
    if http.status == 401:
        return login_remedy(host)
    if http.status == 403 and "not accessible by" in message:
        return "give the token read access to issues and pull requests of these repositories"
    needed, has = (_scopes(http, name) for name in ("x-accepted-oauth-scopes", "x-oauth-scopes"))
    return scopes_remedy(host) if http.status == 403 and needed and not needed & has else ""


def _scopes(http: Http, name: str) -> set[str]:
    return {scope.strip() for scope in http.headers.get(name, "").split(",") if scope.strip()}


def _seconds(http: Http, name: str) -> int | None:
    text = http.headers.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 12 else None


def clean(text: str) -> str:
    """Foreign text as one short printable line."""
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith(_NOTICES))
    line = next(lines, "")
    line = _UNPRINTABLE.sub(" ", line).strip().removeprefix("gh: ").removeprefix("error: ")
    return line if len(line) <= 200 else line[:199] + "…"


def _graphql(document: Mapping[str, object], code: int, stderr: str) -> Answer | Failure:
    data, listed = document.get("data"), document.get("errors", [])
    if not isinstance(listed, list) or not all(isinstance(error, dict) for error in listed):
        return Failure("GitHub: an answer of unknown shape")
    errors = tuple(_path_error(error) for error in listed)
    whole = next((error for error in errors if not error.path or "RATE_LIMIT" in error.type), None)
    if whole is None and errors and not isinstance(data, dict):
        whole = errors[0]
    if whole is not None:
        reason = f"GitHub: {whole.message or 'the query failed'}"
        limited = "RATE_LIMIT" in whole.type or "rate limit" in whole.message.lower()
        unknown = any(_names_unknown(error) for error in listed)
        return Failure(
            _limited(reason) if limited else reason,
            stop=limited,
            limited=limited,
            old_server=unknown,
            refused=limited or unknown or whole.type in REFUSALS,
        )
    if not isinstance(data, dict):
        return Failure("GitHub: an answer without data")
    if code != 0 and not errors:
        return Failure(f"GitHub: {clean(stderr) or f'gh ended with code {code}'}")
    return Answer(data, errors, _budget(data.get("rateLimit")))


def _budget(said: object) -> Budget | None:
    """A server without rate limits answers null."""
    if not isinstance(said, dict):
        return None
    numbers = [said.get(name) for name in ("cost", "remaining", "limit")]
    cost, remaining, limit = (n if isinstance(n, int) and n >= 0 else None for n in numbers)
    if cost is None or remaining is None or limit is None:
        return None
    return Budget(cost, remaining, limit, str(said.get("resetAt") or ""))


def _names_unknown(error: Mapping[str, object]) -> bool:
    """Whether the query names a field, an argument or a value that the server's schema does not have."""
    extensions = error.get("extensions")
    code = extensions.get("code") if isinstance(extensions, dict) else None
    return code in {"undefinedField", "argumentNotAccepted", "argumentLiteralsIncompatible"}


def _path_error(error: Mapping[str, object]) -> PathError:
    path, kind, message = error.get("path"), error.get("type"), error.get("message")
    steps = tuple(path) if isinstance(path, list) and all(isinstance(step, str | int) for step in path) else ()
    return PathError(steps, kind if isinstance(kind, str) else "", clean(message) if isinstance(message, str) else "")


def _is_rate_limit(http: Http, message: str) -> bool:
    if http.status == 429:
        return True
    # A secondary limit comes with points left and often without any header; only its words tell it from a refusal.
    told = "rate limit" in message.lower() or "abuse detection" in message.lower()
    spent = http.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in http.headers
    return http.status == 403 and (told or spent)


def _limited(reason: str) -> str:
    return reason if "rate limit" in reason.lower() else f"{reason}, rate limit"


def json_of(body: bytes) -> object:
    """The document, None when it is no JSON."""
    try:
        return parse_json(body)
    except (ValueError, RecursionError):
        return None
