"""The identity of a work item."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

DEFAULT_HOSTS = {"github": "github.com"}

_PROVIDER = re.compile(r"[a-z][a-z0-9-]*\Z")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?\Z")
_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")
_NUMBER = re.compile(r"[1-9][0-9]{0,17}\Z")
_PLAIN = re.compile(r"[a-z0-9_]+\Z")


@dataclass(frozen=True, slots=True, eq=False)
class WorkItemRef:
    """Names one issue or pull request, e.g. `github:octo/app#15`.

    The host is written only when it is not the provider's default
    (`github:ghe.corp/octo/app#15`). Two refs that differ in letter case only are the same item;
    the case is kept for display.
    """

    provider: str
    host: str
    owner: str
    repo: str
    number: int

    @classmethod
    def parse(cls, text: str, provider: str = "") -> WorkItemRef:
        """Read `provider:[host/]owner/repo#number`; `provider` is the default where none is written.

        Raises ValueError with a sentence that says what is wrong.
        """
        shown = repr(text if len(text) <= 200 else text[:197] + "...")
        head, colon, rest = text.partition(":")
        if colon and _PROVIDER.match(head) and "/" not in head:
            provider = head
        else:
            rest = text
        if not provider:
            msg = f"{shown} is no work item: write provider:owner/repo#number, e.g. github:octo/app#15"
            raise ValueError(msg)
        path, _, number = rest.partition("#")
        parts = path.split("/")
        if len(parts) == 2:
            parts.insert(0, DEFAULT_HOSTS.get(provider, ""))
        names_ok = len(parts) == 3 and all(_NAME.match(p) and p not in {".", ".."} for p in parts[1:])
        host_ok = len(parts) == 3 and (parts[0] == DEFAULT_HOSTS.get(provider, "") or _HOST.match(parts[0]))
        if not (names_ok and host_ok and _NUMBER.match(number)):
            msg = f"{shown} is no work item: write provider:owner/repo#number, e.g. github:octo/app#15"
            raise ValueError(msg)
        return cls(provider, parts[0], parts[1], parts[2], int(number))

    @property
    def repository(self) -> str:
        """`owner/repo`, with the host before it where it is not the provider's default."""
        own = f"{self.owner}/{self.repo}"
        return own if self.host == DEFAULT_HOSTS.get(self.provider, "") else f"{self.host}/{own}"

    @property
    def key(self) -> str:
        """The identity: the written form with the letter case folded."""
        return str(self).lower()

    @property
    def slug(self) -> str:
        """A name for files and tmux sessions, `[a-z0-9_-]+`; two items never share one.

        A plain github.com ref gives `owner-repo-number`, one of another provider has that before it. Whenever that would
        not be unique or a character would be lost, a hash of the identity is appended.
        """
        plain = all(_PLAIN.match(part.lower()) for part in (self.provider, self.owner, self.repo))
        if plain and self.host == DEFAULT_HOSTS.get(self.provider, ""):
            provider = "" if self.provider == "github" else f"{self.provider}-"
            return f"{provider}{self.owner}-{self.repo}-{self.number}".lower()
        words = re.sub(r"[^a-z0-9_]+", "-", f"{self.owner}-{self.repo}".lower()).strip("-")[:60]
        digest = hashlib.sha256(self.key.encode()).hexdigest()[:8]
        return f"{words}-{self.number}-x{digest}"

    @property
    def sort_key(self) -> tuple[str, str, str, str, int]:
        """Orders refs by provider, host, owner, repository and number."""
        return (self.provider, self.host.lower(), self.owner.lower(), self.repo.lower(), self.number)

    def __str__(self) -> str:
        return f"{self.provider}:{self.repository}#{self.number}"

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, WorkItemRef) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)


def repository(text: str, host: str = DEFAULT_HOSTS["github"]) -> tuple[str, str]:
    """Split `owner/repo` or `host/owner/repo` into the host and `owner/repo`; `host` is for the short form.

    Raises ValueError with a sentence that says what is wrong.
    """
    short = text.count("/") == 1
    try:
        ref = WorkItemRef.parse(f"{host}/{text}#1" if short else f"{text}#1", "github")
    except ValueError:
        msg = f"{text!r} is no repository: write owner/repo or host/owner/repo"
        raise ValueError(msg) from None
    return ref.host, f"{ref.owner}/{ref.repo}"
