"""How a snapshot looks: what was noted of it, as a text, and its messages as lines."""

from __future__ import annotations

from collections.abc import Iterator

from lcm_core.assemble.ledger import Ledger
from lcm_core.assemble.message import OriginKind
from lcm_core.snapshots import RebuiltSnapshot
from lcm_core.store.assemblies import Snapshot, SnapshotItem
from lcm_core.wording import counted

from lcm_tui.views.context import NO_VALUE, number
from lcm_tui.views.sent import sent_columns, sent_line
from lcm_tui.widgets.spans import Line, Span, row_of
from lcm_tui.widgets.text import Block, Document, field, heading

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


def _noted(one: Snapshot, time: str) -> Iterator[Block]:
    reason = one.metadata.get("fallbackReason")
    tail = f"{value_of(one, 'freshTailCount')} items, {value_of(one, 'freshTailTokens')} tokens"
    summaries = value_of(one, "summaryCount")
    items = f"{value_of(one, 'contextItemCount')} items, {summaries} of them summaries"
    debt = value_of(one, "rawHistoryDebtTokens")
    rows = (
        ("sent at", time),
        ("budget", f"{one.budget:,} tokens; rules {one.rules}, {one.selection}"),
        ("source", value_of(one, "source") + (f": {reason}" if reason else "")),
        ("sent", f"{len(one.sent):,} messages, {one.sent_tokens:,} tokens"),
        ("not sent", f"{one.evicted:,} items, {len(one.cut):,} of them by the hard limit"),
        ("fresh tail", tail),
        ("context", items),
        ("history", f"{value_of(one, 'rawHistoryEstimatedTokens')} tokens; raw before the tail {debt}"),
        ("host", f"may use this as the prompt size: {value_of(one, 'promptAuthoritative')}"),
        ("cache", f"{value_of(one, 'cacheState')}: {value_of(one, 'cacheReason')}"),
        ("hash", one.messages_hash),
    )
    for name, value in rows:
        yield field(name, value, width=WIDTH + 1)


def how_true(found: RebuiltSnapshot) -> tuple[str, bool]:
    """How what is shown stands to what was sent, in one sentence; and whether it is the same."""
    if found.exact:
        return "This is exactly what was sent: the hash is the same.", True
    parts = []
    if found.gone:
        verb = "is" if len(found.gone) == 1 else "are"
        parts.append(f"{counted(len(found.gone), 'row')} {verb} missing from the database")
    if found.not_kept:
        parts.append(f"{found.not_kept:,} messages came from the host's own list; their text is not stored")
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
        field("tokens", f"{item.tokens:,} as sent", width=9),
        field("ordinal", NO_VALUE if item.ordinal is None else str(item.ordinal), width=9),
        Block(),
        Block(why, "warn"),
    )


def snapshot_line(ledger: Ledger, item: SnapshotItem, at: int, place: int | None, width: int) -> Line:
    """The message *at* that number as a line; *place*: where it stands among those of today, if it does."""
    if place is not None:
        return sent_line(ledger, place, width, ranked=at)
    cells = {
        "mark": Span("✗", "error"),
        "number": Span(f"{at + 1}", "dim"),
        "role": Span("?", "dim"),
        "from": Span(item.name, "key"),
        "sent": Span(number(item.tokens, 7)),
        "stored": Span(NO_VALUE, "dim"),
        "preview": Span("the host's own" if item.kind is OriginKind.LIVE else "gone", "error"),
    }
    return row_of(sent_columns(width), cells)
