"""A transcript as the host sees it, a page at a time (docs/host.md, "Lines of a transcript").

`index_transcript` reads the file once and notes where its entries lie; `read_entries` reads a page from
there, so that a file of any size is shown without being held. Entries form a tree by ``parentId``: the path
that ends at the last entry is shown, abandoned branches are counted. All functions are synchronous: run
them in a thread and stop them with *cancelled*.
"""

from __future__ import annotations

from typing import BinaryIO

from lcm_core.ingest.columns import LineProblem, fingerprint
from lcm_core.ingest.content import ContentPart, PartKind, row_parts
from lcm_core.ingest.entries import TranscriptEntry, TranscriptMessage, read_entry, unread_entry
from lcm_core.ingest.header import TranscriptHeader
from lcm_core.ingest.index import TranscriptIndex, index_transcript, refresh_index
from lcm_core.ingest.jsonl import (
    HEAD_BYTES,
    LINE_LIMIT,
    BadLineError,
    Cancelled,
    RawLine,
    TranscriptChangedError,
    TranscriptError,
    TranscriptMissingError,
    check,
    decode_object,
    never,
    open_transcript,
    peek_object,
)

__all__ = [
    "LINE_LIMIT",
    "ContentPart",
    "LineProblem",
    "PartKind",
    "TranscriptChangedError",
    "TranscriptEntry",
    "TranscriptError",
    "TranscriptHeader",
    "TranscriptIndex",
    "TranscriptMessage",
    "TranscriptMissingError",
    "index_transcript",
    "read_entries",
    "read_line",
    "refresh_index",
    "row_parts",
]


def read_entries(
    index: TranscriptIndex,
    start: int,
    stop: int,
    *,
    everything: bool = False,
    line_limit: int | None = None,
    text_limit: int | None = None,
    cancelled: Cancelled = never,
) -> list[TranscriptEntry]:
    """The entries at positions *start* to *stop* of the path, those that exist.

    With *everything* a position counts all entries in file order, abandoned ones too. *line_limit* (bytes,
    at least `HEAD_BYTES`; the index's when None) bounds what is parsed of one line, *text_limit* (code
    points) the text of one part: `ContentPart.cut` says how much is missing.

    Raises:
        TranscriptChangedError: a line is not the one that was indexed.
        TranscriptError: the file cannot be opened or read any more.
        CancelledError: the caller stopped it.
    """
    chosen = (index.numbers if everything else index.shown)[max(0, start) : max(0, stop)]
    on_path = set(index.shown) if everything else set(chosen)
    limit = max(HEAD_BYTES, index.line_limit if line_limit is None else line_limit)
    with open_transcript(index.path) as file:
        return [
            _entry(index, read_line(index, file, number, limit, cancelled), number in on_path, text_limit)
            for number in chosen
        ]


def read_line(
    index: TranscriptIndex, file: BinaryIO, number: int, limit: int, cancelled: Cancelled = never
) -> RawLine:
    """The line of an entry by its number; only its start when it has more than *limit* bytes.

    Raises:
        TranscriptChangedError: the line is not the one that was indexed.
        CancelledError: the caller stopped it.
    """
    check(cancelled)
    columns = index.scan.columns
    size, place = columns.size[number], columns.offset[number]
    too_long = size > limit
    file.seek(place)
    data = file.read(min(size, HEAD_BYTES) if too_long else size)
    if fingerprint(data) != columns.check[number]:
        raise _changed(index, columns.line[number])
    return RawLine(columns.line[number], place, size, data, too_long, ended=True)


def _entry(index: TranscriptIndex, line: RawLine, on_path: bool, text_limit: int | None) -> TranscriptEntry:
    if line.too_long:
        return unread_entry(line, peek_object(line.data), on_path=on_path)
    try:
        value = decode_object(line.data)
    except BadLineError as error:
        if line.size > index.line_limit:  # it is parsed for the first time: the caller raised the limit
            return unread_entry(line, peek_object(line.data), on_path=on_path, reason=str(error))
        raise _changed(index, line.number) from error
    return read_entry(line, value, on_path=on_path, text_limit=text_limit)


def _changed(index: TranscriptIndex, line: int) -> TranscriptChangedError:
    return TranscriptChangedError(
        f"{index.path} was rewritten since it was opened (line {line} is another one): reload it."
    )
