"""Our own search: it looks at every text of a file, ranks the hits, and says what was searched.

Source: docs/spec/searching.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import datetime
from itertools import islice, product
from pathlib import Path
from typing import Final

from lcm_core.base.errors import NotFoundError
from lcm_core.base.files import INDEX, RECENT, cache_path, make_private, read_limited
from lcm_core.base.paths import read_head
from lcm_core.base.records import ConversationId, FileId, MessageId, SummaryId, Timestamp
from lcm_core.base.text import counted, fold
from lcm_core.base.times import sort_key
from lcm_core.base.values import Record, Struct, field, replace
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import FileState, Rows, file_state
from lcm_core.store.private_index import Looked, PrivateIndex, open_index
from lcm_core.store.schema import Schema
from lcm_core.store.search import (
    WINDOW,
    Document,
    DocumentKind,
    Filter,
    RecalledRows,
    SearchedRows,
    covering,
    full_text_ids,
    in_context,
    matched_first,
    seqs_of,
    ways_from_context,
)
from rapidfuzz import fuzz, process

from lcm_recall.queries import RecallSettings, path_of_file
from lcm_recall.terms import KnownWords, Mode, Query, Term

# -- the private index -----------------------------------------------------------------------------------
# What recall keeps in the cache folder of an operator: the index of a file, and the recent searches
# (docs/spec/searching.md, "The private index").

#: Bytes that the index of a file may have.
MAX_INDEX_BYTES: Final = 1 << 30
#: Recent searches that are kept.
_RECENT: Final = 50
_RECENT_BYTES: Final = 1 << 20


class IndexUse(Record, frozen=True):
    """The index that a search goes by."""

    path: Path  #: there need not be one
    state: FileState | None  #: of the database now


def index_of(source: Path, folder: Path | None = None) -> IndexUse:
    """The index of a database for a search; looks at files, and makes none."""
    return IndexUse(cache_path(source, INDEX, folder), file_state(source))


async def make_index(
    database: Database,
    heard: Callable[[float], None] | None = None,
    *,
    folder: Path | None = None,
) -> bool:
    """Make the index of a file or bring it up to date, window by window; False: it reached its size limit.

    Messages that it does not know or that have changed are taken in. *heard* is told the share that was
    looked at, on the event loop. To stop cancel the task: what was taken in is kept.
    Each window is read in a transaction of its own; the database is never written.

    Raises:
        OSError: the index cannot be written: another process makes it, or the disk is full.
        DatabaseError: the file cannot be read.
    """
    path = cache_path(database.path, INDEX, folder)
    make_private(path.parent)
    state = await asyncio.to_thread(file_state, database.path)
    with contextlib.ExitStack() as stack:
        index = await asyncio.to_thread(stack.enter_context, open_index(path, create=True))
        if index is None:
            raise OSError(f"{path} cannot be used as an index")
        if index.is_of(state):
            return True
        return await _fill(database, index, state, heard)


async def _fill(
    database: Database,
    index: PrivateIndex,
    state: FileState | None,
    heard: Callable[[float], None] | None,
) -> bool:
    at = looked_at = 0

    async def window(reader: Reader) -> tuple[int, int | None, list[Document]]:
        def load(db: Rows) -> tuple[int, int | None, list[Document]]:
            searched = SearchedRows(db, reader.schema)
            low = searched.next_row(DocumentKind.MESSAGE, at)
            if low is None:
                return 0, None, []
            span = (low, low + WINDOW - 1)
            last = searched.last_row(DocumentKind.MESSAGE)
            return last, low, searched.within(DocumentKind.MESSAGE, span, Filter())

        return await reader.run(load)

    while True:
        last, low, documents = await database.read(window)
        if low is None:
            await asyncio.to_thread(index.end_of_pass, state, looked_at)
            return True
        at = low + WINDOW - 1
        looked_at += len(documents)
        await asyncio.to_thread(index.add, documents, min(at, last))
        if heard is not None:
            heard(min(1.0, at / max(last, 1)))
        if index.size > MAX_INDEX_BYTES:
            await asyncio.to_thread(index.list_words)
            return False


def remember(source: Path, query: str, folder: Path | None = None) -> None:
    """Keep a search as the most recent one of a database; never an error."""
    with contextlib.suppress(OSError):
        path = cache_path(source, RECENT, folder)
        make_private(path.parent)
        kept = [query, *(one for one in recent(source, folder) if one != query)][:_RECENT]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
            json.dump(kept, file)


def recent(source: Path, folder: Path | None = None) -> list[str]:
    """The recent searches of a database, the newest first."""
    try:
        kept = json.loads(read_limited(cache_path(source, RECENT, folder), _RECENT_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    return [one for one in kept if isinstance(one, str)] if isinstance(kept, list) else []


# -- searching -------------------------------------------------------------------------------------------

#: Seconds that a search may take, and a pattern on one text.
DEADLINE_SECONDS: Final = 10.0
_PATTERN_SECONDS: Final = 0.5  #: of processor time, which is what `regex` counts
#: Hits of each kind that are ranked, about; with more the answer is bounded.
RANKED: Final = 2_000
#: Bytes of a large file that are searched.
FILE_BYTES: Final = 4_000_000
#: How much a rank weighs less than the one before it (reciprocal rank fusion).
_FUSION: Final = 60
_AROUND: Final = 90
_WORD: Final = re.compile(r"\w{3,40}")
#: Spellings that are looked at, how alike they have to be (of 100), and how many are named.
_SPELLINGS, _ALIKE, _NEAR = 200_000, 70, 3
_SPELLING_SECONDS: Final = 2.0
#: Seconds for words beside those that an index knows.
_BESIDE_SECONDS: Final = 0.2
#: Messages that are read, not looked up in the engine's full text: they take a fifth of a second.
READ: Final = 20_000
#: Seconds for words of the newest messages where the others were found by full text.
_NEWEST_SECONDS: Final = 0.05
#: Seconds between two reports of a search that goes on, and hits of each search table that it begins with.
_REPORT_SECONDS: Final = 0.2
_SOON, _FIRST = 20, 200
#: Messages that the private index names which are read together: few at first, to show some soon.
_TOGETHER: Final = (20, 100, 200)

NAMES: Final = {
    DocumentKind.MESSAGE: "messages",
    DocumentKind.SUMMARY: "summaries",
    DocumentKind.BRIEF: "focus briefs",
    DocumentKind.FILE: "large files",
}

#: What is not covered where messages were found by full text.
FULL_TEXT_LACKS: Final = (
    "tool calls, tool results and parts of words, since the engine's full text was searched"
)
#: What is said of a hit in which a term is in another spelling only.
OTHER_SPELLING: Final = "in another spelling"
#: By what a hit is ranked.
WORDS, PART, PATTERN, RECENCY = "words", "part of a word", "pattern", "recency"


class Span(Record, frozen=True):
    """A run of characters in a snippet."""

    start: int
    end: int


class Hit(Record, frozen=True):
    """Something that was found."""

    kind: DocumentKind
    id: str
    conversation_id: ConversationId
    label: str  #: role, kind of a summary, status of a brief, type of a file
    at: Timestamp
    place: str  #: content, tool input, tool output, ...
    snippet: str  #: one line around what was found: foreign text
    spans: tuple[Span, ...]  #: what was found in it
    found_by: tuple[tuple[str, int], ...]  #: by what, and as the how manieth
    way: tuple[SummaryId, ...]  #: from the summary in the context down to what covers it; empty: none does
    in_context: bool  #: itself an item of a context
    seq: int | None = None  #: of a message: its place in the conversation
    spelled: bool = True  #: False: in another spelling only (docs/spec/searching.md, "Spellings")

    @property
    def citation(self) -> str:
        """The id under which it can be described and expanded."""
        return f"msg#{self.id}" if self.kind is DocumentKind.MESSAGE else self.id

    @property
    def summary(self) -> SummaryId | None:
        """What can be read down: the summary that it is, else the one in the context that covers it."""
        if self.kind is DocumentKind.SUMMARY:
            return SummaryId(self.id)
        return self.way[0] if self.way else None


def _count_text(count: int, at_least: bool) -> str:
    return f"at least {count:,}" if at_least and count else f"{count:,}"


class Near(Record, frozen=True):
    """A term that occurs nowhere, and words that do."""

    term: str
    found: int  #: documents that hold it, counted alone
    spellings: tuple[str, ...]  #: known words that look like it
    at_least: bool = False  #: there may be more than *found*

    @property
    def text(self) -> str:
        """The same in a sentence; its words are foreign text."""
        if self.found:
            return f'"{self.term}" alone: {_count_text(self.found, self.at_least)}.'
        alike = f"; similar words: {', '.join(self.spellings)}" if self.spellings else ""
        return f'"{self.term}" was not found{alike}.'


class Candidate(Record, frozen=True):
    """A hit without its text."""

    kind: DocumentKind
    id: str
    label: str  #: as that of `Hit`
    at: datetime
    words: float  #: how well it holds the terms as words; 0: it does not
    part: float  #: likewise anywhere
    spelled: bool  #: each term is there in the very spelling that was typed


class Coverage(Record, frozen=True):
    """What was searched, and what was not."""

    full: bool  #: everything in scope was searched
    searched: dict[DocumentKind, int]  #: documents that were looked at
    not_searched: tuple[str, ...]  #: what was not, and why
    not_ranked: tuple[str, ...]  #: what holds the terms, or may, and was left out of so many hits
    elapsed_ms: int

    @property
    def searched_text(self) -> str:
        """What was looked at, in words."""
        return ", ".join(counted(count, kind, NAMES[kind]) for kind, count in self.searched.items())

    @property
    def text(self) -> str:
        """Whether that is everything, in words."""
        return "full" if self.full else f"bounded; {self.missing}"

    @property
    def missing(self) -> str:
        """What was not searched and what was not ranked, in words; empty: everything was."""
        named = (("not searched", self.not_searched), ("not ranked", self.not_ranked))
        return "; ".join(f"{name}: {'; '.join(some)}" for name, some in named if some)


class Found(Record, frozen=True):
    """The answer of a search."""

    hits: tuple[Hit, ...]  #: of this page, the best first
    total: int
    next: int | None  #: where the next page begins
    coverage: Coverage
    near: tuple[Near, ...]  #: without a hit: why
    at_least: bool  #: there may be more than *total*
    candidates: tuple[Candidate, ...]  #: of all pages
    partial: frozenset[DocumentKind]  #: kinds that may have more hits than candidates

    @property
    def total_text(self) -> str:
        """How many hits there are, in words."""
        return _count_text(self.total, self.at_least)

    @property
    def groups(self) -> tuple[tuple[SummaryId | None, tuple[Hit, ...]], ...]:
        """The hits by the summary in the context that covers them, in the order of their best ones."""
        grouped: dict[SummaryId | None, list[Hit]] = {}
        for hit in self.hits:
            grouped.setdefault(hit.way[0] if hit.way else None, []).append(hit)
        return tuple((top, tuple(some)) for top, some in grouped.items())


class Progress(Record, frozen=True):
    """How far a search is: what it has found until now, as if it ended here."""

    found: Found  #: a first page; `total` and ranks change while the search goes on
    share: float  #: of the rows in scope that were looked at, 0 to 1


class _Search(Struct):
    rows: SearchedRows
    query: Query
    wanted: Filter
    settings: RecallSettings
    end: float
    looked_at: dict[DocumentKind, int] = field(default_factory=dict)
    gaps: dict[str, None] = field(default_factory=dict)
    unranked: list[str] = field(default_factory=list)
    given_up: int = 0
    ranked: int = RANKED
    found: dict[tuple[DocumentKind, str], Candidate] = field(default_factory=dict)
    count_of: Counter[DocumentKind] = field(default_factory=Counter)  #: what was found
    not_ranked: int = 0  #: hits that the index counts besides
    at_least: set[DocumentKind] = field(default_factory=set)  #: kinds that may have more
    cut: list[DocumentKind] = field(default_factory=list)  #: kinds of which the newest were ranked
    tell: Callable[[float], None] | None = None  #: is told the share that was looked at
    told: float = -math.inf  #: when it was told last
    pause: float = _REPORT_SECONDS
    index: IndexUse | None = None
    full_text: bool = False  #: without an index, messages are found by the engine's own full text

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    def candidates(self) -> list[Candidate]:
        if self.tell is not None:
            self._first()
        needles = tuple(term.needle for term in self.query.terms)
        for document in self.documents([one for one in needles if one is not None]):
            self._take(document)
        for kind in self.cut:
            self._of_tables(kind, _FIRST, best=True)
        if self.given_up:
            self.gaps[f"{counted(self.given_up, 'text')} on which the pattern took too long"] = None
        return list(self.found.values())

    @property
    def total(self) -> int:
        """Hits that are known."""
        return len(self.found) + self.not_ranked

    def _take(self, document: Document) -> None:
        """Look at a document that may be one more hit."""
        key = document.kind, document.id
        candidate = None if key in self.found else self._look(document)
        if candidate is not None:
            self.found[key] = candidate
            self.count_of[document.kind] += 1

    def _first(self) -> None:
        """What the file's own search tables find at once, each looked at like any other document."""
        for kind in self.wanted.wanted:
            self._of_tables(kind, _SOON)
            if self.found and self.told < 0:
                self._report(0.0, now=True)
        for kind in self.wanted.wanted:
            self._of_tables(kind, _FIRST)
        self._report(0.0)

    def _of_tables(self, kind: DocumentKind, most: int, *, best: bool = False) -> None:
        texts = [term.text for term in self.query.terms]
        if texts and not self.is_over:
            ids = matched_first(self.rows.db, self.rows.schema, kind, texts, most, best=best)
            ids = [one for one in ids if (kind, one) not in self.found]
            for document in self.rows.some(kind, ids, self.wanted):
                self._take(document)

    def _report(self, share: float, *, now: bool = False) -> None:
        at = time.monotonic()
        if self.tell is not None and (now or at - self.told >= self.pause):
            self.tell(share)
            self.told = time.monotonic()
            self.pause = max(_REPORT_SECONDS, 9 * (self.told - at))  # ranking many hits takes a while

    def documents(self, needles: Sequence[str]) -> Iterator[Document]:
        """The documents that may hold the needles, kind by kind, newest first, until the time is over."""
        kinds = self.wanted.wanted
        sizes = {kind: self.rows.last_row(kind) for kind in kinds}
        whole, before = max(sum(sizes.values()), 1), 0
        for kind in kinds:
            self.looked_at[kind] = 0
            reached: int | None = None
            of_index = self._listed(kind)
            after = None if of_index is None else of_index.reaches
            for window in self.rows.windows(kind, after):
                if self._is_full(kind):
                    break
                self._report((before + sizes[kind] - window[1]) / whole)
                reached = window[0]
                for document in self.rows.within(kind, window, self.wanted, needles):
                    had = len(self.found)
                    yield self._whole(document)
                    self._report((before + sizes[kind] - window[1]) / whole, now=had == 0 < len(self.found))
            else:
                left = 0
                if of_index is not None:
                    left = yield from self._indexed(kind, of_index)
                before += sizes[kind]
                self.looked_at[kind] = self.rows.counted(kind, self.wanted, None) - left
                continue
            before += sizes[kind]
            if reached is not None:
                self.looked_at[kind] = self.rows.counted(kind, self.wanted, reached)

    def _listed(self, kind: DocumentKind) -> Looked | None:
        """What an index says of the terms; None: all documents of the kind have to be read."""
        if self.query.pattern is not None:
            return None
        looked = self._of_private_index() if kind is DocumentKind.MESSAGE else None
        if looked is not None or not self.full_text or self.query.mode is not Mode.WORDS:
            return looked
        if self.rows.last_row(DocumentKind.MESSAGE) <= READ:
            return None
        texts = [term.text for term in self.query.terms if not term.is_beginning]
        ids = None
        if len(texts) == len(self.query.terms):
            ids = full_text_ids(self.rows.db, self.rows.schema, kind, texts)
        if ids is None:
            return None
        self.gaps[FULL_TEXT_LACKS] = None
        return Looked(self.rows.last_row(kind), ids, is_whole=True, is_exact=False)

    def _of_private_index(self) -> Looked | None:
        if self.index is None:
            return None
        with open_index(self.index.path) as index:
            texts = [term.folded for term in self.query.terms]
            looked = None if index is None else index.look(texts, self.index.state)
        if looked is not None and not looked.is_whole:
            self.gaps["older messages that changed after the index was built"] = None
        return looked

    def _is_full(self, kind: DocumentKind) -> bool:
        """Whether no more of a kind is looked at, and why that is."""
        if self.is_over:
            self.gaps[f"{NAMES[kind]} before the newest ones: time limit reached"] = None
            self.at_least.add(kind)
        elif self.count_of[kind] >= self.ranked:
            self.unranked.append(f"{NAMES[kind]} before the newest {self.count_of[kind]:,} hits")
            self.at_least.add(kind)
            self.cut.append(kind)
        else:
            return False
        return True

    def _indexed(self, kind: DocumentKind, looked: Looked) -> Generator[Document, None, int]:
        """The documents that an index names, as many as are ranked; returns how many are left."""
        rows = looked.ids
        if self.wanted.conversations is not None and kind is DocumentKind.MESSAGE:
            within = self.rows.messages_of(self.wanted.conversations)
            rows = [row for row in rows if int(row) in within]
        start = 0
        sizes = iter(_TOGETHER)
        while left := len(rows) - start:
            if self.is_over:
                self.gaps[f"{left:,} {NAMES[kind]} of the index: time limit reached"] = None
                self.at_least.add(kind)
                return left
            if self.count_of[kind] >= self.ranked:
                self._not_ranked(kind, left, counted=looked.is_exact)
                return left
            size = next(sizes, _TOGETHER[-1])
            some = rows[start : start + size]
            had = len(self.found)
            yield from self.rows.some(kind, some, self.wanted)
            start += len(some)
            self._report(start / len(rows), now=had == 0 < len(self.found))
        return 0

    def _not_ranked(self, kind: DocumentKind, left: int, *, counted: bool) -> None:
        """Documents that the index names are not looked at; *counted*: each of them is a hit."""
        self.cut.append(kind)
        if counted and self.wanted.only_places:
            self.unranked.append(f"{left:,} more {NAMES[kind]} that were found")
            self.not_ranked = left
        else:
            self.unranked.append(f"{left:,} more {NAMES[kind]} that may be hits")
            self.at_least.add(kind)

    def _whole(self, document: Document) -> Document:
        whole, gap = with_file(self.rows, document, self.settings)
        if gap:
            self.gaps[gap] = None
        return whole

    def _look(self, document: Document) -> Candidate | None:
        shorter = 1 + sum(len(text) for _, text in document.texts) / 4_000
        known = document.kind, document.id, document.label, sort_key(document.at)
        if self.query.pattern is not None:
            if not any(self._matches(document.kind, text) for _, text in document.texts):
                return None
            return Candidate(*known, 0.0, 1 / shorter, True)
        part = words = 0.0
        held = True  #: each term as a word
        folded = [fold(text) for _, text in document.texts]
        for term in self.query.terms:
            counts = [term.counted(text) for text in folded]
            in_part, as_word = sum(one for one, _ in counts), sum(one for _, one in counts)
            if not in_part:
                return None
            held = held and as_word > 0
            part += _often(in_part)
            words += _often(as_word)
        spelled = all(
            any(term.is_spelled_in(text) for _, text in document.texts) for term in self.query.terms
        )
        words = words / shorter if held else 0.0
        return Candidate(*known, words, part / shorter, spelled)

    def _matches(self, kind: DocumentKind, text: str) -> bool:
        assert self.query.pattern is not None
        if self.is_over:
            self.gaps["more texts: time limit reached"] = None
            self.at_least.add(kind)
            return False
        try:
            left = min(_PATTERN_SECONDS, max(0.01, self.end - time.monotonic()))
            return self.query.pattern.search(text, timeout=left, concurrent=True) is not None
        except TimeoutError:
            self.given_up += 1
            return False


