from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from loopctl.playbook.document import parse_text
from loopctl.playbook.templates import Compiled, compile_template, compile_when, render_vars
from tests.unit.playbook.support import problems_of


def rendered(text: str, extra: Mapping[str, object] | None = None) -> dict[str, object]:
    values, problems = render_vars(parse_text(text, "f.yml"), (), extra or {})
    assert problems == []
    return values


def refused(template: str, before: str = "a: x\n") -> list[str]:
    text = before + "b: |-\n  " + template + "\n"
    _, problems = render_vars(parse_text(text, "f.yml"), (), {})
    assert {p.where for p in problems} == {f"f.yml:{before.count(chr(10)) + 1}:1"}
    return [p.message for p in problems]


def condition(text: str, variables: Mapping[str, object] | None = None) -> Compiled:
    return compile_when(parse_text("when: |-\n  " + text, "f.yml"), ("when",), variables or {})


def prompt(text: str, variables: Mapping[str, object] | None = None) -> Compiled:
    return compile_template(parse_text("prompt: |-\n  " + text, "f.yml"), ("prompt",), variables or {})


def test_a_single_expression_keeps_the_type_of_its_result() -> None:
    text = "k: 5\na: '{{ k }}'\nb: '{{ k }}s'\nc: '{{ [k, true, 0.5] }}'\nd: '{{- k > 3 -}}'\ne: {x: ['{{ k }}']}\n"
    assert rendered(text) == {"k": 5, "a": 5, "b": "5s", "c": [5, True, 0.5], "d": True, "e": {"x": [5]}}


def test_later_variables_see_earlier_ones_and_not_the_other_way_round() -> None:
    assert rendered("a: x\nb: '{{ a }}y'\n")["b"] == "xy"
    _, problems = render_vars(parse_text("b: '{{ a }}y'\na: x\n", "f.yml"), (), {})
    assert [p.message for p in problems] == ["'a' is not defined"]


def test_extra_variables_win_and_are_data() -> None:
    values = rendered("a: 1\nb: '{{ a }}'\nc: '{{ d }}'\n", {"a": "{{ 7*7 }}", "d": 2})
    assert values == {"a": "{{ 7*7 }}", "b": "{{ 7*7 }}", "c": 2, "d": 2}


def test_what_was_rendered_is_not_rendered_again() -> None:
    assert rendered("a: \"{{ '{{ 7*7 }}' }}\"\nb: 'x{{ a }}'\n") == {"a": "{{ 7*7 }}", "b": "x{{ 7*7 }}"}


def test_a_title_from_outside_is_data() -> None:
    title = "{{ 7*7 }} {% for x in ().__class__.__base__.__subclasses__() %}"
    assert prompt("Do {{ item.title }}")({"item": {"title": title}}) == f"Do {title}"


def test_unknown_names_are_all_found_when_the_playbook_is_loaded() -> None:
    problems = problems_of(lambda: prompt("{{ itme.number }} {{ foo }} {{ item.number }}"))
    assert [(p.where, p.message, p.hint) for p in problems] == [
        ("f.yml:1:1", "'foo' is not defined", "define it in vars, or give it with -e"),
        ("f.yml:1:1", "'itme' is not defined", "did you mean 'item'?"),
    ]
    assert [p.message for p in problems_of(lambda: condition("not items"))] == ["'items' is not defined"]


def test_facts_are_not_there_before_a_plan_is_made() -> None:
    assert refused("{{ item.title }}") == ["'item' is only known when a plan is made"]


@pytest.mark.parametrize(
    "text", ["session.phase == 'a'", "session.phase", "not session.phase", "item.labels.foo", "item[v]", "not item[v]"]
)
def test_an_undefined_fact_is_an_error_and_not_false(text: str) -> None:
    expression = condition(text, {"v": "titel"})
    problems = problems_of(lambda: expression({"item": {"title": "a", "labels": []}}))
    assert [p.where for p in problems] == ["f.yml:1:1"]
    assert " object" not in problems[0].message


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("item.tittle", "'item.tittle' is not defined", "did you mean 'title'?"),
        ("item['tittle']", "'item.tittle' is not defined", "did you mean 'title'?"),
        ("session.fase == 'lost'", "'session.fase' is not defined", "did you mean 'phase'?"),
        ("item.number = 3", "template: '=' has no place here", "== compares"),
        ("item.number == 3)", "template: unexpected ')'", ""),
        ("(item.number", "template: ')' is missing", ""),
        ("item.number ==", "template: it breaks off", ""),
        ("item.number ! 3", "template: unexpected char '!'", ""),
    ],
)
def test_what_is_wrong_is_told_at_load_in_words_of_the_text(text: str, message: str, hint: str) -> None:
    assert [(p.message, p.hint) for p in problems_of(lambda: condition(text))] == [(message, hint)]


@pytest.mark.parametrize(
    ("text", "message"),
    [("{% if v %}", "'if' is not closed"), ("{{ v", "it breaks off"), ("{{ v|x }}", "No filter named 'x'")],
)
def test_a_template_that_is_no_template_says_where_it_is_wrong(text: str, message: str) -> None:
    assert [p.message for p in problems_of(lambda: prompt(text, {"v": 1}))] == [f"template: {message}"]


