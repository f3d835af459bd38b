"""What the rows of an old database would hold in the columns that a migration adds.

Source: docs/format.md, "Identifiers" and "Numbers beside a summary".

Only what was never recorded is worked out: a value that stands is left, right or wrong. Ids and numbers are
held for the whole file, texts one page at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from lcm_core.change.connection import Writer
from lcm_core.ingest.identity import identity_of
from lcm_core.ingest.jsonl import BadLineError, JsonObject, decode_object, string
from lcm_core.javascript import js_json
from lcm_core.store.database import Row
from lcm_core.times import iso_z, parse_utc

_PAGE: Final = 500


@dataclass(slots=True)
class _Node:
    """A summary on its way up the DAG."""

    tokens: int
    depth: int
    is_leaf: bool
    counts: tuple[int, int, int]  #: descendants, their tokens, tokens of messages, as stored
    earliest: str | None
    latest: str | None
    created: str | None
    sources: list[str] = field(default_factory=list)


def _summaries(writer: Writer) -> int:
    """Counters and time ranges that were not recorded, from the leaves upwards."""
    nodes = _nodes(writer)
    changed = 0
    for summary_id in _upwards(nodes):
        node = nodes[summary_id]
        before = (*node.counts, node.earliest, node.latest)
        _work_out(writer, summary_id, node, nodes)
        after = (*node.counts, node.earliest, node.latest)
        if after != before:
            changed += 1
            writer.execute(
                """UPDATE summaries SET descendant_count = ?, descendant_token_count = ?,
                source_message_token_count = ?, earliest_at = ?, latest_at = ? WHERE summary_id = ?""",
                (*after, summary_id),
            )
    return changed


def _nodes(writer: Writer) -> dict[str, _Node]:
    rows = writer.rows(
        """SELECT summary_id, kind, depth, token_count, descendant_count, descendant_token_count,
        source_message_token_count, earliest_at, latest_at, created_at FROM summaries
        WHERE summary_id IS NOT NULL"""
    )
    nodes = {
        row["summary_id"]: _Node(
            _number(row["token_count"]),
            _number(row["depth"]),
            row["kind"] == "leaf",
            (
                _number(row["descendant_count"]),
                _number(row["descendant_token_count"]),
                _number(row["source_message_token_count"]),
            ),
            row["earliest_at"],
            row["latest_at"],
            row["created_at"],
        )
        for row in rows
    }
    for row in writer.rows(
        "SELECT summary_id, parent_summary_id FROM summary_parents ORDER BY summary_id, ordinal"
    ):
        if row[0] in nodes and row[1] in nodes and row[0] != row[1]:
            nodes[row[0]].sources.append(row[1])
    return nodes


def _upwards(nodes: dict[str, _Node]) -> Iterator[str]:
    """The summaries, each behind its sources; those on cycles and above them are left as they are."""
    waiting = {name: len(set(node.sources)) for name, node in nodes.items()}
    consumers: dict[str, list[str]] = defaultdict(list)
    for name, node in nodes.items():
        for source in set(node.sources):
            consumers[source].append(name)
    free = [name for name, count in waiting.items() if not count]
    while free:
        name = free.pop()
        yield name
        for consumer in consumers[name]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                free.append(consumer)


def _work_out(writer: Writer, summary_id: str, node: _Node, nodes: dict[str, _Node]) -> None:
    """The formulas of docs/format.md, "Numbers beside a summary", where the column still has what a migration
    put there."""
    if node.is_leaf:
        row = writer.rows(
            """SELECT coalesce(sum(m.token_count), 0), min(julianday(m.created_at)),
            max(julianday(m.created_at)), count(*) FROM summary_messages AS link
            JOIN messages AS m ON m.message_id = link.message_id WHERE link.summary_id = ?""",
            (summary_id,),
        )[0]
        node.counts = (node.counts[0], node.counts[1], node.counts[2] or row[0])
        if row[3] and (node.earliest is None or node.latest is None):
            node.earliest = node.earliest or _moment(writer, row[1])
            node.latest = node.latest or _moment(writer, row[2])
        return
    sources = [nodes[source] for source in node.sources]
    count, tokens, messages = node.counts
    node.counts = (
        count or sum(source.counts[0] + 1 for source in sources),
        tokens or sum(source.tokens + source.counts[1] for source in sources),
        messages or sum(source.counts[2] for source in sources),
    )
    if sources:
        node.earliest = node.earliest or _extreme(min, [one.earliest or one.created for one in sources])
        node.latest = node.latest or _extreme(max, [one.latest or one.created for one in sources])


def _extreme(choose: Callable[[list[str]], str], stamps: list[str | None]) -> str | None:
    moments = [iso_z(moment) for stamp in stamps if (moment := parse_utc(stamp)) is not None]
    return choose(moments) if moments else None


def _moment(writer: Writer, day: float | None) -> str | None:
    if day is None:
        return None
    found: str = writer.value(
        "SELECT strftime('%Y-%m-%dT%H:%M:%S', ? , '+0.0005 seconds') || '.000Z'", (day,)
    )
    return found


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


# -- messages --------------------------------------------------------------------------------------------


def _identities(writer: Writer) -> int:
    """Hashes of messages that have none."""
    changed = 0
    for row in _pages(
        writer,
        """SELECT message_id, role, content FROM messages
        WHERE identity_hash IS NULL AND message_id > ? ORDER BY message_id LIMIT ?""",
    ):
        role, content = row["role"], row["content"]
        if isinstance(role, str) and isinstance(content, str):
            changed += 1
            writer.execute(
                "UPDATE messages SET identity_hash = ? WHERE message_id = ?",
                (identity_of(role, _as_engine_reads(content)), row["message_id"]),
            )
    return changed


def _as_engine_reads(text: str) -> str:
    """Bytes that are no UTF-8 reach the engine as U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _tool_columns(writer: Writer) -> int:
    """Call ids, names and arguments of tool parts that only their metadata holds (0.5.1)."""
    changed = 0
    for row in _pages(
        writer,
        """SELECT rowid AS message_id, part_id, part_type, tool_call_id, tool_name, tool_input, metadata
        FROM message_parts WHERE (tool_call_id IS NULL OR tool_name IS NULL) AND metadata IS NOT NULL
        AND (part_type IN ('tool', 'agent') OR tool_call_id IS NOT NULL) AND rowid > ?
        ORDER BY rowid LIMIT ?""",
    ):
        found = _from_metadata(row)
        values = {name: value for name, value in found.items() if value is not None and row[name] is None}
        if values:
            changed += 1
            sets = ", ".join(f"{name} = ?" for name in values)
            writer.execute(
                f"UPDATE message_parts SET {sets} WHERE rowid = ?", [*values.values(), row["message_id"]]
            )
    return changed