def _often(count: int) -> float:
    """What it is worth that a term occurs so often: many times the same counts less."""
    return count / (count + 1.2)


def search(
    db: Rows,
    schema: Schema,
    query: Query,
    wanted: Filter,
    settings: RecallSettings,
    *,
    limit: int = 20,
    offset: int = 0,
    seconds: float = DEADLINE_SECONDS,
    near_seconds: float | None = None,
    words: KnownWords | None = None,
    heard: Callable[[Progress], None] | None = None,
    index: IndexUse | None = None,
    full_text: bool = False,
    ranked: int = RANKED,
) -> Found:
    """The documents that hold all terms of a query, or match its pattern; the best first.

    Of each kind about *ranked* hits are ranked, the newest; with an index those that hold the terms as
    words, then the newest; besides them those that the file's own search tables rank highest.
    It ends by itself after *seconds*, and says then what was not searched. Why nothing was found is looked
    for within *near_seconds* in all, or for as long as each term takes; *words* are those known from before.
    *index*: that of the file, which is used where there is one. *full_text*: without it, messages and
    summaries of a large file are found by the engine's own full text where that is complete; the answer says
    what that does not cover.
    *heard* is told how far it is, in this thread: what the file's own search tables find, the first hit, then
    every fifth of a second.
    """
    begun = time.monotonic()
    running = _Search(
        SearchedRows(db, schema),
        query,
        wanted,
        settings,
        begun + seconds,
        ranked=max(ranked, limit),
        index=index,
        full_text=full_text,
    )

    def page_of(candidates: Sequence[Candidate], gaps: Sequence[str], near: tuple[Near, ...]) -> Found:
        ordered = _ranked(candidates, query)
        page = ordered[offset : offset + limit]
        hits = _hits(running, db, schema, page)
        elapsed = round((time.monotonic() - begun) * 1000)
        left_out = tuple(gaps), tuple(running.unranked)
        coverage = Coverage(not any(left_out), dict(running.looked_at), *left_out, elapsed)
        after = offset + len(page)
        following = after if after < len(ordered) else None
        total = max(running.total, len(ordered))
        more, partial = bool(running.at_least), running.at_least.union(running.cut)
        return Found(hits, total, following, coverage, near, more, tuple(candidates), frozenset(partial))

    if heard is not None:

        def tell(share: float) -> None:
            so_far = page_of(list(running.found.values()), (*running.gaps, "the search is still running"), ())
            heard(Progress(so_far, min(max(share, 0.0), 1.0)))

        running.tell = tell
    candidates = running.candidates()
    near = (
        ()
        if candidates or query.pattern is not None
        else tuple(_near(running, query.terms, near_seconds, words or KnownWords()))
    )
    return page_of(candidates, tuple(running.gaps), near)


