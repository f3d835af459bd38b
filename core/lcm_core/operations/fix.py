"""What findings request, and the rows, context, lineage and texts of a conversation after the fixes."""

from __future__ import annotations

import asyncio
import json
import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from lcm_core.base.findings import Finding, FixId, KeyPart
from lcm_core.base.records import (
    ContextItems,
    ConversationId,
    Edge,
    Message,
    MessageId,
    MessagePart,
    SummaryId,
)
from lcm_core.base.times import iso_z
from lcm_core.base.tokens import (
    Estimator,
    Verdict,
    check_message_tokens,
    counted_text,
    estimate_utf16,
    estimate_weighted,
)
from lcm_core.base.values import Record, Struct, field, replace
from lcm_core.change.plan import Cells, Edit, RowChange, insertion, key_of
from lcm_core.checks.check import Limits, tool_part
from lcm_core.checks.context import dangling, is_at_home, owners_elsewhere
from lcm_core.checks.proofs import (
    can_be_numbered,
    depth_of,
    descendant_count_of,
    descendant_tokens_of,
    edges_in_order,
    fallen,
    false_messages,
    false_sources,
    known_order,
    links_in_order,
    lost_blocks,
    lost_messages,
    lost_sources,
    misnumbered,
    range_of,
    run_of,
    source_tokens_of,
    sources_are_whole,
    true_order,
)
from lcm_core.checks.structure import NO_LINKS, SAME_MOMENT, Links, StoredNode, Structure
from lcm_core.checks.summaries import file_ids, files_named, known_files
from lcm_core.engine.blocks import tokens_as_sent
from lcm_core.engine.rules import engine_rules
from lcm_core.operations.rows import delete, pages, updates
from lcm_core.store.database import Reader
from lcm_core.store.messages import parts_without_call, whole_messages
from lcm_core.store.opening import SqlValue
from lcm_core.store.rows import StoredRow, columns_by, rows_by
from lcm_core.store.summaries import bodies_of

# -- what findings ask for -------------------------------------------------------------------------------
# Conversation by conversation.

#: Search tables by check; F4 and F6 name theirs in the rows.
_SEARCHED: Final = {
    "F1": "messages_fts",
    "F2": "messages_fts",
    "F3": "summaries_fts",
    "F5": "summaries_fts_cjk",
}


class Chosen(Struct):
    """The rows that a fix is asked for: by what their keys hold, or all that are wrong."""

    everything: bool = False
    keys: set[KeyPart] = field(default_factory=set)

    def __contains__(self, key: object) -> bool:
        return self.everything or key in self.keys

    def __bool__(self) -> bool:
        return self.everything or bool(self.keys)

    def take(self, finding: Finding) -> None:
        """Ask for the rows of a finding too; one that does not name them all asks for all."""
        self.everything |= finding.row_count > len(finding.rows)
        self.keys.update(part for row in finding.rows for part in row.key)


NOTHING: Final = Chosen()


class Requests(Record, frozen=True):
    """The fixes that are asked for."""

    by_conversation: Mapping[ConversationId | None, Mapping[FixId, Chosen]]
    search: tuple[str, ...]  #: search tables to rebuild, by name
    splits: tuple[ConversationId, ...]  #: sessions that a rollover split: another operation merges them

    def owners_of(self, fix: FixId) -> frozenset[ConversationId | None] | None:
        """The conversations that a fix is asked for, none when it is not; None: all, and rows of nobody."""
        owners = frozenset(owner for owner, fixes in self.by_conversation.items() if fix in fixes)
        return None if None in owners else owners


def requests_of(findings: Iterable[Finding]) -> Requests:
    """Group some findings by what fixes them; those without a fix are left out."""
    found: dict[ConversationId | None, dict[FixId, Chosen]] = {}
    search: dict[str, None] = {}
    splits: dict[ConversationId, None] = {}
    for one in findings:
        if one.fix is None:
            continue
        if one.fix is FixId.REBUILD_SEARCH:
            search.update(dict.fromkeys(_tables(one)))
        elif one.fix is FixId.MERGE_SPLIT:
            if one.conversation_id is not None:
                splits[one.conversation_id] = None
        else:
            fixes = found.setdefault(one.conversation_id, {})
            fixes.setdefault(one.fix, Chosen()).take(one)
            if one.check == "A8":  # behind what comes back, the other gaps are closed too
                fixes.setdefault(FixId.CLOSE_GAPS, Chosen()).take(one)
    return Requests(found, tuple(search), tuple(splits))


