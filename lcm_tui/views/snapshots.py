"""Contexts that an engine gave to its host: as a table, and one of them shown again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lcm_core.assemble.export import beginning
from lcm_core.records import Conversation
from lcm_core.snapshots import RebuiltSnapshot
from lcm_core.store.assemblies import DamagedSnapshot, Snapshot
from lcm_core.text import preview, safe_text
from lcm_core.wording import counted

from lcm_tui.views.blocks import Block, Cell, Column, Facts, Note, Table, When

#: Messages that are gone and that a line for people names.
NAMED = 8
EMPTY = "No snapshots: only an engine that runs in a Python host saves them."

Listed: TypeAlias = Snapshot | DamagedSnapshot


@dataclass(frozen=True, slots=True)
class ShownSnapshot:
    """A snapshot with what can be shown of it again."""

    conversation: Conversation
    snapshot: Snapshot
    found: RebuiltSnapshot


def snapshots_table(when: When, found: Sequence[Listed]) -> Table:
    """Snapshots, each on a line; a damaged one says no more."""
    columns = (
        Column("Snapshot"),
        Column("Time"),
        Column("Source"),
        Column("Budget", right=True),
        Column("Sent", right=True),
        Column("Tokens", right=True),
        Column("Not sent", right=True),
        Column("Cache", spare=1),
        Column("Hash", spare=2),
    )
    return Table(columns, [_row(when, one) for one in found], empty=EMPTY)


def _row(when: When, one: Listed) -> tuple[Cell, ...]:
    name, time = safe_text(one.id), when(one.created_at)
    if isinstance(one, DamagedSnapshot):
        return name, time, "damaged", None, None, None, None, None, None
    return (
        name,
        time,
        _said(one, "source"),
        one.budget,
        len(one.sent),
        one.sent_tokens,
        one.evicted,
        _said(one, "cacheState"),
        safe_text(one.messages_hash),
    )


def _said(one: Snapshot, name: str) -> str:
    value = one.metadata.get(name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not known" if value is None else safe_text(f"{value:,}" if isinstance(value, int) else str(value))


def snapshot_blocks(when: When, shown: ShownSnapshot) -> Iterator[Block]:
    """One snapshot: what was sent, and what stands of it."""
    one, found = shown.snapshot, shown.found
    reason = one.metadata.get("fallbackReason")
    facts: list[tuple[str, Cell]] = [
        ("Conversation", shown.conversation.called),
        ("Snapshot", f"{safe_text(one.id)}, {when(one.created_at)}"),
        ("Source", _said(one, "source") + (f": {safe_text(str(reason))}" if reason else "")),
        ("Authoritative", _said(one, "promptAuthoritative")),
        ("Tokens", f"{one.sent_tokens:,} sent of {one.budget:,}, rules of {safe_text(one.rules)}"),
        ("Sent", f"{counted(len(one.sent), 'message')}, {one.evicted:,} items not sent"),
        ("Fresh tail", f"{_said(one, 'freshTailCount')} items, {_said(one, 'freshTailTokens')} tokens"),
        (
            "History",
            f"{_said(one, 'rawHistoryEstimatedTokens')} tokens, {_said(one, 'rawHistoryDebtTokens')} of them "
            "raw before the tail",
        ),
        ("Cache", f"{_said(one, 'cacheState')}: {_said(one, 'cacheReason')}"),
        ("Hash", safe_text(one.messages_hash)),
        ("Shown again", _how_true(found)),
    ]
    yield Facts(facts)
    columns = (
        Column("#", right=True),
        Column("Role"),
        Column("From"),
        Column("Ordinal", right=True, spare=2),
        Column("Text", grows=True),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            at,
            str(message.role),
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