def _ranked(candidates: Sequence[Candidate], query: Query) -> list[tuple[Candidate, dict[str, int]]]:
    """The candidates, those spelled as typed first, by the sum of what their ranks are worth.

    What weighs the same is newest first, in each of the orders and in their sum.
    """
    part = PATTERN if query.pattern is not None else PART
    newest = sorted(candidates, key=lambda one: (one.at, len(one.id), one.id), reverse=True)
    arms: dict[str, list[Candidate]] = {  # sorting is stable
        WORDS: sorted((one for one in newest if one.words), key=lambda one: -one.words),
        part: sorted(newest, key=lambda one: -one.part),
        RECENCY: newest,
    }
    ranks: dict[tuple[DocumentKind, str], dict[str, int]] = {}
    for name, ordered in arms.items():
        for rank, one in enumerate(ordered, start=1):
            ranks.setdefault((one.kind, one.id), {})[name] = rank
    worth = {key: sum(1 / (_FUSION + rank) for rank in found.values()) for key, found in ranks.items()}
    ordered = sorted(newest, key=lambda one: (not one.spelled, -worth[one.kind, one.id]))
    return [(one, ranks[one.kind, one.id]) for one in ordered]


def _hits(
    running: _Search, db: Rows, schema: Schema, page: Sequence[tuple[Candidate, dict[str, int]]]
) -> tuple[Hit, ...]:
    documents: dict[tuple[DocumentKind, str], Document] = {}
    for kind in DocumentKind:
        ids = [one.id for one, _ in page if one.kind is kind]
        for document in running.rows.some(kind, ids):
            documents[kind, document.id] = running._whole(document)
    messages = [MessageId(int(one.id)) for one, _ in page if one.kind is DocumentKind.MESSAGE]
    summaries = [SummaryId(one.id) for one, _ in page if one.kind is DocumentKind.SUMMARY]
    over = covering(db, schema, messages)
    direct = in_context(db, schema, DocumentKind.MESSAGE, messages)
    ways = ways_from_context(db, schema, summaries)
    seqs = seqs_of(db, schema, messages)
    hits: list[Hit] = []
    for one, ranks in page:
        if (one.kind, one.id) not in documents:
            continue
        document = documents[one.kind, one.id]
        place, snippet, spans = _snippet(document, running.query)
        of_message = one.kind is DocumentKind.MESSAGE
        way = over.get(MessageId(int(one.id)), ()) if of_message else ways.get(SummaryId(one.id), ())
        hits.append(
            Hit(
                one.kind,
                one.id,
                document.conversation_id,
                document.label,
                document.at,
                place,
                snippet,
                spans,
                tuple(ranks.items()),
                way,
                MessageId(int(one.id)) in direct if of_message else len(way) == 1,
                seqs.get(MessageId(int(one.id))) if of_message else None,
                one.spelled,
            )
        )
    return tuple(hits)


