from __future__ import annotations

import os
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from loopctl.errors import DocumentError
from loopctl.playbook import nodes
from loopctl.playbook.document import MAX_BYTES, Document, load_document, parse_bytes, parse_text
from tests.unit.playbook.support import problems_of, told

AMBIGUOUS = "this word is ambiguous: "
KEY = "this key is ambiguous: "
SWITCH = "some YAML readers take it for true or false"


@pytest.fixture(params=["libyaml", "pure"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pure":
        monkeypatch.delattr(yaml, "CSafeLoader")


def bomb(levels: str = "abcdefghij") -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise(levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 10", {"a": 10}),
        ("a: -3", {"a": -3}),
        ("a: 0", {"a": 0}),
        ("a: 0.5", {"a": 0.5}),
        ("a: 3.10", {"a": 3.1}),
        ("a: true", {"a": True}),
        ("a: false", {"a": False}),
        ("a:", {"a": None}),
        ("a: yesterday", {"a": "yesterday"}),
        ("a: 5s", {"a": "5s"}),
        ("a: octo/app#3", {"a": "octo/app#3"}),
        ("a: 'no'\nb: \"012\"", {"a": "no", "b": "012"}),
        ("a: !!str 012", {"a": "012"}),
        ("a: |\n  no\n", {"a": "no\n"}),
        ("'on': x", {"on": "x"}),
        ("", None),
        ("# only a comment\n", None),
    ],
)
def test_what_everybody_reads_the_same_way_has_its_type(text: str, value: object) -> None:
    found = parse_text(text, "f.yml").value
    assert found == value
    if isinstance(found, dict) and isinstance(value, dict):
        assert [type(v) for v in found.values()] == [type(v) for v in value.values()]


@pytest.mark.parametrize(
    ("word", "reason"),
    [(word, SWITCH) for word in ("on", "Off", "yes", "NO", "y", "N", "True", "FALSE")]
    + [(word, "YAML reads it as no value at all") for word in ("~", "null", "Null", "NULL")]
    + [(word, "some YAML readers take it for an octal number") for word in ("012", "0012345", "-07", "09")]
    + [(word, "some YAML readers take it for a base-60 number") for word in ("1:20", "190:20:30", "1:20.5")]
    + [
        (word, "some YAML readers take it for a date")
        for word in ("2026-09-01", "2026-09-01T10:00:00Z", "2026-9-1 1:02:03")
    ]
    + [
        (word, "YAML readers disagree on this form of a number")
        for word in ("0x1F", "0b11", "0o17", "1_000", ".5", "5.", "1e3", "1.5E-3", ".inf", "-.INF", ".NaN")
    ]
    + [("1234567890123456789", "it has too many digits for a number")],
)
def test_an_ambiguous_word_must_be_quoted(word: str, reason: str) -> None:
    problems = problems_of(lambda: parse_text(f"a: x\nb: [y1, {word}]\n", "f.yml"))
    assert told(problems) == [(2, 9, AMBIGUOUS + reason)]
    assert problems[0].hint.startswith("quote it")
    assert parse_text(f'b: "{word}"', "f.yml").value == {"b": word}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", [(3, 1, "duplicate key 'a': it stands on line 1 already")]),
        ("l:\n  - {x: 1, y1: 2, x: 3}\n", [(2, 19, "duplicate key 'x': it stands on line 2 already")]),
        ("a: &x {p: 1}\nb:\n  <<: *x\n  <<: *x\n", [(4, 3, "duplicate key '<<': it stands on line 3 already")]),
        ("on: issue\n", [(1, 1, KEY + SWITCH)]),
        ("1: issue\n", [(1, 1, KEY + "it is not text")]),
        ("? [a]\n: b\n", [(1, 3, "a list or mapping cannot be a key")]),
        ("a: !!python/object/apply:os.system [x]\n", [(1, 4, "a YAML tag has no meaning here")]),
        ("a: !vault x\n", [(1, 4, "a YAML tag has no meaning here")]),
        ("a: *nowhere\n", [(1, 4, "this alias has no anchor before it")]),
        ("&a [*a]\n", [(1, 5, "this alias stands inside its own anchor: the value would contain itself")]),
        ("a: &a {b: *a}\n", [(1, 11, "this alias stands inside its own anchor: the value would contain itself")]),
        ("a: 1\n---\nb: 2\n", [(2, 1, "a second document begins here")]),
        ("a:\n\tb: 1\n", [(2, 1, "a tab cannot indent YAML")]),
        ("a:\n  <<: 3\n", [(2, 7, "a merge key (<<) takes a mapping or a list of mappings")]),
        ("a: x\0y\n", [(1, 5, "a NUL character is not allowed")]),
        ("a: 1\nb: \x1b[31m\n", [(2, 4, "a character U+001B is not allowed")]),
        ("a: \ud800\n", [(1, 4, "a character U+D800 is not allowed")]),
        ("- " * 1000, [(1, 201, "nested more than 100 levels deep")]),
        (
            f"a: &a {'[' * 60}{']' * 60}\nb: {'[' * 60}*a{']' * 60}\n",
            [(2, 64, "with this alias, values are nested more than 100 levels deep")],
        ),
        (bomb(), [(5, 8, "the aliases up to here stand for more than 10,000 values")]),
    ],
)
def test_each_fault_has_its_place(text: str, expected: list[tuple[int, int, str]]) -> None:
    assert told(problems_of(lambda: parse_text(text, "f.yml"))) == expected


