from __future__ import annotations

from pathlib import Path

import pytest

from loopctl.data import playbook_names
from loopctl.errors import DocumentError, UsageError
from loopctl.model.rules import Ensure, ItemMatch, Limits, Policy, Position, SessionMatch
from loopctl.playbook.compile import load_playbook, parse_extra_vars
from loopctl.playbook.durations import seconds
from tests.unit.playbook.support import compiled, problems_of, told

FULL = """\
- name: Everything
  hosts: [localhost, "web*"]
  vars:
    wait: 2m
    who: [ann, bob]
    num: 7
  limits: {max_changes: 3, max_fraction: 1}
  tags: nightly
  rules:
    - name: all criteria
      tags: [one, two]
      match:
        item: {provider: github, repo: octo/*, number: "{{ num }}", kind: issue, state: [closed, missing], reason: completed,
               labels: [x1, x2], labels_any: x3, author: "{{ who }}", assignee: ann, milestone: v1, closed_for: 14d}
        session: {phase: running, harness: claude, attached: false, older_than: 90}
      when: "item.author in who"
      ensure:
        session: gone
        kill_harness: false
        grace: "{{ wait }}"
        transcript: discarded
        prompt: "Bye {{ item.author }}, says {{ who[0] }}"
"""


def test_a_playbook_becomes_typed_rules(tmp_path: Path) -> None:
    play = compiled(tmp_path, FULL).plays[0]
    rule = play.rules[0]
    source = str(tmp_path / "book.yml")
    assert (play.name, play.hosts, play.limits) == ("Everything", ("localhost", "web*"), Limits(3, 1.0))
    assert rule.position == Position(source, 10, 7)
    assert rule.tags == {"one", "two", "nightly"}
    assert rule.match.item == ItemMatch(
        ("github",), ("octo/*",), (7,), ("issue",), ("closed", "missing"), ("completed",),
        ("x1", "x2"), ("x3",), ("ann", "bob"), ("ann",), ("v1",), 14 * 86400.0,
    )  # fmt: skip
    assert rule.match.session == SessionMatch(("running",), ("claude",), False, 90.0)
    ensure = rule.ensure
    assert (ensure.session, ensure.kill_harness, ensure.grace, ensure.transcript) == ("gone", False, 120.0, "discarded")
    assert rule.match.when is not None and ensure.prompt is not None
    assert rule.match.when({"item": {"author": "ann"}}) is True
    assert ensure.prompt({"item": {"author": "{{ num }}"}}) == "Bye {{ num }}, says ann"


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    text = "- rules:\n    - match: {item: {state: closed}}\n      ensure: {session: closed, branch: bye}\n"
    with pytest.raises(DocumentError) as caught:
        compiled(tmp_path, text)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (3, 33)
    assert problem.message == "branch needs `workspace: worktree` beside it"


@pytest.mark.parametrize(("cwd", "fits"), [("/srv", True), ("'{{ item.repo }}'", True), ("relative/dir", False), ("~/work", False)])  # fmt: skip
def test_the_folder_of_a_start_is_absolute(tmp_path: Path, cwd: str, fits: bool) -> None:
    text = f"- rules:\n    - match: {{item: {{state: open}}}}\n      ensure: {{session: running, cwd: {cwd}}}\n"
    if fits:
        assert compiled(tmp_path, text)
        return
    (problem,) = problems_of(lambda: compiled(tmp_path, text))
    assert (problem.line, problem.message) == (3, f"cwd must be an absolute path, not {cwd!r}")


@pytest.mark.parametrize(
    ("match", "state", "fits"),
    [
        ("session: {phase: retained}", "gone", True),
        ("session: {phase: [retained], closed_for: 1d}", "gone", True),
        ("session: {phase: retained}", "retained", False),
        ("session: {phase: [retained, undead]}", "gone", False),
        ("item: {state: closed}", "gone", False),
    ],
)
def test_keep_last_counts_retained_sessions_only(tmp_path: Path, match: str, state: str, fits: bool) -> None:
    text = f"- rules:\n    - match: {{{match}}}\n      ensure: {{session: {state}, keep_last: 5}}\n"
    if fits:
        assert compiled(tmp_path, text).plays[0].rules[0].ensure == Ensure(session="gone", keep_last=5)
        return
    (problem,) = problems_of(lambda: compiled(tmp_path, text))
    assert (problem.line, "keep_last counts retained sessions" in problem.message) == (3, True)