def _snippet(document: Document, query: Query) -> tuple[str, str, tuple[Span, ...]]:
    """Where something was found, one line around it, and what was found in that line."""
    best: tuple[int, str, str, list[tuple[int, int]]] | None = None
    for place, text in document.texts:
        found = sorted(_places(text, query))
        if found and (best is None or len(found) > best[0]):
            best = (len(found), place, text, found)
    if best is None:
        return "", "", ()
    _, place, text, found = best
    first, last = max(0, found[0][0] - _AROUND), min(len(text), found[0][1] + 2 * _AROUND)
    spans = [Span(start - first, min(end, last) - first) for start, end in found if first <= start < last]
    line = re.sub(r"\s", " ", text[first:last])  # as long as it was
    before = "… " if first else ""
    moved = tuple(Span(one.start + len(before), one.end + len(before)) for one in spans)
    return place, f"{before}{line}{' …' if last < len(text) else ''}", moved


def _places(text: str, query: Query) -> Iterator[tuple[int, int]]:
    if query.pattern is not None:
        try:
            found = query.pattern.search(text, timeout=_PATTERN_SECONDS, concurrent=True)
        except TimeoutError:
            return
        if found is not None:
            yield found.span()
        return
    folded = fold(text)
    for term in query.terms:
        yield from term.places(text, folded)


