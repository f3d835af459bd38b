"""Messages as rows of a table, with the beginning of their parts where they have no text of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lcm_core.records import Message, MessageId
from lcm_core.store import messages as store
from lcm_core.store.database import Reader
from lcm_core.text import preview

from lcm_tui.cli.answer import Run
from lcm_tui.views.blocks import Column, Table

#: What a message without text of its own shows instead, by message.
PartTexts = Mapping[MessageId, str]


async def part_texts(reader: Reader, messages: Sequence[Message]) -> PartTexts:
    """What stands in the parts of those messages that have no text."""
    blank = [message.message_id for message in messages if not message.content.strip()]
    texts: dict[MessageId, str] = {}
    for part in await store.message_parts(reader, blank, head=store.HEAD):
        words = (part.tool_name, part.text or part.tool_output or part.tool_input or part.file_name)
        text = ": ".join(word for word in words if word) or f"[{part.part_type}]"
        texts[part.message_id] = f"{texts[part.message_id]} {text}" if part.message_id in texts else text
    return texts


def message_table(
    run: Run,
    messages: Sequence[Message],
    parts: PartTexts,
    *,
    title: str = "",
    empty: str = "No message matches.",
) -> Table:
    """Messages as a table."""
    columns = (
        Column("Seq", right=True),
        Column("Id", right=True, spare=1),
        Column("Role"),
        Column("Tokens", right=True),
        Column("Time"),
        Column("Text", grows=True),
    )
    rows = [
        (
            str(message.seq),
            str(message.message_id),
            message.role,
            message.tokens,
            run.time(message.created_at),
            preview(message.content) or preview(parts.get(message.message_id, "")),
        )
        for message in messages
    ]
    return Table(columns, rows, title=title, empty=empty)
