"""Is a GitHub host ready to be asked? gh, its account, the repositories and the points that are left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopctl.adapters import github_query
from loopctl.adapters.github_api import GitHubApi, Tally
from loopctl.adapters.github_gh import OLDEST, version_of
from loopctl.adapters.github_reply import Answer, Failure, clean
from loopctl.errors import StateError
from loopctl.model.health import FAIL, GOOD, WARN, Finding

#: Fewer points than this are soon spent.
_FEW = 500


def health(api: GitHubApi, repos: Sequence[str]) -> Iterator[Finding]:
    """Look at gh, then ask the host once (one point): who we are, which repositories answer, what is left."""
    tool = _gh(api)
    yield tool
    if tool.level == FAIL:
        return
    query, aliases = github_query.health_query(repos)
    answer = api.graphql(query, Tally())
    if isinstance(answer, Failure):
        said = answer.reason.removeprefix("GitHub: ").removesuffix(f": {answer.remedy}")
        yield Finding(api.host, FAIL, said, answer.remedy or "run gh auth status")
        return
    yield _account(api, answer)
    for name, alias in aliases:
        if not isinstance(answer.data.get(alias), dict):
            error = next((error for error in answer.errors if error.path[0] == alias), None)
            text = f"{name} does not answer" + (f": {error.message}" if error and error.message else "")
            remedy = "check the name, and that the account of gh may read it"
            yield Finding(api.host, FAIL, text, remedy)
    yield _points(api, answer)


def _gh(api: GitHubApi) -> Finding:
    oldest = ".".join(map(str, OLDEST[:2]))
    try:
        said = api.version()
    except StateError as error:
        return Finding(api.gh, FAIL, error.message, error.hint)
    version = version_of(said)
    if version is None:
        text = f"does not say its version: {clean(said) or 'nothing'}"
        return Finding(api.gh, FAIL, text, f"install gh {oldest} or later, and name it in ghBinary")
    text = ".".join(map(str, version))
    if version < OLDEST:
        return Finding(api.gh, FAIL, f"{text} is too old", f"install gh {oldest} or later")
    return Finding(api.gh, GOOD, text)


def _account(api: GitHubApi, answer: Answer) -> Finding:
    viewer = answer.data.get("viewer")
    login = viewer.get("login") if isinstance(viewer, dict) else None
    return Finding(api.host, GOOD, f"logged in as {login}" if isinstance(login, str) else "answers, without a user")


def _points(api: GitHubApi, answer: Answer) -> Finding:
    budget = answer.budget
    if budget is None:
        return Finding(api.host, GOOD, "no rate limit")
    text = f"{budget.remaining} of {budget.limit} points left until {budget.reset_at}"
    if budget.remaining < min(_FEW, budget.limit / 10):
        return Finding(api.host, WARN, text, "wait for the next hour, or use another account")
    return Finding(api.host, GOOD, text)
