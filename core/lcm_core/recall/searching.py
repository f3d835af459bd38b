"""The searches of messages, summaries and files, as the engine makes them (docs/engine/recall.md)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lcm_core.change.search_index import reference_text
from lcm_core.errors import NotFoundError
from lcm_core.javascript import paired
from lcm_core.paths import read_bytes, resolve_stored
from lcm_core.recall.answer import ToolError
from lcm_core.recall.patterns import EnginePattern, compiled, units
from lcm_core.recall.queries import (
    LikePlan,
    file_terms,
    has_ideographs,
    like_plan,
    match_expression,
    pair_plan,
    snippet_around,
    trigram_plan,
)
from lcm_core.recall.settings import RecallSettings
from lcm_core.records import ConversationId, FileId, LargeFile, MessageId, SummaryId, Timestamp
from lcm_core.store.recalled import RecalledRows
from lcm_core.store.search import FoundRow, Kind, Order, Range, SearchRows
from lcm_core.times import iso_z

#: Rows that a regular expression is tried on.
MAX_ROWS: Final = 10_000
#: Bytes of a file that are searched.
FILE_BYTES: Final = 512_000
_HITS_PER_FILE: Final = 10
_AROUND: Final = 80
_TEXT_TYPES: Final = ("json", "javascript", "xml", "yaml", "yml", "toml")
#: How long all matching of one call may take. The engine has no such limit and hangs.
DEADLINE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched, and how."""

    pattern: str
    full_text: bool
    conversations: tuple[ConversationId, ...] | None  #: None: all
    since: datetime | None
    before: datetime | None
    limit: int
    order: Order
    now: datetime

    @property
    def range(self) -> Range:
        """Which rows."""
        since, before = (None if one is None else iso_z(one) for one in (self.since, self.before))
        return Range(self.conversations, since, before)


@dataclass(frozen=True, slots=True)
class Hit:
    """A message or a summary that was found."""

    conversation_id: ConversationId
    message_id: MessageId | None
    summary_id: SummaryId | None
    label: str  #: role or kind
    at: Timestamp
    snippet: str


@dataclass(frozen=True, slots=True)
class FileHit:
    """A place in a file."""

    conversation_id: ConversationId
    file_id: FileId
    name: str | None
    line: int  #: from 1
    offset: int  #: bytes before it
    match: str
    snippet: str
    cut: bool  #: the file is longer than what was searched


