"""Sentences that are shaped like an instruction to a model: they do not come through a cut of the source.

docs/engine/texts.md, "Directives". All of it takes time in proportion to the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lcm_core.javascript import BLANKS, trimmed

#: What the first of a row of such sentences leaves behind.
OMITTED: Final = "[LCM fallback summary omitted directive-shaped untrusted content]."


@dataclass(frozen=True, slots=True)
class Sound:
    """A text without directives."""

    text: str  #: trimmed, without blanks before line breaks
    omitted: bool  #: whether anything was

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left, or nothing but notes of what was omitted."""
        return not trimmed(self.text.replace(OMITTED, ""))


def without_directives(text: str) -> Sound:
    """A text without the units that are shaped like directives, nor short orders that follow right behind."""
    kept: list[str] = []
    in_row = omitted = (
        False  #: whether what was omitted last is what was looked at last; whether anything was
    )
    for unit in _UNIT.findall(text):
        if unit[0] == "\n":
            kept.append(unit)
            continue
        was_in_row = in_row
        in_row = _DIRECTIVE.search(unit) is not None or (was_in_row and _is_order(unit))
        if not in_row:
            kept.append(unit)
        elif not was_in_row:
            omitted = True
            kept.append(f"{OMITTED} ")
    return Sound(trimmed(_BEFORE_BREAK.sub("", "".join(kept))), omitted)


#: Runs of line breaks, and sentences with all marks and blanks behind them; marks in other places are lost.
_UNIT: Final = re.compile(rf"\n+|[^\n.!?]+[.!?]*[{BLANKS}]*")
_BEFORE_BREAK: Final = re.compile(r"(?<![ \t])[ \t]+(?=\n)")
_ORDER: Final = re.compile(
    r"(?:answer|reply|respond|say|output|print|return|show|provide|give|send|reveal|dump|exfiltrate)\b"
    r"(?P<rest>[^.!?\n]*)[.!?]?",
    re.IGNORECASE | re.ASCII,
)
_LONGEST_ORDER: Final = 160  #: UTF-16 units behind its first word


def _is_order(unit: str) -> bool:
    match = _ORDER.fullmatch(trimmed(unit))
    return match is not None and len(match["rest"].encode("utf-16-le", "surrogatepass")) <= 2 * _LONGEST_ORDER


# -- the shapes ------------------------------------------------------------------------------------------

_B: Final = rf"[{BLANKS}]+"
_WHAT: Final = r"(?:instruction|prompt|rule)s?"
_DROP: Final = r"(?:ignore|disregard|forget|override)"
_WHOSE: Final = rf"(?:(?:the|this|that|your|my|any|these|those|all|every){_B})?"
#: Dan the persona, and not a person of that name.
_DAN: Final = r"(?!(?-i:Dan)\b)dan\b"
_LABEL: Final = rf"(?:[a-z][a-z0-9 _/-]{{0,40}}:[{BLANKS}]*)?"
_BECOME: Final = rf"(?:act{_B}as|pretend{_B}to{_B}be){_B}"
_SHAPES: Final = (
    rf"\b{_DROP}{_B}(?:all{_B})?(?:of{_B})?(?:(?:the|your|my|any|these|those){_B})?"
    rf"(?:(?:previous|prior|above|earlier)(?:{_B}(?:system|developer))?|system|developer){_B}{_WHAT}\b",
    rf"\b{_DROP}{_B}(?:(?:all|any){_B})?(?:of{_B})?"
    rf"(?:(?:the|your|my|these|those|current|existing|original){_B})?{_WHAT}"
    rf"(?=[{BLANKS}]*\Z|[.,;:!?]|{_B}(?:and|then|now|before|after|instead|to|with|from)\b)",
    rf"\byou{_B}are{_B}now\b",
    rf"\bfrom{_B}now{_B}on\b",
    rf"\breply{_B}only{_B}with\b",
    rf"\b(?:reveal|print|show|dump|exfiltrate|provide|give|send){_B}(?:me{_B})?(?:(?:the|your|my|any){_B})?"
    rf"(?:system|developer){_B}prompt\b",
    rf"\bjailbreak{_B}(?:mode|prompt|instructions?|the{_B}model|the{_B}assistant)\b",
    rf"\bdan{_B}mode\b",
    rf"\byou{_B}are{_B}dan\b",
    rf"\banswer{_B}(?:me|us|{_WHOSE}(?:future{_B})?(?:user|request|question|prompt|message)s?){_B}as{_B}dan\b",
    rf"\A{_LABEL}{_BECOME}dan\b",
    rf"\b{_BECOME}{_DAN}",
    rf"\b(?:enable|activate|unlock|enter|start|use){_B}{_DAN}",
)
_DIRECTIVE: Final = re.compile("|".join(_SHAPES), re.IGNORECASE | re.ASCII)