def _tables(finding: Finding) -> Iterable[str]:
    if finding.check in _SEARCHED:
        return [_SEARCHED[finding.check]]
    return dict.fromkeys(row.table for row in finding.rows if row.table.endswith(("_fts", "_fts_cjk")))


# -- rows ------------------------------------------------------------------------------------------------
# The edits that turn one state of a conversation's rows into another, with whole rows as they are read.

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = 2_440_587.5
#: Columns of a summary and what they are of a node; times are days there.
_NUMBERS: Final = {
    "depth": "depth",
    "token_count": "tokens",
    "descendant_count": "descendant_count",
    "descendant_token_count": "descendant_tokens",
    "source_message_token_count": "source_tokens",
}
_TIMES: Final = {"earliest_at": "earliest", "latest_at": "latest"}


async def summary_updates(
    reader: Reader, before: Structure, after: Structure, file_ids: Mapping[SummaryId, str]
) -> list[Edit]:
    """What changed in the rows of summaries."""
    wanted: dict[SqlValue, Mapping[str, SqlValue]] = {}
    for summary_id, node in after.nodes.items():
        changed = _columns(before.nodes[summary_id], node)
        if summary_id in file_ids:
            changed["file_ids"] = file_ids[summary_id]
        if changed:
            wanted[summary_id] = changed
    return await updates(reader, "summaries", "summary_id", wanted)


def _columns(before: StoredNode, after: StoredNode) -> dict[str, SqlValue]:
    if before == after:
        return {}
    changed: dict[str, SqlValue] = {
        column: getattr(after, name)
        for column, name in _NUMBERS.items()
        if getattr(after, name) != getattr(before, name)
    }
    for column, name in _TIMES.items():
        day = getattr(after, name)
        if day is not None and not math.isnan(day) and day != getattr(before, name):
            changed[column] = iso_z(_EPOCH + timedelta(milliseconds=round((day - _EPOCH_DAY) * 86_400_000)))
    return changed


async def line_edits(reader: Reader, before: Structure, after: Structure) -> list[Edit]:
    """What changed in links and edges."""
    of_links, of_edges = _changed(before.links, after.links), _changed(before.edges, after.edges)
    links = {one: (_by_message(before, one), _by_message(after, one)) for one in of_links}
    edges = {one: (_by_source(before, one), _by_source(after, one)) for one in of_edges}
    edits = await _lines(reader, "summary_messages", "message_id", links)
    return edits + await _lines(reader, "summary_parents", "parent_summary_id", edges)


def _changed(before: Mapping[SummaryId, object], after: Mapping[SummaryId, object]) -> list[SummaryId]:
    return [one for one in {**before, **after} if before.get(one) is not after.get(one)]


def _by_message(structure: Structure, summary_id: SummaryId) -> dict[SqlValue, int]:
    links = structure.links.get(summary_id, NO_LINKS)
    return dict(zip(links.message_ids, links.ordinals, strict=True))


def _by_source(structure: Structure, summary_id: SummaryId) -> dict[SqlValue, int]:
    return {edge.source: edge.ordinal for edge in structure.edges.get(summary_id, ())}


async def _lines(
    reader: Reader,
    table: str,
    column: str,
    changed: Mapping[SummaryId, tuple[Mapping[SqlValue, int], Mapping[SqlValue, int]]],
) -> list[Edit]:
    """Links or edges of some summaries: ordinals by what they lead to, before and after."""
    edits: list[Edit] = []
    present = {
        (row["summary_id"], row[column]): row for row in await rows_by(reader, table, "summary_id", changed)
    }
    for summary_id, (old, new) in changed.items():
        gone = [present[summary_id, one] for one in old.keys() - new.keys() if (summary_id, one) in present]
        edits += delete(table, gone)
        for target, ordinal in new.items():
            row = present.get((summary_id, target))
            if row is None:
                held = {"summary_id": summary_id, column: target, "ordinal": ordinal}
                edits.append(insertion(table, Cells.of(held)))
            elif row["ordinal"] != ordinal:
                key = key_of(table, Cells.of(row))
                ordinals = (Cells.of({"ordinal": value}) for value in (row["ordinal"], ordinal))
                edits.append(RowChange(table, key, *ordinals))
    return edits


def items_of(rows: Sequence[StoredRow]) -> list[Cells] | None:
    """The whole items of a context; None when one is such as no schema takes again."""
    return [Cells.of(row) for row in rows] if all(map(_is_sound, rows)) else None


def _is_sound(row: StoredRow) -> bool:
    """Whether an item has a number, and just the reference that its type calls for (A15)."""
    message, summary = row["message_id"], row["summary_id"]
    if not isinstance(row["ordinal"], int):
        return False
    if row["item_type"] == "message":
        return isinstance(message, int) and summary is None
    return row["item_type"] == "summary" and isinstance(summary, str) and message is None