def with_file(rows: SearchedRows, document: Document, settings: RecallSettings) -> tuple[Document, str]:
    """A large file with its text, and what of that was not read; every other document as it is."""
    if document.kind is not DocumentKind.FILE:
        return document, ""
    file = RecalledRows(rows.db, rows.schema).file(FileId(document.id))
    if file is None:
        return document, ""
    path = path_of_file(file, settings)
    if path is None:
        return document, "large files that are not on this machine"
    try:
        read = read_head(path, FILE_BYTES)
    except NotFoundError:
        return document, "large files that cannot be read"
    texts = (*document.texts, *((("file", read.text),) if read.text else ()))
    return replace(document, texts=texts), "" if read.complete else f"large files beyond {FILE_BYTES:,} bytes"


def _near(
    running: _Search, terms: Sequence[Term], seconds: float | None, words: KnownWords
) -> Iterator[Near]:
    """For each term how many documents hold it, and where it is none, known words that look like it.

    A term for which there was no time is left out.
    """
    over = math.inf if seconds is None else time.monotonic() + seconds
    for term in terms:
        if time.monotonic() >= over:
            return
        found, more = _count_alone(running, term, over) if len(terms) > 1 else (0, False)
        near: tuple[str, ...] = ()
        if not found:
            spellings = words.of(running.wanted, lambda: _spellings(running, over))
            alike = process.extract(
                term.folded, spellings, scorer=fuzz.ratio, score_cutoff=_ALIKE, limit=_NEAR
            )
            near = tuple(word for word, _, _ in alike)
        yield Near(term.text, found, near, more)


