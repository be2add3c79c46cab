"""What `gh api graphql --include` printed: a whole answer, or why there is none. Pure: values in, values out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

#: gh's exit code when it has no account for the host.
NOT_LOGGED_IN = 4

_STATUS = re.compile(rb"HTTP/[\d.]+ (\d{3}) ?([^\r\n]*)\r?\n")
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa1-\ud7ff\ue000-\U0010ffff]+")
_PHRASES = {429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer that can be trusted. `stop` says that asking on would fail as well (or do harm); `transient` that the same
    call may well succeed at once; `retry_after` is in seconds, where the answer names it."""

    reason: str
    stop: bool = False
    transient: bool = False
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class PathError:
    """A GraphQL error that concerns only the part of the answer at `path`."""

    path: tuple[str | int, ...]
    type: str
    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The data of an answer and the errors within it. `remaining` are the points left this hour, where it is said."""

    data: Mapping[str, object]
    errors: tuple[PathError, ...] = ()
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Http:
    """An HTTP response; header names are in lower case."""

    status: int
    phrase: str
    headers: Mapping[str, str]
    body: bytes


def read_reply(code: int, stdout: bytes, stderr: str, host: str) -> Answer | Failure:
    """Judge what gh printed. gh exits 1 for a partial answer too, so that alone decides nothing."""
    http = read_http(stdout)
    if code == NOT_LOGGED_IN:
        return Failure(f"gh is not logged in to {host}: run gh auth login --hostname {host}", stop=True)
    if http is None:
        return Failure(f"GitHub: {clean(stderr) or 'empty answer from gh'}", stop=code < 0)
    if http.status != 200:
        return http_failure(http, host)
    document = _json(http.body)
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
    phrase = start[2].decode("utf-8", "replace").strip()
    return Http(int(start[1]), phrase, headers, stdout[blank.end() :])


def http_failure(http: Http, host: str) -> Failure:
    """What a response other than 200 means."""
    document = _json(http.body)
    said = document.get("message") if isinstance(document, dict) else None
    message = (
        clean(said) if isinstance(said, str) and clean(said) else http.phrase or _PHRASES.get(http.status, "error")
    )
    reason = f"GitHub: {message} (HTTP {http.status})"
    if _is_rate_limit(http, message):
        wait = http.headers.get("retry-after", "")
        return Failure(_limited(reason), stop=True, retry_after=int(wait) if wait.isdecimal() else None)
    if http.status == 401:
        return Failure(f"{reason}: run gh auth login --hostname {host}", stop=True)
    sso = re.search(r"url=(\S+)", http.headers.get("x-github-sso", ""))
    if http.status == 403 and sso:
        return Failure(f"{reason}: authorise the token for single sign-on at {clean(sso[1])}", stop=True)
    return Failure(reason, stop=http.status == 403, transient=http.status in (500, 502, 503, 504))


def clean(text: str) -> str:
    """Foreign text as one short printable line."""
    line = next((line for line in text.splitlines() if line.strip()), "")
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
        return Failure(_limited(reason) if limited else reason, stop=limited)
    if not isinstance(data, dict):
        return Failure("GitHub: an answer without data")
    if code != 0 and not errors:
        return Failure(f"GitHub: {clean(stderr) or f'gh ended with code {code}'}")
    budget = data.get("rateLimit")
    remaining = budget.get("remaining") if isinstance(budget, dict) else None
    return Answer(data, errors, remaining if isinstance(remaining, int) else None)


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


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