# -- the context -----------------------------------------------------------------------------------------
# The items of a context as the fixes leave them. Pure: one new list for all fixes together.
#
# Where a summary is gone (A2), links and edges that outlived it, deleted with foreign keys off, tell what
# it was made from. Each of these sources comes once, and none that the context reaches already.


class Keep(StrEnum):
    """What stays where a summary and all that it covers are side by side in a context."""

    SUMMARIES = "summaries"
    SOURCES = "sources"


class Entry(Record, frozen=True):
    """An item of the new list."""

    ref: int | str | None
    at: int | None  #: its place in the present list; None: it is new


class NewContext(Struct):
    """The new list, and what happened to it."""

    entries: list[Entry]
    renumbered: bool  #: ordinals count from 0 again
    dangling: int = 0
    sources: int = 0  #: of summaries that are gone, in their place
    foreign: int = 0
    repeated: int = 0  #: items for what is there already
    covered: int = 0
    copies: tuple[int, ...] = ()  #: messages that were stored again
    restored: int = 0
    moved: int = 0  #: items that are elsewhere in the list, so that all are in order


#: The fixes that change a context.
CONTEXT_FIXES = frozenset(
    {
        FixId.CLOSE_GAPS,
        FixId.DROP_DANGLING_ITEMS,
        FixId.DROP_DUPLICATE_ITEMS,
        FixId.DROP_COVERED_ITEMS,
        FixId.DROP_FOREIGN_ITEMS,
        FixId.REORDER,
        FixId.DROP_REPEATED_MESSAGES,
        FixId.RESTORE_MESSAGES,
        FixId.RESTORE_SUMMARIES,
    }
)


def new_context(
    structure: Structure,
    fixes: Mapping[FixId, Chosen],
    spare: Collection[int],
    limits: Limits,
    keep: Keep,
) -> NewContext:
    """The context of *structure* with some fixes made; *spare* are the copies that are to go."""
    items = structure.items
    order = true_order(structure) if FixId.CLOSE_GAPS in fixes else None
    places = range(len(items)) if order is None else order
    found = NewContext([Entry(items.refs[at], at) for at in places], order is not None)
    if FixId.DROP_DANGLING_ITEMS in fixes:
        _replace_dangling(structure, found)
    if FixId.DROP_FOREIGN_ITEMS in fixes:
        # Rows of another conversation that its own context reaches.
        elsewhere = {at for at in owners_elsewhere(structure) if is_at_home(structure, at)}
        found.foreign = _drop(found, elsewhere)
    if FixId.DROP_DUPLICATE_ITEMS in fixes:
        found.repeated = _drop(found, set(_repeated(found.entries)))
    if FixId.DROP_COVERED_ITEMS in fixes:
        gone = _covering(structure, found.entries) if keep is Keep.SOURCES else set()
        covering = {entry.at for entry in found.entries if entry.ref in gone and entry.at is not None}
        found.covered = _drop(found, covering)
        found.covered += _drop(found, set(_covered(structure, found.entries)))
    if FixId.DROP_REPEATED_MESSAGES in fixes:
        wanted = set(spare)
        copies = [entry for entry in found.entries if entry.ref in wanted and isinstance(entry.ref, int)]
        found.copies = tuple(dict.fromkeys(entry.ref for entry in copies if isinstance(entry.ref, int)))
        _drop(found, {entry.at for entry in copies if entry.at is not None})
    coming: list[tuple[int, int | str]] = []
    if FixId.RESTORE_MESSAGES in fixes:
        for block in lost_blocks(structure, limits):
            coming += (
                (at, structure.messages.ids[at]) for at in run_of(structure, (block.first, block.last))
            )
    if FixId.RESTORE_SUMMARIES in fixes:
        coming += ((structure.spans[orphan][0], orphan) for orphan in fallen(structure))
    held = {entry.ref for entry in found.entries}
    coming = [one for one in coming if one[1] not in held and one[1] not in spare]
    found.restored = len(coming)
    found.entries = _merged(structure, found.entries, sorted(coming, key=lambda one: one[0]))
    if FixId.REORDER in fixes:
        _reorder(structure, found)
    return found


