"""A summary, or a message it was made from: in the words of a list, and as a document with all of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import tzinfo
from enum import StrEnum

from lcm_core.base.records import Summary, SummaryId, SummaryText, Timestamp
from lcm_core.base.text import safe_line
from lcm_core.base.times import format_local, format_zoned, parse_utc
from lcm_core.base.tokens import estimate_utf16, estimate_weighted, estimator_of
from lcm_core.base.values import replace
from lcm_core.engine.markers import BadKind, is_capped
from lcm_core.store.messages import MessageEntry
from lcm_core.store.schema import Schema
from lcm_core.store.summaries import Relative, SourceMessage, SummaryDetail, SummaryEntry, summary_detail

from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import Block, Document, Span, depth_style, heading, role_style, text_field
from lcm_tui.tables.blocks import Cell, Mark, When, fact_field, minute_text, moment_text
from lcm_tui.tables.messages import part_blocks

#: In a cell, for what is not there.
NONE = "–"
_LONG_ID = re.compile(r"\b((?:sum|focus|file)_)([0-9A-Za-z]{9,})")
#: Cells of a summary's id as the engine makes it.
ID_CELLS = 20

BROKEN_MEANS = {
    BadKind.OLD: "Not a summary: it begins with the fallback marker of the oldest engine versions.",
    BadKind.FALLBACK: "Not a summary: the model returned nothing, so the truncated source was stored.",
    BadKind.TRUNCATED: "Not a summary: every attempt was longer than the source, which was truncated.",
    BadKind.EMERGENCY: "Not a summary: no model was available, so the truncated source was stored.",
    BadKind.EMPTY: "The text is empty.",
    BadKind.ERROR: "Not a summary: the error of a provider was stored.",
    BadKind.COPY: "Not a summary: it is the beginning of its source, without a mark.",
}


class ShortIds:
    """The ids of a list, so short that each can be told from all others, and 8 digits at least."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """*texts*: all in which the list names ids, or these alone."""
        ids = {found[0] for text in texts for found in _LONG_ID.finditer(text)}
        self._digits = 8
        while self._digits < ID_CELLS and len(set(map(self.of, ids))) < len(ids):
            self._digits += 1
        #: For the widest of a summary.
        self.cells = min(len("sum_") + self._digits, ID_CELLS)

    def of(self, text: str) -> str:
        """A text with the ids in it shortened."""
        return _LONG_ID.sub(lambda found: found[1] + found[2][: self._digits], text)

    def within(self, cells: Mapping[str, Span], name: str) -> Mapping[str, Span]:
        """The cells of a row with the ids in one of them shortened."""
        return {**cells, name: replace(cells[name], text=self.of(cells[name].text))}


def badge_of(kind: str, depth: int) -> str:
    """Kind and depth in a word: leaf, D1, D2; a leaf that has a depth shows it (B9)."""
    if kind == "leaf":
        return "leaf" if depth == 0 else f"leaf {depth}"
    return f"D{depth}"


def message_preview(found: SourceMessage) -> str:
    """The beginning of what a message says, on one line."""
    return safe_line(found.preview.strip())


def broken_text(kind: StrEnum) -> str:
    """What is wrong with a summary's text, in a word."""
    return f"✗ {kind.value}"


def below_text(entry: SummaryEntry) -> str:
    """How many summaries stand below, as stored; of a leaf, how many messages."""
    summary = entry.summary
    if summary.kind == "leaf":
        return f"{entry.source_messages:,} msg"
    return NONE if summary.descendant_count is None else f"{summary.descendant_count:,}"


def model_text(summary: Summary) -> str:
    """The model without its provider."""
    return NONE if summary.model is None else safe_line(summary.model).rsplit("/", 1)[-1]


