"""Foreign text without what steers a terminal or hides from the reader."""

from __future__ import annotations

import re
import unicodedata

#: Whole terminal sequences: their parameters would otherwise stay behind as text.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\r\n]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"
)
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
#: Control, format (bidi, zero width), lone surrogates, private use: nothing that is read as text.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co"})


def plain(text: str) -> str:
    """The text with its lines and tabs, but without terminal sequences, control characters and invisible ones.

    Whatever ends a line becomes a newline. What `render.clean` shows of a text differs from this by its layout only.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_ENDS.sub("\n", _SEQUENCES.sub("", text))
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in _INVISIBLE)