def _replace_dangling(structure: Structure, found: NewContext) -> None:
    """Items for what is gone give way to what is left of it."""
    remains, gone = Remains(structure), frozenset(dangling(structure))
    entries: list[Entry] = []
    for entry in found.entries:
        if entry.at not in gone:
            entries.append(entry)
            continue
        found.dangling += 1
        if isinstance(entry.ref, str):
            coming = [Entry(ref, None) for ref in remains.of(SummaryId(entry.ref))]
            found.sources += len(coming)
            entries += coming
    found.entries = entries


def _reorder(structure: Structure, found: NewContext) -> None:
    order = known_order(structure, ContextItems.naming(entry.ref for entry in found.entries))
    if order is not None:
        found.moved = len(order) - len(in_order(order))
        found.entries = [found.entries[at] for at in order]


def in_order(places: Sequence[int | None]) -> list[int]:
    """Indices of the longest part of *places* that ascends: what need not move."""
    ends: list[int] = []  # the least last place of a part of each length
    at_end: list[int] = []
    before: list[int] = [-1] * len(places)
    for index, place in enumerate(places):
        if place is None:
            continue
        length = bisect_left(ends, place)
        before[index] = at_end[length - 1] if length else -1
        ends[length : length + 1], at_end[length : length + 1] = [place], [index]
    found: list[int] = []
    index = at_end[-1] if at_end else -1
    while index >= 0:
        found.append(index)
        index = before[index]
    return found[::-1]


def _drop(found: NewContext, gone: Collection[int]) -> int:
    """Take items out by their place in the list as it stood; how many went."""
    before = len(found.entries)
    found.entries = [entry for entry in found.entries if entry.at not in gone]
    return before - len(found.entries)


def _repeated(entries: Iterable[Entry]) -> Iterator[int]:
    """All but the first item for the same thing."""
    seen: set[int | str] = set()
    for entry in entries:
        if entry.ref in seen and entry.at is not None:
            yield entry.at
        if entry.ref is not None:
            seen.add(entry.ref)


def _covered(structure: Structure, entries: Sequence[Entry]) -> Iterator[int]:
    """The items that a summary beside them covers; summaries on a circle cover each other and stay."""
    held = [SummaryId(entry.ref) for entry in entries if isinstance(entry.ref, str)]
    under = set(structure.graph.below(edge.source for top in held for edge in structure.edges.get(top, ())))
    under -= structure.graph.cyclic
    linked = {place for node in structure.graph.below(held) for place in structure.places(node)}
    for entry in entries:
        place = None if isinstance(entry.ref, str) else structure.messages.position.get(entry.ref or 0)
        if entry.at is not None and (entry.ref in under or place in linked):
            yield entry.at


def _covering(structure: Structure, entries: Sequence[Entry]) -> set[str]:
    """The summaries of a context all of whose messages are in it in finer form."""
    held = {entry.ref for entry in entries}
    return {
        one
        for one in structure.summaries_in_context
        if one in held and _is_there_in_finer_form(structure, one, held)
    }


def _is_there_in_finer_form(
    structure: Structure, summary_id: SummaryId, held: Collection[int | str | None]
) -> bool:
    waiting, seen = [summary_id], {summary_id}
    while waiting:
        node = waiting.pop()
        messages = [structure.messages.ids[place] for place in structure.places(node)]
        sources = [edge.source for edge in structure.edges.get(node, ())]
        if not messages and not sources:
            return False
        if any(message not in held for message in messages):
            return False
        for source in sources:
            if source not in held and source not in seen:
                if source not in structure.nodes:
                    return False
                seen.add(source)
                waiting.append(source)
    return True


def _merged(
    structure: Structure, entries: Sequence[Entry], coming: Sequence[tuple[int, int | str]]
) -> list[Entry]:
    """The list with what comes, by place: each behind the last item that begins before it."""
    if not coming:
        return list(entries)
    behind: dict[int, list[Entry]] = {}
    starts = [_start(structure, entry.ref) for entry in entries]
    ranked = sorted((start, at) for at, start in enumerate(starts) if start is not None)
    step, best = 0, -1
    for place, ref in coming:
        while step < len(ranked) and ranked[step][0] <= place:
            best, step = ranked[step][1], step + 1
        behind.setdefault(best, []).append(Entry(ref, None))
    found = behind.get(-1, [])
    for at, entry in enumerate(entries):
        found.append(entry)
        found += behind.get(at, [])
    return found


def _start(structure: Structure, ref: int | str | None) -> int | None:
    """The first place that an item covers."""
    if isinstance(ref, str):
        span = structure.spans.get(SummaryId(ref))
        return None if span is None else span[0]
    return None if ref is None else structure.messages.position.get(ref)


