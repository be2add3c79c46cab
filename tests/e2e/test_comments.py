"""What is said on the items of a GitHub, through the installed command, real tmux and real gh."""

from __future__ import annotations

import json
import signal

import pytest

from tests.e2e.kit import Box, Saboteur
from tests.fake_github import FakeGitHub

pytestmark = [pytest.mark.gh, pytest.mark.tmux]

REPO = "octo/app"


def book(running: str) -> str:
    rules = [
        {"name": state, "match": {"item": {"state": item}}, "ensure": {"session": session, "comment": comment}}
        for state, item, session, comment in (
            ("open", ["open"], "running", running),
            ("over", ["closed", "merged"], "retained", "default"),
        )
    ]
    return json.dumps([{"name": "the whole life", "limits": {"max_fraction": 1}, "rules": rules}])


def told(hub: FakeGitHub, number: int) -> list[str]:
    """The comments on an item, without their hidden marks."""
    return [remark.body.partition(" -->\n")[2] for remark in hub.remarks(REPO, number)]


def apply(box: Box, code: int = 0, **options: dict[str, str]) -> None:
    done = box.run("apply", "book.yml", "-y", **options)  # type: ignore[arg-type]
    assert done.code == code, done


def settled(box: Box) -> None:
    plan = box.run("plan", "book.yml", "--detailed-exitcode", "--format", "json")
    assert (plan.code, plan.json["actions"], plan.json["held"]) == (0, [], []), plan


def test_an_item_is_told_once_of_each_state_whatever_happens(box: Box, fake_github: FakeGitHub) -> None:
    box.env |= fake_github.env()
    box.github(REPO)
    box.playbook("book.yml", book("default"))
    for number in (1, 2):
        fake_github.issue(REPO, number, labels=("agent",), title="@octo/everybody #1 <b>")
    plan = box.run("plan", "book.yml")
    assert "    comment     An agent is at work on this." in plan.out, plan
    apply(box)
    box.wait_ready([row["ref"] for row in box.records()])
    assert f"loopctl sessions attach github:{REPO}#1" in told(fake_github, 1)[0]
    settled(box)

    box.playbook("book.yml", book("{{ item.title }}"))
    apply(box)
    quoted = "&#64;&#8203;octo/everybody &#35;&#8203;1 &#60;b&#62;"
    assert (told(fake_github, 1), told(fake_github, 2)) == ([quoted], [quoted])
    settled(box)

    saboteur = Saboteur(box, "gh")
    fake_github.change(REPO, 1, state="CLOSED")
    apply(box, env=saboteur.env)
    assert len(told(fake_github, 1)) == 2
    calls = saboteur.count
    # The last call of gh is the one that posts: killed right after it, nobody remembers.
    fake_github.change(REPO, 2, state="CLOSED")
    saboteur.arm(f"after {calls}")
    apply(box, -signal.SIGKILL, env=saboteur.env)
    assert len(told(fake_github, 2)) == 2
    assert {row["status"] for row in box.records()} == {"closed"}
    apply(box)
    settled(box)
    for number in (1, 2):
        _, last = told(fake_github, number)
        assert f"loopctl sessions log github:{REPO}#{number}" in last
    everything = json.dumps([remark.body for number in (1, 2) for remark in fake_github.remarks(REPO, number)])
    for row in box.records():
        for secret in (row["id"], row["cwd"], row["machine"], row["pane_id"]):
            assert secret not in everything
