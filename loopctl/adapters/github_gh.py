"""gh itself: its environment, and what it means when it has no answer to show. Pure: values in, values out."""

from __future__ import annotations

import re
from collections.abc import Mapping

from loopctl.adapters.github_reply import Failure, advised, clean, login_remedy
from loopctl.adapters.shell import clean_env
from loopctl.model.secrets import is_secret_name
from loopctl.model.text import cut

#: The oldest gh that is known to do; Debian 12 has 2.23.
OLDEST = (2, 20, 0)
#: gh's exit code when it has no account for the host.
NOT_LOGGED_IN = 4

#: Variables that name another host or repository, force a terminal's output, or log: what is asked is said in full.
_UNWANTED = frozenset(
    {
        "GH_BROWSER",
        "GH_COLOR_LABELS",
        "GH_DEBUG",
        "GH_EDITOR",
        "GH_FORCE_TTY",
        "GH_HOST",
        "GH_MDWIDTH",
        "GH_PATH",
        "GH_REPO",
    }
)
#: The secrets that are gh's own.
_ACCOUNT = frozenset({"GH_ENTERPRISE_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GITHUB_TOKEN"})
_FIXED: Mapping[str, str] = {
    "DO_NOT_TRACK": "1",
    "GH_NO_EXTENSION_UPDATE_NOTIFIER": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_PAGER": "cat",
    "GH_PROMPT_DISABLED": "1",
    "GH_SPINNER_DISABLED": "1",
    "GH_TELEMETRY": "false",
}
_VERSION = re.compile(r"gh version (\d+)\.(\d+)\.(\d+)")

#: What was asked for, which is known.
_REQUEST = re.compile(r'\A(?:Post|Get) "[^"]*": ')
#: So much of what gh says is kept before a remedy: a plan cuts long reasons at their end.
_SAID = 90

#: What gh says -> what to do about it; the first that is found counts.
_REMEDIES = (
    (r"unknown (?:flag|command|shorthand)", "this gh is too old: install gh {oldest} or later"),
    (r"proxyconnect|proxy", "check the proxy in HTTPS_PROXY, and NO_PROXY"),
    (r"x509|certificate", "the certificate of {host} is not trusted here: add its authority to the system's"),
    (
        r"error connecting to|no such host|dial tcp|dial unix|connection refused|network is unreachable|i/o timeout",
        "check the network, that {host} is the right name, and HTTPS_PROXY",
    ),
    (
        r"read(?:ing)? config|invalid config|malformed|permission denied|migrat",
        "gh cannot use its configuration: check GH_CONFIG_DIR (~/.config/gh)",
    ),
    (r"authentication|not logged in|auth login", "run gh auth login --hostname {host}"),
    (r"\?$", "gh asks a question instead of answering: run it by hand once"),
)


def gh_env(base: Mapping[str, str]) -> dict[str, str]:
    """The environment of gh: `shell.clean_env` without prompts, notices and telemetry.

    The account (GH_TOKEN, GITHUB_TOKEN, GH_ENTERPRISE_TOKEN, GH_CONFIG_DIR, HOME, XDG_*) and the proxies stay; variables whose
    name says that they hold another secret do not.
    """
    unwanted = _UNWANTED | {name for name in base if is_secret_name(name) and name not in _ACCOUNT}
    return {name: value for name, value in clean_env(base).items() if name not in unwanted} | dict(_FIXED)


def version_of(text: str) -> tuple[int, int, int] | None:
    """The version in what `gh --version` prints; None when that is something else."""
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def gh_failure(code: int, stderr: str, host: str) -> Failure:
    """Why a gh that showed no HTTP response showed none."""
    if code == NOT_LOGGED_IN:
        remedy = login_remedy(host)
        return Failure(advised(f"gh is not logged in to {host}", remedy), remedy=remedy, stop=True)
    said = _REQUEST.sub("", clean(stderr))
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, said, re.IGNORECASE):
            oldest = ".".join(map(str, OLDEST[:2]))
            remedy = remedy.format(host=host, oldest=oldest)
            return Failure(advised(f"GitHub: {cut(said, _SAID)}", remedy), remedy=remedy, stop=True)
    if code < 0:
        return Failure(f"GitHub: gh was ended by signal {-code}", stop=True)
    return Failure(f"GitHub: {said or 'gh printed no answer'}")