class Remains:
    """What may still come, while one gone summary after the other is replaced."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._reached = set(structure.graph.live)  #: summaries that the context reaches
        self._held = bytearray(
            1 if raw or covered == 2 else 0
            for raw, covered in zip(structure.raw, structure.linked, strict=True)
        )
        self._seen: set[SummaryId] = set()  #: on the way down; lines of the gone may go in circles

    def of(self, gone: SummaryId) -> Iterator[int | SummaryId]:
        """What is left of a summary that is gone, in order; nothing when a summary that is read covers it."""
        structure = self._structure
        if gone in self._seen or not self._reached.isdisjoint(structure.graph.consumers.get(gone, ())):
            return
        self._seen.add(gone)
        for source in structure.remains.get(gone, ()):
            yield from self._source(source)

    def _source(self, source: int | SummaryId) -> Iterator[int | SummaryId]:
        structure = self._structure
        if isinstance(source, int):
            place = structure.messages.position.get(source)
            if place is not None and not self._held[place] and not structure.messages.events[place]:
                self._held[place] = 1
                yield source
        elif source not in structure.nodes:
            yield from self.of(source)
        elif source not in self._reached:
            below = structure.graph.below([source])
            places = [place for node in below for place in structure.places(node)]
            if self._reached.isdisjoint(below) and not any(self._held[place] for place in places):
                self._reached.update(below)
                for place in places:
                    self._held[place] = 1
                yield source
            elif source not in self._seen:
                # Part of it is in sight: the rest comes in finer form.
                self._seen.add(source)
                for edge in structure.edges.get(source, ()):
                    yield from self._source(edge.source)
                for place in structure.places(source):
                    yield from self._source(structure.messages.ids[place])


# -- lineage ---------------------------------------------------------------------------------------------
# The summaries of a conversation as the fixes leave them. Pure.
#
# Links and edges that lead nowhere or are disproved are removed, lost ones that are proven are restored;
# depth, counters and time ranges are derived again from the sources, upward as far as it shows.


def without_loose_ends(structure: Structure) -> Structure:
    """Without links to messages and edges to summaries that are gone, and without edges to oneself."""
    here, elsewhere = structure.messages.position, structure.foreign_messages
    return _without(
        structure,
        lambda _, message_id: message_id not in here and elsewhere.get(message_id) is None,
        lambda edge: not _leads_somewhere(structure, edge),
    )


def without_false_lines(structure: Structure, chosen: Chosen) -> Structure:
    """Without the links and edges that counters disprove, those that *chosen* names by any of their ends."""
    links = {leaf: gone for leaf, gone in false_messages(structure).items() if _names(chosen, leaf, gone)}
    edges = {one: gone for one, gone in false_sources(structure).items() if _names(chosen, one, gone)}
    return _without(
        structure,
        lambda leaf, message_id: message_id in links.get(leaf, ()),
        lambda edge: edge.source in edges.get(edge.consumer, ()),
    )


def _names(chosen: Chosen, summary_id: SummaryId, sources: Collection[int | SummaryId]) -> bool:
    return summary_id in chosen or not chosen.keys.isdisjoint(sources)


def _without(
    structure: Structure, is_link_gone: Callable[[SummaryId, int], bool], is_edge_gone: Callable[[Edge], bool]
) -> Structure:
    """Without some lines; what was numbered without a gap is so again, and another gap stays.

    It is the trace of a loss.
    """
    links, edges = dict(structure.links), dict(structure.edges)
    for summary_id, held in structure.links.items():
        pairs = zip(held.message_ids, held.ordinals, strict=True)
        kept = [pair for pair in pairs if not is_link_gone(summary_id, pair[0])]
        if len(kept) < len(held.message_ids):
            whole = list(held.ordinals) == list(range(len(held.ordinals)))
            links[summary_id] = _links(kept, numbered=whole)
    for summary_id, lines in structure.edges.items():
        there = [edge for edge in lines if not is_edge_gone(edge)]
        if len(there) < len(lines):
            whole = [edge.ordinal for edge in lines] == list(range(len(lines)))
            edges[summary_id] = _edges(summary_id, there, numbered=whole)
    return replace(
        structure,
        links={one: held for one, held in links.items() if held.message_ids},
        edges={one: lines for one, lines in edges.items() if lines},
    )


def _leads_somewhere(structure: Structure, edge: Edge) -> bool:
    if edge.source == edge.consumer:
        return False
    return edge.source in structure.nodes or structure.foreign_summaries.get(edge.source) is not None


def _links(pairs: Iterable[tuple[int, int]], *, numbered: bool) -> Links:
    found = list(pairs)
    ordinals = range(len(found)) if numbered else [ordinal for _, ordinal in found]
    return Links(array("q", [message_id for message_id, _ in found]), array("q", ordinals))


def _edges(consumer: SummaryId, edges: Iterable[Edge], *, numbered: bool) -> tuple[Edge, ...]:
    return tuple(
        Edge(consumer, edge.source, at if numbered else edge.ordinal) for at, edge in enumerate(edges)
    )


def relinked(structure: Structure, chosen: Chosen) -> Structure:
    """With the lost links and edges that counters prove, those that *chosen* names by any of their ends."""
    links, edges = dict(structure.links), dict(structure.edges)
    for leaf, ends in lost_messages(structure).items():
        ids = [structure.messages.ids[place] for place in run_of(structure, ends)]
        if _names(chosen, leaf, ids):
            links[leaf] = Links(array("q", ids), array("q", range(len(ids))))
    for consumer, lost in lost_sources(structure).items():
        if _names(chosen, consumer, lost):
            edges[consumer] = _with_sources(structure, consumer, lost)
    return replace(structure, links=links, edges=edges)


def numbered(structure: Structure, chosen: Chosen) -> Structure:
    """With the sources of the summaries that *chosen* names numbered in their order, where that is proven."""
    links, edges = dict(structure.links), dict(structure.edges)
    for summary_id in dict.fromkeys(misnumbered(structure)):
        if summary_id not in chosen or not can_be_numbered(structure, summary_id):
            continue
        if summary_id in links:
            links[summary_id] = links_in_order(structure, summary_id) or links[summary_id]
        if summary_id in edges:
            edges[summary_id] = edges_in_order(structure, summary_id) or edges[summary_id]
    return replace(structure, links=links, edges=edges)


def _with_sources(structure: Structure, consumer: SummaryId, lost: Iterable[SummaryId]) -> tuple[Edge, ...]:
    """The edges with lost sources in the gaps of their numbers, else all in order of time."""
    kept, coming = list(structure.edges.get(consumer, ())), list(lost)
    free = sorted({*range(len(kept) + len(coming))} - {edge.ordinal for edge in kept})
    if len(free) == len(coming):
        placed = [*kept, *(Edge(consumer, source, at) for source, at in zip(coming, free, strict=True))]
        return tuple(sorted(placed, key=lambda edge: edge.ordinal))
    sources = sorted([*(edge.source for edge in kept), *coming], key=lambda one: _time(structure.nodes[one]))
    return tuple(Edge(consumer, source, at) for at, source in enumerate(sources))


def _time(node: StoredNode) -> tuple[float, float]:
    return node.earliest or 0.0, node.created


#: A node as its sources make it; None: nothing shows how it should be.
_Right = Callable[[Structure, StoredNode], StoredNode | None]


class _Measure(Record, frozen=True):
    """One thing that is recorded of a summary and follows from its sources."""

    fix: FixId  #: which fix writes it
    right: _Right


# Numbers of a node, where they are recorded and its sources show them.
def _depth(structure: Structure, node: StoredNode) -> StoredNode | None:
    wanted = depth_of(structure, node)
    return None if wanted is None or node.depth is None else replace(node, depth=wanted)


def _descendant_count(structure: Structure, node: StoredNode) -> StoredNode | None:
    wanted = descendant_count_of(structure, node)
    return None if wanted is None or node.descendant_count is None else replace(node, descendant_count=wanted)


def _descendant_tokens(structure: Structure, node: StoredNode) -> StoredNode | None:
    wanted = descendant_tokens_of(structure, node)
    known = wanted is not None and node.descendant_tokens is not None
    return replace(node, descendant_tokens=wanted) if known else None


def _source_tokens(structure: Structure, node: StoredNode) -> StoredNode | None:
    wanted = source_tokens_of(structure, node)
    if wanted is None or node.source_tokens is None:
        return None
    return node if wanted[0] <= node.source_tokens <= wanted[1] else replace(node, source_tokens=wanted[0])


def _times(structure: Structure, node: StoredNode) -> StoredNode | None:
    wanted = range_of(structure, node)
    if wanted is None:
        return None
    first, last = (
        stored if stored is not None and abs(stored - made) <= SAME_MOMENT else made
        for stored, made in ((node.earliest, wanted[0]), (node.latest, wanted[1]))
    )
    return replace(node, earliest=first, latest=last)


_MEASURES: Final = (
    _Measure(FixId.RECOMPUTE_DEPTH, _depth),
    _Measure(FixId.RECOMPUTE_COUNTERS, _descendant_count),
    _Measure(FixId.RECOMPUTE_COUNTERS, _descendant_tokens),
    _Measure(FixId.RECOMPUTE_COUNTERS, _source_tokens),
    _Measure(FixId.RECOMPUTE_TIMES, _times),
)


def derived(befores: Sequence[Structure], now: Structure, wanted: Mapping[FixId, Chosen]) -> Structure:
    """*now* with what follows from sources made again where it is *wanted*, and where it was right before.

    It was right when it was so in any of the *befores*: as it stood, and with the lines that were repaired.

    So what was right stays right above a change, and what was wrong and is not asked for stays as it is: it
    may be the only trace of a source that was lost.
    """
    nodes = dict(now.nodes)
    work = replace(now, nodes=nodes)
    for summary_id in work.graph.sources_first:
        for measure in _MEASURES:
            node = nodes[summary_id]
            right = measure.right(work, node)
            if right is None or right == node:
                continue
            was_right = any(_was_right(before, summary_id, measure) for before in befores)
            if was_right or _is_wanted(work, node, wanted, measure.fix):
                nodes[summary_id] = right
    return work


def _is_wanted(work: Structure, node: StoredNode, wanted: Mapping[FixId, Chosen], fix: FixId) -> bool:
    chosen = wanted.get(fix, NOTHING)
    if node.summary_id in chosen.keys:
        return True
    if fix is FixId.RECOMPUTE_DEPTH:
        # A count below zero is one finding, whichever column it is in.
        below_zero = node.depth is not None and node.depth < 0
        counters = wanted.get(FixId.RECOMPUTE_COUNTERS, NOTHING)
        return chosen.everything or (below_zero and node.summary_id in counters)
    return chosen.everything and sources_are_whole(work, node)


def _was_right(before: Structure, summary_id: SummaryId, measure: _Measure) -> bool:
    """Whether it was right, or nothing showed that it was wrong."""
    node = before.nodes[summary_id]
    right = measure.right(before, node)
    return right is None or _same(right, node)


def _same(one: StoredNode, other: StoredNode) -> bool:
    """Equal, and readable: a time that cannot be read equals nothing."""
    times = (one.earliest, one.latest)
    return one == other and not any(time is not None and math.isnan(time) for time in times)


# -- texts -----------------------------------------------------------------------------------------------
# What is derived again from texts and parts: token counts, lists of files, columns of tool calls.

#: Texts of one batch.
_BATCH = 200
#: Stored counts may be this far from an estimate: another tool rounds down.
_TOLERANCE = 1


async def recounted(reader: Reader, structure: Structure, chosen: Chosen) -> tuple[Structure, list[int]]:
    """With the tokens counted again of what *chosen* names; and the messages that cannot be counted."""
    rules = engine_rules(reader.schema)
    counting = _Counting(structure, rules.estimator, rules.ingest.as_present)
    nodes = dict(structure.nodes)
    for batch in pages([one for one in nodes if one in chosen], _BATCH):
        for body in await bodies_of(reader, batch):
            node = nodes[body.summary_id]
            count = await asyncio.to_thread(counting.of_summary, node, body.content)
            nodes[body.summary_id] = replace(node, tokens=count)
    messages = structure.messages
    tokens, lost = array("q", messages.tokens), list[int]()
    for ids in pages([one for one in messages.ids if one in chosen], _BATCH):
        for one, parts in await whole_messages(reader, [MessageId(one) for one in ids]):
            counted = await asyncio.to_thread(counting.of_message, one, parts)
            if counted is None:
                lost.append(one.message_id)
            else:
                tokens[messages.position[one.message_id]] = counted
    return replace(structure, nodes=nodes, messages=replace(messages, tokens=tokens)), lost


class _Counting(Record, frozen=True):
    """Counts texts as the engine of the file would, or as a sum above proves that one did.

    Source: docs/spec/ingest.md, "Tokens"; check D1 knows the same counts.
    """

    structure: Structure
    estimator: Estimator  #: of this file
    as_sent: bool  #: messages by what assembly would send: the present engine

    def of_summary(self, node: StoredNode, content: str) -> int:
        """The tokens of a summary; a count that either estimator gives stays."""
        estimates = self._estimates(content)
        if node.tokens >= 0 and _is_near(node.tokens, estimates):
            return node.tokens
        proven = set(self._proven_by_consumers(node)) & set(estimates)
        return proven.pop() if len(proven) == 1 else estimates[0]

    def of_message(self, one: Message, parts: Sequence[MessagePart]) -> int | None:
        """The tokens of a message; None when what they were counted from is not in the database."""
        stored = self.structure.messages.tokens[self.structure.messages.position[one.message_id]]
        metadata = [part.metadata for part in parts]
        if stored > 0 and check_message_tokens(stored, one.content, metadata).verdict is Verdict.FITS:
            return stored
        text = counted_text(one.role, one.content, metadata)
        if text is None:
            return None
        sent, estimates = tokens_as_sent(one, parts), self._estimates(text)
        estimates = (sent, *estimates) if self.as_sent else (*estimates, sent)
        if stored > 0 and _is_near(stored, estimates):
            return stored
        proven = set(self._proven_by_leaves(one.message_id)) & set(estimates)
        return proven.pop() if len(proven) == 1 else estimates[0]

    def _estimates(self, text: str) -> tuple[int, ...]:
        """By the estimator of this file's schema, then by the other."""
        found = estimate_weighted(text), estimate_utf16(text)
        return found if self.estimator is Estimator.WEIGHTED else found[::-1]

    def _proven_by_consumers(self, node: StoredNode) -> Iterator[int]:
        nodes = self.structure.nodes
        for consumer in map(nodes.get, self.structure.graph.consumers.get(node.summary_id, ())):
            if consumer is not None and consumer.descendant_tokens is not None:
                others = replace(self.structure, nodes={**nodes, node.summary_id: replace(node, tokens=0)})
                rest = descendant_tokens_of(others, consumer)
                if rest is not None:
                    yield consumer.descendant_tokens - rest

    def _proven_by_leaves(self, message_id: int) -> Iterator[int]:
        tokens, position = self.structure.messages.tokens, self.structure.messages.position
        for leaf, links in self.structure.links.items():
            if message_id not in links.message_ids:
                continue
            total = self.structure.nodes[leaf].source_tokens
            others = [position.get(one) for one in links.message_ids if one != message_id]
            if total is not None and all(place is not None for place in others):
                yield total - sum(tokens[place] for place in others if place is not None)


