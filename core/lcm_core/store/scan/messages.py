"""Reads messages with texts and parts in batches of bounded size (family E)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lcm_core.dag.checks.facts import MessageColumns
from lcm_core.dag.checks.messages import MessageBody, PartBody
from lcm_core.records import Conversation
from lcm_core.store.database import Reader

_MOST_MESSAGES = 1_000
#: Stored tokens of one batch: about four bytes each, twice (text and raw block).
_MOST_TOKENS = 500_000
#: A text of more characters is not looked into: what looks for patterns in it would take minutes.
MOST_CHARACTERS = 10_000_000
_SHORT = f"ifnull(length(m.content), 0) <= {MOST_CHARACTERS}"
#: SQL: whether the metadata of a part can be read; every version has the columns of ``message_parts``.
_VALID = "(p.metadata IS NULL OR json_valid(p.metadata))"


def batches(messages: MessageColumns) -> Iterator[tuple[int, int]]:
    """First and last seq of batches that fit into memory, by the stored token counts."""
    first, tokens = 0, 0
    for place in range(len(messages)):
        tokens += max(messages.tokens[place], 1)
        if place - first + 1 == _MOST_MESSAGES or tokens >= _MOST_TOKENS:
            yield messages.seqs[first], messages.seqs[place]
            first, tokens = place + 1, 0
    if first < len(messages):
        yield messages.seqs[first], messages.seqs[-1]


async def bodies_between(
    reader: Reader, conversation: Conversation, first: int, last: int
) -> list[MessageBody]:
    """The messages from seq *first* to *last*, with texts and parts; texts too long leave it out."""
    columns = _cast(reader, "messages", ("content", "identity_hash", "large_content"), "m")
    rows = await reader.rows(
        f"""SELECT m.message_id, {columns} FROM messages AS m
        WHERE m.conversation_id = ? AND m.seq BETWEEN ? AND ? AND {_SHORT} ORDER BY m.seq""",
        conversation.conversation_id,
        first,
        last,
    )
    parts = await _parts_between(reader, conversation, first, last)
    return [
        MessageBody(message_id, content or "", identity, bool(large), tuple(parts.get(message_id, ())))
        for message_id, content, identity, large in rows
    ]


async def _parts_between(
    reader: Reader, conversation: Conversation, first: int, last: int
) -> dict[int, list[PartBody]]:
    """Parts by message. What would only be thrown away is not fetched: that takes most of the time."""
    if not reader.schema.has("message_parts"):
        return {}
    parts: dict[int, list[PartBody]] = {}
    # Sorted here and not by SQLite, which would carry every text through its sorter.
    for message_id, *part in await reader.rows(
        f"""SELECT m.message_id,
        CASE WHEN p.tool_call_id IS NULL AND (p.part_type IN ('tool', 'agent') OR m.role = 'tool')
            THEN ifnull(CAST(p.part_id AS TEXT), '') END,
        p.ordinal, ifnull(CAST(p.part_type AS TEXT), ''),
        CASE WHEN p.text_content IS NOT m.content
            THEN CAST(substr(p.text_content, 1, {MOST_CHARACTERS}) AS TEXT) END,
        p.text_content IS m.content, CAST(p.tool_call_id AS TEXT),
        CASE WHEN p.session_id IS NOT ? THEN CAST(p.session_id AS TEXT) END,
        CASE WHEN length(p.metadata) <= {MOST_CHARACTERS} THEN CAST(p.metadata AS TEXT) END,
        CASE WHEN NOT {_VALID} THEN ifnull(CAST(p.part_id AS TEXT), '') END
        FROM messages AS m CROSS JOIN message_parts AS p ON p.message_id = m.message_id
        WHERE m.conversation_id = ? AND m.seq BETWEEN ? AND ? AND {_SHORT}""",
        conversation.session_id,
        conversation.conversation_id,
        first,
        last,
    ):
        parts.setdefault(message_id, []).append(PartBody(*part))
    for found in parts.values():
        found.sort(key=_by_ordinal)
    return parts


def _by_ordinal(part: PartBody) -> int:
    return part.ordinal


def _cast(reader: Reader, table: str, columns: Sequence[str], alias: str) -> str:
    """A select list of text columns; NULL for those that this file does not have."""
    return ", ".join(
        f"CAST({alias}.{name} AS TEXT) AS {name}" if reader.schema.has(table, name) else f"NULL AS {name}"
        for name in columns
    )
