"""Problems of documents as compilers print them: the place, the line, a caret, a hint."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from loopctl.errors import Problem
from loopctl.model.secrets import mask
from loopctl.model.text import plural
from loopctl.render.clean import shown

_TAB = "    "
#: Columns of the offending line that are shown; a longer line is cut around the caret.
_WIDTH = 100
_BEFORE = 60
#: So far to the left of the caret a secret may begin of which the end would be shown.
_FAR = 4096
#: So many problems are shown: nobody reads more of them at once.
_MOST = 100
_CUT = "..."
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_BOLD, _RED, _CYAN, _RESET = "\x1b[1m", "\x1b[31m", "\x1b[36m", "\x1b[0m"


def problems_text(problems: Sequence[Problem], color: bool = False) -> str:
    """The problems, one block each, without a newline at the end; of very many the first, and how many more there are.

    Nothing in them can steer a terminal.
    """
    blocks = [_block(problem, color) for problem in problems[:_MOST]]
    more = len(problems) - len(blocks)
    return "\n".join([*blocks, f"... and {plural(more, 'problem')} more"] if more else blocks)


def _block(problem: Problem, color: bool) -> str:
    bold, red, cyan, reset = (_BOLD, _RED, _CYAN, _RESET) if color else ("", "", "", "")
    lines = [f"{bold}{shown(problem.where)}:{reset} {shown(problem.message)}"]
    if problem.text.strip() and problem.column:
        text, caret = _excerpt(problem.text, problem.column)
        # A runner of GitHub Actions takes `::name::` for a command where only blanks stand before it.
        lines += [f"    | {text}", f"    | {' ' * caret}{red}^{reset}"]
    if problem.hint:
        lines.append(f"    {cyan}hint:{reset} {shown(problem.hint)}")
    return "\n".join(lines)


def _excerpt(line: str, column: int) -> tuple[str, int]:
    """The visible part of a line, and how many terminal columns lie left of the caret."""
    at = min(column - 1, len(line))
    left, right = _clean(line[max(0, at - _FAR) : at]), _clean(line[at : at + 2 * _WIDTH])
    if len(_last(left, _BEFORE)) < len(left):
        left = _CUT + _last(left, _BEFORE - len(_CUT))
    room = _WIDTH - _columns(left)
    cut = _columns(right) > room or len(line) > at + 2 * _WIDTH
    text = left + (_first(right, room - len(_CUT)) + _CUT if cut else right)
    return text.rstrip(), _columns(left)


def _clean(text: str) -> str:
    """Every character visible or replaced, never dropped, so that columns still count; secrets masked."""
    text = text.replace("\t", _TAB)
    if not (text.isascii() and text.isprintable()):
        text = "".join("?" if unicodedata.category(c) in _UNSEEN else c for c in text)
    # As many columns, and no command for a runner of GitHub Actions.
    return mask(text.replace("##[", "# ["))


def _columns(text: str) -> int:
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _first(text: str, columns: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += _width(character)
        if used > columns:
            return text[:index]
    return text


def _last(text: str, columns: int) -> str:
    return _first(text[::-1], columns)[::-1]
