"""From a source text to the text of a summary: normal, aggressive, a cap, a cut of the source.

Two sets of rules (docs/engine/texts.md, "Escalation", "Fallback" and "The summariser's own cut"). The
engine's compaction and ours meet here. A cut of the source has no sentences that are shaped like an
instruction to a model (docs/engine/texts.md, "Directives").
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from lcm_core.dag.markers import DIRECTIVE_MARKER, FALLBACK_MARKER
from lcm_core.engine_rules import EngineRules
from lcm_core.javascript import BLANKS, first_units, trimmed, well_formed
from lcm_core.summarize.request import NO_USAGE, Summarizer, SummaryReply, SummaryRequest, Usage
from lcm_core.tokens import Estimator, estimate, utf16_length

#: What the first of a row of such sentences leaves behind.
OMITTED: Final = "[LCM fallback summary omitted directive-shaped untrusted content]."


@dataclass(frozen=True, slots=True)
class WithoutDirectives:
    """A text without directives."""

    text: str  #: trimmed, without blanks before line breaks
    omitted: bool  #: whether anything was

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left, or nothing but notes of what was omitted."""
        return not trimmed(self.text.replace(OMITTED, ""))


def without_directives(text: str) -> WithoutDirectives:
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
    return WithoutDirectives(trimmed(_BEFORE_BREAK.sub("", "".join(kept))), omitted)


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


class Level(StrEnum):
    """How a text came about, as the engine names it."""

    NORMAL = "normal"
    AGGRESSIVE = "aggressive"
    FALLBACK = "fallback"  #: no model made it: a cut of the source
    CAPPED = "capped"  #: a model made it, and it was cut


@dataclass(frozen=True, slots=True)
class Escalated:
    """What came of the attempts to summarise a text."""

    content: str
    tokens: int  #: estimate of the content
    source_tokens: int  #: estimate of the text that was to be summarised
    level: Level
    model: str  #: what ``summaries.model`` records
    calls: int
    usage: Usage
    is_cut: bool = False  #: no model wrote it: a cut of the source, or all of it
    as_made: str = ""  #: the content before halves of characters became U+FFFD, which a sweep hands on

    @property
    def way(self) -> str:
        """The level for people; a cut that counts as an answer is named."""
        is_own = self.is_cut and self.level is not Level.FALLBACK
        return f"{self.level}, a cut" if is_own else str(self.level)


def target_tokens(depth: int, source_tokens: int, *, aggressive: bool, rules: EngineRules) -> int:
    """The size that a model is asked to stay under (docs/engine/texts.md, "Targets")."""
    if depth > 0:
        return max(512, rules.compaction.condensed_target_tokens)
    if not aggressive:
        return max(192, min(rules.compaction.leaf_target_tokens, math.floor(0.35 * source_tokens)))
    cap = rules.escalation.aggressive_leaf_cap
    if cap is None:
        cap = math.floor(0.55 * rules.compaction.leaf_target_tokens)
    return max(96, min(cap, math.floor(0.20 * source_tokens)))


def _tokens(text: str, estimator: Estimator) -> int:
    """The same of a text that JSON may have given halves of characters: each counts as one."""
    return estimate(well_formed(text), estimator)


async def escalate(
    summarizer: Summarizer,
    text: str,
    depth: int,
    *,
    previous: str | None,
    rules: EngineRules,
) -> Escalated:
    """Summarise a source text for a summary of *depth*, at any cost in quality.

    Raises:
        ProviderAuthError: the key was refused; nothing may be written.
        SummarizerError: no answer came back.
    """
    text = trimmed(text)
    if not text:
        return _escalated(_truncated_note(0), Level.FALLBACK, 0, [], rules)
    size = max(1, _tokens(text, rules.estimator))
    asked: list[SummaryReply] = []
    for aggressive in (False, True):
        target = target_tokens(depth, size, aggressive=aggressive, rules=rules)
        request = SummaryRequest(
            text=text,
            aggressive=aggressive,
            depth=depth,
            target_tokens=target,
            previous=previous,
            instructions=rules.escalation.custom_instructions,
            estimator=rules.estimator,
        )
        asked.append(await summarizer(request))
        is_cut = asked[-1].is_missing
        came = summarizer_cut(text, target, rules) if is_cut else asked[-1].as_came
        answer = trimmed(came) if rules.escalation.trims else came
        if not answer and not rules.escalation.accepts_empty:
            break  # the engine does not ask again after an empty answer
        if not (asked[-1].finished or is_cut):
            continue  # cut off, or a refusal: the engine would keep it, and nothing would ever show it
        if _tokens(answer, rules.estimator) < size:
            level = Level.AGGRESSIVE if aggressive else Level.NORMAL
            return replace(_kept(answer, level, depth, size, asked, rules), is_cut=is_cut)
    return _escalated(fallback(text, rules), Level.FALLBACK, size, asked, rules)