class Clock:
    """The time that is left for matching."""

    def __init__(self, seconds: float = DEADLINE_SECONDS) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds; at least a little, so that the last match can be refused by its own time-out."""
        return max(0.001, self._end - time.monotonic())


def search_rows(rows: RecalledRows, search: Search, kind: Kind, clock: Clock) -> list[Hit]:
    """The messages or summaries that are found, in the order of the search.

    Raises:
        ToolError: the pattern took longer than it may.
    """
    searched = SearchRows(rows.db, rows.schema)
    if not search.full_text:
        return _by_pattern(searched, search, kind, clock)
    if has_ideographs(search.pattern):
        if kind is Kind.MESSAGES:
            return _by_like(searched, search, kind, like_plan(search.pattern))
        return _by_trigrams(searched, search) or _by_like(searched, search, kind, pair_plan(search.pattern))
    found = searched.match(
        f"{kind}_fts",
        match_expression(search.pattern),
        search.range,
        search.order,
        search.limit,
        now=search.now,
    )
    if found is None:
        return _by_like(searched, search, kind, like_plan(search.pattern))
    return [_hit(row, row.snippet or "") for row in found]


def _by_pattern(searched: SearchRows, search: Search, kind: Kind, clock: Clock) -> list[Hit]:
    pattern = compiled(search.pattern)
    found: list[Hit] = []
    if pattern is None or search.limit <= 0:
        return found
    for row in searched.newest(kind, search.range, MAX_ROWS):
        match = _first(pattern, row.content, clock)
        if match is not None:
            found.append(_hit(row, match))
            if len(found) >= search.limit:
                break
    return found


def _first(pattern: EnginePattern, text: str, clock: Clock) -> str | None:
    try:
        match = pattern.first(text, clock.left)
    except TimeoutError:
        raise too_slow() from None
    return None if match is None else match.text


def too_slow() -> ToolError:
    """The refusal of a pattern that takes too long."""
    return ToolError(
        f"The pattern took longer than {DEADLINE_SECONDS:g} s and was given up. "
        'Use a simpler pattern, or mode: "full_text".'
    )


def _by_like(searched: SearchRows, search: Search, kind: Kind, plan: LikePlan) -> list[Hit]:
    if not plan.terms:
        return []
    rows = searched.like(kind, search.range, plan.where, plan.arguments, search.limit)
    if kind is Kind.SUMMARIES:
        return [_hit(row, snippet_around(row.content, plan.terms)) for row in rows]
    texts = [(row, reference_text(row.content)) for row in rows]
    return [_hit(row, snippet_around(text, plan.terms)) for row, text in texts if plan.holds(text)]


def _by_trigrams(searched: SearchRows, search: Search) -> list[Hit]:
    plan = trigram_plan(search.pattern)
    if plan is None:
        return []
    found = searched.match(
        "summaries_fts_cjk",
        plan.match,
        search.range,
        search.order,
        search.limit,
        likes=plan.filters.where,
        values=plan.filters.arguments,
        now=search.now,
    )
    return [_hit(row, row.snippet or "") for row in found or ()]


def _hit(row: FoundRow, snippet: str) -> Hit:
    return Hit(row.conversation_id, row.message_id, row.summary_id, row.label, row.at, snippet)


# -- files -------------------------------------------------------------------------------------------------


def search_files(
    rows: RecalledRows, search: Search, file_ids: Sequence[str], settings: RecallSettings, clock: Clock
) -> list[FileHit]:
    """The places in text files that are found; what is no file of ours is passed over.

    Raises:
        ToolError: the pattern took longer than it may.
    """
    pattern = None if search.full_text else compiled(search.pattern)
    terms = file_terms(search.pattern) if search.full_text else ()
    if pattern is None and not terms:
        return []
    found: list[FileHit] = []
    for file in _files(rows, search, file_ids):
        if len(found) >= search.limit:
            break
        read = read_bounded(file, settings, FILE_BYTES)
        if read is None:
            continue
        text = read.data.decode("utf-8", "replace")
        searched = units(text)
        places = _pattern_places(pattern, text, clock) if pattern else _word_places(terms, searched)
        newlines = _Lines(searched)
        for start, end in places[: min(_HITS_PER_FILE, search.limit - len(found))]:
            found.append(_file_hit(file, searched, newlines, start, end, read.cut))
    return found


@dataclass(frozen=True, slots=True)
class BoundedFile:
    """The beginning of a large file."""

    data: bytes
    cut: bool  #: there is more
    size: int  #: bytes of the whole file


def read_bounded(file: LargeFile, settings: RecallSettings, limit: int) -> BoundedFile | None:
    """The first *limit* bytes of a large file; None when it is not there, or outside the folder."""
    stored = resolve_stored(
        file.storage_uri,
        conversation_id=file.conversation_id,
        large_files_dir=settings.large_files_dir,
        state_dir=settings.state_dir,
    )
    if stored.path is None:
        return None
    try:
        data, size = read_bytes(stored.path, limit)
    except NotFoundError:
        return None
    return BoundedFile(data, size > len(data), size)


def _files(rows: RecalledRows, search: Search, file_ids: Sequence[str]) -> list[LargeFile]:
    if file_ids:
        known = [file for one in file_ids if (file := rows.file(one)) is not None]
        scope = search.conversations
        files = [file for file in known if scope is None or file.conversation_id in scope]
    else:
        files = rows.files(search.conversations)
    return [file for file in files if _is_text(file.mime_type)]


def _is_text(mime_type: str | None) -> bool:
    if not mime_type:
        return True
    lower = mime_type.lower()
    return lower.startswith("text/") or any(word in lower for word in _TEXT_TYPES)


def _pattern_places(pattern: EnginePattern, text: str, clock: Clock) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    try:
        for match in pattern.all(text, clock.left):
            places.append((match.start, match.end))
            if len(places) >= _HITS_PER_FILE:
                break
    except TimeoutError:
        raise too_slow() from None
    return places


def _word_places(words: Sequence[str], searched: str) -> list[tuple[int, int]]:
    lower = searched.lower()
    terms = [units(word) for word in words]
    if not all(term in lower for term in terms):
        return []
    places: list[tuple[int, int]] = []
    at = lower.find(terms[0])
    while at >= 0 and len(places) < _HITS_PER_FILE:
        places.append((at, at + len(terms[0])))
        at = lower.find(terms[0], at + len(terms[0]))
    return places


class _Lines:
    """Where the lines of a text begin, in units and in bytes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._line = self._bytes = 0

    def place(self, at: int) -> tuple[int, int]:
        """The line (from 1) and the bytes before a place; places are asked for in order."""
        between = self._text[self._at : at]
        self._line += between.count("\n")
        self._bytes += len(paired(between).encode("utf-8", "replace"))
        self._at = at
        return self._line + 1, self._bytes


def _file_hit(file: LargeFile, text: str, lines: _Lines, start: int, end: int, cut: bool) -> FileHit:
    line, offset = lines.place(start)
    first, last = max(0, start - _AROUND), min(len(text), end + _AROUND)
    snippet = f"{'...' if first else ''}{text[first:last].strip()}{'...' if last < len(text) else ''}"
    return FileHit(
        file.conversation_id,
        file.file_id,
        file.file_name,
        line,
        offset,
        paired(text[start:end]),
        paired(snippet),
        cut,
    )