def _count_alone(running: _Search, term: Term, over: float) -> tuple[int, bool]:
    """The documents that hold one term of several, and whether there may be more of them."""
    alone = Query(term.text, running.query.mode, (term,), None)
    counting = _Search(
        running.rows,
        alone,
        running.wanted,
        running.settings,
        _until(over),
        index=running.index,
        full_text=running.full_text,
    )
    counting.candidates()
    return counting.total, bool(counting.at_least)


def _until(over: float) -> float:
    return min(over, time.monotonic() + _SPELLING_SECONDS)


def _spellings(running: _Search, over: float) -> list[str]:
    """The words of the newest documents, each once, in lower case; before them those of the index."""
    known = dict.fromkeys(_indexed_words(running))
    if known or FULL_TEXT_LACKS in running.gaps:
        over = min(over, time.monotonic() + (_BESIDE_SECONDS if known else _NEWEST_SECONDS))
    reading = _Search(running.rows, running.query, running.wanted, running.settings, _until(over))
    for document in reading.documents(()):
        for _, text in document.texts:
            known.update(dict.fromkeys(word.lower() for word in _WORD.findall(text)))
        if len(known) >= _SPELLINGS:
            break
    return list(known)


def _indexed_words(running: _Search) -> list[str]:
    """The words of the private index, when the search may see all of them."""
    if running.index is None or running.wanted.conversations is not None:
        return []
    with open_index(running.index.path) as index:
        return [] if index is None else index.words_of(running.index.state, _SPELLINGS)


