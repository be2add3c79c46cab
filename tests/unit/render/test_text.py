from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from loopctl.model.plan import Before, Outcome, Plan
from loopctl.render import RENDERERS, View
from tests.unit.render.samples import (
    NOW,
    closing,
    hostile_outcome,
    hostile_plan,
    other,
    outcome,
    rich_plan,
)

TEXT = RENDERERS["text"]


def plan_of(*numbers: int, **changes: object) -> Plan:
    values: dict[str, object] = {"actions": tuple(closing(n) for n in numbers)} | changes
    return replace(Plan(NOW, "desk", "r-1"), **values)  # type: ignore[arg-type]


def test_a_plan_looks_as_designed() -> None:
    plan = replace(rich_plan(), actions=(closing(),), outside=(), notes=(), problems=())
    assert TEXT.plan(plan, View(transcripts="~/.local/state/loopctl/transcripts")) == (
        "- close  github:octo/app#15   running -> retained    %7 claude, up 3h, 4 processes\n"
        '    issue closed as completed 12 min ago             close-ended-items.yml:9 "closed or merged"\n'
        "    registry    active -> closed (issue-closed)\n"
        "    pane        live -> dead, input off\n"
        "    transcript  -> ~/.local/state/loopctl/transcripts/octo-app-15-7b1c9e52.txt\n"
        "! held   github:octo/app#22   GitHub: Bad Gateway (HTTP 502)\n"
        "\n"
        "Plan: 0 to start, 1 to close, 0 to reap, 0 to record, 1 held, 14 unchanged.\n"
    )


def test_each_part_that_changes_has_its_line() -> None:
    text = TEXT.plan(rich_plan(), View())
    for line in (
        "+ start    github:octo/app#16   absent -> running      claude\n",
        "    registry    -> active\n    pane        -> live\n    folder      /src\n    prompt      - do it\n",
        "~ resume   github:octo/app#17   paused -> running\n",
        "- reap     github:octo/app#18   retained -> gone       %9 codex, 1 process, 2 clients attached\n",
        "    transcript  -> discarded\n",
        "    spares      tmux (812), ssh-agent (90): shared by others\n",
        "    beside      %10: other panes of this session, left alone\n",
        "~ record   github:octo/app#19   lost -> gone\n",
        "~ comment  github:octo/app#20   running -> running\n",
        "    comment     Bye ...\n",
        "! unseen   github: the listing was cut\n",
        "note: no source answers for items:demo/app#3: left alone\n",
        "note: 1 session of another machine is out of scope\n",
    ):
        assert line in text


def test_a_session_without_a_pane_has_no_transcript_line() -> None:
    block = TEXT.plan(rich_plan(), View()).partition("~ record")[2].partition("~ comment")[0]
    assert "registry    active -> closed (lost)" in block
    assert "transcript" not in block


def test_an_agent_that_is_kept_is_said_to_be() -> None:
    action = closing()
    action = replace(action, after=replace(action.after, kill_harness=False, pane="live"))
    text = TEXT.plan(plan_of(actions=(action,)), View())
    assert "    pane        input off\n    harness     left running\n" in text


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (replace(rich_plan(), actions=(), held=(), problems=()), "No changes. Everything is as the playbook says.\n"),
        (plan_of(unchanged=14), "No changes.\n"),
        (replace(rich_plan(), actions=()), "No changes, but not everything is settled.\n"),
        (plan_of(problems=("github: cut",)), "No changes, but not everything is settled.\n"),
    ],
)
def test_nothing_to_do_is_said(plan: Plan, line: str) -> None:
    assert line in TEXT.plan(plan, View())
    assert "No changes" not in TEXT.plan(plan_of(1), View())


def test_rare_verbs_are_counted_when_they_occur() -> None:
    assert TEXT.plan(rich_plan(), View()).splitlines()[-1] == (
        "Plan: 1 to start, 1 to resume, 1 to close, 1 to reap, 1 to record, 1 to comment, 1 held, 14 unchanged."
    )


@pytest.mark.parametrize("name", ["text", "markdown", "github"])
@pytest.mark.parametrize("plan", [rich_plan(), hostile_plan(), plan_of(), plan_of(1, 2, 3, unchanged=5)])
def test_the_counts_are_last_and_are_the_summary(name: str, plan: Plan) -> None:
    last = RENDERERS[name].plan(plan, View(refusal="too much")).splitlines()[-1]
    assert last.startswith("Plan: ")
    assert [int(word) for word in last.replace(":", "").split() if word.isdigit()] == [
        count for verb, count in plan.summary.items() if count or verb not in {"resume", "comment", "deliver"}
    ]


