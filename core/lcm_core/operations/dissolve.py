"""Replace a condensed summary in the context by what it was made from.

The node is deleted with every trace of it (edges, links, brief sources; search rows by the commit), unless it
is to be kept in the DAG. Several nodes can be dissolved at once: some levels down, or a chosen set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime

from lcm_core.base.errors import RefusedError
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.text import some
from lcm_core.base.times import sql_utc
from lcm_core.base.values import Record
from lcm_core.change.place import Listing, splice_at
from lcm_core.change.plan import Cells, Edit, Plan, Splice, deletion
from lcm_core.engine.wrapper import SummaryReach, covered_by
from lcm_core.operations.rows import context_item, delete, delete_ended, forget, over_budget
from lcm_core.store import context as context_store
from lcm_core.store import conversations as conversation_store
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.store.focus import focus_overlay
from lcm_core.store.rows import referring_columns, rows_by
from lcm_core.store.state import PREPARED_TABLES as PREPARED
from lcm_core.store.state import batches_naming

#: What refers to a summary and is dealt with by name.
_LINEAGE = frozenset({"context_items", "summary_messages", "summary_parents"}) | PREPARED


class _Node(Record, frozen=True):
    """A summary that is to be dissolved."""

    row: Cells
    sources: tuple[str, ...]  #: in the order of condensation

    @property
    def summary_id(self) -> str:
        """Its id."""
        return str(self.row["summary_id"])


async def plan_dissolve(
    reader: Reader,
    conversation_id: ConversationId,
    summary_ids: Sequence[SummaryId],
    *,
    levels: int = 1,
    keep: bool = False,
    budget: int | None = None,
    now: datetime | None = None,
) -> Plan:
    """Dissolve one summary, or several, each in the context or below another of them.

    *levels*: dissolve the condensed sources too, so many levels down. *keep* leaves the nodes in the DAG.
    A *budget* (tokens) adds a warning when the context would exceed it. ``Plan.select`` is the first
    restored source.

    Raises:
        NotFoundError: there is no such conversation or summary.
        RefusedError: a summary is not in this context, is a leaf, has no sources, a source is gone, of
            another conversation or in the context already, another summary was made from it, or the engine
            is preparing one.
    """
    _check_tables(reader)
    await conversation_store.get_conversation(reader, conversation_id)
    nodes = await _nodes(reader, conversation_id, summary_ids, levels)
    items = await context_store.context_items(reader, conversation_id)
    listing = Listing.of(zip(items.ordinals, items.refs, strict=True))
    roots = await _roots(reader, nodes, listing, conversation_id)
    used: set[str] = set()
    restored = {root: _restored(root, nodes, used) for root in roots}
    await _check_sources(reader, conversation_id, nodes, listing)
    if not keep:
        await _check_consumers(reader, nodes)
        await _check_messages(reader, nodes, listing)
    rows = await _context_rows(reader, conversation_id, roots)
    stamp = sql_utc(now or datetime.now(UTC))
    edits: list[Edit] = [_splice(listing, rows[root], restored[root], stamp) for root in roots]
    if not keep:
        edits += delete_ended(await batches_naming(reader, nodes), f"summary {roots[0]} cannot be dissolved")
    for node in () if keep else nodes.values():
        edits += await _purge(reader, node)
    back = [SummaryId(one) for root in roots for one in restored[root]]
    return Plan(
        kind="dissolve",
        title=_title(nodes, roots, sum(map(len, restored.values())), keep),
        conversation_id=conversation_id,
        edits=tuple(edits),
        warnings=(
            *await _broken(reader, back),
            *await _under_brief(reader, conversation_id, {SummaryId(one) for one in roots}, back),
            *await over_budget(reader, listing.refs, budget),
        ),
        select=restored[roots[0]][0],
    )


async def _broken(reader: Reader, restored: Sequence[SummaryId]) -> list[str]:
    """What comes back into the context and is no summary."""
    found = await summary_store.broken_among(reader, restored)
    if not found:
        return []
    of_kind = [f"{summary_id} ({kind.value})" for summary_id, kind in found.items()]
    them, it = ("them", "they") if len(found) > 1 else ("it", "it")
    verb = "are" if len(found) > 1 else "is"
    return [
        f"{some(of_kind)} {verb} broken; {it} will be in the context again: repair {them} with R "
        f"(`lcm-tui repair`), which drafts {'new texts' if len(found) > 1 else 'a new text'}"
    ]


async def _under_brief(
    reader: Reader, conversation_id: ConversationId, gone: Set[SummaryId], restored: Sequence[SummaryId]
) -> list[str]:
    """Whether the active brief replaces what is dissolved, and what comes back as well."""
    found = await focus_overlay(reader, conversation_id, None)
    if found is None or not gone <= found.covered:
        return []
    sources = await summary_store.summaries_in(reader, restored)
    ends = await summary_store.seq_ranges(reader, conversation_id, restored)
    reaches = [
        SummaryReach(
            one.summary_id, 0, end.last if (end := ends.get(one.summary_id)) else None, one.latest_at
        )
        for one in sources
    ]
    if len(covered_by(found.brief, reaches)) < len(restored):
        return []
    what, them = ("these summaries", "their") if len(gone) > 1 else ("this summary", "its")
    return [
        f"The active focus brief replaces {what} and {them} sources: what the model is sent stays the same "
        "while the brief is active"
    ]


def _check_tables(reader: Reader) -> None:
    """Without these no summary would look as if it could be dissolved."""
    gone = [
        table for table in ("summaries", "summary_parents", "context_items") if not reader.schema.has(table)
    ]
    if gone:
        raise RefusedError(
            f"This database has no table {' and no table '.join(gone)}, so nothing can be dissolved: it is "
            "damaged. Restore a backup (`lcm-tui restore`), or start the host once: it creates the table "
            "again, without its rows."
        )


def _title(nodes: Mapping[str, _Node], roots: Sequence[str], count: int, keep: bool) -> str:
    what = f"summary {roots[0]}" if len(roots) == 1 else f"{len(roots)} summaries of the context"
    below = f" with {len(nodes) - len(roots)} below" if len(nodes) > len(roots) else ""
    sources = f"{count} {'summary' if count == 1 else 'summaries'}"
    return f"Dissolve {what}{below} into {sources}{', kept in the database' if keep else ''}"


# -- what is to be dissolved -----------------------------------------------------------------------------


async def _nodes(
    reader: Reader, conversation_id: ConversationId, summary_ids: Sequence[SummaryId], levels: int
) -> dict[str, _Node]:
    """The chosen nodes and the condensed ones that follow from *levels*."""
    if not summary_ids or levels < 1:
        raise RefusedError("Nothing to dissolve: name a summary, and at least one level.")
    found: dict[str, _Node] = {}
    for level in range(levels):
        wanted = list(dict.fromkeys(summary_ids))
        if level:
            below = {SummaryId(source) for node in found.values() for source in node.sources}
            sources = await summary_store.summaries_in(reader, below)
            wanted = [one.summary_id for one in sources if one.kind == "condensed"]
        wanted = [summary_id for summary_id in wanted if summary_id not in found]
        if not wanted:
            break
        for summary_id in wanted:
            found[summary_id] = await _node(reader, conversation_id, summary_id)
    return found


async def _node(reader: Reader, conversation_id: ConversationId, summary_id: SummaryId) -> _Node:
    text = await summary_store.get_summary(reader, summary_id)
    summary = text.summary
    if summary.conversation_id != conversation_id:
        raise RefusedError(
            f"Summary {summary_id} belongs to conversation {summary.conversation_id}, not to "
            f"{conversation_id}."
        )
    if summary.kind != "condensed":
        raise RefusedError(f"Summary {summary_id} is a leaf: only condensed summaries can be dissolved.")
    edges = await summary_store.edges_of(reader, [summary_id])
    if not edges:
        raise RefusedError(f"Summary {summary_id} has no sources: nothing can replace it.")
    [row] = await rows_by(reader, "summaries", "summary_id", [summary_id])
    return _Node(Cells.of(row), tuple(edge.source for edge in edges))


async def _roots(
    reader: Reader, nodes: Mapping[str, _Node], listing: Listing, conversation_id: ConversationId
) -> list[str]:
    """The nodes that are in the context, in its order; all others must be below them."""
    below = {source for node in nodes.values() for source in node.sources}
    for summary_id in nodes:
        count = listing.refs.count(summary_id)
        if count > 1:
            raise RefusedError(
                f"Summary {summary_id} is {count} times in the context of conversation "
                f"{conversation_id}: remove the duplicates first."
            )
        if not count and summary_id not in below:
            held = (await summary_store.load_graph(reader, conversation_id)).held_above(SummaryId(summary_id))
            instead = f" {held} is, and was made from it: `lcm-tui dissolve {held}`." if held else ""
            raise RefusedError(
                f"Summary {summary_id} is not in the context of conversation {conversation_id}: "
                f"only summaries in the context can be dissolved.{instead}"
            )
    roots = [str(ref) for ref in listing.refs if ref in nodes]
    if not roots:
        raise RefusedError(
            f"None of these summaries is in the context of conversation {conversation_id}: "
            "only summaries in the context can be dissolved."
        )
    return roots


def _restored(root: str, nodes: Mapping[str, _Node], used: set[str]) -> list[str]:
    """What takes a node's place, in the order of condensation; *used* keeps what came back before."""
    found, waiting = [], [root]
    while waiting:
        summary_id = waiting.pop()
        if summary_id in used:
            raise RefusedError(
                f"Summary {summary_id} would be in the context twice: more than one summary was made from "
                "it, or it is part of a cycle."
            )
        used.add(summary_id)
        if summary_id in nodes:
            waiting += reversed(nodes[summary_id].sources)
        else:
            found.append(summary_id)
    return found