# -- other spellings -------------------------------------------------------------------------------------
# A search without hits, repeated with similar words for those that occur nowhere (docs/spec/searching.md,
# "Answers").

#: Queries that are suggested.
_MOST: Final = 9


def respelled(text: str, near: Sequence[Near]) -> Iterator[str]:
    """The query *text* with known words in place of terms that are nowhere, those most alike first.

    They are suggestions: what they find is not what was asked for. None where nothing looks alike.
    """
    missing = [one for one in near if not one.found]
    if not missing or not all(one.spellings for one in missing):
        return
    for choice in islice(product(*(one.spellings for one in missing)), _MOST):
        words = {one.term.casefold(): word for one, word in zip(missing, choice, strict=True)}
        pattern = "|".join(re.escape(one.term) for one in missing)
        yield re.sub(
            rf"(?<!\S)({pattern})(?!\S)",
            lambda found, words=words: words[found[0].casefold()],  # type: ignore[misc]
            text,
            flags=re.IGNORECASE,
        )


# -- first hits early ------------------------------------------------------------------------------------
# A search whose first hits are returned while it continues, for a screen that searches
# (docs/spec/searching.md, "Progress").


async def search_live(
    database: Database,
    query: Query,
    wanted: Filter,
    settings: RecallSettings,
    heard: Callable[[Progress], None],
    *,
    limit: int = 20,
    index: IndexUse | None = None,
) -> Found:
    """Search, and tell *heard* how far it is; the answer is that of `search`.

    *heard* is called on the event loop of the caller, in order, and never after this has returned or raised:
    first with what the file's own search tables find, with the first hit of the scan, then about five times a
    second. What it is given replaces what it was given before: a later page may rank otherwise, and begins
    anew when the file was replaced while it was read. It must return soon and raise nothing.

    To end a search, as when another query is typed, cancel the task that awaits it: what SQLite runs is
    interrupted, and the task ends when its thread has. A worker of Textual that is exclusive does that.

    *index* is that of the file (`index_of`), None to go without.

    Raises:
        DatabaseError: the file cannot be read.
        asyncio.CancelledError: the caller was cancelled; `heard` is not called any more.
    """
    loop = asyncio.get_running_loop()
    over = False

    def hand_out(progress: Progress) -> None:
        if not over:
            heard(progress)

    def from_thread(progress: Progress) -> None:
        loop.call_soon_threadsafe(hand_out, progress)

    async def load(reader: Reader) -> Found:
        return await reader.run(
            lambda rows: search(
                rows,
                reader.schema,
                query,
                wanted,
                settings,
                limit=limit,
                near_seconds=1.0,
                heard=from_thread,
                index=index,
            )
        )

    try:
        return await database.read(load)
    finally:
        over = True
