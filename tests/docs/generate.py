"""Bring the documentation up to date: `python -m tests.docs.generate`.

Rewrites the generated parts of all pages and, with `--play`, what the commands of the executed pages print.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.docs import reference
from tests.docs.pages import Fence, name_of, pages, with_regions
from tests.docs.walkthrough import Step, Walk, play, reader, rewritten
from tests.fake_github.server import FakeGitHub
from tests.support import ROOT

#: The pages whose commands are run, in order, each on a machine of its own.
EXECUTED = (ROOT / "README.md", ROOT / "docs" / "tutorial.md", ROOT / "docs" / "take-over.md")


#: What README.md takes for granted: three running agents on items of which two have ended since.
_CONFIG = """\
state: {root: state}
polling: {sources: [{provider: github, repos: [octo/app], label: agent}]}
harnesses: {agent: {argv: [sh, agent.sh]}}
routing: {defaultHarness: agent}
"""
_AGENT = """\
echo "working on $LOOPCTL_REF"
nohup sleep 100000 >/dev/null 2>&1 &
trap 'echo "saving my work"; exit 0' TERM
while :; do sleep 100000 & wait $!; done 2>/dev/null
"""
_START = """\
- rules:
    - match: {item: {state: open}}
      ensure: {session: running}
"""


def executed(page: Path, text: str) -> list[tuple[Fence, list[Step]]]:
    """Run the commands of a page on a fresh machine."""
    with FakeGitHub() as github, reader() as walk:
        walk.env |= github.env()
        github.issue("octo/app", 15, title="Add a dark mode", labels=("agent",))
        github.pull("octo/app", 16, title="Speed up the parser", labels=("agent",))
        if page.name == "README.md":
            _three_agents(walk, github)
        walk.elsewhere["gh issue close 15 --repo octo/app"] = lambda: _end(github, 15, "CLOSED")
        return play(text, walk)


def _three_agents(walk: Walk, github: FakeGitHub) -> None:
    github.issue("octo/app", 22, title="Write the manual", labels=("agent",))
    for name, text in ((".loopctl/config.yaml", _CONFIG), ("agent.sh", _AGENT), ("start.yml", _START)):
        walk.write(name, text)
    said = walk.run("loopctl apply start.yml -y")
    if walk.code:
        raise RuntimeError(said)
    _end(github, 15, "CLOSED")
    _end(github, 16, "MERGED")


def _end(github: FakeGitHub, number: int, state: str) -> None:
    github.change("octo/app", number, state=state, closed_at=f"{datetime.now(UTC):%FT%TZ}")


def main(arguments: list[str]) -> None:
    """Rewrite what differs and say so."""
    content = reference.content()
    for page in pages():
        text = page.read_text("utf-8")
        new = with_regions(text, content)
        if "--play" in arguments and page in EXECUTED:
            new = rewritten(new, executed(page, new))
        _write(page, text, new)


def _write(page: Path, old: str, new: str) -> None:
    if old != new:
        page.write_text(new, "utf-8")
        sys.stdout.write(f"rewrote {name_of(page)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
