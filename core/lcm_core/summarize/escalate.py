"""From a source text to what is stored: normal, aggressive, and a cut of the source when both fail.

The deterministic parts of the engine (engine.md 2.2, 2.4, 2.5), equal to its recorded passes. What calls a
model is a `Summarizer`; nothing here knows of databases.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lcm_core.compaction_rules import CompactionRules, CompactionSettings
from lcm_core.dag.markers import DIRECTIVE_MARKER
from lcm_core.javascript import BLANKS, well_formed
from lcm_core.summarize.request import NO_USAGE, Summarizer, SummaryReply, SummaryRequest, Usage
from lcm_core.tokens import Estimator, estimate_utf16, estimate_weighted


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
    as_made: str = ""  #: the content before halves of characters became U+FFFD, which a sweep hands on


def estimate(text: str, estimator: Estimator) -> int:
    """The tokens of a text by the estimator that a database is written with."""
    return estimate_utf16(text) if estimator is Estimator.UTF16 else estimate_weighted(text)


def target_tokens(
    depth: int, source_tokens: int, *, aggressive: bool, rules: CompactionRules, settings: CompactionSettings
) -> int:
    """The size that a model is asked to stay under (engine.md 8)."""
    if depth > 0:
        return max(512, settings.condensed_target_tokens)
    if not aggressive:
        return max(192, min(settings.leaf_target_tokens, math.floor(0.35 * source_tokens)))
    cap = rules.escalation.aggressive_leaf_cap
    if cap is None:
        cap = math.floor(0.55 * settings.leaf_target_tokens)
    return max(96, min(cap, math.floor(0.20 * source_tokens)))


async def escalate(
    summarizer: Summarizer,
    text: str,
    depth: int,
    *,
    previous: str | None,
    rules: CompactionRules,
    settings: CompactionSettings,
) -> Escalated:
    """Summarise a source text for a summary of *depth*, at any cost in quality.

    Raises:
        ProviderAuthError: the key was refused; nothing may be written.
        SummarizerError: no answer came back.
    """
    size = estimate(text, rules.estimator)
    if not text:
        return _escalated(_truncated_note(0), Level.FALLBACK, 0, [], rules)
    asked: list[SummaryReply] = []
    for aggressive in (False, True):
        target = target_tokens(depth, size, aggressive=aggressive, rules=rules, settings=settings)
        request = SummaryRequest(
            text=text,
            aggressive=aggressive,
            depth=depth,
            target_tokens=target,
            previous=previous,
            instructions=settings.instructions,
            estimator=rules.estimator,
        )
        asked.append(await summarizer(request))
        answer = asked[-1].as_came
        if rules.escalation.trims:
            answer = answer.strip(BLANKS)
        if not answer and not rules.escalation.accepts_empty:
            break  # the engine does not ask again after an empty answer
        if not asked[-1].finished:
            continue  # cut off, or a refusal: the engine would keep it, and nothing would ever tell
        if estimate(answer, rules.estimator) < size:
            level = Level.AGGRESSIVE if aggressive else Level.NORMAL
            return _kept(answer, level, depth, size, asked, rules, settings)
    return _escalated(fallback(text, rules, settings), Level.FALLBACK, size, asked, rules)


def _kept(
    answer: str,
    level: Level,
    depth: int,
    size: int,
    asked: list[SummaryReply],
    rules: CompactionRules,
    settings: CompactionSettings,
) -> Escalated:
    """An answer that is smaller than its source, cut when it is far over target."""
    target = settings.condensed_target_tokens if depth > 0 else settings.leaf_target_tokens
    limit = math.ceil(target * settings.overage_factor)
    if not rules.escalation.caps or estimate(answer, rules.estimator) <= limit:
        return _escalated(answer, level, size, asked, rules)
    return _escalated(capped(answer, limit, rules.estimator), Level.CAPPED, size, asked, rules)


def _escalated(
    content: str, level: Level, size: int, asked: list[SummaryReply], rules: CompactionRules
) -> Escalated:
    made, content = content, well_formed(content)  # JSON in a source may escape halves of characters
    usage = sum((reply.usage for reply in asked), NO_USAGE)
    tokens = estimate(content, rules.estimator)
    model = asked[-1].model if asked else "unknown"
    return Escalated(content, tokens, size, level, model, len(asked), usage, made)


# -- deterministic texts ---------------------------------------------------------------------------------


def capped(text: str, limit: int, estimator: Estimator) -> str:
    """A text cut to *limit* tokens, with the note that says so (engine.md 2.4)."""
    tokens = estimate(text, estimator)
    for note in (f"\n[Capped from {tokens} tokens to ~{limit}]", f"\n[Capped to ~{limit}]", "\n[Capped]"):
        room = limit - estimate(note, estimator)
        if room > 0:
            return longest_prefix(text, room, estimator) + note
    return longest_prefix(text, limit, estimator)


def fallback(text: str, rules: CompactionRules, settings: CompactionSettings) -> str:
    """A cut of the source, for when no model gave a shorter text (engine.md 2.2, 2.5)."""
    note = "\n" + _truncated_note(estimate(text, rules.estimator))
    if rules.escalation.fallback_units is not None:
        return _units(text, rules.escalation.fallback_units) + note
    sound = without_directives(text) if rules.escalation.omits_directives else text
    if sound != text:
        note = f"\n{DIRECTIVE_MARKER}{note}"
    room = settings.fallback_max_tokens - estimate(note, rules.estimator)
    return longest_prefix(sound, max(room, 0), rules.estimator).rstrip(BLANKS) + note


def _truncated_note(tokens: int) -> str:
    return f"[Truncated from {tokens} tokens]"


def _units(text: str, units: int) -> str:
    """The first UTF-16 units of a text; half a character at the end reaches the file as U+FFFD."""
    if len(text) <= units and text.isascii():
        return text
    encoded = text.encode("utf-16-le", "surrogatepass")[: units * 2]
    return encoded.decode("utf-16-le", "replace")


def longest_prefix(text: str, limit: int, estimator: Estimator) -> str:
    """The longest beginning of a text that is not over *limit* tokens."""
    low, high = 0, len(text)
    if estimate(text, estimator) <= limit:
        return text
    while low < high:
        middle = (low + high + 1) // 2
        if estimate(text[:middle], estimator) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low]


#: What stands in the fallback for a sentence that reads like an instruction to the model (engine.md 2.4).
OMITTED: Final = "[LCM fallback summary omitted directive-shaped untrusted content]."
_SENTENCE: Final = re.compile(rf"[^\n.!?]*(?:[.!?](?![{BLANKS}]|$)[^\n.!?]*)*(?:[.!?]+|$)", re.MULTILINE)
_DIRECTIVE: Final = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b[^\n]{0,60}\b(?:instruction|prompt|rule|direction|guideline|policy|polic)"
    r"|\byou are now\b"
    r"|\b(?:reply|respond|answer) only with\b"
    r"|\b(?:reveal|print|show|repeat|leak)\b[^\n]{0,40}\bsystem prompt\b",
    re.IGNORECASE | re.ASCII,  # a word ends where an ideograph begins
)


def without_directives(text: str) -> str:
    """A text in which every sentence that is shaped like an instruction to a model is replaced."""
    if _DIRECTIVE.search(text) is None:
        return text
    return _SENTENCE.sub(_sound, text)


def _sound(sentence: re.Match[str]) -> str:
    found = sentence[0]
    if _DIRECTIVE.search(found) is None:
        return found
    blank = len(found) - len(found.lstrip(BLANKS))
    return found[:blank] + OMITTED
