"""Summaries without a model: the sentences of the source that carry most, in their order and their words.

Deterministic and offline, for any language; nothing is invented, for nothing is written but the labels of the
last two lines. It keeps what later work needs word for word: times, identifiers, rules, decisions, open ends.
What it cannot do is say anything shorter than the source says it.
"""

from __future__ import annotations

import asyncio
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.dag.checks.texts import gives_orders, says_something
from lcm_core.dag.markers import MARKER_LIKE
from lcm_core.summarize.cost import FREE, NOTHING_FORESEEN, Forecast, Meter
from lcm_core.summarize.identifiers import Identifier, Kind, identifiers
from lcm_core.summarize.language import HEADER, Cue, has_cue, is_dense, sentences, terms
from lcm_core.summarize.modality import is_rule
from lcm_core.summarize.models.providers import EXTRACTIVE, Choice
from lcm_core.summarize.prompts import CLOSING, FILES
from lcm_core.summarize.request import SummaryReply, SummaryRequest
from lcm_core.tokens import Estimator, estimate_utf16, estimate_weighted

MODEL: Final = "extractive"
#: Longer sentences are logs and dumps; they are cut into pieces of this size at blanks.
_LONGEST: Final = 400
_WEIGHTS: Final = {Cue.DECISION: 2.0, Cue.OPEN: 2.0}
_RULE: Final = 3.0
#: What one identifier adds, more when the source names it often; numbers and times fill logs and add less.
_IDENTIFIER: Final = 0.3
_REPEATED: Final = 0.1
_MOST_REPEATS: Final = 6
_SLIGHT: Final = 0.2
_MOST_IDENTIFIERS: Final = 2.5
_SAID_BY_USER: Final = 1.0
_LATEST: Final = 1.0
_AGGRESSIVE: Final = 2.0
_OUTPUT: Final = 0.4
#: Share of common terms from which two sentences say the same.
_SAME: Final = 0.6
_FILES_SHARE: Final = 0.2
_CLOSING_SHARE: Final = 0.12
_MOST_NAMED: Final = 8
_BULLETS: Final = re.compile(r"^(?:[-*•]\s+)+")
_TAGS: Final = re.compile(
    r"</?\s*(?:think|thinking|thought|analysis|reasoning|scratchpad|antthinking)\s*>", re.I
)
_OWN_LINES: Final = re.compile(r"^\W*(?:files?\b[^:\n]{0,40}:|expand for details\b).*$", re.IGNORECASE)
_USER: Final = re.compile(r"\|\s*user\b")
_TOOL: Final = re.compile(r"\|\s*tool")
_LOG_LINE: Final = re.compile(
    r"\W*\d{4}-\d\d-\d\d[T ]\d\d:\d\d|.{0,40}\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR|TRACE)\b"
)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A candidate."""

    number: int
    text: str
    block: int  #: the header that it stands under; -1: none
    terms: frozenset[str]
    weight: float


class ExtractiveSummarizer:
    """The writer that needs no key, no network and no model."""

    def __init__(self, meter: Meter | None = None) -> None:
        self.choice = Choice(EXTRACTIVE, MODEL)
        self.meter = meter or Meter(FREE)

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        """Choose sentences, off the event loop."""
        text = await asyncio.to_thread(extract, request)
        return SummaryReply(text, MODEL)

    def forecast(self, request: SummaryRequest, again: SummaryRequest | None = None) -> Forecast:
        """Nothing is sent and nothing is spent."""
        return NOTHING_FORESEEN

    async def aclose(self) -> None:
        """There is nothing to close."""


def extract(request: SummaryRequest) -> str:
    """The summary of a request; empty when its source says nothing."""
    found = identifiers(HEADER.sub(lambda header: "\x00" * len(header[0]), request.text))
    blocks, candidates = _candidates(request, found)
    size = _tokens(request.text, request.estimator)
    limit = min(request.target_tokens, size - 1)
    while True:
        text = _written(request, blocks, candidates, found, limit)
        tokens = _tokens(text, request.estimator)
        if tokens < size or not candidates:
            return text if candidates else ""
        if limit <= 1:
            # A source of a few words: the best of them alone.
            return _cut(max(candidates, key=lambda one: one.weight).text, size - 1, request.estimator)
        limit = limit * 2 // 3


def _tokens(text: str, estimator: Estimator) -> int:
    return estimate_utf16(text) if estimator is Estimator.UTF16 else estimate_weighted(text)


def _candidates(request: SummaryRequest, found: Sequence[Identifier]) -> tuple[list[str], list[_Sentence]]:
    """The times of the source's blocks, and what can be chosen, weighed."""
    headers = list(HEADER.finditer(request.text))
    pieces = _pieces_of(request.text, [header.start() for header in headers])
    worth = _worth(found, [piece.start for piece in pieces])
    told = [frozenset(terms(piece.text)) for piece in pieces]
    common = Counter(term for those in told for term in those)
    before = frozenset(terms(request.previous or ""))
    candidates: list[_Sentence] = []
    seen: set[str] = set()
    for number, (piece, those) in enumerate(zip(pieces, told, strict=True)):
        if piece.text in seen:
            continue
        seen.add(piece.text)
        header = headers[piece.block][0] if piece.block >= 0 else ""
        weight = sum(math.log1p(common[term]) for term in sorted(those)) / (4 + len(those))
        weight += min(worth[number], _MOST_IDENTIFIERS) + _LATEST * number / len(pieces)
        weight = _weighed(weight, piece.text, header, request.aggressive)
        if before and 2 * len(those & before) > len(those):
            weight /= 2  # told before
        candidates.append(_Sentence(number, piece.text, piece.block, those, weight))
    return [_time(header) for header in headers], candidates


