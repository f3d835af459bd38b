"""Text for people: made safe to show, fitted into lines, folded for comparison, and counted in words.

Everything that a person sees of a database goes through ``safe_line`` or ``safe_text``
(docs/spec/decisions.md, "Text of others"). They remove nothing that carries meaning: what a terminal would
obey, hide or merge is written out.

======================================================  ==============================================
what                                                    is shown as
======================================================  ==============================================
C0 controls, DEL                                        control pictures, ``␛`` for ESC
C1, bidi, zero width, tag characters, fillers,          ``‹U+202E›``
other variation selectors, noncharacters, surrogates
a byte that is not UTF-8 (``surrogateescape``)          ``‹0x9B›``
ZWJ between two emoji; a skin tone, U+FE0E or U+FE0F    nothing: they choose a glyph and carry no text, and
right after an emoji                                    terminals give such a sequence 1, 2, 4 or 6 cells, so
                                                        that a column would shift: each emoji is shown
ZWJ and skin tones elsewhere, a regional indicator      ``‹U+200D›``
without partner
combining marks on nothing (they would land on a        on ``◌``
border of ours)
more than 4 marks on one character                      4 of them and ``‹+12 marks›``
======================================================  ==============================================

Both functions return the same object when there is nothing to do, and applying them twice changes nothing.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from lcm_core.base.records import ConversationId

if TYPE_CHECKING:
    import regex


def late_pattern(pattern: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """A pattern that is compiled when it is first asked for: that takes up to milliseconds."""
    return cache(partial(re.compile, pattern, flags))


ZERO_WIDTH: Final = """
0-1f 7f-9f 300-36f 483-489 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 61c 64b-65f 670 6d6-6dc 6df-6e4
6e7-6e8 6ea-6ed 711 730-74a 7a6-7b0 7eb-7f3 7fd 816-819 81b-823 825-827 829-82d 859-85b 897-89f
8ca-8e1 8e3-903 93a-93c 93e-94f 951-957 962-963 981-983 9bc 9be-9c4 9c7-9c8 9cb-9cd 9d7 9e2-9e3 9fe
a01-a03 a3c a3e-a42 a47-a48 a4b-a4d a51 a70-a71 a75 a81-a83 abc abe-ac5 ac7-ac9 acb-acd ae2-ae3
afa-aff b01-b03 b3c b3e-b44 b47-b48 b4b-b4d b55-b57 b62-b63 b82 bbe-bc2 bc6-bc8 bca-bcd bd7 c00-c04
c3c c3e-c44 c46-c48 c4a-c4d c55-c56 c62-c63 c81-c83 cbc cbe-cc4 cc6-cc8 cca-ccd cd5-cd6 ce2-ce3 cf3
d00-d03 d3b-d3c d3e-d44 d46-d48 d4a-d4d d57 d62-d63 d81-d83 dca dcf-dd4 dd6 dd8-ddf df2-df3 e31
e34-e3a e47-e4e eb1 eb4-ebc ec8-ece f18-f19 f35 f37 f39 f3e-f3f f71-f84 f86-f87 f8d-f97 f99-fbc fc6
102b-103e 1056-1059 105e-1060 1062-1064 1067-106d 1071-1074 1082-108d 108f 109a-109d 1160-11ff
135d-135f 1712-1715 1732-1734 1752-1753 1772-1773 17b4-17d3 17dd 180b-180f 1885-1886 18a9 1920-192b
1930-193b 1a17-1a1b 1a55-1a5e 1a60-1a7c 1a7f 1ab0-1add 1ae0-1aeb 1b00-1b04 1b34-1b44 1b6b-1b73
1b80-1b82 1ba1-1bad 1be6-1bf3 1c24-1c37 1cd0-1cd2 1cd4-1ce8 1ced 1cf4 1cf7-1cf9 1dc0-1dff 200b-200f
2028-202e 2060-206f 20d0-20f0 2cef-2cf1 2d7f 2de0-2dff 302a-302f 3099-309a 3164 a66f-a672 a674-a67d
a69e-a69f a6f0-a6f1 a802 a806 a80b a823-a827 a82c a880-a881 a8b4-a8c5 a8e0-a8f1 a8ff a926-a92d
a947-a953 a980-a983 a9b3-a9c0 a9e5 aa29-aa36 aa43 aa4c-aa4d aa7b-aa7d aab0 aab2-aab4 aab7-aab8
aabe-aabf aac1 aaeb-aaef aaf5-aaf6 abe3-abea abec-abed d7b0-d7ff fb1e fe00-fe0f fe20-fe2f feff ffa0
fff0-fffb 101fd 102e0 10376-1037a 10a01-10a03 10a05-10a06 10a0c-10a0f 10a38-10a3a 10a3f 10ae5-10ae6
10d24-10d27 10d69-10d6d 10eab-10eac 10efa-10eff 10f46-10f50 10f82-10f85 11000-11002 11038-11046
11070 11073-11074 1107f-11082 110b0-110ba 110c2 11100-11102 11127-11134 11145-11146 11173
11180-11182 111b3-111c0 111c9-111cc 111ce-111cf 1122c-11237 1123e 11241 112df-112ea 11300-11303
1133b-1133c 1133e-11344 11347-11348 1134b-1134d 11357 11362-11363 11366-1136c 11370-11374
113b8-113c0 113c2 113c5 113c7-113ca 113cc-113d0 113d2 113e1-113e2 11435-11446 1145e 114b0-114c3
115af-115b5 115b8-115c0 115dc-115dd 11630-11640 116ab-116b7 1171d-1172b 1182c-1183a 11930-11935
11937-11938 1193b-1193e 11940 11942-11943 119d1-119d7 119da-119e0 119e4 11a01-11a0a 11a33-11a39
11a3b-11a3e 11a47 11a51-11a5b 11a8a-11a99 11b60-11b67 11c2f-11c36 11c38-11c3f 11c92-11ca7
11ca9-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47 11d8a-11d8e 11d90-11d91 11d93-11d97
11ef3-11ef6 11f00-11f01 11f03 11f34-11f3a 11f3e-11f42 11f5a 13430-13440 13447-13455 1611e-1612f
16af0-16af4 16b30-16b36 16f4f 16f51-16f87 16f8f-16f92 16fe4 16ff0-16ff1 1bc9d-1bc9e 1bca0-1bca3
1cf00-1cf2d 1cf30-1cf46 1d165-1d169 1d16d-1d182 1d185-1d18b 1d1aa-1d1ad 1d242-1d244 1da00-1da36
1da3b-1da6c 1da75 1da84 1da9b-1da9f 1daa1-1daaf 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024
1e026-1e02a 1e08f 1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6 1e6ee-1e6ef
1e6f5 1e8d0-1e8d6 1e944-1e94a 1f3fb-1f3ff e0000-e0fff
"""
WIDE: Final = """
1100-115f 231a-231b 2329-232a 23e9-23ec 23f0 23f3 25fd-25fe 2614-2615 2630-2637 2648-2653 267f
268a-268f 2693 26a1 26aa-26ab 26bd-26be 26c4-26c5 26ce 26d4 26ea 26f2-26f3 26f5 26fa 26fd 2705
270a-270b 2728 274c 274e 2753-2755 2757 2795-2797 27b0 27bf 2b1b-2b1c 2b50 2b55 2e80-2e99 2e9b-2ef3
2f00-2fd5 2ff0-3029 3030-303e 3041-3096 309b-30ff 3105-312f 3131-3163 3165-318e 3190-31e5 31ef-321e
3220-3247 3250-a48c a490-a4c6 a960-a97c ac00-d7a3 f900-faff fe10-fe19 fe30-fe52 fe54-fe66 fe68-fe6b
ff01-ff60 ffe0-ffe6 16fe0-16fe3 16ff2-16ff6 17000-18cd5 18cff-18d1e 18d80-18df2 1aff0-1aff3
1aff5-1affb 1affd-1affe 1b000-1b122 1b132 1b150-1b152 1b155 1b164-1b167 1b170-1b2fb 1d300-1d356
1d360-1d376 1f004 1f0cf 1f18e 1f191-1f19a 1f200-1f202 1f210-1f23b 1f240-1f248 1f250-1f251
1f260-1f265 1f300-1f320 1f32d-1f335 1f337-1f37c 1f37e-1f393 1f3a0-1f3ca 1f3cf-1f3d3 1f3e0-1f3f0
1f3f4 1f3f8-1f3fa 1f400-1f43e 1f440 1f442-1f4fc 1f4ff-1f53d 1f54b-1f54e 1f550-1f567 1f57a
1f595-1f596 1f5a4 1f5fb-1f64f 1f680-1f6c5 1f6cc 1f6d0-1f6d2 1f6d5-1f6d8 1f6dc-1f6df 1f6eb-1f6ec
1f6f4-1f6fc 1f7e0-1f7eb 1f7f0 1f90c-1f93a 1f93c-1f945 1f947-1f9ff 1fa70-1fa7c 1fa80-1fa8a
1fa8e-1fac6 1fac8 1facd-1fadc 1fadf-1faea 1faef-1faf8 20000-2fffd 30000-3fffd
"""


def ranges(listed: str) -> list[tuple[int, int]]:
    """The ``first-last`` code point ranges of one of the lists above."""
    pairs = (part.partition("-") for part in listed.split())
    return [(int(first, 16), int(last or first, 16)) for first, _, last in pairs]


_BOUNDS: Final = sorted([(*pair, 0) for pair in ranges(ZERO_WIDTH)] + [(*pair, 2) for pair in ranges(WIDE)])
_STARTS: Final = [first for first, _, _ in _BOUNDS]


class _Widths(dict[str, int]):
    """Width by character, filled as characters are met."""

    def __missing__(self, character: str) -> int:
        code = ord(character)
        at = bisect_right(_STARTS, code) - 1
        width = _BOUNDS[at][2] if at >= 0 and code <= _BOUNDS[at][1] else 1
        self[character] = width
        return width


_WIDTHS: Final = _Widths()
width_of = _WIDTHS.__getitem__  #: cells of one character: 0, 1 or 2


def cell_width(text: str) -> int:
    """Cells that one line of safe text takes; equals ``rich.cells.cell_len`` of it."""
    return len(text) if text.isascii() and text.isprintable() else sum(map(width_of, text))


def cut_before(text: str, at: int, start: int = 0) -> int:
    """The last place from *start* to *at* where *text* may be cut without tearing a grapheme.

    In safe text that is a character with the zero-width ones after it, or a pair of regional indicators.
    """
    if at >= len(text):
        return len(text)
    end = at
    while end > start and not width_of(text[end]):
        end -= 1
    if "\U0001f1e6" <= text[end] <= "\U0001f1ff":
        first = end
        while first > start and "\U0001f1e6" <= text[first - 1] <= "\U0001f1ff":
            first -= 1
        end -= (end - first) % 2
    return end


# -- texts -------------------------------------------------------------------------------------------------


ELLIPSIS: Final = "…"
TAB_COLUMNS: Final = 4
_MARKS_KEPT: Final = 4  #: combining marks shown on one character; Vietnamese and Hebrew need 3

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
#: Emoji that others are joined to, and what is left out between them and behind them.
_PICTURE: Final = (
    r"[\u2194\u2195\u231a-\u23ff\u2600-\u27bf\u2b1b\u2b1c"
    r"\U0001f300-\U0001f3fa\U0001f400-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001faff]"
)
_GLYPH: Final = r"[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]"
_GLYPHS: Final = rf"\u200d|{_GLYPH}"  # compiled by `re` when a text calls for it
_UNSAFE_ASCII: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def _mark_class() -> str:
    """A regular expression for a zero-width character, but for the controls, which are written out before."""
    kept = [(first, last) for first, last in ranges(ZERO_WIDTH) if first > 0x9F]
    low = "".join(rf"\u{first:04x}-\u{last:04x}" for first, last in kept if last <= 0xFFFF)
    high = "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in kept if last > 0xFFFF)
    return rf"(?:[{low}]|{_ASTRAL}[{high}])"


_unsafe: Final = late_pattern(
    rf"(?P<emoji>{_PICTURE}(?:{_GLYPH}(?:\u200d{_PICTURE}{_GLYPH}?)*|(?:\u200d{_PICTURE}{_GLYPH}?)+))"
    rf"|(?P<selector>(?<={_EMOJI})[\ufe0e\ufe0f])|(?P<pair>{_FLAG}{{2}})"
    rf"|[{_UNSAFE_BMP}]|{_ASTRAL}(?:[{_UNSAFE_ASTRAL}]|{_FLAG})"
)


@cache
def _odd_marks() -> re.Pattern[str]:
    mark = _mark_class()
    return re.compile(rf"(?<!\S){mark}+|{mark}{{{_MARKS_KEPT + 1},}}")


#: Not one of the common characters that stay as they are: one fast pass finds most text safe.
#:
#: Letters are common but for those of no width; to list them would take 2 ms to compile.
_uncommon: Final = late_pattern(
    r"[^\n -~\xa0-\xac\xae-\u02ff\u2010-\u2027\u2030-\u205e\u2100-\u23ff\u2500-\u2bff\u3000-\u3029"
    r"\u3030-\u303f\u309b-\u30ff\uff01-\uff9f\U0001f300-\U0001f3fa\U0001f400-\U0001faff\w]"
    r"|[\u115f-\u11ff\u3164\ud7b0-\ud7fb\uffa0]"
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


_COMMANDS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def without_commands(text: str) -> str:
    """*text* with its lines and tabs; every other control character is made visible, CRLF and CR become LF.

    For what is stored and was written by nobody here, such as the answer of a model.
    """
    return _COMMANDS.sub(_control, _NEWLINES.sub("\n", text))


def _control(match: re.Match[str]) -> str:
    return _picture(match) if match[0] < "\x80" else f"‹U+{ord(match[0]):04X}›"


def _written_out(text: str) -> str:
    """*text* with everything unsafe but tab and newline made visible."""
    if text.isascii():
        return _UNSAFE_ASCII.sub(_picture, text)
    if not _uncommon().search(text):
        return text
    return _odd_marks().sub(_tamed, _unsafe().sub(_visible, text))


def _picture(match: re.Match[str]) -> str:
    return "␡" if match[0] == "\x7f" else chr(0x2400 + ord(match[0]))


def _visible(match: re.Match[str]) -> str:
    if match["selector"]:
        return ""
    if match["emoji"]:
        return re.sub(_GLYPHS, "", match["emoji"])
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
    excess = len(marks) - _MARKS_KEPT
    return base + marks if excess <= 0 else f"{base}{marks[:_MARKS_KEPT]}‹+{excess} marks›"


def _expanded(line: str) -> str:
    pieces = line.split("\t")
    column, out = 0, []
    for piece in pieces[:-1]:
        column += cell_width(piece)
        spaces = TAB_COLUMNS - column % TAB_COLUMNS
        column += spaces
        out.append(piece + " " * spaces)
    return "".join(out) + pieces[-1]


_QUOTED: Final = re.compile(r"“([^”]{60})[^”]+”")
_ENDLESS: Final = re.compile(r"(\S{200})\S+")


def abridged(sentence: str) -> str:
    """A sentence of ours with what it quotes cut short: somebody may have typed ten thousand letters."""
    return _ENDLESS.sub(r"\1…", _QUOTED.sub(r"“\1…”", sentence))


#: The first word of a sentence, in small letters; not a key, an id or a setting.
_SMALL: Final = re.compile(r"(?:[a-z]{2,}|a(?! was | is ))(?=[ ,])(?! \()")


def sentence(text: str) -> str:
    """What was written as a reason, as a sentence: with a capital letter in front and a full stop behind."""
    text = text.rstrip()
    text = text[:1].upper() + text[1:] if _SMALL.match(text) else text
    return text if not text or text.endswith((".", "!", "?", "…", ".”", "?”")) else f"{text}."


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
            return text[: cut_before(text, fits)].removesuffix(ellipsis) + ellipsis if room >= 0 else ""
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
_SPACES: Final = re.compile(rf"[{_SCRIPT_SPACE}]+")
PREVIEW_UNITS: Final = 240


def preview(text: str, limit: int = PREVIEW_UNITS) -> str:
    """*text* as the engine's ``lcm`` command previews it: white space folded and trimmed, then cut.

    *limit* counts UTF-16 units, the final ``…`` included, and the cut may split a surrogate pair as
    JavaScript does; not made safe to show. Verified on the 115 previews that were recorded of 0.15.3.
    """
    words = _SPACES.split(text, limit + 2)  # what is behind so many is cut off, whatever it is
    folded = " ".join(words).strip(" ")[: limit + 1]
    encoded = folded.encode("utf-16-le", "surrogatepass")
    if len(encoded) // 2 <= limit:
        return folded
    return encoded[: 2 * max(limit - 1, 0)].decode("utf-16-le", "surrogatepass") + ELLIPSIS


# -- spellings ---------------------------------------------------------------------------------------------

#: Letters with a stroke, and the i without a dot: Unicode does not take them apart.
_STROKES: Final = dict(zip("ŁłØøĐđĦħŦŧı", "LlOoDdHhTti", strict=True))


def fold(text: str) -> str:
    """What all spellings of a text have in common: without case, accents, vowel points and voicing marks.

    Composed and decomposed spellings give the same. Folding it again changes nothing. Source:
    docs/spec/searching.md, "Spellings".
    """
    if text.isascii():
        return text.lower()
    accents, folding = _folded_signs()
    if not folding.search(text):
        return text.casefold()
    bare = accents.sub(lambda one: _STROKES.get(one[0], ""), unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", bare.casefold())


def same_spelling(text: str) -> str:
    """A text without case, composed: equal for what a person calls the same spelling."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def sought_as(text: str) -> str:
    """What to look for in folded texts, to find *text* in any spelling; accents alone are in none of them."""
    return fold(text) or same_spelling(text)


