from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.playbook.support import compiled, problems_of, told

BOOK = "- rules:\n    - match: {{item: {{state: open}}}}\n      ensure: {{{ensure}}}\n"


def test_a_rule_may_pass_comments_on_to_the_agent_that_it_wants_to_run(tmp_path: Path) -> None:
    book = compiled(tmp_path, BOOK.format(ensure="session: running, deliver: comments"))
    assert book.plays[0].rules[0].ensure.deliver == "comments"


@pytest.mark.parametrize("ensure", ["session: retained, deliver: comments", "deliver: comments, harness: claude"])
def test_of_no_other_state_there_is_anybody_to_tell(tmp_path: Path, ensure: str) -> None:
    problems = problems_of(lambda: compiled(tmp_path, BOOK.format(ensure=ensure)))
    column = BOOK.splitlines()[2].index("{") + ensure.index("deliver") + 1
    (where,) = [(line, at) for line, at, message in told(problems) if "needs `session: running` beside it" in message]
    assert where[0] == 3
    assert where[1] >= column


def test_nothing_else_can_be_passed_on(tmp_path: Path) -> None:
    assert problems_of(lambda: compiled(tmp_path, BOOK.format(ensure="session: running, deliver: everything")))