def _is_near(stored: int, estimates: Sequence[int]) -> bool:
    return min(abs(stored - one) for one in estimates) <= _TOLERANCE


async def relisted(reader: Reader, structure: Structure, chosen: Chosen) -> Mapping[SummaryId, str]:
    """The lists of file ids as they should be, of what *chosen* names and of what was made from it.

    Files that the database does not know are left out unless they were listed and the sources name them.
    """
    known = await known_files(reader)
    stored = await columns_by(reader, "summaries", "summary_id", structure.nodes, ("file_ids",))
    named: dict[SummaryId, list[str]] = {}
    for batch in pages(list(structure.nodes), _BATCH):
        for body in await bodies_of(reader, batch):
            named[body.summary_id] = file_ids(body.content)
    in_messages: dict[int, tuple[str, ...]] = {}
    after: SqlValue = -(2**63)
    while after is not None:
        found, after = await files_named(reader, structure.id, after)
        in_messages |= found
    lists = {one: _list_of(stored.get(one, {}).get("file_ids")) for one in structure.nodes}
    changed: dict[SummaryId, str] = {}
    touched: set[SummaryId] = set()
    for one in structure.graph.sources_first:
        edges = structure.edges.get(one, ())
        if one not in chosen and touched.isdisjoint(edge.source for edge in edges):
            continue
        linked = structure.links.get(one, NO_LINKS).message_ids
        inherited = dict.fromkeys(file for message in linked for file in in_messages.get(message, ()))
        for edge in edges:
            inherited |= dict.fromkeys([*(lists.get(edge.source) or ()), *named.get(edge.source, ())])
        listed = lists[one] or []
        wanted = [file for file in listed if file in known or file in inherited]
        wanted += [file for file in inherited if file in known and file not in listed]
        if wanted != lists[one]:
            lists[one] = wanted
            changed[one] = json.dumps(wanted, ensure_ascii=False, separators=(",", ":"))
            touched.add(one)
    return changed


def _list_of(stored: object) -> list[str] | None:
    """A stored list; None when it cannot be read."""
    text = stored.decode("utf-8", "replace") if isinstance(stored, bytes) else stored
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return value
    return None


async def filled_tool_columns(reader: Reader, owner: ConversationId, chosen: Chosen) -> list[Edit]:
    """The tool call ids that only metadata holds, into their column; a column that holds something stays."""
    wanted: dict[SqlValue, Mapping[str, SqlValue]] = {}
    for part in await parts_without_call(reader, owner):
        tool = tool_part(part.role, part.part_type, None, part.metadata)
        if tool is not None and part.part_id in chosen:
            wanted[part.part_id] = {"tool_call_id": tool.call_id}
    return await updates(reader, "message_parts", "part_id", wanted)
