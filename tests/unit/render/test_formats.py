"""JSON, Markdown and workflow commands."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from loopctl.model.encode import outcome_to_dict, plan_from_dict, plan_to_dict
from loopctl.model.plan import Held
from loopctl.model.rules import Position
from loopctl.render import RENDERERS, View
from loopctl.render.json import json_line, json_text
from loopctl.render.markdown import escape
from tests.unit.render.samples import (
    HOSTILE,
    closing,
    hostile_everywhere,
    hostile_outcome,
    hostile_plan,
    outcome,
    ref,
    rich_plan,
)

MARKDOWN, GITHUB, JSON = RENDERERS["markdown"], RENDERERS["github"], RENDERERS["json"]


def test_the_formats_are_those_of_the_command_line() -> None:
    assert set(RENDERERS) == {"text", "json", "markdown", "github"}


@pytest.mark.parametrize("name", list(RENDERERS))
def test_foreign_text_leaves_nothing_behind_that_acts(name: str) -> None:
    for text in (
        RENDERERS[name].plan(hostile_plan(), View(refusal=HOSTILE)),
        RENDERERS[name].outcome(hostile_outcome(), View()),
    ):
        assert "ghp_EXAMPLE" not in text
        assert not any(character in text for character in "\x1b\x07\r\u202e\u202c\u200b\u2028\ud800")
        assert text.endswith("\n")
        text.encode("utf-8")


@pytest.mark.parametrize("name", ["text", "markdown", "github"])
def test_foreign_text_is_harmless_in_whatever_field_it_comes(name: str) -> None:
    text = RENDERERS[name].plan(hostile_everywhere(), View(transcripts=HOSTILE))
    assert "ghp_EXAMPLE" not in text
    assert not any(character in text for character in "\x1b\x07\r\u202e\u202c\u200b\u2028\ud800")
    assert text.splitlines()[-1].startswith("Plan: 1 to start, ")
    ours = r"::(notice|warning|error) (file|title)="
    assert all(re.match(ours, line) for line in text.splitlines() if line.startswith("::"))


def test_json_is_the_dictionary_in_ascii() -> None:
    text = JSON.plan(hostile_plan(), View())
    assert text.isascii()
    assert json.loads(text) == plan_to_dict(hostile_plan())
    assert plan_from_dict(json.loads(JSON.plan(rich_plan(), View()))) == rich_plan()
    assert json.loads(JSON.outcome(outcome(), View())) == outcome_to_dict(outcome())


def test_no_json_has_a_command_for_a_ci_runner_in_it() -> None:
    told = {"##[add-mask]x": "::stop-commands::x\n##[error]y \ud800 \x9b \u202e"}
    for text in (json_text(told), json_line(told)):
        assert json.loads(text) == told
        assert text.isascii()
        assert "##[" not in text
        assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert json_line({"at": Position("f", 1, 2)}).count("\n") == 0


def test_a_plan_in_markdown() -> None:
    text = MARKDOWN.plan(replace(rich_plan(), actions=(closing(),), outside=()), View(refusal="too many"))
    assert text.startswith(
        "### loopctl plan\n\n"
        "| Change | Item | From, to | Why | Rule |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| close | `github:octo/app#15` | running to retained | issue closed as completed 12 min ago"
        " | <code>close-ended-items.yml:9</code> closed or merged |\n"
        "| held | `github:octo/app#22` |  | GitHub: Bad Gateway (HTTP 502) |  |\n\n"
        "**Refused:** too many\n\n"
        "- github: the listing was cut\n"
        "- 1 session of another machine is out of scope\n\n"
        "<details><summary>Details</summary>\n\n```text\n- close  github:octo/app#15 "
    )


def test_an_outcome_in_markdown() -> None:
    assert MARKDOWN.outcome(outcome(), View()) == (
        "### loopctl apply\n\n"
        "| Result | Change | Item | Detail |\n"
        "| --- | --- | --- | --- |\n"
        "| changed | close | `github:octo/app#15` | 4 processes ended, SIGKILL for node (812) |\n"
        "| stale | close | `github:octo/app#16` | the pane's process is another one |\n"
        "| failed | close | `github:octo/app#17` | claude (811) is alive |\n"
        "| held |  | `github:octo/app#22` | GitHub: Bad Gateway (HTTP 502) |\n\n"
        "- one grace period\n\n"
        "Apply: 1 changed, 0 ok, 1 stale, 1 failed, 1 held.\n"
    )


def test_nothing_to_do_in_markdown() -> None:
    text = MARKDOWN.plan(replace(rich_plan(), actions=(), held=(), notes=(), problems=(), outside=()), View())
    assert text == "### loopctl plan\n\nNo changes.\n\n" + text.splitlines()[-1] + "\n"


def outside_fences(text: str) -> str:
    return re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "piece",
    [
        "<script>",
        "`code`",
        "**bold**",
        "[link]",
        "![i]",
        "](",
        "@octocat",
        " #12",
        "https://",
        "http://",
        "| cell",
        "##[",
    ],
)
def test_markdown_injection(piece: str) -> None:
    for text in (MARKDOWN.plan(hostile_plan(), View()), MARKDOWN.outcome(hostile_outcome(), View())):
        assert piece not in outside_fences(text)


def test_every_row_has_as_many_cells_as_its_head() -> None:
    for text in (MARKDOWN.plan(hostile_plan(), View()), MARKDOWN.outcome(hostile_outcome(), View())):
        rows = [line for line in outside_fences(text).splitlines() if line.startswith("|")]
        assert len(rows) >= 4
        assert len({row.count("|") for row in rows}) == 1


def test_a_mention_is_broken_after_decoding_too() -> None:
    assert escape("@octocat closes octo/app#1") == "&#64;&#8203;octocat closes octo/app&#35;&#8203;1"


def test_a_link_without_a_scheme_is_broken_too() -> None:
    assert escape("www.evil.example") == "www&#46;evil.example"


def test_backticks_cannot_end_the_block() -> None:
    plan = replace(hostile_plan(), actions=(closing(why="```` out\n```\n<b>"),))
    text = MARKDOWN.plan(plan, View())
    assert "\n`````text\n" in text
    assert "<b>" not in outside_fences(text)


def test_details_that_would_not_fit_a_comment_are_left_out() -> None:
    plan = replace(rich_plan(), actions=tuple(closing(n) for n in range(1, 200)))
    text = MARKDOWN.plan(plan, View())
    assert "<details>" not in text
    assert len(text) < 65_536


def test_a_plan_as_workflow_commands() -> None:
    assert GITHUB.plan(replace(rich_plan(), actions=(closing(),)), View(refusal="too many")) == (
        "::notice file=close-ended-items.yml,line=9,col=5,title=close github%3Aocto/app#15"
        "::running -> retained: issue closed as completed 12 min ago\n"
        "::warning title=held github%3Aocto/app#22::GitHub: Bad Gateway (HTTP 502)\n"
        "::warning title=loopctl plan::github: the listing was cut\n"
        "::notice title=loopctl plan::no source answers for items:demo/app#3: left alone\n"
        "::notice title=loopctl plan::1 session of another machine is out of scope\n"
        "::error title=loopctl plan refused::too many\n"
        "Plan: 0 to start, 1 to close, 0 to reap, 0 to record, 1 held, 14 unchanged.\n"
    )


def test_an_outcome_as_workflow_commands() -> None:
    lines = GITHUB.outcome(replace(outcome(), interrupted=True), View()).splitlines()
    assert [line.split(" ")[0] for line in lines] == [
        "::notice", "::warning", "::error", "::warning", "::notice", "::error", "Apply",
    ]  # fmt: skip
    assert lines[2].endswith("::failed: claude (811) is alive")


def test_workflow_commands_are_escaped() -> None:
    position = Position("odd,name:100%.yml", 3)
    plan = replace(hostile_plan(), actions=(replace(closing(why="50% done"), position=position),))
    line = GITHUB.plan(plan, View()).splitlines()[0]
    assert line.startswith("::notice file=odd%2Cname%3A100%25.yml,line=3,col=1,title=")
    assert line.endswith(": 50%25 done")


def test_no_line_is_a_command_that_is_not_ours() -> None:
    for text in (GITHUB.plan(hostile_plan(), View()), GITHUB.outcome(hostile_outcome(), View())):
        assert all(re.match(r"::(notice|warning|error) [a-z]+=|Plan: |Apply: ", line) for line in text.splitlines())
        assert "##[" not in text


def test_a_position_without_a_line_names_no_file() -> None:
    plan = replace(
        rich_plan(), actions=(replace(closing(), position=Position("(command line)")),), held=(Held(ref(), "?"),)
    )
    assert GITHUB.plan(plan, View()).startswith("::notice title=close github%3Aocto/app#15::")