@pytest.mark.parametrize("text", ["a: 'x\n", "a: [1\n", "{", "a: b: c\n", "%", "@x", "a: &\n", "- a\nb: c\n"])
def test_a_syntax_error_has_a_place(text: str) -> None:
    problems = problems_of(lambda: parse_text(text, "f.yml"))
    assert len(problems) == 1
    assert problems[0].message.startswith("is not valid YAML: ")
    assert problems[0].line >= 1 and problems[0].column >= 1


def test_all_problems_come_at_once_in_the_order_of_the_text() -> None:
    text = "on: issue\nsession: 0012345\nsha: 1234567\nlabel: no\nrepo: null\nver: 3.10\nafter: 1:20\ndue: 2026-09-01\nsha: x\n"
    problems = problems_of(lambda: parse_text(text, "f.yml"))
    assert [(p.line, p.column) for p in problems] == [(1, 1), (2, 10), (4, 8), (5, 7), (7, 8), (8, 6), (9, 1)]
    assert [p.text for p in problems] == [text.splitlines()[p.line - 1] for p in problems]
    assert {p.source for p in problems} == {"f.yml"}


def test_more_problems_than_help_are_cut() -> None:
    problems = problems_of(lambda: parse_text("- no\n" * 5000, "f.yml"))
    assert len(problems) == 101
    assert problems[-1].message == "has more than 100 problems"


def test_positions_of_keys_and_values() -> None:
    document = parse_text("- name: a\n  rules:\n    - {when: x1}\n", "f.yml")
    assert document.mark((0, "rules")) == (2, 3)
    assert document.mark((0, "rules"), key=False) == (3, 5)
    assert document.mark((0, "rules", 0)) == (3, 7)
    assert document.mark((0, "rules", 0, "when")) == (3, 8)
    assert document.mark((0, "rules", 0, "when"), key=False) == (3, 14)
    assert document.mark((0, "rules", 0, "absent", "deeper")) == (3, 7)
    assert str(document.position((0, "rules"))) == "f.yml:2"


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_columns_count_characters_and_lines_count_every_break(line_break: str) -> None:
    text = line_break.join(["a: é漢😀", "b: {é漢😀: no}"])
    assert told(problems_of(lambda: parse_text(text, "f.yml"))) == [(2, 10, AMBIGUOUS + SWITCH)]


