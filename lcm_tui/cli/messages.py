"""``messages list`` and ``messages tail``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lcm_core.base.records import Conversation, Message, MessageId
from lcm_core.base.settings import Settings
from lcm_core.base.text import counted, preview
from lcm_core.base.values import Record
from lcm_core.engine.rules import FreshTail
from lcm_core.store import messages as store
from lcm_core.store.context import context_messages
from lcm_core.store.database import Reader
from lcm_core.store.listing import Page, Window, message_page, messages_by_id
from lcm_core.store.schema import Schema
from lcm_core.store.statistics import History, history_of

from lcm_tui.cli import documents
from lcm_tui.cli.answer import Answer, Paging, Run
from lcm_tui.cli.documents import Document, tail_of
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import chosen
from lcm_tui.tables.blocks import Cell, Facts, OutputBlock, OutputColumn, Prose, Table

# -- rows of the table -----------------------------------------------------------------------------------
# With the beginning of their parts where messages have no text of their own.

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
        OutputColumn("Seq", right=True),
        OutputColumn("Id", right=True, spare=1),
        OutputColumn("Role"),
        OutputColumn("Tokens", right=True),
        OutputColumn("Time"),
        OutputColumn("Text", grows=True),
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


# -- the commands ----------------------------------------------------------------------------------------


class _Listed(Record, frozen=True):
    schema: Schema
    conversation: Conversation
    page: Page[Message]
    parts: PartTexts


class _Tail(Record, frozen=True):
    schema: Schema
    conversation: Conversation
    history: History
    tail: FreshTail
    messages: list[Message]
    parts: PartTexts


def list_(
    run: Run, named: Selector, window: Window, roles: Sequence[str], *, include_content: bool
) -> Answer:
    """A page of the messages of a conversation."""
    found = run.read(_load_list, named, window, roles, include_content)
    items = found.page.items
    blocks: list[OutputBlock] = [message_table(run, items, found.parts)]
    if include_content:
        blocks = _whole(run, items, found.parts) or blocks
    return run.answer(
        "messages.list",
        {
            "conversation": documents.conversation(found.conversation),
            "items": [documents.message(item, content=include_content) for item in items],
        },
        blocks,
        paging=Paging("messages", window.limit, len(items), found.page.next),
        not_recorded=_not_recorded(found.schema, "conversation", "items"),
        more_columns=["content"] if include_content else (),
    )


async def _load_list(
    reader: Reader, named: Selector, window: Window, roles: Sequence[str], whole: bool
) -> _Listed:
    conversation = await chosen(reader, named)
    page = await message_page(reader, conversation.conversation_id, window, roles=roles, whole=whole)
    return _Listed(reader.schema, conversation, page, await part_texts(reader, page.items))


def tail(run: Run, named: Selector, count: int | None) -> Answer:
    """The fresh tail of a context, or its newest *count* messages."""
    found = run.read(_load_tail, run.settings, named, count)
    messages, limits = found.messages, found.tail
    data: Document = {
        "conversationIdentity": documents.conversation(found.conversation),
        "limits": {"count": limits.count, "maxTokens": limits.max_tokens},
        "selected": {
            "messages": limits.messages,
            "tokens": limits.tokens,
            "firstSeq": messages[0].seq if messages else None,
            "lastSeq": messages[-1].seq if messages else None,
        },
        "conversation": {"messages": found.history.messages, "tokens": found.history.tokens},
        "messages": [documents.message(item, content=True) for item in messages],
    }
    cap = f", at most {limits.max_tokens:,} tokens" if limits.max_tokens else ""
    facts: list[tuple[str, Cell]] = [
        ("Conversation", str(found.conversation.conversation_id)),
        ("Rule", f"the newest {limits.count:,} messages of the context{cap}"),
        ("Selected", f"{counted(limits.messages, 'message')}, {limits.tokens:,} tokens"),
        ("Of", f"{found.history.messages:,} messages, {found.history.tokens:,} tokens"),
    ]
    return run.answer(
        "messages.tail",
        data,
        [Facts(facts), message_table(run, messages, found.parts)],
        not_recorded=_not_recorded(found.schema, "conversationIdentity", "messages"),
    )


async def _load_tail(reader: Reader, settings: Settings, named: Selector, count: int | None) -> _Tail:
    conversation = await chosen(reader, named)
    number = conversation.conversation_id
    raw = (await context_messages(reader, [number]))[number]
    selected = tail_of(raw, reader.schema, settings, conversation.session_key, count=count)
    ids = [one.message_id for one in raw[len(raw) - selected.messages :]]
    messages = await messages_by_id(reader, ids)
    return _Tail(
        reader.schema,
        conversation,
        await history_of(reader, number),
        selected,
        messages,
        await part_texts(reader, messages),
    )


def _not_recorded(schema: Schema, conversation: str, messages: str) -> list[str]:
    return [
        *(f"{conversation}.{name}" for name in documents.not_recorded(schema, "conversations")),
        *(f"{messages}.{name}" for name in documents.not_recorded(schema, "messages")),
    ]


def _whole(run: Run, messages: Sequence[Message], parts: PartTexts) -> list[OutputBlock]:
    """Messages with their whole text, one block each."""
    return [
        Prose(
            message.content or parts.get(message.message_id, ""),
            title=f"#{message.seq}  {message.role}  {run.time(message.created_at)}  {message.tokens} tokens",
        )
        for message in messages
    ]
