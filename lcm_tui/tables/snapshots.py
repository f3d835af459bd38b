"""Snapshots of what an engine sent: as a table, and one as a text and as lines of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import tzinfo
from operator import attrgetter
from typing import Any, Final, TypeAlias

from lcm_core.base.records import Conversation
from lcm_core.base.text import counted, preview, safe_text
from lcm_core.base.times import format_zoned, parse_utc
from lcm_core.base.values import Record
from lcm_core.engine.messages import OriginKind
from lcm_core.engine.sent import Ledger, beginning
from lcm_core.operations.snapshots import RebuiltSnapshot
from lcm_core.store.listing import DamagedSnapshot, Snapshot, SnapshotItem

from lcm_tui.kit.spans import Block, Document, Line, Span, heading, row_of, text_field
from lcm_tui.tables.blocks import Cell, Facts, ListColumn, Note, OutputBlock, OutputColumn, Table, When
from lcm_tui.tables.context import NO_VALUE, number
from lcm_tui.tables.sent import ordinal_cell, sent_columns, sent_line

# -- one snapshot ----------------------------------------------------------------------------------------
# What was noted of it, as a text, and its messages as lines.

WIDTH = 11


def value_of(one: Snapshot, name: str) -> str:
    """A value of the metadata for people."""
    value = one.metadata.get(name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not known" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def noted_document(one: Snapshot, time: str) -> Document:
    """What was noted when it was sent."""
    return (Block(one.id, "key"), *_noted(one, time))


def _items(one: Snapshot, name: str) -> str:
    return f"{value_of(one, name)} {'item' if one.metadata.get(name) == 1 else 'items'}"


def _noted(one: Snapshot, time: str) -> Iterator[Block]:
    reason = one.metadata.get("fallbackReason")
    tail = f"{_items(one, 'freshTailCount')}, {value_of(one, 'freshTailTokens')} tokens"
    summaries = value_of(one, "summaryCount")
    items = f"{_items(one, 'contextItemCount')}, {summaries} of them summaries"
    debt = value_of(one, "rawHistoryDebtTokens")
    rows = (
        ("sent at", time),
        ("budget", f"{one.budget:,} tokens, as engine {one.rules} sends it: {one.selection}"),
        ("source", value_of(one, "source") + (f": {reason}" if reason else "")),
        ("sent", f"{counted(len(one.sent), 'message')}, {one.sent_tokens:,} tokens"),
        ("not sent", f"{counted(one.evicted, 'item')}, {len(one.cut):,} of them by the hard limit"),
        ("fresh tail", tail),
        ("context", items),
        ("history", f"{value_of(one, 'rawHistoryEstimatedTokens')} tokens; raw before the tail {debt}"),
        ("host", f"may use this as the prompt size: {value_of(one, 'promptAuthoritative')}"),
        ("cache", f"{value_of(one, 'cacheState')}: {value_of(one, 'cacheReason')}"),
        ("hash", one.messages_hash),
    )
    for name, value in rows:
        yield text_field(name, value, width=WIDTH + 1)


def how_true(found: RebuiltSnapshot) -> tuple[str, bool]:
    """How what is shown stands to what was sent, in one sentence; and whether it is the same."""
    if found.exact:
        return "This is exactly what was sent: the hash is the same.", True
    parts = []
    if found.gone:
        verb = "is" if len(found.gone) == 1 else "are"
        parts.append(f"{counted(len(found.gone), 'row')} {verb} missing from the database")
    if found.not_kept:
        what = counted(found.not_kept, "message")
        its = "its" if found.not_kept == 1 else "their"
        parts.append(f"{what} came from the host's own list; {its} text is not stored")
    if parts:
        return f"This is only part of what was sent: {' and '.join(parts)}.", False
    return "This differs from what was sent: rows have changed since, or the time zone differs.", False


def whole_document(one: Snapshot, found: RebuiltSnapshot, time: str) -> Document:
    """The snapshot as a whole, and how true it can be shown."""
    said, same = how_true(found)
    gone = [Block(item.name, "error") for item in found.gone]
    lost: Document = (Block(), heading("Deleted from the database"), *gone) if gone else ()
    return (Block(one.id, "key"), Block(said, "ok" if same else "warn"), Block(), *_noted(one, time), *lost)


def lost_document(item: SnapshotItem) -> Document:
    """A message of which nothing stands."""
    if item.kind is OriginKind.LIVE:
        why = "It came from the host's own list: a snapshot keeps no text, and the database has no row of it."
    else:
        why = "Its row was deleted from the database, so its text cannot be shown."
    return (
        heading(item.name),
        text_field("tokens", f"{item.tokens:,} as sent", width=9),
        text_field("ordinal", NO_VALUE if item.ordinal is None else str(item.ordinal), width=9),
        Block(),
        Block(why, "warn"),
    )


def snapshot_line(ledger: Ledger, item: SnapshotItem, place: int | None, width: int) -> Line:
    """A message as a line; *place*: where it is among those of today, if it is."""
    if place is not None:
        return sent_line(ledger, place, width)
    cells = {
        "mark": Span("✗", "error"),
        "item": ordinal_cell(item.ordinal),
        "role": Span("?", "dim"),
        "from": Span(item.name, "key"),
        "sent": Span(number(item.tokens, 7)),
        "stored": Span(NO_VALUE, "dim"),
        "preview": Span("the host's own" if item.kind is OriginKind.LIVE else "gone", "error"),
    }
    return row_of(sent_columns(width), cells)


# -- all of them, and one rebuilt ------------------------------------------------------------------------
# Contexts that an engine gave to its host: as a table, and one of them shown again.

#: Messages that are gone and that a line for people names.
NAMED = 8
EMPTY = "No snapshots: only an engine that runs in a Python host saves them."

Listed: TypeAlias = Snapshot | DamagedSnapshot


class ShownSnapshot(Record, frozen=True):
    """A snapshot with what can be shown of it again."""

    conversation: Conversation
    snapshot: Snapshot
    found: RebuiltSnapshot


def when_of(one: Listed, zone: tzinfo | None) -> str:
    """When it was sent, in the zone that is shown; of a damaged one whatever stands there."""
    return format_zoned(parse_utc(one.created_at), zone) or one.created_at


class SnapshotCells(Record, frozen=True):
    """What the cells of a snapshot are drawn with in the app."""

    zone: tzinfo | None
    mark: str  #: of those that are to be compared


def _of(path: str) -> Callable[[Listed], Any]:
    """The value at *path*; a damaged snapshot has none."""
    read = attrgetter(path)
    return lambda one: None if isinstance(one, DamagedSnapshot) else read(one)


def _noted_as(name: str) -> Callable[[Listed], str | None]:
    """A value of the metadata, for people."""
    return lambda one: None if isinstance(one, DamagedSnapshot) else value_of(one, name)


def _sent(one: Listed) -> int | None:
    return None if isinstance(one, DamagedSnapshot) else len(one.sent)


def _dim(value: str | None, _: Listed, __: SnapshotCells) -> Span:
    return Span(value or "", "dim")


# fmt: off
#: All that lists say of a snapshot, in order.
SNAPSHOT_COLUMNS: Final[tuple[ListColumn[Listed, SnapshotCells], ...]] = (
    ListColumn("mark", "", 1, keep=99, value="id", cell=lambda _, __, drawing: Span(drawing.mark, "ok")),
    ListColumn("snapshot", heading="Snapshot", json="id", value="id"),
    ListColumn("time", "sent at", 19, keep=95, timed="at", heading="Time", value="created_at", time=True,
               cell=lambda _, one, drawing: Span(when_of(one, drawing.zone)[:19])),
    ListColumn("created", json="createdAt", value="created_at"),
    ListColumn("said", heading="Source", value=lambda one: _noted_as("source")(one) or "damaged"),
    ListColumn("by", json="rules", value=_of("rules")),
    ListColumn("zone", json="timezone", value=_of("zone")),
    ListColumn("budget", "budget", 8, right=True, keep=94, heading="Budget", json="budget",
               value=_of("budget")),
    ListColumn("chosen", json="selection", value=_of("selection")),
    ListColumn("sent", right=True, heading="Sent", json="messages", value=_sent),
    ListColumn("tokens", "tokens", 8, right=True, keep=93, heading="Tokens", value=_of("sent_tokens")),
    ListColumn("messages", "messages", 8, right=True, keep=85, value=_sent),
    ListColumn("evicted", "not sent", 8, right=True, keep=80, heading="Not sent", json="evicted",
               value=_of("evicted"),
               cell=lambda value, _, __: Span(f"{value or 0:,}", "warn" if value else "dim")),
    ListColumn("weight", json="sentTokens", value=_of("sent_tokens")),
    ListColumn("source", "source", 14, keep=70, value=_noted_as("source"),
               cell=lambda value, _, __: Span(value or "", "text" if value == "assembled" else "warn")),
    ListColumn("rules", "rules", 5, keep=20, value=_of("rules"), cell=_dim),
    ListColumn("cache", "cache", 8, keep=30, heading="Cache", spare=1, value=_noted_as("cacheState"),
               cell=_dim),
    ListColumn("selection", "selection", 13, keep=15, value=_of("selection"), cell=_dim),
    ListColumn("hash", heading="Hash", spare=2, json="messagesHash", value=_of("messages_hash")),
    ListColumn("metadata", json="metadata", value=_of("metadata")),
    ListColumn("id", "id", 20, keep=90, value="id", cell=lambda value, _, __: Span(value, "key")),
)
#: Those of the list for programs: every entry says whether it is damaged.
LISTED_COLUMNS: Final = (
    *SNAPSHOT_COLUMNS,
    ListColumn("damaged", json="damaged", value=lambda one: getattr(one, "problem", None)),
)
# fmt: on


def snapshot_blocks(when: When, shown: ShownSnapshot) -> Iterator[OutputBlock]:
    """One snapshot: what was sent, and what stands of it."""
    one, found = shown.snapshot, shown.found
    reason = one.metadata.get("fallbackReason")
    facts: list[tuple[str, Cell]] = [
        ("Conversation", shown.conversation.called),
        ("Snapshot", f"{safe_text(one.id)}, {when(one.created_at)}"),
        ("Source", value_of(one, "source") + (f": {safe_text(str(reason))}" if reason else "")),
        ("Authoritative", value_of(one, "promptAuthoritative")),
        ("Tokens", f"{one.sent_tokens:,} sent of {one.budget:,}, rules of {safe_text(one.rules)}"),
        ("Sent", f"{counted(len(one.sent), 'message')}, {one.evicted:,} items not sent"),
        ("Fresh tail", f"{value_of(one, 'freshTailCount')} items, {value_of(one, 'freshTailTokens')} tokens"),
        (
            "History",
            f"{value_of(one, 'rawHistoryEstimatedTokens')} tokens, "
            f"{value_of(one, 'rawHistoryDebtTokens')} of them raw before the tail",
        ),
        ("Cache", f"{value_of(one, 'cacheState')}: {value_of(one, 'cacheReason')}"),
        ("Hash", safe_text(one.messages_hash)),
        ("Shown again", _how_true(found)),
    ]
    yield Facts(facts)
    columns = (
        OutputColumn("#", right=True),
        OutputColumn("Role"),
        OutputColumn("From"),
        OutputColumn("Ordinal", right=True, spare=2),
        OutputColumn("Text", grows=True),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            at,
            message.role.word,
            message.origin.name,
            message.origin.ordinal,
            preview(beginning(message)),
        )
        for at, message in enumerate(found.messages, 1)
    ]
    yield Table(columns, rows, "What still exists", empty="Nothing of what was sent still exists.")
    if found.gone:
        names = ", ".join(safe_text(one.name) for one in found.gone[:NAMED])
        more = f" and {len(found.gone) - NAMED:,} more" if len(found.gone) > NAMED else ""
        yield Note(f"Deleted from the database: {names}{more}.")
    if found.not_kept:
        messages = counted(found.not_kept, "message")
        yield Note(f"{messages} came from the host's own list, of which a snapshot keeps no text.")


def _how_true(found: RebuiltSnapshot) -> str:
    if found.exact:
        return "exactly what was sent: the hash is the same"
    if found.gone or found.not_kept:
        return "in part"
    return "not exactly: rows have changed since, or the time zone differs, so the hash differs"