def test_columns_are_aligned() -> None:
    lines = TEXT.plan(plan_of(1, 222, 33333), View()).splitlines()
    heads = [line for line in lines if line.startswith("- ")]
    assert len({line.index("running ->") for line in heads}) == 1
    assert (
        len(
            {line.index("%7") for line in heads}
            | {line.index("close-ended") for line in lines if "close-ended" in line}
        )
        == 1
    )


def test_a_long_reason_pushes_nobody_else_aside() -> None:
    plan = plan_of(actions=(closing(1), closing(2, why="because " * 20)))
    lines = TEXT.plan(plan, View()).splitlines()
    assert all(line.index("%7") < 60 for line in lines if "%7" in line)


def test_a_refusal_is_shown_with_the_plan() -> None:
    text = TEXT.plan(plan_of(1), View(refusal="11 changes are more than 10: --max-changes 11"))
    assert "! refused  11 changes are more than 10: --max-changes 11\n" in text
    assert "- close  github:octo/app#1 " in text


def test_ages_come_from_the_view_or_the_plan() -> None:
    assert "up 3h" in TEXT.plan(plan_of(1), View())
    assert "up 5h" in TEXT.plan(plan_of(1), View(now=NOW + timedelta(hours=2)))


def test_only_words_at_the_front_are_coloured_and_only_when_asked() -> None:
    plain, coloured = TEXT.plan(rich_plan(), View()), TEXT.plan(rich_plan(), View(color=True))
    assert "\x1b" not in plain
    assert "\x1b[31m-\x1b[0m close " in coloured
    for code in ("\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[35m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_what_is_ours_is_ascii() -> None:
    assert TEXT.plan(rich_plan(), View(refusal="no")).isascii()
    assert TEXT.outcome(outcome(), View()).isascii()


def test_lines_end_without_spaces_and_text_with_one_newline() -> None:
    for text in (TEXT.plan(rich_plan(), View()), TEXT.outcome(outcome(), View())):
        assert all(line == line.rstrip() for line in text.split("\n"))
        assert text.endswith(".\n")


def test_an_outcome_is_a_line_for_each_action() -> None:
    assert TEXT.outcome(outcome(), View()) == (
        "changed  close  github:octo/app#15   4 processes ended, SIGKILL for node (812)\n"
        "stale    close  github:octo/app#16   the pane's process is another one\n"
        "failed   close  github:octo/app#17   claude (811) is alive\n"
        "held            github:octo/app#22   GitHub: Bad Gateway (HTTP 502)\n"
        "note: one grace period\n"
        "\n"
        "Apply: 1 changed, 0 ok, 1 stale, 1 failed, 1 held.\n"
    )


def test_an_empty_outcome_and_an_interrupted_one() -> None:
    assert TEXT.outcome(Outcome(), View()) == "Apply: 0 changed, 0 ok, 0 stale, 0 failed, 0 held.\n"
    text = TEXT.outcome(replace(outcome(), interrupted=True), View())
    assert "Interrupted: what was done is recorded; the next run finishes the rest.\n" in text
    assert text.splitlines()[-1] == "Apply (interrupted): 1 changed, 0 ok, 1 stale, 1 failed, 1 held."


@pytest.mark.parametrize("color", [False, True])
def test_foreign_text_stays_on_its_line_and_keeps_no_secret(color: bool) -> None:
    view = View(color=color)
    for text, calm in (
        (
            TEXT.plan(hostile_plan(), view),
            TEXT.plan(replace(hostile_plan(), actions=(closing(),), held=(), notes=("n",)), view),
        ),
        (TEXT.outcome(hostile_outcome(), view), TEXT.outcome(replace(hostile_outcome(), held=(), notes=("n",)), view)),
    ):
        assert text.count("\n") == calm.count("\n") + 1, "one line more: what is held"
        assert "ghp_EXAMPLE" not in text
        assert not any(line.startswith(("::", "##")) for line in text.splitlines())
        assert not any(character in text for character in "\u202e\u200b\u2028\x07\r")
        assert "\x1b]" not in text
        assert text.count("\x1b") == (calm.count("\x1b") + 2 if color else 0)
        text.encode("utf-8")


def test_an_unknown_verb_column_holds_a_single_held_item() -> None:
    plan = plan_of(held=rich_plan().held)
    assert "! held   github:octo/app#22   GitHub: Bad Gateway (HTTP 502)\n" in TEXT.plan(plan, View())


def test_a_start_without_a_session_says_what_starts() -> None:
    action = other(
        "start", 16, Before("absent"), replace(closing().after, phase="running", harness="codex", transcript="")
    )
    assert "+ start  github:octo/app#16   absent -> running    codex\n" in TEXT.plan(plan_of(actions=(action,)), View())
