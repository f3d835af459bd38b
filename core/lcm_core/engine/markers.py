"""What a summary begins with: markers of broken summaries, and the opening that all summaries share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from lcm_core.base.records import SummaryId
from lcm_core.base.text import BLANKS, late_pattern
from lcm_core.base.values import Record

# -- broken summaries ------------------------------------------------------------------------------------
# Truncations and stand-ins that the engine stored when a model failed.
#
# The rules and their order are those of the engine's own doctor (docs/spec/doctor.md, "Order of the
# markers"), by position: a marker that a summary merely quotes is no fault. Positions count UTF-16 units,
# as JavaScript does. What the doctor does not see (empty text, hard caps) is distinguished from what it
# does.


class BadKind(StrEnum):
    """What is wrong with the text of a summary; the check that says so is `check`."""

    OLD = "old"  #: begins with the fallback marker, as the oldest versions wrote it
    FALLBACK = "fallback"  #: the summariser gave nothing; the text is a cut of the source
    TRUNCATED = (
        "truncated"  #: every attempt came out longer than the source, which was cut; the doctor says "new"
    )
    EMERGENCY = "emergency"  #: no model could be found; the text is a cut of the source
    EMPTY = "empty"  #: no text at all; the doctor does not report it
    ERROR = "error"  #: the JSON of a provider's error
    COPY = "copy"  #: the beginning of its source, without a mark
    CAPPED = "capped"  #: cut at the hard cap
    REASONING = "reasoning"
    REFUSAL = "refusal"
    WORDLESS = "wordless"

    @property
    def check(self) -> str:
        """The id of the check (docs/spec/decisions.md, "Checks")."""
        return _CHECKS[self]


_CHECKS: Final = {
    BadKind.OLD: "C3",
    BadKind.FALLBACK: "C3",
    BadKind.TRUNCATED: "C1",
    BadKind.EMERGENCY: "C4",
    BadKind.EMPTY: "C7",
    BadKind.ERROR: "C15",
    BadKind.COPY: "C9",
    BadKind.CAPPED: "C5",
    BadKind.REASONING: "C12",
    BadKind.REFUSAL: "C15",
    BadKind.WORDLESS: "C7",
}


class Wrong(Record, frozen=True):
    """The summaries whose texts are not what they should be."""

    broken: Mapping[SummaryId, BadKind]  #: what a repair lists
    stale: frozenset[SummaryId]  #: made from texts that were replaced since


NONE_WRONG: Final = Wrong({}, frozenset())

FALLBACK_MARKER: Final = "[LCM fallback summary; truncated for context management]"
DIRECTIVE_MARKER: Final = "[LCM fallback summary; directive-shaped untrusted content omitted]"
TRUNCATED_MARKER: Final = "[Truncated from "
EMERGENCY_MARKER: Final = "[Truncated for context management]"
EMERGENCY_MODEL: Final = "emergency-fallback"
UNKNOWN_MODEL: Final = "unknown"

#: A summary that holds none of these (letter case counts), has another model than `EMERGENCY_MODEL` and is
#: not blank has no mark.
MARKER_LIKE: Final[tuple[str, ...]] = (
    FALLBACK_MARKER,
    DIRECTIVE_MARKER,
    TRUNCATED_MARKER,
    EMERGENCY_MARKER,
)
TRUNCATED_WINDOW: Final = 40  #: UTF-16 units from the end within which the truncation marker counts
FALLBACK_WINDOW: Final = 80  #: likewise for the fallback marker

_CAPPED: Final = re.compile(r"\[Capped(?: from [0-9]+ tokens)?(?: to ~[0-9]+)?\]\s*\Z")


def classify(content: str, model: str | None) -> BadKind | None:
    """What is wrong with a summary, or None. Only the first place of a marker counts, as for the engine.

    *model* None means that this schema does not record it; migrating gives such rows the model ``unknown``,
    and so they count here.
    """
    if content.startswith(DIRECTIVE_MARKER):
        return BadKind.FALLBACK
    if content.startswith(FALLBACK_MARKER):
        return BadKind.OLD
    if DIRECTIVE_MARKER in content:
        return BadKind.FALLBACK
    if _first_is_within(content, TRUNCATED_MARKER, TRUNCATED_WINDOW):
        return BadKind.TRUNCATED
    if _first_is_within(content, FALLBACK_MARKER, FALLBACK_WINDOW):
        return BadKind.FALLBACK
    if model == EMERGENCY_MODEL or (model in (None, UNKNOWN_MODEL) and EMERGENCY_MARKER in content):
        return BadKind.EMERGENCY
    return None if content.strip(BLANKS) else BadKind.EMPTY


def _first_is_within(content: str, marker: str, window: int) -> bool:
    """Whether the first *marker* begins in the last *window* UTF-16 units of *content*."""
    at = content.find(marker)
    if at < max(len(content) - window, 0):  # a character is one unit or two, so it is no nearer than that
        return False
    return len(content[at:].encode("utf-16-le", "surrogatepass")) // 2 <= window


def broken_kind(content: str, model: str | None) -> BadKind | None:
    """Why a text is certainly no summary, as far as it shows without its source."""
    return classify(content, model) or (BadKind.ERROR if is_error(content) else None)


def is_error(content: str) -> bool:
    """Whether a text is the JSON of an error as a whole: certainly no summary."""
    text = content.strip()
    if not text.startswith("{") or len(text) > 20_000:
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and ("error" in value or value.get("type") == "error")


def is_capped(content: str) -> bool:
    """Whether the text was cut at the hard cap (docs/spec/texts.md, "Escalation"); no doctor reports it."""
    return _CAPPED.search(content, max(len(content) - 200, 0)) is not None


#: Characters of a cut copy from which it is no coincidence.
_MIN_COPY: Final = 200
#: Characters below which the beginning of a source is too common to suspect a copy.
_MIN_OPENING: Final = 12
_HEADER: Final = re.compile(r"^\[[0-9]{4}-[0-9]{2}-[0-9]{2}[^\]\n]{0,120}\][ \t]*$", re.MULTILINE)


class Copy(StrEnum):
    """How a text repeats its source."""

    WHOLE = "whole"  #: nothing is lost, and nothing was gained
    CUT = "cut"  #: the beginning of the source, and no mark of the cut


def squeezed(text: str) -> str:
    """A text without the headers of a source text and with single blanks: what a copy is compared by."""
    return " ".join((_HEADER.sub("", text) if "[" in text else text).split())


def may_be_copy(content: str, opening: str) -> bool:
    """Whether a text begins as its source does: only then is the source worth reading."""
    start = squeezed(opening)[:60]
    return len(start) >= _MIN_OPENING and start in squeezed(content[:1_000])[: len(start) + 200]


def copy_of_source(content: str, sources: Iterable[str]) -> Copy | None:
    """Whether a text is its source or the beginning of it (docs/spec/texts.md, "Fallback")."""
    text, source = squeezed(content), " ".join(filter(None, map(squeezed, sources)))
    if not text or not source.startswith(text):
        return None
    if text == source:
        return Copy.WHOLE
    return Copy.CUT if len(text) >= _MIN_COPY else None


# -- the gist --------------------------------------------------------------------------------------------
# How a summary begins once the opening that all summaries share is skipped.
#
# Summaries open with what they are: a marker of the engine, the elements around a text that is sent, a
# heading, the time that they cover, the label of their first point (docs/spec/decisions.md, "How a summary
# begins"). In a list these fill the first cells of every row. `gist` finds where the text begins to say
# something; it returns the rest of the text as it is. Whole texts are shown whole.
#
# Most of it is structure, the same in every language: short headings, short labels that end in a colon,
# times, marks of lists. Only openings without any structure ("Condensed memory covering …") are known by
# their words.

#: Characters of a text that are searched: more than that is never only an opening.
MOST: Final = 2_000

_MARKERS: Final = (FALLBACK_MARKER, DIRECTIVE_MARKER, EMERGENCY_MARKER)
#: Words that make a line the opening of a summary, where it has no other words than these and those below.
_NAMES: Final = """
action actions assistant background blocker blockers condensed constraint constraints context conversation
conversations covering covers date dates decision decisions details done expand facts finding findings
followup goal goals highlights history issues key lcm leaf memory message messages milestones next notes open
outcome outcomes overview pending period plan problems progress questions recap result results segment session
source state status summaries summary system task tasks timeline tldr todo tool topics transcript tl
truncated turn turns user
"""
#: Words between them, which say nothing alone.
_LINKS: Final = """
a about above active all an and as at batch below between by chunk continued current d0 d1 d2 d3 d4 d5 dr
earlier fallback following follows for from further here important in in-progress is items made main new of on
or part previous range raw recent remaining section steps sure technical that the these this time to tokens
until with work
"""
_NAMING: Final = frozenset(_NAMES.split())
_LINKING: Final = frozenset(_LINKS.split())
#: Elements around a summary that is sent, and those that models write around theirs.
_AROUND: Final = """
analysis answer body content context conversation conversation_summary document focus_brief memory output
parents response result sources summary summary_ref text
"""
_ELEMENTS: Final = frozenset(_AROUND.split())
_ELEMENT: Final = re.compile(r"</?([A-Za-z_]{1,30})(?:[ \t\n][^<>]{0,400})?/?>")


#: Blanks, and what sets off a line: bullets, numbers, marks of headings, quotations and emphasis.
_setting_off: Final = late_pattern(
    r"\s+"
    r"|(?:[-*+•·–—]|\d{1,3}[.)]|>+|#{1,6}|\[[ xX]\])[ \t]+"
    r"|(?:[・※■□●○◆◇▪▸►①-⑳]|\d{1,3}[、．）]|[一二三四五六七八九十]{1,3}[、．])[ \t\u3000]*"
    r"|[*_]{1,3}(?=[^\W_]|[\[【]|\s|$)"
    r"|(?:[-=*_]{3,}|`{3,}\w{0,12})(?:\n|$)"
)


#: A word of a label or a short heading. What has a digit, a sign or a capital within names something.
_WORD: Final = r"[^\s\d!-/:-@\[-`{-~\u3000-\u303f\uff00-\uff0f\uff1a-\uff20]+"


#: A label and its colon.
_label: Final = late_pattern(
    rf"(?P<words>{_WORD}(?:[ \u00a0-]{_WORD}){{0,5}})"
    r"[ \u00a0]?(?:[(（][^()（）\n]{0,48}\d[^()（）\n]{0,48}[)）][ ]?)?"
    r"[*_]{0,3}(?::(?=[\s*_]|$)|：)[*_]{0,3}"
)


#: A line that is a heading and nothing else, or a name in lenticular brackets.
_heading: Final = late_pattern(
    rf"(?:\#{{1,6}}[ \t\u3000]+(?P<marked>{_WORD}(?:[ -]{_WORD}){{0,5}})[ \t#]*(?=\n)"
    rf"|(?P<bold>\*\*|__)(?P<set>{_WORD}(?:[ -]{_WORD}){{0,5}})(?P=bold)[ \t]*(?=\n)"
    r"|【(?P<framed>[^】\n]{1,12})】)"
)


#: Words of a label, by where it is: alone on its line, behind a mark, at the beginning of a line.
_ALONE, _SET_OFF, _BARE = 6, 3, 1
#: Letters of a label in a script that sets no blanks between words.
_LETTERS: Final = 12
#: The most capitals of an abbreviation such as NOTE; longer words are names such as ECONNRESET.
_CAPITALS: Final = 4


#: What a line that only names consists of, and where it ends.
_token: Final = late_pattern(
    r"(?P<time>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?"
    r"(?:Z|[ ]?(?:[A-Z]{3,5}\b|[+-]\d\d:?\d\d))?)"
    r"|(?P<end>[:.](?=[\s*_]|$)|\]|\n)"
    r"|(?P<word>[^\W_]+(?:[-'][^\W_]+)*)"
    r"|(?P<between>[ \t\-–—→~,;|/&()\[*_#])"
)


def gist(text: str) -> str:
    """*text* from where it says something of its own; all of it where it nowhere does. Not made safe to show.

    What is passed over: markers of the engine, elements, short headings and labels in any language, and lines
    that hold only times, numbers and words such as "Condensed memory covering … to …".
    """
    head = text[:MOST]
    at, set_off = 0, False
    while (end := _opening_to(head, at, set_off=set_off)) > at:
        passed, at = head[at:end], end
        if "\n" in passed or not passed.isspace():
            set_off = "\n" not in passed and _setting_off().fullmatch(passed) is not None
    return text[at:] if text[at:].strip(" \t\n*_#`.:-…：") else text


def beginning(text: str) -> str:
    """The gist of *text* for a list without a column for failures; ``✗`` where a marker opens it."""
    found = gist(text)
    opening = text[: len(text) - len(found)].lstrip()
    return f"✗ {found}" if opening.startswith((*_MARKERS, TRUNCATED_MARKER)) else found


def _opening_to(text: str, at: int, *, set_off: bool) -> int:
    """Where the opening that begins at a place ends; the same place where none begins.

    *set_off*: a mark of a list or of emphasis is before it.
    """
    for marker in _MARKERS:
        if text.startswith(marker, at):
            return at + len(marker)
    if (line := _heading().match(text, at)) and _is_name(line["marked"] or line["set"] or "", _SET_OFF):
        return line.end()
    if line is not None and line["framed"]:
        return line.end()
    if found := _setting_off().match(text, at):
        return found.end()
    element = _ELEMENT.match(text, at)
    if element is not None and element[1].lower() in _ELEMENTS:
        return element.end()
    if (end := _label_to(text, at)) > at:
        return end
    label = _label().match(text, at)
    if label is not None:
        rest, ends, _ = text[label.end() :].partition("\n")
        alone = ends and not rest.strip()
        if _is_name(label["words"], _ALONE if alone else _SET_OFF if set_off else _BARE):
            return label.end()
    return at


def _is_name(words: str, most: int) -> bool:
    """Whether some words only name what follows: few, the first one with a capital where there are any."""
    some = words.replace("-", " ").split()
    if not some or len(some) > most or some[0][0].islower():
        return False
    if any(word[1:] != word[1:].lower() and (len(word) > _CAPITALS or not word.isupper()) for word in some):
        return False  # a name such as walCheckpoint
    return all(len(word) <= _LETTERS for word in some if not word.isascii() and word.upper() == word.lower())


def _label_to(text: str, start: int) -> int:
    """Where a line, or the beginning of one up to a colon, a full stop or a bracket, ends that only names."""
    at, names = start, False
    while token := _token().match(text, at):
        at = token.end()
        if token["end"]:
            return at if names else start
        if token["time"]:
            names = True
        elif (word := token["word"]) and not word.replace("-", "").isdecimal():
            word = word.lower()
            if word not in _NAMING and word not in _LINKING:
                return start
            names |= word in _NAMING
    return at if names and at == len(text) else start