def time_range(first: Timestamp | None, last: Timestamp | None, zone: tzinfo | None) -> str:
    """From when to when, in at most 22 cells: times within a day, days across several."""
    start, end = parse_utc(first), parse_utc(last)
    if start is None or end is None:
        return NONE if first is None and last is None else safe_line(first or last or "")
    begun, ended = format_local(start, zone)[:16], format_local(end, zone)[:16]
    if begun[:10] != ended[:10]:
        return f"{begun[:10]}→{ended[:10]}"
    return begun if begun == ended else f"{begun}→{ended[11:]}"


def time_begun(first: Timestamp | None, last: Timestamp | None, zone: tzinfo | None) -> str:
    """The same in at most 16 cells: a day with the time at which it begins, or the days."""
    said = time_range(first, last, zone)
    begun, arrow, ended = said.partition("→")
    if len(ended) < 10:
        return begun
    return f"{begun}{arrow}{ended[5:] if ended[:4] == begun[:4] else ''}" or said


def summary_document(detail: SummaryDetail, *, zone: tzinfo | None, schema: Schema) -> Document:
    """Everything about a summary: a headline, the text, the columns, and what stands around it."""
    text, entry = detail.text, detail.entry
    summary = text.summary
    ordinals = "".join(f" · ordinal {ordinal} of the context" for ordinal in entry.ordinals)
    blocks = [
        Block(
            spans=(
                Span(f"{badge_of(summary.kind, summary.depth)} ", depth_style(summary.depth)),
                Span(summary.summary_id, "title"),
                Span(f" · {summary.tokens:,} tokens", "dim"),
                Span(ordinals, "ok"),
                Span(f"  {broken_text(entry.broken)}" if entry.broken else "", "error"),
            )
        )
    ]
    if entry.broken is not None:
        blocks.append(Block(BROKEN_MEANS[entry.broken], "error"))
    if is_capped(text.content):
        blocks.append(Block("The text was longer than the hard cap and was truncated there.", "warn"))
    blocks += [Block(), Block(text.content)]
    blocks += _metadata(text, zone, schema)
    blocks += _relatives("Sources", detail.sources, zone)
    blocks += _relatives("Consumers", detail.consumers, zone)
    blocks += _messages(detail.messages, zone)
    return (*blocks, *_files(summary.file_ids))


def summary_facts(summary: Summary, schema: Schema, when: When) -> list[tuple[str, Cell]]:
    """What is recorded of a summary besides its text."""

    def recorded(column: str, value: Cell) -> Cell:
        return value if schema.has("summaries", column) else Mark.NOT_RECORDED

    return [
        ("id", summary.summary_id),
        ("conversation", str(summary.conversation_id)),
        ("kind", summary.kind),
        ("depth", recorded("depth", summary.depth)),
        ("tokens", summary.tokens),
        ("covers from", recorded("earliest_at", when(summary.earliest_at))),
        ("covers to", recorded("latest_at", when(summary.latest_at))),
        ("summaries below", recorded("descendant_count", summary.descendant_count)),
        ("tokens below", recorded("descendant_token_count", summary.descendant_tokens)),
        ("message tokens", recorded("source_message_token_count", summary.source_message_tokens)),
        ("made", when(summary.created_at)),
        ("model", recorded("model", summary.model)),
    ]


def _metadata(text: SummaryText, zone: tzinfo | None, schema: Schema) -> Iterator[Block]:
    yield Block()
    yield heading("Recorded")
    for name, value in summary_facts(text.summary, schema, lambda stored: _moment(stored, zone)):
        yield fact_field(name, value, 18)
        if name == "tokens":
            yield from _token_check(text)


def _token_check(text: SummaryText) -> list[Block]:
    """A line when the stored count is none that an estimator gives (docs/spec/tokens.md, "Estimators")."""
    if estimator_of(text.content, text.summary.tokens) is not None:
        return []
    newer, older = estimate_weighted(text.content), estimate_utf16(text.content)
    counted = f"~{newer:,}" if newer == older else f"~{newer:,} or, by the older counting rule, ~{older:,}"
    return [text_field("", f"the text counts {counted}", "warn", 18)]