# -- refusals --------------------------------------------------------------------------------------------


async def _check_sources(
    reader: Reader,
    conversation_id: ConversationId,
    nodes: Mapping[str, _Node],
    listing: Listing,
) -> None:
    """Every source must be there, ours, and nowhere in the context yet."""
    sources = {SummaryId(source): node for node in nodes.values() for source in node.sources}
    present = {one.summary_id: one for one in await summary_store.summaries_in(reader, sources)}
    held = set(listing.refs)
    for source, node in sources.items():
        if source not in present:
            raise RefusedError(
                f"Source {source} of summary {node.summary_id} is missing: dissolving would lose what only "
                "the summary covers."
            )
        if present[source].conversation_id != conversation_id:
            raise RefusedError(
                f"Source {source} of summary {node.summary_id} belongs to conversation "
                f"{present[source].conversation_id}: it cannot be in this context."
            )
        if source in held:
            raise RefusedError(
                f"Source {source} of summary {node.summary_id} is already in the context: it would be there "
                "twice."
            )


async def _check_consumers(reader: Reader, nodes: Mapping[str, _Node]) -> None:
    """Nothing that stays may be made from what is deleted."""
    for summary_id in map(SummaryId, nodes):
        others = [edge.consumer for edge in await summary_store.consumers_of(reader, summary_id)]
        staying = [consumer for consumer in others if consumer not in nodes]
        if staying:
            raise RefusedError(
                f"Summary {staying[0]} is made from {summary_id}: it would lose its source. Keep the "
                "summary in the database (--keep), or dissolve that one first."
            )


