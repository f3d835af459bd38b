"""What is stored as Markdown for a reader: one document, or the messages of a conversation.

Texts are as stored, in fences that they cannot end: no text can pass for the heading of another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from lcm_core.base.records import Conversation
from lcm_core.base.text import safe_line
from lcm_core.engine.sent import fenced
from lcm_core.store.database import Reader
from lcm_core.store.messages import message_ids
from lcm_core.store.opening import Rows
from lcm_core.store.search import Document, DocumentKind, SearchedRows, seqs_of

from lcm_recall.read import name_of, text_of

T = TypeVar("T")

#: Messages whose texts are read together.
_TOGETHER: Final = 500


def markdown_of(document: Document, number: int | None = None) -> str:
    """A document for a reader, under a heading that names it; its texts cannot end their fences.

    *number*: the place of a message in its conversation.
    """
    place = "" if number is None else f"#{number} "
    about = f"{place}{document.label} · {document.at} · {name_of(document)}"
    lines = [f"## {safe_line(about)}"]
    for where, text in document.texts:
        lines += ["", *([] if where == "content" else [f"{where}:", ""]), *fenced(text)]
    return "\n".join(lines) + "\n"


async def conversation_markdown(reader: Reader, conversation: Conversation) -> str:
    """The messages of a conversation for a reader, in order, with their tool calls."""
    heading = f"# Conversation {conversation.conversation_id}: {safe_line(conversation.name)}\n"
    return "\n".join([heading, *await each_message(reader, conversation, markdown_of)])


async def conversation_text(reader: Reader, conversation: Conversation) -> str:
    """The texts of its messages, each under its place and role."""

    def written(document: Document, number: int | None) -> str:
        return f"#{number} {safe_line(document.label)}\n{text_of(document)}\n"

    return "\n".join(await each_message(reader, conversation, written))


async def each_message(
    reader: Reader, conversation: Conversation, written: Callable[[Document, int | None], T]
) -> list[T]:
    """Each message of a conversation in order, as *written* makes it of the message and its seq."""
    ids = await message_ids(reader, conversation.conversation_id)

    def load(db: Rows) -> list[T]:
        rows, seqs = SearchedRows(db, reader.schema), seqs_of(db, reader.schema, ids)
        sections: list[T] = []
        for start in range(0, len(ids), _TOGETHER):
            some = ids[start : start + _TOGETHER]
            found = {int(one.id): one for one in rows.some(DocumentKind.MESSAGE, map(str, some))}
            sections += [written(found[one], seqs.get(one)) for one in some if one in found]
        return sections

    return await reader.run(load)