def test_merge_keys_work_and_own_keys_win() -> None:
    text = "a: &a {p: 1, q: 2}\nb:\n  q: 3\n  <<: *a\nc:\n  <<: [*a, {p: 9, r: 4}]\n"
    document = parse_text(text, "f.yml")
    assert document.value == {"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}, "c": {"p": 1, "q": 2, "r": 4}}
    assert document.mark(("b", "q")) == (3, 3)
    assert document.mark(("b", "p")) == (1, 8)


def test_a_quoted_merge_key_is_a_key() -> None:
    assert parse_text("'<<': 1", "f.yml").value == {"<<": 1}


def test_times_can_be_text() -> None:
    assert parse_text("a: 2026-09-01T10:00:00Z", "f.yml", times=True).value == {"a": "2026-09-01T10:00:00Z"}
    assert told(problems_of(lambda: parse_text("a: no", "f.yml", times=True))) == [(1, 4, AMBIGUOUS + SWITCH)]


def test_what_an_alias_repeats_is_wrong_once() -> None:
    assert told(problems_of(lambda: parse_text("a: &a [no]\nb: *a\n", "f.yml"))) == [(1, 8, AMBIGUOUS + SWITCH)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a: 1\nb: \xc3\xa9\xff\n", (2, 5, "is not valid UTF-8 here")),
        (b"\xef\xbb\xbfa: 1\n", (1, 1, "begins with a byte order mark")),
        ("a: 1".encode("utf-16"), (1, 1, "begins with a byte order mark")),
    ],
)
def test_the_encoding_is_utf_8(data: bytes, expected: tuple[int, int, str]) -> None:
    assert told(problems_of(lambda: parse_bytes(data, "f.yml"))) == [expected]


def test_an_alias_bomb_costs_no_memory_and_is_not_printed() -> None:
    tracemalloc.start()
    try:
        problems = problems_of(lambda: parse_text(bomb("abcdefghijklmnopqrstuvwxyz"), "f.yml"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000
    assert all(len(p.message) < 200 for p in problems)


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "big.yml"
    path.write_bytes(b"a: 1\n" * (10 * MAX_BYTES // 5))
    assert told(problems_of(lambda: load_document(path))) == [(0, 0, "is larger than 1,024 KiB")]


def test_a_flat_file_within_the_size_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "MAX_NODES", 1000)
    problems = problems_of(lambda: parse_text("- a\n" * 2000, "f.yml"))
    assert told(problems) == [(1000, 3, "holds more than 1,000 values")]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert (
        problems_of(lambda: load_document(tmp_path / "none.yml"))[0].message
        == "cannot be read: No such file or directory"
    )
    assert problems_of(lambda: load_document(tmp_path))[0].message == "cannot be read: Is a directory"
    assert problems_of(lambda: load_document("a\0b"))[0].message == "cannot be read: not a path"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "closed.yml"
    path.write_text("a: 1")
    path.chmod(0)
    assert problems_of(lambda: load_document(path))[0].message == "cannot be read: Permission denied"


# fmt: off
PIECES = st.sampled_from([
    "a", "b", ": ", "- ", "\n", "  ", "{", "}", "[", "]", ",", "&a ", "*a", "<<", "!!str ", "!x ", "'", '"', "|\n", ">\n", "? ",
    "---\n", "...\n", "%YAML 1.1\n", "\t", "#", "no", "012", "~", "1:20", "\0", "\ufeff", "é", "\ud800", "\u2028",
])
# fmt: on


def only_document_errors(text: str) -> Document | None:
    try:
        return parse_text(text, "f.yml")
    except DocumentError as error:
        assert error.problems
        lines = len(text.splitlines()) + 2
        assert all(0 <= p.line <= lines and p.column >= 0 for p in error.problems)
        return None


class TestFuzz:
    # The fixture would be shared by all examples of a property, which is what is wanted.
    @pytest.fixture(autouse=True)
    def parser(self) -> None:
        """Each parser has its own property below."""

    @given(st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join)))
    def test_no_text_gives_anything_but_a_document_error(self, text: str) -> None:
        only_document_errors(text)

    @given(st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join)))
    def test_nor_with_the_pure_parser(self, text: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.delattr(yaml, "CSafeLoader")
            only_document_errors(text)

    @given(st.binary(max_size=200))
    def test_nor_do_bytes(self, data: bytes) -> None:
        try:
            parse_bytes(data, "f.yml")
        except DocumentError as error:
            assert error.problems

    @given(
        st.recursive(
            st.integers(-(10**9), 10**9) | st.booleans() | st.text("abcxyz_:#é", max_size=8),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcz", min_size=1, max_size=4), inner),
            max_leaves=20,
        )
    )
    def test_what_yaml_writes_is_read_back_with_a_place_for_everything(self, value: object) -> None:
        text = yaml.safe_dump(value, default_style='"') if isinstance(value, str) else yaml.safe_dump(value)
        document = only_document_errors(text)
        if document is None:
            return  # safe_dump leaves words such as y unquoted
        assert document.value == value
        assert () in document.positions