def _from_metadata(row: Row) -> dict[str, str | None]:
    try:
        metadata = decode_object(str(row["metadata"]))
    except BadLineError:
        return {}
    raw = metadata.get("raw")
    block: JsonObject = raw if isinstance(raw, dict) else {}
    if row["part_type"] not in ("tool", "agent"):
        return {"tool_name": string(metadata.get("toolName"))}
    kind = (string(block.get("type")) or "").replace("_", "").replace("-", "").lower()
    if kind not in ("toolcall", "tooluse", "functioncall"):
        return {}
    given = block.get("arguments") if "arguments" in block else block.get("input")
    text = given if isinstance(given, str) else None if given is None else js_json(given)
    return {
        "tool_call_id": string(block.get("id")) or string(block.get("call_id")),
        "tool_name": string(block.get("name")),
        "tool_input": text,
    }


def _pages(writer: Writer, sql: str) -> Iterator[Row]:
    """The rows of a query with a last id and a limit, a page at a time."""
    last = -1
    while rows := writer.rows(sql, (last, _PAGE)):
        last = rows[-1]["message_id"]
        yield from rows


#: What is worked out, in this order.
ROW_STEPS: Final[tuple[tuple[str, Callable[[Writer], int]], ...]] = (
    ("counters and times of summaries", _summaries),
    ("columns of tool parts", _tool_columns),
    ("identity hashes of messages", _identities),
)
