"""Makes the text of a database safe to show, and fits it into lines.

Everything that a person sees of a database goes through ``safe_line`` or ``safe_text`` (docs/decisions.md,
"Text of others"). They remove nothing that carries meaning: what a terminal would obey, hide or merge is
written out.

======================================================  ==============================================
what                                                    is shown as
======================================================  ==============================================
C0 controls, DEL                                        control pictures, ``␛`` for ESC
C1, bidi, zero width, tag characters, fillers,          ``‹U+202E›``
other variation selectors, noncharacters, surrogates
a byte that is not UTF-8 (``surrogateescape``)          ``‹0x9B›``
ZWJ, skin tones, a regional indicator without partner   ``‹U+200D›``: terminals disagree whether such a
                                                        sequence takes 2 cells or 4, and a column would shift
U+FE0E, U+FE0F right after an emoji                     nothing: they choose a glyph and carry no text, and
                                                        terminals disagree on the width they give
combining marks on nothing (they would land on a        on ``◌``
border of ours)
more than 4 marks on one character                      4 of them and ``‹+12 marks›``
======================================================  ==============================================

Both functions return the same object when there is nothing to do, and applying them twice changes nothing.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import Final

from lcm_core.cells import ZERO_WIDTH, cell_width, cut_before, ranges, width_of

__all__ = ["ELLIPSIS", "cell_width", "clip", "preview", "safe_line", "safe_text", "wrap", "wrap_spans"]

ELLIPSIS: Final = "…"
TAB_COLUMNS: Final = 4
MARKS_KEPT: Final = 4  #: combining marks shown on one character; Vietnamese and Hebrew need 3

_ASTRAL: Final = r"(?=[\U00010000-\U0010ffff])"  # spares the rest of a text the long lists that follow it
_UNSAFE_BMP: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\ufffe\uffff"
)
_UNSAFE_ASTRAL: Final = (
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U0001f3fb-\U0001f3ff"
    r"\U000e0000-\U000e0fff"
) + "".join(rf"\U{plane:04x}fffe\U{plane:04x}ffff" for plane in range(1, 17))
_FLAG: Final = r"[\U0001f1e6-\U0001f1ff]"
_EMOJI: Final = (
    r"[#*0-9\xa9\xae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
_UNSAFE_ASCII: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def _mark_class() -> str:
    """A regular expression for a zero-width character, but for the controls, which are written out before."""
    kept = [(first, last) for first, last in ranges(ZERO_WIDTH) if first > 0x9F]
    low = "".join(rf"\u{first:04x}-\u{last:04x}" for first, last in kept if last <= 0xFFFF)
    high = "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in kept if last > 0xFFFF)
    return rf"(?:[{low}]|{_ASTRAL}[{high}])"


@cache  # compiled when a text calls for it: every start of the program would pay for it
def _unsafe() -> re.Pattern[str]:
    return re.compile(
        rf"(?P<selector>(?<={_EMOJI})[\ufe0e\ufe0f])|(?P<pair>{_FLAG}{{2}})"
        rf"|[{_UNSAFE_BMP}]|{_ASTRAL}(?:[{_UNSAFE_ASTRAL}]|{_FLAG})"
    )


@cache
def _odd_marks() -> re.Pattern[str]:
    mark = _mark_class()
    return re.compile(rf"(?<!\S){mark}+|{mark}{{{MARKS_KEPT + 1},}}")


#: Not one of the common characters that stay as they are: most text is told safe by this one fast pass.
_UNCOMMON: Final = re.compile(
    r"[^\n -~\xa0-\xac\xae-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u2100-\u23ff\u2500-\u2bff"
    r"\u3000-\u3029\u3030-\u3098\u309b-\u3163\u3165-\ua4c6\uac00-\ud7a3\uff01-\uff9f"
    r"\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
_BREAKS: Final = re.compile(r"[\t\n\v\f\r]+")
_NEWLINES: Final = re.compile(r"\r\n?")
_CONTROLS: Final = dict.fromkeys((*range(32), 127))
_CONTROLS_BUT_NEWLINE: Final = {code: None for code in _CONTROLS if code != ord("\n")}


def safe_line(text: str) -> str:
    """*text* on one line, harmless to a terminal: every run of tabs and line breaks is one space."""
    if text.isascii() and len(text.translate(_CONTROLS)) == len(text):
        return text
    return _written_out(_BREAKS.sub(" ", text))


def safe_text(text: str) -> str:
    """*text* with its lines, harmless to a terminal: CRLF and CR become LF, tabs reach to columns of four."""
    if text.isascii() and len(text.translate(_CONTROLS_BUT_NEWLINE)) == len(text):
        return text
    if "\r" in text:
        text = _NEWLINES.sub("\n", text)
    text = _written_out(text)
    if "\t" not in text:
        return text
    if text.isascii():
        return text.expandtabs(TAB_COLUMNS)
    return "\n".join(_expanded(line) if "\t" in line else line for line in text.split("\n"))


def _written_out(text: str) -> str:
    """*text* with everything unsafe but tab and newline made visible."""
    if text.isascii():
        return _UNSAFE_ASCII.sub(_picture, text)
    if not _UNCOMMON.search(text):
        return text
    return _odd_marks().sub(_tamed, _unsafe().sub(_visible, text))


def _picture(match: re.Match[str]) -> str:
    return "␡" if match[0] == "\x7f" else chr(0x2400 + ord(match[0]))


def _visible(match: re.Match[str]) -> str:
    if match["selector"]:
        return ""
    if match["pair"]:
        return match["pair"]
    code = ord(match[0])
    if code < 0x80:
        return _picture(match)
    if 0xDC80 <= code <= 0xDCFF:
        return f"‹0x{code - 0xDC00:02X}›"
    return f"‹U+{code:04X}›"


def _tamed(match: re.Match[str]) -> str:
    marks = match[0]
    base = "◌" if match.start() == 0 or match.string[match.start() - 1].isspace() else ""
    excess = len(marks) - MARKS_KEPT
    return base + marks if excess <= 0 else f"{base}{marks[:MARKS_KEPT]}‹+{excess} marks›"


def _expanded(line: str) -> str:
    pieces = line.split("\t")
    column, out = 0, []
    for piece in pieces[:-1]:
        column += cell_width(piece)
        spaces = TAB_COLUMNS - column % TAB_COLUMNS
        column += spaces
        out.append(piece + " " * spaces)
    return "".join(out) + pieces[-1]


def clip(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """One safe line in at most *width* cells, ending in *ellipsis* when something was left out.

    Reads no more of a long line than it shows and never cuts inside a grapheme.
    """
    if len(text) * 2 <= width or (text.isascii() and len(text) <= width):
        return text
    if width <= 0:
        return ""
    if text.isascii() and ellipsis == ELLIPSIS:
        return text[: width - 1] + ellipsis
    fits, cells = 0, 0
    room = width - cell_width(ellipsis)
    for index, character in enumerate(text):
        cells += width_of(character)
        if cells > width:
            return text[: cut_before(text, fits)] + ellipsis if room >= 0 else ""
        if cells <= room:
            fits = index + 1
    return text


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most *width* cells (a width under 2 counts as 2) that show safe multi-line *text*.

    Breaks at a space, which is dropped, else inside the word at a grapheme; nothing else is lost.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        if len(line) <= width and line.isascii():
            lines.append(line)
        else:
            lines.extend([line[start:end] for start, end in wrap_spans(line, width)])
    return lines


def wrap_spans(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Where ``wrap`` cuts one line: start and end of every piece, as indices into *line*."""
    width = max(width, 2)
    length = len(line)
    totals = None
    if not line.isascii() and length * 2 > width:
        totals = array("Q", accumulate(map(width_of, line)))
    start = 0
    while True:
        if totals is None:
            end = start + width
        else:
            end = bisect_right(totals, (totals[start - 1] if start else 0) + width, start)
        if end >= length:
            yield start, length
            return
        space = line.rfind(" ", start, end + 1)
        if space > start and not line[start:space].isspace():
            yield start, space
            start = space + 1
            if start == length:
                return
            continue
        if totals is not None:
            end = max(cut_before(line, end, start), start + 1)
        yield start, end
        start = end


_SCRIPT_SPACE: Final = r"\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_WORDS: Final = re.compile(rf"[^{_SCRIPT_SPACE}]+")
PREVIEW_UNITS: Final = 240


def preview(text: str, limit: int = PREVIEW_UNITS) -> str:
    """*text* as the engine's ``lcm`` command previews it: white space folded and trimmed, then cut.

    *limit* counts UTF-16 units, the final ``…`` included, and the cut may split a surrogate pair as
    JavaScript does; not made safe to show. Verified on the 115 previews that were recorded of 0.15.3.
    """
    words, units = [], -1
    for match in _WORDS.finditer(text):
        word = text[match.start() : min(match.end(), match.start() + limit + 1)]
        words.append(word)
        units += len(word) + 1
        if units > limit:
            break
    folded = " ".join(words)
    encoded = folded.encode("utf-16-le", "surrogatepass")
    if len(encoded) // 2 <= limit:
        return folded
    return encoded[: 2 * max(limit - 1, 0)].decode("utf-16-le", "surrogatepass") + ELLIPSIS