def test_pausing_and_how_long_a_session_is_closed(tmp_path: Path) -> None:
    text = "- rules:\n    - match: {session: {closed_for: 14d}}\n      ensure: {session: paused}\n"
    (rule,) = compiled(tmp_path, text).plays[0].rules
    assert (rule.match.session, rule.ensure) == (SessionMatch(closed_for=14 * 86400.0), Ensure(session="paused"))


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    play = compiled(
        tmp_path, "- rules:\n    - match: {item: {state: closed}}\n      ensure: {session: running}\n"
    ).plays[0]
    assert (play.name, play.hosts, play.limits, play.rules[0].name) == ("play 1", ("all",), Limits(), "rule 1")
    assert play.rules[0].ensure == Ensure(session="running")


@pytest.mark.parametrize(("keep", "state"), [(True, "retained"), (False, "gone")])
def test_closed_is_what_the_config_says(keep: bool, state: str) -> None:
    policy = Policy(keep_session_on_close=keep)
    playbook = load_playbook(["close-ended-items"], extra_vars={}, tags=frozenset(), policy=policy)
    ensure = playbook.plays[0].rules[0].ensure
    assert ensure == Ensure(session=state, transcript="kept")


def test_zero_and_false_are_said_and_not_left_out(tmp_path: Path) -> None:
    text = "- rules:\n    - match: {session: {attached: false, older_than: 0}}\n      ensure: {grace: 0, kill_harness: false}\n  limits: {max_changes: 0, max_fraction: 0}\n"
    play = compiled(tmp_path, text).plays[0]
    assert (play.limits, play.rules[0].ensure.grace, play.rules[0].ensure.kill_harness) == (Limits(0, 0.0), 0.0, False)
    assert play.rules[0].match.session == SessionMatch(attached=False, older_than=0.0)


@pytest.mark.parametrize("name", playbook_names())
def test_packaged_playbooks_load_with_and_without_their_ending(name: str) -> None:
    for given in (name, f"{name}.yml"):
        playbook = load_playbook([given], extra_vars={}, tags=frozenset(), policy=Policy())
        assert playbook.sources[0][0] == given
        assert playbook.plays[0].position.source == f"{name}.yml"


def test_the_loop_is_the_three_others(tmp_path: Path) -> None:
    def rules(*names: str) -> list[tuple[str, object, object]]:
        book = load_playbook(names, extra_vars={"label": "x"}, tags=frozenset(), policy=Policy())
        return [(rule.name, rule.match, rule.ensure) for play in book.plays for rule in play.rules]

    assert rules("keep-the-loop") == rules("ensure-labelled-items-running", "close-ended-items", "reap-retained-panes")


def test_a_path_goes_before_a_packaged_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("close-ended-items").write_text("- name: mine\n  rules: [{when: 'true', ensure: {grace: 1}}]\n")
    assert (
        load_playbook(["close-ended-items"], extra_vars={}, tags=frozenset(), policy=Policy()).plays[0].name == "mine"
    )


def test_a_missing_playbook_names_those_that_exist() -> None:
    problems = problems_of(
        lambda: load_playbook(["close-ended-itms"], extra_vars={}, tags=frozenset(), policy=Policy())
    )
    assert problems[0].message == "no such file, and no packaged playbook of that name"
    assert problems[0].hint == "did you mean 'close-ended-items'?"


def test_problems_of_all_playbooks_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("- ruels: []\n")
    (tmp_path / "b.yml").write_text("on: 1\n")
    paths = [str(tmp_path / name) for name in ("a.yml", "b.yml", "c.yml")]
    problems = problems_of(lambda: load_playbook(paths, extra_vars={}, tags=frozenset(), policy=Policy()))
    assert {p.source for p in problems} == set(paths)