def _time(header: re.Match[str]) -> str:
    first = header["first"].partition(" | ")[0].strip()
    return f"{first} - {header['last'].strip()}" if header["last"] else first


@dataclass(frozen=True, slots=True)
class _Piece:
    """A sentence, or a part of one that is too long."""

    text: str
    start: int
    block: int  #: the header that it stands under; -1: none


def _pieces_of(source: str, headers: Sequence[int]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for first, last in sentences(source):
        block = bisect_right(headers, first) - 1
        text = _BULLETS.sub("", " ".join(_TAGS.sub(" ", source[first:last]).split()))
        if _OWN_LINES.match(text) or any(marker in text for marker in MARKER_LIKE) or gives_orders(text):
            continue
        pieces += [
            _Piece(part, first, block) for part in _cut_up(text) if says_something(part) or not part.isascii()
        ]
    return pieces


def _cut_up(text: str) -> list[str]:
    parts: list[str] = []
    while len(text) > _LONGEST:
        cut = text.rfind(" ", 0, _LONGEST)
        if cut > 0:
            parts.append(text[:cut])
        elif is_dense(text[:_LONGEST]):
            cut = _LONGEST
            parts.append(text[:cut])
        else:  # a run without blanks is a dump; half an identifier would be a wrong one
            cut = text.find(" ") if " " in text else len(text)
        text = text[cut:].strip()
    return [*parts, text] if text else parts


def _worth(found: Sequence[Identifier], starts: Sequence[int]) -> list[float]:
    """What the identifiers in each piece add to it."""
    worth = [0.0] * len(starts)
    for one in found:
        value = _IDENTIFIER + _REPEATED * min(one.count - 1, _MOST_REPEATS)
        if one.kind in (Kind.NUMBER, Kind.TIME):
            value *= _SLIGHT
        for place in one.places:
            at = bisect_right(starts, place[0]) - 1
            if at >= 0:
                worth[at] += value
    return worth


def _weighed(weight: float, text: str, header: str, aggressive: bool) -> float:
    """More for rules, decisions, open ends and what a person says; less for the output of tools."""
    factor = _AGGRESSIVE if aggressive else 1.0
    weight += sum(factor * more for cue, more in _WEIGHTS.items() if has_cue(text, cue))
    weight += factor * _RULE * is_rule(text)
    if _USER.search(header):
        weight += _SAID_BY_USER
    letters = sum(map(str.isalpha, text))
    if _TOOL.search(header) or _LOG_LINE.match(text) or 2 * letters < len(text):
        weight *= _OUTPUT
    return weight


def _written(
    request: SummaryRequest,
    blocks: Sequence[str],
    candidates: Sequence[_Sentence],
    found: Sequence[Identifier],
    limit: int,
) -> str:
    """Sentences in their order under the limit, then the two last lines."""
    files = _files_line(found, math.floor(limit * _FILES_SHARE), request.estimator)
    room = limit - _tokens(files, request.estimator) - math.ceil(limit * _CLOSING_SHARE) - 8
    chosen = _chosen(candidates, blocks, room, request.estimator)
    body = _body(chosen, blocks)
    left = limit - _tokens(f"{body}\n{files}\n", request.estimator)
    closing = _closing_line(f"{body}\n{files}", found, left, request.estimator)
    return "\n".join(part for part in (body, files, closing) if part)


def _chosen(
    candidates: Sequence[_Sentence], blocks: Sequence[str], room: int, estimator: Estimator
) -> list[_Sentence]:
    """The heaviest that fit and do not repeat each other, in their order."""
    chosen: list[_Sentence] = []
    used = 0
    dated: set[int] = set()
    for one in sorted(candidates, key=lambda one: (-one.weight, one.number)):
        label = "" if one.block in dated else _label(blocks, one.block)
        cost = _tokens(f"- {label}{one.text}\n", estimator)
        if used + cost > room or any(_alike(one.terms, other.terms) for other in chosen):
            continue
        chosen.append(one)
        dated.add(one.block)
        used += cost
    return sorted(chosen, key=lambda one: one.number)


def _alike(one: Collection[str], other: Collection[str]) -> bool:
    shared = len(frozenset(one) & frozenset(other))
    return shared >= _SAME * min(len(one), len(other)) and min(len(one), len(other)) > 2


def _label(blocks: Sequence[str], block: int) -> str:
    """The time of a message, in front of its first sentence."""
    return f"({blocks[block]}) " if block >= 0 and blocks[block] else ""


def _body(chosen: Sequence[_Sentence], blocks: Sequence[str]) -> str:
    lines: list[str] = []
    last = ""
    for one in chosen:
        label = _label(blocks, one.block)
        lines.append(f"- {label if label != last else ''}{one.text}")
        last = label
    return "\n".join(lines)


def _files_line(found: Sequence[Identifier], limit: int, estimator: Estimator) -> str:
    """The paths that the source names most, as many as fit."""
    paths = sorted(
        (one for one in found if one.kind is Kind.PATH), key=lambda one: (-one.count, -one.places[-1][0])
    )
    line = f"{FILES} none"
    named: list[str] = []
    for path in paths:
        longer = f"{FILES} {', '.join([*named, path.key])}"
        if _tokens(longer, estimator) > limit:
            break
        named.append(path.key)
        line = longer
    return line if named or not paths else ""


def _closing_line(told: str, found: Sequence[Identifier], limit: int, estimator: Estimator) -> str:
    """What is named in the source and not told, the most frequent first."""
    missing = sorted(
        (one for one in found if one.text not in told and one.key not in told and one.kind is not Kind.TIME),
        key=lambda one: (-one.count, -one.places[-1][0]),
    )
    for count in range(min(_MOST_NAMED, len(missing)), 0, -1):
        line = f"{CLOSING} {', '.join(one.text for one in missing[:count])}, and the full wording"
        if _tokens(line, estimator) <= limit:
            return line
    return f"{CLOSING} the full wording"


def _cut(text: str, limit: int, estimator: Estimator) -> str:
    while text and _tokens(text, estimator) > limit:
        text = text[: len(text) * 3 // 4].rstrip()
    return text