def places_of(sought: str, text: str, folded: str | None = None) -> list[tuple[int, int]]:
    """Where a text stands in another, in any spelling and apart from each other: start and end of each.

    *sought* is folded (`sought_as`) and has no line break; *folded* is the whole text folded, if it is known.
    """
    folded = fold(text) if folded is None else folded
    if not sought or sought not in folded:
        return []
    if text.isascii():
        return [(start, start + len(sought)) for start in starts_of(folded, sought)]
    found: list[tuple[int, int]] = []
    begin = 0
    for line, said in zip(text.split("\n"), folded.split("\n"), strict=True):
        spans = [(start, start + len(sought)) for start in starts_of(said, sought)]
        found += ((begin + first, begin + last) for first, last in unfolded(line, spans))
        begin += len(line) + 1
    return found


def starts_of(text: str, sought: str) -> list[int]:
    """Where one text stands in another, from the left and apart from each other."""
    found: list[int] = []
    at = text.find(sought)
    while at >= 0:
        found.append(at)
        at = text.find(sought, at + len(sought))
    return found


def unfolded(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where runs of the folded text, in ascending order, are in the text itself: start and end of each."""
    if text.isascii():
        return list(spans)
    found: list[tuple[int, int]] = []
    clusters = _clusters().finditer(text)
    start = end = until = 0  #: of the cluster, and where its folded text ends
    before = 0  #: where that begins

    def go_to(place: int) -> None:
        nonlocal start, end, until, before
        while until <= place and (one := next(clusters, None)) is not None:
            (start, end), before = one.span(), until
            until += len(fold(one[0]))

    for first, last in spans:
        go_to(first)
        plain = end - start == until - before  # a run of letters as they are: each is one
        begin = start + (first - before if plain else 0)
        go_to(last - 1)
        plain = end - start == until - before
        found.append((begin, start + (last - before) if plain else end))
    return found


@cache
def _clusters() -> regex.Pattern[str]:
    """A character with its marks, or a run of ASCII, Cyrillic or ideographs without any."""
    import regex

    plain = r"[\x00-\x7f\u0400-\u045f\u3400-\u9fff]"
    return regex.compile(rf"{plain}+(?={plain})|\X")


@cache
def _folded_signs() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What folding takes away or replaces in decomposed text, and what it changes in a text, besides case."""
    accents, changed = [*_STROKES], {*_STROKES}
    for code in range(0x80, 0x10000):
        if 0x3400 <= code < 0xA000 or 0xAC00 <= code < 0xE000:  # ideographs, syllables, surrogates
            continue
        sign = chr(code)
        if _is_accent(unicodedata.combining(sign)):
            accents.append(sign)
            changed.add(sign)
        parts = unicodedata.decomposition(sign)
        if parts and not parts.startswith("<"):
            changed |= {sign, *(chr(int(part, 16)) for part in parts.split()[1:])}
    changed |= {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # parts of syllables
    return _any_of(accents), _any_of(changed)


def _any_of(signs: Iterable[str]) -> re.Pattern[str]:
    return re.compile(f"[{''.join(sorted(signs))}]")


def _is_accent(combining: int) -> bool:
    """Whether marks of this combining class are accents, points, nukta or voicing, and no vowel or tone."""
    return combining >= 200 or combining in (1, 7, 8) or 10 <= combining <= 36


# -- blanks ----------------------------------------------------------------------------------------------
# What the engine's language counts as blank (docs/spec/words.md).

#: What counts as blank there: `trim` takes these off, and ``\\s`` of its patterns means them. All of them are
#: single characters that may be used in a class of a pattern.
BLANKS: Final = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def as_typed(key: str, known: Container[str | None]) -> str:
    """A key that somebody typed: with the blanks around it where one of those that are *known* has them."""
    return key if key in known else key.strip(BLANKS)


# -- numbers and nouns -----------------------------------------------------------------------------------
# Numbers, nouns and verbs that agree, for sentences.

_PLURALS: Final = {
    "leaf": "leaves",
    "pass": "passes",
    "link or edge": "links or edges",
    "source of a focus brief": "sources of focus briefs",
    "source of a missing summary": "sources of a missing summary",
}
_SINGULARS: Final = {
    "are": "is",
    "have": "has",
    "were": "was",
    "had": "had",
    "do": "does",
    "lie": "lies",
    "go": "goes",
}


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 message``, ``12,000 messages``; *many*: a plural that no rule makes."""
    plural = f"{one[:-1]}ies" if one.endswith("y") and one[-2] not in "aeiou" else f"{one}s"
    return f"{number:,} {one if number == 1 else many or _PLURALS.get(one, plural)}"


def agree(number: int, words: str) -> str:
    """*words*, which begin with a verb in the plural, as they follow on *number*."""
    verb, blank, rest = words.partition(" ")
    if number == 1:
        verb = _SINGULARS.get(verb, verb if verb in _PAST else verb + "s")
    return verb + blank + rest


_PAST: Final = frozenset({"went", "could", "cannot", "must"})


def phrase(number: int, noun: str, owner: ConversationId | None, words: str) -> str:
    """``2 messages of conversation 7 have no parts``; *words* begin with a verb in the plural."""
    where = "" if owner is None else f" of conversation {owner}"
    return f"{counted(number, noun)}{where} {agree(number, words)}"


def some(texts: Iterable[object], limit: int = 3, count: int | None = None) -> str:
    """The first few of some ids or texts, for a sentence; *count*: of how many, where not all are given."""
    shown = [str(one) for one in texts]
    rest = (len(shown) if count is None else count) - limit
    return ", ".join(shown[:limit]) + (f" and {rest:,} more" if rest > 0 else "")


def depth_name(depth: int) -> str:
    """``leaf``, or ``D1`` and so on for what was condensed from leaves."""
    return "leaf" if depth == 0 else f"D{depth}"


# -- token budgets ---------------------------------------------------------------------------------------
# How people write the token budget of a context, and the steps in which it grows.

#: Context windows that models have, in tokens.
STEPS: Final = (4_000, 8_000, 16_000, 32_000, 64_000, 100_000, 128_000, 200_000, 256_000, 400_000, 1_000_000)
_WRITTEN: Final = re.compile(r"([0-9][0-9_,' ]{0,30})(?:\.([0-9]{1,3}))?\s*([kKmM]?)")
_UNITS: Final = {"": 1, "k": 1_000, "m": 1_000_000}
#: No model reads more, and no count of ours can overflow below it.
LARGEST: Final = 1_000_000_000


def step(budget: int, direction: int) -> int:
    """The next larger step (*direction* 1) or smaller one (-1); *budget* itself beyond the last."""
    if direction > 0:
        return next((size for size in STEPS if size > budget), budget)
    return next((size for size in reversed(STEPS) if size < budget), budget)


def parse_budget(text: str) -> int | None:
    """A number of tokens as people write it (``128000``, ``128,000``, ``128k``, ``1.5m``), else None."""
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        return None
    unit = _UNITS[match[3].lower()]
    if match[2] and unit == 1:
        return None
    whole = int(re.sub(r"[^0-9]", "", match[1]))
    budget = whole * unit + (int(match[2]) * unit // 10 ** len(match[2]) if match[2] else 0)
    return budget if 0 < budget <= LARGEST else None


_FENCE: Final = re.compile(r"`{3,}")


def fenced(text: str) -> Iterator[str]:
    """A text that cannot end its own fence."""
    longest = max((len(run) for run in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    yield from (fence, text, fence)