RULE = "- rules:\n    - name: r\n      {}\n      ensure: {{session: closed}}\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tags: x", (2, 7, "this rule would apply to everything")),
        ("match: {}", (3, 7, "match must not be empty")),
        ("match: {item: {}}", (3, 15, "item must not be empty")),
        ("match: {item: {labels: []}}", (3, 22, "labels must not be empty")),
        ("match: {item: {labels: ''}}", (3, 22, "labels must not be empty")),
        ('match: "{{ labels.foo }}"', (3, 7, "'labels' is not defined")),
        ('when: "not items"', (3, 7, "'items' is not defined")),
        ("when: 'item.'", (3, 7, "template: expected name or number")),
        ('match: {item: {author: "{{ item.author }}"}}', (3, 22, "'item' is only known when a plan is made")),
        ('match: {item: {author: "{{ [] }}"}}', (3, 22, "author must not be empty")),
    ],
)
def test_an_empty_selector_never_means_everything(tmp_path: Path, line: str, expected: tuple[int, int, str]) -> None:
    assert told(problems_of(lambda: compiled(tmp_path, RULE.format(line)))) == [expected]


def test_rendered_values_are_checked_after_rendering(tmp_path: Path) -> None:
    text = "- vars: {state: clsoed, grace: soon}\n  rules:\n    - match:\n        item: {state: '{{ state }}'}\n      ensure:\n        grace: '{{ grace }}'\n"
    problems = problems_of(lambda: compiled(tmp_path, text))
    assert [(p.line, p.column) for p in problems] == [(4, 16), (6, 9)]
    assert compiled(tmp_path, text, extra={"state": "closed", "grace": 0}).plays[0].rules[0].ensure.grace == 0.0


def test_a_value_that_looks_like_a_template_after_rendering_is_no_duration(tmp_path: Path) -> None:
    text = "- vars: {g: 1}\n  rules:\n    - when: 'true'\n      ensure: {grace: '{{ g }}'}\n"
    problems = problems_of(lambda: compiled(tmp_path, text, extra={"g": "{{ 5 }}"}))
    assert told(problems) == [(4, 16, "grace is no duration: write seconds, or 5s, 10m, 2h, 14d")]


def test_expressions_are_checked_beside_other_faults(tmp_path: Path) -> None:
    text = "- hots: x\n  rules:\n    - when: itme.x\n      ensure: {session: shut, prompt: '{{ foo }}', comment: 3}\n"
    problems = problems_of(lambda: compiled(tmp_path, text))
    assert [(p.line, p.column) for p in problems] == [(1, 3), (3, 7), (4, 16), (4, 31), (4, 52)]


def test_a_variable_cannot_hide_a_fact(tmp_path: Path) -> None:
    text = "- vars: {item: 1}\n  rules: [{when: 'true', ensure: {grace: 1}}]\n"
    assert told(problems_of(lambda: compiled(tmp_path, text))) == [
        (1, 10, "'item' is taken: it means something in templates")
    ]


def test_the_digest_is_of_the_text_and_of_extra_variables(tmp_path: Path) -> None:
    text = "- rules: [{when: 'a is defined', ensure: {grace: 1}}]\n"
    digests = [
        compiled(tmp_path, t, extra=e).sources[0][1]
        for t, e in ((text, {"a": 0}), (text, {"a": 1}), (text + "#", {"a": 0}), (text, {"a": 0}))
    ]
    assert len(set(digests)) == 3 and digests[0] == digests[3]
    assert all(len(digest) == 64 for digest in digests)


TAGGED = """\
- tags: play
  rules:
    - {name: plain, when: "true", ensure: {grace: 1}}
    - {name: one, tags: "one, both", when: "true", ensure: {grace: 1}}
    - {name: two, tags: [two, both], when: "true", ensure: {grace: 1}}
    - {name: ever, tags: always, when: "true", ensure: {grace: 1}}
    - {name: seldom, tags: [never, debug], when: "true", ensure: {grace: 1}}
- rules: [{name: bare, when: "true", ensure: {grace: 1}}]
"""


