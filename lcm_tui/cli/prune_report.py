"""What takes the space, as JSON and for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lcm_core.operations.cleaners import MEANINGS, Cleaned, Cleaner
from lcm_core.operations.prune import Selection, SpaceUse
from lcm_core.store.statistics import ConversationSize

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.views.blocks import Block, Cell, Column, Facts, Note, Table
from lcm_tui.views.units import bytes_text

#: Rows of a table for people; JSON has all.
SHOWN = 25


def selection_document(found: Selection) -> Document:
    """The conversations that are meant; with what the cleaners say of them, when they were asked."""
    items = [candidate_document(one) for one in found.conversations]
    if found.cleaned is None:
        return {"items": items}
    junk = found.cleaned
    for item, one in zip(items, found.conversations, strict=True):
        item |= {"cleaners": list(junk.chosen[one.id]), "firstMessage": junk.previews.get(one.id)}
    return {
        "items": items,
        "cleaners": [
            {"name": cleaner, "conversationCount": conversations, "messageCount": messages}
            for cleaner, conversations, messages in _by_cleaner(found.conversations, junk)
        ],
        "agents": list(junk.cleaning.agents),
        "otherAgents": dict(junk.others),
    }


def _by_cleaner(found: Sequence[ConversationSize], junk: Cleaned) -> list[tuple[Cleaner, int, int]]:
    """Each cleaner with the number of conversations that it selects, and of their messages."""
    those = {
        cleaner: [one.messages for one in found if cleaner in junk.chosen[one.id]]
        for cleaner in junk.cleaning.cleaners
    }
    return [(cleaner, len(counts), sum(counts)) for cleaner, counts in those.items()]


def candidate_document(one: ConversationSize) -> Document:
    """A conversation with its size."""
    known = one.conversation
    return {
        "conversationId": one.id,
        "sessionId": known.session_id,
        "sessionKey": known.session_key,
        "active": known.active,
        "archiveCause": known.archive_cause,
        "messageCount": one.messages,
        "summaryCount": one.summaries,
        "contextItems": one.context_items,
        "textBytes": one.bytes,
        "latestMessageAt": one.last_activity,
        "createdAt": known.created_at,
    }


def selection_blocks(run: Run, found: Selection) -> list[Block]:
    """The conversations that are meant; behind them, what each cleaner selects and how they begin."""
    blocks: list[Block] = [candidates_table(run, found.conversations)]
    if (junk := found.cleaned) is None:
        return blocks
    counts: list[tuple[Cell, ...]] = [
        (cleaner, MEANINGS[cleaner], conversations, messages)
        for cleaner, conversations, messages in _by_cleaner(found.conversations, junk)
    ]
    blocks.append(Table(_CLEANERS, counts, "By cleaner of the engine"))
    shown = [one for one in found.conversations[:SHOWN] if one.id in junk.previews]
    if shown:
        begins: list[tuple[Cell, ...]] = [(one.id, junk.previews[one.id]) for one in shown]
        blocks.append(Table(_BEGINNINGS, begins, "How they begin"))
    blocks.append(Note(_agents(run, junk)))
    if junk.others:
        said = ", ".join(f"{agent} ({count:,})" for agent, count in sorted(junk.others.items()))
        blocks.append(Note(f"Not selected, because their agents are not among these: {said} (--agent NAME)."))
    return blocks


_CLEANERS: Final = (
    Column("Cleaner"),
    Column("Selects", grows=True),
    Column("Conversations", right=True),
    Column("Messages", right=True),
)
_BEGINNINGS: Final = (Column("Conversation", right=True), Column("First message", grows=True))


def _agents(run: Run, junk: Cleaned) -> str:
    """Whose conversations are looked at, and who says so."""
    agents, known = junk.cleaning.agents, run.settings.agents
    if agents != known.value:
        return f"Agents: {', '.join(agents)} (--agent)."
    origin = known.name or "the host's configuration lists none"
    return f"Agents: {', '.join(agents)} ({origin})."


def candidates_table(run: Run, found: Sequence[ConversationSize], title: str = "") -> Table:
    """Conversations, the largest first."""
    columns = (
        Column("Conversation", right=True),
        Column("Session", grows=True),
        Column("State", spare=1),
        Column("Messages", right=True),
        Column("Summaries", right=True, spare=2),
        Column("Texts", right=True),
        Column("Last message", spare=3),
    )
    rows: list[tuple[Cell, ...]] = [_row(run, one) for one in found[:SHOWN]]
    if len(found) > SHOWN:
        rest = found[SHOWN:]
        texts = bytes_text(sum(one.bytes or 0 for one in rest))
        messages, summaries = (sum(one.messages for one in rest), sum(one.summaries for one in rest))
        rows.append((None, f"and {len(rest):,} more", None, messages, summaries, texts, None))
    return Table(columns, rows, title, empty="No conversation matches.")


def _row(run: Run, one: ConversationSize) -> tuple[Cell, ...]:
    known = one.conversation
    state = "-" if known.active is None else "active" if known.active else "archived"
    texts = None if one.bytes is None else bytes_text(one.bytes)
    at = run.time(one.last_activity) if one.last_activity else "no messages"
    return one.id, known.session_key or known.session_id, state, one.messages, one.summaries, texts, at


def space_answer(run: Run, space: SpaceUse) -> Answer:
    """What takes the space of the whole file."""
    file = space.file
    facts: list[tuple[str, Cell]] = [
        ("File", bytes_text(file.bytes)),
        ("Free inside it", bytes_text(file.free)),
        ("Write-ahead log", bytes_text(space.wal_bytes)),
    ]
    blocks: list[Block] = [Facts(facts), *_tables(space)]
    blocks.append(candidates_table(run, space.conversations, "Conversations, by the bytes of their texts"))
    ages: list[tuple[Cell, ...]] = [
        (band.title, band.conversations, band.messages, bytes_text(band.bytes)) for band in space.ages
    ]
    columns = (
        Column("Newest message"),
        Column("Conversations", right=True),
        Column("Messages", right=True),
        Column("Texts", right=True),
    )
    blocks.append(Table(columns, ages, "By age"))
    blocks.append(Note("Select conversations with --older-than 90d, --larger-than 50MB, --empty and others."))
    return run.answer("prune", _document(space), blocks)


def _tables(space: SpaceUse) -> list[Block]:
    if space.file.tables is None:
        return [Note("This SQLite cannot measure tables (no dbstat).")]
    columns = (
        Column("Table"),
        Column("Size", right=True),
        Column("Of that, indexes", right=True),
        Column("Share", right=True),
    )
    whole = max(space.file.bytes, 1)
    rows: list[tuple[Cell, ...]] = [
        (one.name, bytes_text(one.bytes), bytes_text(one.indexes), f"{100 * one.bytes / whole:.0f} %")
        for one in space.file.tables
    ]
    return [Table(columns, rows, "Tables, with indexes and search data")]


def _document(space: SpaceUse) -> Document:
    file = space.file
    return {
        "file": {"bytes": file.bytes, "freeBytes": file.free, "walBytes": space.wal_bytes},
        "tables": None
        if file.tables is None
        else [{"name": one.name, "bytes": one.bytes, "indexBytes": one.indexes} for one in file.tables],
        "items": [candidate_document(one) for one in space.conversations],
        "ages": [
            {
                "newestMessage": band.title,
                "conversations": band.conversations,
                "messages": band.messages,
                "textBytes": band.bytes,
            }
            for band in space.ages
        ],
    }