async def _check_messages(reader: Reader, nodes: Mapping[str, _Node], listing: Listing) -> None:
    """A damaged node may hold messages of its own (B8): they must be covered without it."""
    for node in nodes.values():
        own = set(await summary_store.source_message_ids(reader, SummaryId(node.summary_id)))
        if own:
            links = await rows_by(reader, "summary_messages", "message_id", own)
            others = {row["message_id"] for row in links if row["summary_id"] not in nodes}
            lost = own - others - set(listing.refs)
            if lost:
                raise RefusedError(
                    f"Summary {node.summary_id} alone covers message {min(lost)}, though it is condensed: "
                    "dissolving it would lose that message. Keep the summary in the database (--keep)."
                )


# -- edits -----------------------------------------------------------------------------------------------


async def _context_rows(
    reader: Reader, conversation_id: ConversationId, roots: Sequence[str]
) -> Mapping[str, Cells]:
    """The whole context rows of some summaries."""
    rows = await rows_by(reader, "context_items", "summary_id", roots)
    return {
        str(row["summary_id"]): Cells.of(row) for row in rows if row["conversation_id"] == conversation_id
    }


def _splice(listing: Listing, row: Cells, restored: Sequence[str], stamp: str) -> Splice:
    """What takes a row's place, on the list as earlier splices leave it."""
    owner, summary_id = row["conversation_id"], row["summary_id"]
    if not (isinstance(owner, int) and isinstance(summary_id, str)):
        raise TypeError("a summary is in the context of a conversation")
    start = listing.refs.index(summary_id)
    inserted = [context_item(owner, source, stamp) for source in restored]
    return splice_at(listing, owner, start, [row.but(ordinal=listing.ordinals[start])], inserted)


async def _purge(reader: Reader, node: _Node) -> list[Edit]:
    """Every trace of a node, the row itself last."""
    summary_id = node.summary_id
    edits: list[Edit] = []
    for table in ("focus_brief_sources", "summary_messages", "summary_parents"):
        edits += delete(table, await rows_by(reader, table, "summary_id", [summary_id]))
    for reference in await referring_columns(reader, "summaries"):
        if reference.table in _LINEAGE:
            continue
        rows = await rows_by(reader, reference.table, reference.column, [summary_id])
        if reference.on_delete == "CASCADE":
            edits += delete(reference.table, rows)
        elif reference.forgets:
            edits += forget(reference.table, reference.column, rows)
        elif rows:
            name = f"{reference.table}.{reference.column}"
            raise RefusedError(
                f"Summary {summary_id} cannot be deleted: {name}, which lcm-tui does not know, refers to it "
                f"(ON DELETE {reference.on_delete}). Keep the summary in the database (--keep). Nothing was "
                "changed.",
                code="SCHEMA_UNKNOWN",
                details={"unknown": name},
            )
    return [*edits, deletion("summaries", node.row)]