@pytest.mark.parametrize(
    ("tags", "names"),
    [
        ("", "plain one two ever bare"),
        ("one", "one ever"),
        ("both", "one two ever"),
        ("one,two", "one two ever"),
        ("play", "plain one two ever seldom"),
        ("debug", "ever seldom"),
        ("never", "ever seldom"),
        ("all", "plain one two ever bare"),
        ("tagged", "plain one two ever"),
        ("untagged", "ever bare"),
    ],
)
def test_tags_as_in_ansible(tmp_path: Path, tags: str, names: str) -> None:
    playbook = compiled(tmp_path, TAGGED, tags=tags)
    assert " ".join(rule.name for play in playbook.plays for rule in play.rules) == names


def test_a_tag_that_nothing_has_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        compiled(tmp_path, TAGGED, tags="bothh")
    assert caught.value.hint == "did you mean 'both'?"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("a=5s", "5s"), ("a=5", 5), ("a=0.5", 0.5), ("a=true", True), ("a=false", False), ("a=yes", "yes"), ("a=012", "012"),
        ("a=", ""), ("a=x=y z", "x=y z"), ("a='3.10'", "3.10"), ('a="true"', "true"), ("a=null", "null"), ("a={{ b }}", "{{ b }}"),
        ('{"a": [1, "x"]}', [1, "x"]), ("a=2026-01-01", "2026-01-01"), ("a=99999999999999999999", "99999999999999999999"),
    ],
)  # fmt: skip
def test_extra_variables(argument: str, value: object) -> None:
    found = parse_extra_vars([argument])["a"]
    assert (found, type(found)) == (value, type(value))


def test_extra_variables_from_a_file_and_the_last_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "vars.yml"
    path.write_text("a: 1\nb: two\n")
    assert parse_extra_vars([f"@{path}", "a=3"]) == {"a": 3, "b": "two"}
    path.write_text("a: no\n")
    assert told(problems_of(lambda: parse_extra_vars([f"@{path}"])))[0][:2] == (1, 4)


@pytest.mark.parametrize("argument", ["a", "", "=1", "a-b=1", "item=1", "{", "{]", '{"a": NaN}', "[1]", "{" * 50_000])
def test_wrong_extra_variables_are_a_usage_error(argument: str) -> None:
    with pytest.raises(UsageError):
        parse_extra_vars([argument])


def test_an_extra_variable_file_without_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "vars.yml"
    path.write_text("- a\n")
    with pytest.raises(UsageError):
        parse_extra_vars([f"@{path}"])
    with pytest.raises(DocumentError):
        parse_extra_vars([f"@{tmp_path / 'none.yml'}"])


@pytest.mark.parametrize(("text", "value"), [(0, 0), (5, 5), (1.5, 1.5), ("5s", 5), ("10m", 600), ("2h", 7200), ("14d", 1209600), ("1.5 h", 5400)])  # fmt: skip
def test_durations(text: object, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "5x", "5s5s", "1e9d", True, None, -1, [5], float("nan")])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="no duration"):
        seconds(text)


VARIED = "- vars: {keep: 1d}\n  rules:\n    - {when: 'item.title == word', ensure: {session: closed, grace: '{{ wait }}', cwd: /x}}\n"


@pytest.mark.parametrize(("name", "hint"), [("kepe", "did you mean 'keep'?"), ("session", ""), ("cwd", "")])
def test_an_extra_variable_that_nobody_has_is_refused(tmp_path: Path, name: str, hint: str) -> None:
    known = {"wait": 1, "word": "x"}
    assert compiled(tmp_path, VARIED, extra=known | {"keep": "2d"})
    with pytest.raises(UsageError, match=f"no playbook has a variable '{name}'") as refused:
        compiled(tmp_path, VARIED, extra=known | {name: "x"})
    assert hint in refused.value.hint


def test_a_variable_of_one_playbook_may_be_set_for_several(tmp_path: Path) -> None:
    (tmp_path / "book.yml").write_text(VARIED)
    paths = ["keep-the-loop", str(tmp_path / "book.yml")]
    extra = {"wait": 1, "word": "x", "label": "agent"}
    assert load_playbook(paths, extra_vars=extra, tags=frozenset(), policy=Policy())
