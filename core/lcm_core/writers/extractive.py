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
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from lcm_core.base.tokens import Estimator, estimate
from lcm_core.base.values import Record
from lcm_core.checks.summaries import THOUGHT_TAGS, gives_orders, says_something
from lcm_core.engine.markers import MARKER_LIKE
from lcm_core.writers.cost import FREE, NO_FORECAST, CallMeter, Forecast
from lcm_core.writers.identifiers import Identifier, IdentifierKind, identifiers
from lcm_core.writers.modality import RULES, Force, clauses
from lcm_core.writers.prompts import CLOSING, FILES
from lcm_core.writers.quantities import HEADER, Cue, has_cue, is_dense, sentences, terms
from lcm_core.writers.request import EXTRACTIVE, ModelChoice, SummaryReply, SummaryRequest

EXTRACTIVE_MODEL: Final = "extractive"
#: Longer sentences are logs and dumps; they are cut into pieces of this size at blanks.
_LONGEST: Final = 400
#: What a sentence adds, each thing once: a rule, a decision, an open end.
_RULE: Final = 3.0
_PROHIBITION: Final = 4.0
_WEIGHTS: Final = {Cue.DECISION: 2.0, Cue.OPEN: 2.0}
#: What one identifier adds; times and bare numbers fill logs, and names fill code.
_IDENTIFIER: Final = 1.0
_SLIGHT: Final = {IdentifierKind.TIME: 0.2, IdentifierKind.NAME: 0.4}
_BARE_NUMBER: Final = 0.2
#: What words that were not there yet add: all of them, to a sentence that adds nothing else.
_WORDS: Final = 0.6
_SAID_BY_USER: Final = 1.3
_LATEST: Final = 0.3  #: more for the last of the source
_AGGRESSIVE: Final = 2.0
_OUTPUT: Final = 0.6
#: The share that a repeated sentence adds.
_TOLD_BEFORE: Final = 0.5
#: A sentence with no fact and fewer new words than this share says nothing more.
_LEAST_NEW: Final = 0.25
#: Share of the target that prohibitions, with their times, are chosen for before anything else.
_PROHIBITIONS_SHARE: Final = 0.6
_ATTEMPTS: Final = 4
_FILES_SHARE: Final = 0.2
_CLOSING_SHARE: Final = 0.12
#: Names in the closing line, and the kinds that say enough by themselves; others follow.
_MOST_NAMED: Final = 60
_TELLING: Final = frozenset(
    {
        IdentifierKind.ID,
        IdentifierKind.HASH,
        IdentifierKind.URL,
        IdentifierKind.VERSION,
        IdentifierKind.BRANCH,
        IdentifierKind.PATH,
    }
)
_BULLETS: Final = re.compile(r"^(?:[-*•]\s+)+")
_TAGS: Final = re.compile(rf"</?\s*(?:{THOUGHT_TAGS})\s*>", re.IGNORECASE)
_OWN_LINES: Final = re.compile(r"^\W*(?:files?\b[^:\n]{0,40}:|expand for details\b).*$", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d\b[^-]*")
_USER: Final = re.compile(r"\|\s*user\b")
_TOOL: Final = re.compile(r"\|\s*tool")
#: Signs and words of code.
_CODE_SIGN: Final = re.compile(r"[{}();=<>\[\]|&]")
_CODE_WORD: Final = re.compile(
    r"\W*(?:import|from|return|else|elif|endif|end|fi|done|try|except|finally|pass|break|continue|def|class|const|let|var"
    r"|public|private|static|function|func|fn|use|package|namespace|include)\b(?!.*[.!?]$)"
)
_LOG_LINE: Final = re.compile(
    r"\W*\d{4}-\d\d-\d\d[T ]\d\d:\d\d|.{0,40}\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR|TRACE)\b"
)


class _Sentence(Record, frozen=True):
    """A candidate."""

    number: int
    text: str
    block: int  #: the header above it; -1: none
    terms: frozenset[str]
    adds: dict[object, float]  #: what it says and how much that weighs
    factor: float  #: who says it, and where
    forbids: bool

    @property
    def weight(self) -> float:
        """What it says, whatever other sentences say."""
        return self.factor * (sum(self.adds.values()) + _WORDS)


class ExtractiveSummarizer:
    """The writer that needs no key, no network and no model."""

    def __init__(self, meter: CallMeter | None = None) -> None:
        self.choice = ModelChoice(EXTRACTIVE, EXTRACTIVE_MODEL)
        self.meter = meter or CallMeter(FREE)

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        """Choose sentences, off the event loop."""
        text = await asyncio.to_thread(extract, request)
        return SummaryReply(text, EXTRACTIVE_MODEL)

    def forecast(self, request: SummaryRequest, again: SummaryRequest | None = None) -> Forecast:
        """Nothing is sent and nothing is spent."""
        return NO_FORECAST

    async def aclose(self) -> None:
        """There is nothing to close."""


def extract(request: SummaryRequest) -> str:
    """The summary of a request; empty when its source says nothing."""
    found = identifiers(HEADER.sub(lambda header: "\x00" * len(header[0]), request.text))
    blocks, candidates = _candidates(request, found)
    size = estimate(request.text, request.estimator)
    limit = min(request.target_tokens, size - 1)
    while True:
        text = _written(request, blocks, candidates, found, limit)
        tokens = estimate(text, request.estimator)
        if tokens < size or not candidates:
            return text if candidates else ""
        if limit <= 1:
            # A source of a few words: the best of them alone.
            return _cut(max(candidates, key=lambda one: one.weight).text, size - 1, request.estimator)
        limit = limit * 2 // 3


def _candidates(request: SummaryRequest, found: Sequence[Identifier]) -> tuple[list[str], list[_Sentence]]:
    """The times of the source's blocks, and what can be chosen, weighed."""
    headers = list(HEADER.finditer(request.text))
    pieces = _pieces_of(request.text, [header.start() for header in headers])
    named = _named(found, [piece.start for piece in pieces])
    before = frozenset(terms(request.previous or ""))
    candidates: list[_Sentence] = []
    seen: set[str] = set()
    for number, (piece, those) in enumerate(zip(pieces, named, strict=True)):
        if piece.text in seen or _is_code(piece.text, those):
            continue
        seen.add(piece.text)
        header = headers[piece.block][0] if piece.block >= 0 else ""
        about = frozenset(terms(piece.text))
        adds: dict[object, float] = {(one.kind, one.key): _weight_of(one) for one in those}
        forbids = _add_statements(adds, piece.text, request.aggressive)
        factor = _factor(piece.text, header) * (1 + _LATEST * number / len(pieces))
        if before and 2 * len(about & before) > len(about):
            factor *= _TOLD_BEFORE
        candidates.append(_Sentence(number, piece.text, piece.block, about, adds, factor, forbids))
    return [_time(header) for header in headers], candidates


def _time(header: re.Match[str]) -> str:
    first = header["first"].partition(" | ")[0].strip()
    return f"{first} - {header['last'].strip()}" if header["last"] else first


class _Piece(Record, frozen=True):
    """A sentence, or a part of one that is too long."""

    text: str
    start: int
    block: int  #: the header above it; -1: none


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


def _named(found: Sequence[Identifier], starts: Sequence[int]) -> list[list[Identifier]]:
    """The identifiers of each piece."""
    named: list[list[Identifier]] = [[] for _ in starts]
    for one in found:
        for place in dict.fromkeys(bisect_right(starts, first) - 1 for first, _ in one.places):
            if place >= 0:
                named[place].append(one)
    return named


def _weight_of(one: Identifier) -> float:
    if one.kind is IdentifierKind.NUMBER and (one.quantity is None or not one.quantity.unit):
        return _BARE_NUMBER
    return _SLIGHT.get(one.kind, _IDENTIFIER)


def _add_statements(adds: dict[object, float], text: str, aggressive: bool) -> bool:
    """Add the rules, decisions and open ends of a sentence; True when it forbids something."""
    factor = _AGGRESSIVE if aggressive else 1.0
    forbids = False
    for clause in clauses(text):
        if clause.force in RULES and clause.terms:
            hard = clause.force is Force.MUST_NOT
            forbids = forbids or hard
            adds[clause.force, clause.terms] = factor * (_PROHIBITION if hard else _RULE)
    for cue, weight in _WEIGHTS.items():
        if has_cue(text, cue):
            adds[cue, text] = factor * weight
    return forbids


def _is_code(text: str, named: Sequence[Identifier]) -> bool:
    """A fragment of code that names nothing but its own words."""
    if any(
        one.kind not in (IdentifierKind.NAME, IdentifierKind.NUMBER, IdentifierKind.TIME) for one in named
    ):
        return False
    if any(one.quantity is not None and one.quantity.unit for one in named):
        return False
    return 12 * len(_CODE_SIGN.findall(text)) > len(text) or _CODE_WORD.match(text) is not None


def _is_output(text: str, header: str) -> bool:
    letters = sum(map(str.isalpha, text))
    return _TOOL.search(header) is not None or _LOG_LINE.match(text) is not None or 2 * letters < len(text)


def _factor(text: str, header: str) -> float:
    """More for what a person says; less for the output of tools."""
    factor = _SAID_BY_USER if _USER.search(header) else 1.0
    return factor * _OUTPUT if _is_output(text, header) else factor


def _written(
    request: SummaryRequest,
    blocks: Sequence[str],
    candidates: Sequence[_Sentence],
    found: Sequence[Identifier],
    limit: int,
) -> str:
    """Sentences in their order under the limit, then the two last lines."""
    files = _files_line(found, math.floor(limit * _FILES_SHARE), request.estimator)
    spent = estimate(files, request.estimator) + 8
    room = limit - spent - math.ceil(limit * _CLOSING_SHARE)
    best = ""
    for _ in range(_ATTEMPTS):
        chosen = _SentenceChooser(candidates, blocks, room, limit, request.estimator).chosen()
        body = _body(chosen, blocks)
        left = limit - estimate(f"{body}\n{files}\n", request.estimator)
        closing = _closing_line(f"{body}\n{files}", found, left, request.estimator)
        text = "\n".join(part for part in (body, files, closing) if part)
        spare = limit - estimate(text, request.estimator)
        if spare < 0:
            room += spare - 4
            if best:
                break
            continue
        enough = spare < estimate(closing, request.estimator) // 2
        best = text
        if enough:
            break
        room += spare
    return best or text


class _SentenceChooser:
    """Takes, again and again, what adds most for its length, until the room is used."""

    def __init__(
        self,
        candidates: Sequence[_Sentence],
        blocks: Sequence[str],
        room: int,
        limit: int,
        estimator: Estimator,
    ) -> None:
        """*room*: of the sentences; *limit*: of the whole text, in tokens."""
        self._candidates = candidates
        self._blocks = blocks
        self._room = room
        self._first = min(room, math.floor(limit * _PROHIBITIONS_SHARE))
        self._estimator = estimator
        self._costs = [estimate(f"- {one.text}\n", estimator) for one in candidates]
        self._labels = [estimate(_label(label, day=""), estimator) for label in blocks]
        self._short = [estimate(_label(label, day=_day(label)), estimator) for label in blocks]
        self._days = [_day(label) for label in blocks]
        self._told_days: set[str] = set()
        self._told: set[object] = set()
        self._words: set[str] = set()
        self._dated: set[int] = set()
        self._taken: list[_Sentence] = []
        self._used = 0

    def chosen(self) -> list[_Sentence]:
        """The sentences, in their order."""
        forbidding = [at for at, one in enumerate(self._candidates) if one.forbids]
        self._take(forbidding, self._first)
        self._take(range(len(self._candidates)), self._room)
        return sorted(self._taken, key=lambda one: one.number)

    def _take(self, places: Iterable[int], room: int) -> None:
        """What a sentence adds only falls, so one that still leads when it is looked at again is the best."""
        taken = {one.number for one in self._taken}
        heap = [
            (-self._gain(at) / self._cost(at), at)
            for at in places
            if self._candidates[at].number not in taken
        ]
        heapify(heap)
        while heap:
            score, at = heappop(heap)
            gain = self._gain(at)
            if gain <= 0 or self._used + self._cost(at) > room:
                continue
            now = -gain / self._cost(at)
            if heap and now > heap[0][0] and now > score:
                heappush(heap, (now, at))
                continue
            self._add(at)

    def _cost(self, at: int) -> int:
        block = self._candidates[at].block
        if block < 0 or block in self._dated:
            return max(self._costs[at], 1)
        told = self._days[block] in self._told_days
        return max(self._costs[at] + (self._short if told else self._labels)[block], 1)

    def _gain(self, at: int) -> float:
        one = self._candidates[at]
        adds = sum(weight for told, weight in one.adds.items() if told not in self._told)
        new = len(one.terms - self._words) / len(one.terms) if one.terms else 0.0
        if not adds and new < _LEAST_NEW:
            return 0.0
        return one.factor * (adds + _WORDS * new)

    def _add(self, at: int) -> None:
        one = self._candidates[at]
        self._used += self._cost(at)
        self._dated.add(one.block)
        if one.block >= 0:
            self._told_days.add(self._days[one.block])
        self._told |= one.adds.keys()
        self._words |= one.terms
        self._taken.append(one)


def _day(label: str) -> str:
    """The day of a message's time; empty for a span of time and what is none."""
    return label[:10] if _STAMP.fullmatch(label) else ""


def _label(label: str, *, day: str) -> str:
    """A time in front of the first sentence under it; without its date below another of that *day*."""
    if not label:
        return ""
    return f"({label[11:16]}) " if day and _day(label) == day else f"({label}) "


def _body(chosen: Sequence[_Sentence], blocks: Sequence[str]) -> str:
    lines: list[str] = []
    last, day = -1, ""
    for one in chosen:
        label = ""
        if one.block >= 0 and one.block != last:
            label = _label(blocks[one.block], day=day)
            last, day = one.block, _day(blocks[one.block])
        lines.append(f"- {label}{one.text}")
        if _DATE.search(one.text):
            day = ""  # a time of day behind another date would be read as that day's
    return "\n".join(lines)


def _files_line(found: Sequence[Identifier], limit: int, estimator: Estimator) -> str:
    """The paths that the source names most, as many as fit."""
    paths = sorted(
        (one for one in found if one.kind is IdentifierKind.PATH),
        key=lambda one: (-one.count, -one.places[-1][0]),
    )
    line = f"{FILES} none"
    named: list[str] = []
    for path in paths:
        longer = f"{FILES} {', '.join([*named, path.key])}"
        if estimate(longer, estimator) > limit:
            break
        named.append(path.key)
        line = longer
    return line if named or not paths else ""


def _closing_line(told: str, found: Sequence[Identifier], limit: int, estimator: Estimator) -> str:
    """As many as fit of the names that the body lacks: the most telling first, then the most frequent."""
    missing = sorted(
        (
            one
            for one in found
            if one.kind not in (IdentifierKind.TIME, IdentifierKind.NUMBER)
            and one.text not in told
            and one.key not in told
        ),
        key=lambda one: (one.kind not in _TELLING, -one.count, -one.places[-1][0]),
    )[:_MOST_NAMED]
    size = estimate(f"{CLOSING} and the full wording", estimator) + 1
    named: list[str] = []
    for one in missing:
        size += estimate(f", {one.text}", estimator)
        if size > limit:
            break
        named.append(one.text)
    while named:
        line = f"{CLOSING} {', '.join(named)}, and the full wording"
        if estimate(line, estimator) <= limit:
            return line
        named.pop()
    return f"{CLOSING} the full wording"


def _cut(text: str, limit: int, estimator: Estimator) -> str:
    while text and estimate(text, estimator) > limit:
        text = text[: len(text) * 3 // 4].rstrip()
    return text
