"""Hostile variants of real inputs: bytes that are bent, trees whose parts are exchanged, and bytes that are nothing.

A mutation is three numbers (what, where, with): hypothesis shrinks them well, and drawing them is cheap.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from hypothesis import strategies as st

#: Above every index; positions are scaled to what there is.
_FINE = 1 << 16

#: Pieces of text that some reader somewhere stumbles over.
TOKENS: tuple[bytes, ...] = (
    b"\0",
    b"\x1b[31m\x1b]0;owned\x07",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    "\u202eevil\u202c".encode(),
    "\u2028".encode(),
    b"\r",
    b"\n::error::injected\n",
    b"##[error]x",
    b"&a [*a, *a]",
    b"*nowhere",
    b"<<: *a",
    b"!!python/object/apply:os.system [x]",
    b"---\n",
    b"{{ ''.__class__.__mro__ }}",
    b"{{ 9**9**9 }}",
    b"{% for i in range(99999999) %}x{% endfor %}",
    b"{{ item|attr('__class__') }}",
    b"#(touch owned)",
    b"%n%s",
    b"; kill-server",
    b"../../../etc/passwd",
    b"9" * 400,
    b"1e999",
    b"NaN",
    b"-0",
    b"[" * 300,
    b'{"a":' * 300,
    b"A" * 5000,
    b"|",
    b"\t",
    b"- ",
    b": ",
    b"'",
    b'"',
    b"HTTP/2.0 502 Bad Gateway\r\n\r\n",
)

#: Values in the place of others. Documents that cannot hold one (JSON has no time) get it as text.
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    1e300,
    "",
    " ",
    "x",
    "no",
    "012",
    "1:20",
    "9" * 30,
    "\x1b[31m",
    "\u202eevil",
    "a\nb",
    "a\r\n::error::b",
    "{{ nowhere }}",
    "{{ ''.__class__ }}",
    "{{ 'x' * 10**9 }}",
    "{% for a in item.labels %}{% for b in item.labels %}x{% endfor %}{% endfor %}",
    "{{",
    "~nobody/x",
    "../..",
    "/dev/null",
    "github:octo/app#15",
    "octo/app#0",
    "https://[::1",
    "2026-13-45",
    "0001-01-01T00:00:00+23:59",
    "x" * 3000,
    [],
    {},
    [[[[[[]]]]]],
    {"": None},
    [None, {"a": [1]}],
)

Mutation = tuple[int, int, int]

_NUMBER = st.integers(0, _FINE - 1)
_MUTATIONS = st.lists(st.tuples(st.integers(0, 9), _NUMBER, _NUMBER), min_size=1, max_size=5)
_ARBITRARY = st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")))


def bent(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Real inputs whose bytes were cut, exchanged, repeated or flipped; and now and then no real input at all."""
    mutated = st.builds(lambda seed, steps: _bend(seeds, seed, steps), _index(seeds), _MUTATIONS)
    return st.one_of(mutated, mutated, mutated, _ARBITRARY)


def regrown(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Real YAML or JSON documents with values, keys and branches exchanged, lost, doubled or nested: still well formed."""
    trees = [yaml.safe_load(seed) for seed in seeds]
    return st.builds(lambda seed, steps: _regrow(trees, seed, steps), _index(seeds), _MUTATIONS)


def _index(seeds: Sequence[bytes]) -> st.SearchStrategy[int]:
    return st.integers(0, len(seeds) - 1)


def _bend(seeds: Sequence[bytes], seed: int, steps: Sequence[Mutation]) -> bytes:
    data = seeds[seed]
    for what, where, with_ in steps:
        data = _BENDS[what](_Cut(data, where, with_, seeds[with_ % len(seeds)]))
    return data


@dataclass(frozen=True)
class _Cut:
    """Bytes in two, at a place; something else in the second part, and another real input."""

    data: bytes
    where: int
    number: int
    other: bytes

    @property
    def at(self) -> int:
        return self.where * (len(self.data) + 1) // _FINE

    @property
    def left(self) -> bytes:
        return self.data[: self.at]

    @property
    def right(self) -> bytes:
        return self.data[self.at :]

    @property
    def length(self) -> int:
        return self.number * (len(self.right) + 1) // _FINE

    @property
    def token(self) -> bytes:
        return TOKENS[self.number % len(TOKENS)]


_BENDS: tuple[Callable[[_Cut], bytes], ...] = (
    lambda cut: cut.left + cut.token + cut.right,
    lambda cut: cut.left + cut.token + cut.right[cut.length % 8 :],
    lambda cut: cut.left + cut.right[cut.length % 64 :],
    lambda cut: cut.left + cut.right[cut.length :],
    lambda cut: cut.left,
    lambda cut: cut.left + cut.right[: cut.length] + cut.right,
    lambda cut: cut.left + cut.other[cut.where * len(cut.other) // _FINE :],
    lambda cut: _flipped(cut.data, cut.at, cut.number % 8),
    lambda cut: cut.left + bytes([cut.number % 256]) + cut.right[1:],
    lambda cut: _exchanged(cut.data, cut.at, cut.token),
)


def _flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] if at < len(data) else data


def _exchanged(data: bytes, at: int, token: bytes) -> bytes:
    """The word at a place in another form: values lie between words."""
    start = max(data.rfind(sign, 0, at) for sign in (b" ", b"\n", b"|", b'"', b","))
    ends = [end for sign in (b" ", b"\n", b"|", b'"', b",") if (end := data.find(sign, at)) >= 0]
    return data[: start + 1] + token + data[min(ends, default=len(data)) :]


def _regrow(trees: Sequence[Any], seed: int, steps: Sequence[Mutation]) -> bytes:
    holder = [json.loads(json.dumps(trees[seed], default=str))]
    for what, where, with_ in steps:
        places = list(_places(holder))
        parent, key = places[where * len(places) // _FINE]
        other, name = places[with_ * len(places) // _FINE]
        _graft(parent, key, what, _copy(VALUES[with_ % len(VALUES)]), _copy(other[name]))
    if steps[0][2] % 4 == 0:
        return yaml.safe_dump(holder[0], allow_unicode=True).encode()
    return json.dumps(holder[0]).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys: Sequence[Any] = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _graft(parent: Any, key: Any, what: int, value: Any, other: Any) -> None:
    if what <= 3:
        parent[key] = value
    elif what == 4 and isinstance(parent, dict):
        parent[str(value)[:50]] = parent.pop(key)
    elif what == 5:
        parent[key] = [parent[key]]
    elif what == 6:
        parent[key] = {"item": parent[key], "state": value}
    elif what == 7 and isinstance(parent[key], list):
        parent[key] = parent[key] * 3
    elif what == 8 and isinstance(parent, dict):
        del parent[key]
    else:
        parent[key] = other


def _copy(value: Any) -> Any:
    """Nothing may come to contain itself."""
    return json.loads(json.dumps(value))