def _moment(stored: str | None, zone: tzinfo | None) -> str | None:
    if stored is None:
        return None
    moment = parse_utc(stored)
    if moment is None:
        return f"{stored}  (not a time)"
    shown = format_zoned(moment, zone)
    return stored if shown.endswith("Z") else f"{shown}  (stored as {stored})"


def _relatives(title: str, relatives: Iterable[Relative], zone: tzinfo | None) -> list[Block]:
    found = list(relatives)
    lines = []
    for relative in found:
        head = (Span(f"{relative.ordinal:>3} ", "dim"), Span(f"{relative.summary_id:<20} ", "key"))
        summary = relative.summary
        if summary is None:
            lines.append(Block(spans=(*head, Span("✗ deleted (row missing)", "error"))))
            continue
        badge = badge_of(summary.kind, summary.depth)
        covers = time_range(summary.earliest_at, summary.latest_at, zone)
        lines.append(
            Block(
                spans=(
                    *head,
                    Span(f"{badge:<3}", depth_style(summary.depth)),
                    Span(f"{summary.tokens:>6,} "),
                    Span(covers, "dim"),
                )
            )
        )
    return [Block(), heading(f"{title} ({len(found):,})"), *lines]


def _messages(messages: Iterable[SourceMessage], zone: tzinfo | None) -> list[Block]:
    found = list(messages)
    lines = []
    for source in found:
        message = source.message
        if message is None:
            lines.append(
                Block(spans=(Span(f"m{source.message_id} "), Span("✗ deleted (row missing)", "error")))
            )
            continue
        said = minute_text(message.created_at, zone)
        lines.append(
            Block(
                spans=(
                    Span(f"{f'#{message.seq}':>6} ", "key"),
                    Span(f"{message.role:<10}", role_style(message.role)),
                    Span(f"{message.tokens:>7,}  "),
                    Span(f"{said}  ", "dim"),
                    Span(message_preview(source)),
                )
            )
        )
    return [Block(), heading(f"Messages ({len(found):,})"), *lines]


def file_ids_of(stored: str) -> list[str] | None:
    """The ids in a ``file_ids`` column; None when it does not hold a JSON array of strings."""
    try:
        found = json.loads(stored or "[]")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        return None
    return [str(name) for name in found]


def _files(stored: str) -> list[Block]:
    found = file_ids_of(stored)
    if found is None:
        return [Block(), heading("Files"), Block(f"not a list of ids: {stored}", "error")]
    return [Block(), heading(f"Files ({len(found):,})"), *(Block(name, indent=2) for name in found)]


def message_document(entry: MessageEntry, *, zone: tzinfo | None) -> Document:
    """Everything about a message: a headline, then its parts."""
    message = entry.message
    said = moment_text(message.created_at, zone)
    blocks = [
        Block(
            spans=(
                Span(f"#{message.seq} ", "title"),
                Span(message.role, role_style(message.role)),
                Span(f" · {message.tokens:,} tokens · {said} · m{message.message_id}", "dim"),
                Span(" · in context" if entry.in_context else "", "ok"),
            )
        ),
        Block(),
    ]
    blocks += part_blocks(entry)
    if entry.covered_by:
        blocks += [
            Block(),
            heading("Used by"),
            *(Block(name, "key", indent=2) for name in entry.covered_by),
        ]
    return tuple(blocks)


# -- reading one -----------------------------------------------------------------------------------------
# The whole text of a summary, for the pane beside or below what selects it.


async def read_summary_document(session: Session, summary_id: SummaryId) -> Document:
    """Everything about a summary.

    Raises:
        NotFoundError: no summary has this id.
    """
    detail = await session.read(summary_detail, summary_id)
    # In a thread: a text of a megabyte takes its time to count.
    return await asyncio.to_thread(
        summary_document, detail, zone=session.zone, schema=session.database.schema
    )