def test_what_only_looks_like_a_fact_is_no_misspelling() -> None:
    assert prompt("{{ comment.x }}", {"comment": {"x": 1}})({}) == "1"
    assert prompt("{% for item in [{'x': 1}] %}{{ item.x }}{% endfor %}")({}) == "1"
    assert prompt("{{ item.get('x', 1) }}")({"item": {}}) == "1"


def test_a_condition_is_true_or_false() -> None:
    when = condition(
        "'bug' in item.labels and limit < 3 and now - item.closed_at > item.closed_at - item.closed_at", {"limit": 2}
    )
    now = datetime(2026, 1, 2, tzinfo=UTC)
    facts = {"item": {"labels": ["bug"], "closed_at": now - timedelta(days=1)}, "now": now}
    assert when(facts) is True
    assert when({**facts, "item": {"labels": [], "closed_at": now}}) is False
    assert when.names == {"item", "now"}


def test_a_condition_has_no_braces() -> None:
    assert [p.message for p in problems_of(lambda: condition("{{ item }}"))] == [
        "when is an expression, not a template"
    ]


@pytest.mark.parametrize("text", ["x ==", "(", "x) or (x", "x; y", "(" * 3000])
def test_bad_syntax_has_a_place(text: str) -> None:
    assert [p.where for p in problems_of(lambda: condition(text, {"x": 1, "y": 1}))] == ["f.yml:1:1"]


def test_two_are_equal_when_they_say_the_same_of_the_same_variables() -> None:
    assert prompt("{{ a }}", {"a": 1, "b": 1}) == prompt("{{ a }}", {"a": 1, "b": 2})
    assert prompt("{{ a }}", {"a": 1}) != prompt("{{ a }}", {"a": 2})
    assert len({prompt("x"), prompt("x")}) == 1


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'x' * 10**9 }}",
        "{{ [1] * 10**9 }}",
        "{{ 10**1000 }}",
        "{{ 9999999999999 * 9999999999999 }}",
        "{{ 'a'.ljust(10**9) }}",
        "{{ '%99999999d' % 3 }}",
        "{{ '{:>99999999}'.format(1) }}",
        "{{ 'a'.join(['b']) }}",
        "{{ a|center(10**9) }}",
        "{{ a|replace('x', 'y' ~ big) }}",
        "{{ ().__class__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ range(100000) }}",
        "{{ lipsum() }}",
        "{{ namespace(x=1) }}",
        "{{ big }}{{ big }}{{ big }}{{ big }}",
        "{{ big ~ big }}",
        "{{ [big, big] }}",
        "{% for c in big %}{% endfor %}",
        "{% for i in range(9) %}{% for j in range(9) %}x{% endfor %}{% endfor %}",
        "{% set a = 1 %}",
        "{% macro f() %}{{ f() }}{% endmacro %}",
        "{% include '/etc/passwd' %}",
        "{% import 'x' as y %}",
        "{{ 1/0 }}",
        "{{ (" + "1+" * 1500 + "1) }}",
        "{{ " + "(" * 3000 + " }}",
        "{{ 1 if false }}",
        "{{ " + " ~ ".join(["a"] * 5000) + " }}",
        "{{ 1|round(10**9, 'ceil') }}",
        "{{ [1]|map('round', 10**9, 'floor')|list }}",
        "{{ a|tojson(indent=10**9) }}",
        "{{ range(1000)|join(range(1000)|join(big)) }}",
        "{{ big.split('x')|join(big) }}",
        "{{ ''|attr('__class__') }}",
        "{{ [1]|map('attr', '__class__')|list }}",
        "{{ a['__class__'] }}",
        "{{ '{0.__class__}'.format(a) }}",
        "{{ '{0.__class__}'.format_map({}) }}",
        "{{ range.__globals__ }}",
        "{{ self._TemplateReference__context }}",
        "{% for x in [1] %}{{ loop.__init__.__globals__ }}{% endfor %}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{{ [1, 2]|sort(attribute='__class__') }}",
        "{{ [1].append(2) }}",
    ],
)
def test_a_template_cannot_use_up_time_or_memory_or_get_out(template: str) -> None:
    assert len(refused(template, f"a: x\nbig: {'x' * 40_000}\n")) == 1


def test_variables_cannot_grow_by_naming_each_other() -> None:
    text = "a0: [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n + 1}: '{{{{ [{', '.join([f'a{n}'] * 10)}] }}}}'\n" for n in range(9))
    _, problems = render_vars(parse_text(text, "f.yml"), (), {})
    assert problems[0].message == "template: the result is too large"


@pytest.mark.parametrize(("text", "value"), [("{% for i in [1, 2] %}{{ i }},{% endfor %}", "1,2,"), ("{{ 'A b'|lower|replace(' ', '-') }}", "a-b"), ("{% if n > 1 %}y{% else %}n{% endif %}", "y"), ("{{ n + 2 * 3 }}", "8"), ("{{ 'x,y'.split(',')|join('+') }}", "x+y"), ("{{ [n, 'é<']|tojson }} {{ 2.345|round(1) }}", '[2, "\\u00e9\\u003c"] 2.3')])  # fmt: skip
def test_ordinary_templates_work(text: str, value: str) -> None:
    assert prompt(text, {"n": 2})({}) == value
