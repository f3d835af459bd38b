"""How a summary begins once what all summaries begin with is passed over: the words that tell it from others.

Summaries open with what they are: a marker of the engine, the elements around a text that is sent, a heading,
the time that they cover, the label of their first point (docs/decisions.md, "How a summary begins"). In a
list these fill the first cells of every row. `gist` finds where the text begins to say something; it returns
the rest of the text as it is and takes nothing out of it. Whole texts are shown whole.
"""

from __future__ import annotations

import re
from typing import Final

from lcm_core.dag.markers import DIRECTIVE_MARKER, EMERGENCY_MARKER, FALLBACK_MARKER, TRUNCATED_MARKER

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
#: Blanks, and what sets off a line: bullets, numbers of points, marks of headings, quotations and emphasis.
_SETTING_OFF: Final = re.compile(
    r"\s+"
    r"|(?:[-*+•·–—]|\d{1,3}[.)]|>+|#{1,6}|\[[ xX]\])[ \t]+"
    r"|[*_]{1,3}(?=[^\W_]|\[|\s|$)"
    r"|(?:[-=*_]{3,}|`{3,}\w{0,12})(?:\n|$)"
)
_TOKEN: Final = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?"
    r"(?:Z|[ ]?(?:[A-Z]{3,5}\b|[+-]\d\d:?\d\d))?)"
    r"|(?P<end>[:.](?=[\s*_]|$)|\]|\n)"
    r"|(?P<word>[^\W_]+(?:[-'][^\W_]+)*)"
    r"|(?P<between>[ \t\-–—→~,;|/&()\[*_#])"
)


def gist(text: str) -> str:
    """*text* from where it says something of its own; all of it where it nowhere does. Not made safe to show.

    What is passed over: markers of the engine, elements, and lines or labels that hold only times, numbers
    and words such as "Condensed memory covering … to …" or "Decision:".
    """
    head = text[:MOST]
    at = 0
    while (end := _opening_to(head, at)) > at:
        at = end
    return text[at:] if text[at:].strip(" \t\n*_#`.:-…") else text


def beginning(text: str) -> str:
    """The gist of *text* for a list without a column for failures; ``✗`` where a marker opens it."""
    found = gist(text)
    opening = text[: len(text) - len(found)].lstrip()
    return f"✗ {found}" if opening.startswith((*_MARKERS, TRUNCATED_MARKER)) else found


def _opening_to(text: str, at: int) -> int:
    """Where the opening that begins at a place ends; the same place where none begins."""
    for marker in _MARKERS:
        if text.startswith(marker, at):
            return at + len(marker)
    if found := _SETTING_OFF.match(text, at):
        return found.end()
    element = _ELEMENT.match(text, at)
    if element is not None and element[1].lower() in _ELEMENTS:
        return element.end()
    return _label_to(text, at)


def _label_to(text: str, start: int) -> int:
    """Where a line, or the beginning of one up to a colon, a full stop or a bracket, ends that only names."""
    at, names = start, False
    while token := _TOKEN.match(text, at):
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