def _kept(
    answer: str,
    level: Level,
    depth: int,
    size: int,
    asked: list[SummaryReply],
    rules: EngineRules,
) -> Escalated:
    """An answer that is smaller than its source, cut when it is far over target."""
    target = rules.compaction.condensed_target_tokens if depth > 0 else rules.compaction.leaf_target_tokens
    limit = math.ceil(target * rules.escalation.summary_max_overage_factor)
    if not rules.escalation.caps or _tokens(answer, rules.estimator) <= limit:
        return _escalated(answer, level, size, asked, rules)
    return _escalated(capped(answer, limit, rules.estimator), Level.CAPPED, size, asked, rules)


def _escalated(
    content: str, level: Level, size: int, asked: list[SummaryReply], rules: EngineRules
) -> Escalated:
    made, content = content, well_formed(content)  # JSON in a source may escape halves of characters
    usage = sum((reply.usage for reply in asked), NO_USAGE)
    tokens = _tokens(content, rules.estimator)
    model = asked[-1].model if asked else "unknown"
    return Escalated(content, tokens, size, level, model, len(asked), usage, level is Level.FALLBACK, made)


# -- deterministic texts ---------------------------------------------------------------------------------


def capped(text: str, limit: int, estimator: Estimator) -> str:
    """A text cut to *limit* tokens, with the longest note of it that fits; maybe the note alone."""
    tokens = _tokens(text, estimator)
    for note in (f"\n[Capped from {tokens} tokens to ~{limit}]", f"\n[Capped to ~{limit}]", "\n[Capped]"):
        first_units = longest_prefix(text, limit - _tokens(note, estimator), estimator) + note
        if _tokens(first_units, estimator) <= limit:
            return first_units
    return longest_prefix(text, limit, estimator)


#: Tokens that the fallback keeps where fewer than `LEAST_FALLBACK` are set.
USUAL_FALLBACK: Final = 512
LEAST_FALLBACK: Final = 64


def fallback(text: str, rules: EngineRules) -> str:
    """A cut of the source, for when no model gave a shorter text, with the note that says so."""
    text = trimmed(text)
    note = _truncated_note(max(1, _tokens(text, rules.estimator)))
    if rules.escalation.fallback_units is not None:
        return f"{well_formed(first_units(text, rules.escalation.fallback_units))}\n{note}"
    sound = _sound(text, rules)
    if sound.omitted:
        note = f"{DIRECTIVE_MARKER}\n{note}"
    return note if sound.is_empty else _noted(sound.text, note, rules)


#: UTF-16 units that the summariser's own cut may always keep, and how many for each token of the target.
LEAST_UNITS: Final = 256
UNITS_OF_TOKEN: Final = 4


def summarizer_cut(text: str, target: int, rules: EngineRules) -> str:
    """What the engine's own summariser hands back when no model gave it an answer that can be used.

    *target*: the tokens that were asked for. It is an answer like any other, and judged like one; without a
    note it is the source (docs/engine/texts.md, "The summariser's own cut").
    """
    text, most = trimmed(text), max(LEAST_UNITS, UNITS_OF_TOKEN * target)
    if rules.escalation.fallback_units is not None:
        return text if utf16_length(text) <= most else f"{first_units(text, most)}\n{FALLBACK_MARKER}"
    sound = _sound(text, rules)
    note = DIRECTIVE_MARKER if sound.omitted else FALLBACK_MARKER
    if rules.escalation.fallback_max_tokens is not None:
        return _noted(sound.text, note, rules)
    if not sound.omitted and utf16_length(sound.text) <= most:
        return sound.text
    return f"{first_units(sound.text, most).rstrip(BLANKS)}\n{note}"


def _sound(text: str, rules: EngineRules) -> WithoutDirectives:
    return (
        without_directives(text)
        if rules.escalation.omits_directives
        else WithoutDirectives(text, omitted=False)
    )


def _noted(text: str, note: str, rules: EngineRules) -> str:
    """As much of a text as the tokens of a fallback allow, with its note; maybe the note alone."""
    limit = rules.escalation.fallback_max_tokens
    if limit is None or limit < LEAST_FALLBACK:
        limit = USUAL_FALLBACK
    room = math.floor(limit) - _tokens(f"\n{note}", rules.estimator)
    kept = longest_prefix(text, room, rules.estimator).rstrip(BLANKS)
    return f"{kept}\n{note}" if kept else note


def _truncated_note(tokens: int) -> str:
    return f"[Truncated from {tokens} tokens]"


def longest_prefix(text: str, limit: int, estimator: Estimator) -> str:
    """The longest beginning of a text, in whole characters, that is not over *limit* tokens."""
    if limit <= 0:
        return ""
    if _tokens(text, estimator) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if _tokens(text[:middle], estimator) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low]
