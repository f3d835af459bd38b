"""``messages``: those of a conversation, or the newest of its context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click
from lcm_core.base.records import Conversation, Message, MessageId
from lcm_core.base.settings import Settings
from lcm_core.base.text import counted, preview
from lcm_core.base.values import Record
from lcm_core.engine.rules import FreshTail
from lcm_core.store import messages as store
from lcm_core.store.database import Reader
from lcm_core.store.listing import Position, Window, message_page, messages_by_id
from lcm_core.store.remembered import FileMemory
from lcm_core.store.schema import Schema
from lcm_core.store.statistics import History

from lcm_tui.cli import documents, options
from lcm_tui.cli.answer import Answer, Paging, Run
from lcm_tui.cli.command import command
from lcm_tui.cli.documents import Document
from lcm_tui.cli.kinds import WholeNumber
from lcm_tui.cli.options import Named
from lcm_tui.cli.selecting import chosen, tail_of
from lcm_tui.tables.blocks import (
    Cell,
    Facts,
    ListColumn,
    OutputBlock,
    Prose,
    json_names,
    json_of,
    list_table,
    not_recorded,
)
from lcm_tui.tables.conversation_rows import ROW_COLUMNS

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


class MessageRow(Record, frozen=True):
    """A message of a list."""

    message: Message
    of_parts: str  #: what it shows where it has no text of its own


# fmt: off
#: What lists of messages say of each.
MESSAGE_COLUMNS: Final[tuple[ListColumn[MessageRow, None], ...]] = (
    ListColumn("seq", right=True, heading="Seq", value="message.seq", text=str),
    ListColumn("id", right=True, heading="Id", spare=1, json="messageId", value="message.message_id",
               text=str),
    ListColumn("conversation", json="conversationId", value="message.conversation_id"),
    ListColumn("place", json="seq", value="message.seq"),
    ListColumn("role", heading="Role", json="role", value="message.role"),
    ListColumn("tokens", right=True, heading="Tokens", json="tokenCount", value="message.tokens"),
    ListColumn("created", heading="Time", json="createdAt", stored="messages.created_at", time=True,
               value="message.created_at"),
    ListColumn("large", json="largeContent", stored="messages.large_content", value="message.large_content"),
    ListColumn("preview", json="preview", value=lambda row: preview(row.message.content)),
    ListColumn("text", grows=True, heading="Text",
               value=lambda row: preview(row.message.content) or preview(row.of_parts)),
)
WHOLE_COLUMNS: Final = (
    *MESSAGE_COLUMNS, ListColumn("content", json="content", value="message.content"),
)
# fmt: on


def rows_of(messages: Sequence[Message], parts: PartTexts) -> list[MessageRow]:
    """Messages as rows of a list."""
    return [MessageRow(message, parts.get(message.message_id, "")) for message in messages]


# -- the commands ----------------------------------------------------------------------------------------


class _Newest(Record, frozen=True):
    schema: Schema
    conversation: Conversation
    history: History
    tail: FreshTail
    rows: list[MessageRow]


@command(
    "messages",
    forms=("csv",),
    examples=(
        "messages --session-key agent:main:main --role user --limit 20",
        "messages 1 --tail fresh",
    ),
)
@options.engine_conversation
@options.page_options
@click.option(
    "--tail",
    "--count",
    "tail",
    type=WholeNumber(1, options.MAX_LIMIT, fresh=0),
    metavar="N|fresh",
    help="Instead the newest N messages of the context, up to 500; fresh: the fresh tail, which compaction "
    "does not touch.",
)
@options.roles
@options.include_content
@options.time_options
def messages(
    run: Run,
    *,
    conversation: options.EngineConversation,
    paged: options.PageOptions,
    tail: int | None,
    role: tuple[str, ...],
    include_content: bool,
    times: options.TimeOptions,
) -> Answer:
    """List the messages of a conversation, newest first."""
    named = conversation.needed("messages")
    if tail is not None:
        options.alone("--tail", "--conversation-id", "--session-key")
        return _newest(run, named, tail or None)
    window = options.window(run, "messages", paged, times, as_engine=True)
    schema, owner, following, rows = run.read(
        _load_list, named, window, tuple(dict.fromkeys(role)), include_content
    )
    columns = WHOLE_COLUMNS if include_content else MESSAGE_COLUMNS
    blocks: list[OutputBlock] = [list_table(MESSAGE_COLUMNS, rows, run.time, empty="No message matches.")]
    if include_content:
        blocks = _whole(run, rows) or blocks
    return run.answer(
        "messages.list",
        {
            "conversation": documents.conversation(owner),
            "items": [json_of(columns, row) for row in rows],
        },
        blocks,
        paging=Paging("messages", window.limit, len(rows), following),
        not_recorded=_not_recorded(schema, "conversation", "items"),
        names=json_names(columns),
    )


async def _load_list(
    reader: Reader, named: Named, window: Window, roles: Sequence[str], whole: bool
) -> tuple[Schema, Conversation, Position | None, list[MessageRow]]:
    conversation = await chosen(reader, named)
    page = await message_page(reader, conversation.conversation_id, window, roles=roles, whole=whole)
    return reader.schema, conversation, page.next, rows_of(page.items, await part_texts(reader, page.items))


def _newest(run: Run, named: Named, count: int | None) -> Answer:
    """The newest messages of the context; without a *count* the fresh tail."""
    found = run.read_remembering(_load_tail, run.settings, named, count)
    messages, limits = [row.message for row in found.rows], found.tail
    data: Document = {
        "conversationIdentity": documents.conversation(found.conversation),
        "limits": documents.some_of(limits, "count max_tokens"),
        "selected": {
            **documents.some_of(limits, "messages tokens"),
            "firstSeq": messages[0].seq if messages else None,
            "lastSeq": messages[-1].seq if messages else None,
        },
        "conversation": documents.some_of(found.history, "messages tokens"),
        "messages": [json_of(WHOLE_COLUMNS, row) for row in found.rows],
    }
    cap = f", at most {limits.max_tokens:,} tokens" if limits.max_tokens else ""
    facts: list[tuple[str, Cell]] = [
        ("Conversation", str(found.conversation.conversation_id)),
        ("Rule", f"the {counted(limits.count, 'newest message')} of the context{cap}"),
        ("Selected", f"{counted(limits.messages, 'message')}, {limits.tokens:,} tokens"),
        ("Of", f"{counted(found.history.messages, 'message')}, {found.history.tokens:,} tokens"),
    ]
    return run.answer(
        "messages.tail",
        data,
        [Facts(facts), list_table(MESSAGE_COLUMNS, found.rows, run.time, empty="No message matches.")],
        not_recorded=_not_recorded(found.schema, "conversationIdentity", "messages"),
    )


async def _load_tail(
    reader: Reader, memory: FileMemory, settings: Settings, named: Named, count: int | None
) -> _Newest:
    conversation = await chosen(reader, named)
    number = conversation.conversation_id
    raw = (await store.context_messages(reader, [number]))[number]
    selected = tail_of(raw, reader.schema, settings, conversation.session_key, count=count)
    ids = [one.message_id for one in raw[len(raw) - selected.messages :]]
    messages = await messages_by_id(reader, ids)
    return _Newest(
        reader.schema,
        conversation,
        await memory.history_of(reader, number),
        selected,
        rows_of(messages, await part_texts(reader, messages)),
    )


def _not_recorded(schema: Schema, conversation: str, messages: str) -> list[str]:
    return [
        *not_recorded(ROW_COLUMNS, schema, conversation),
        *not_recorded(MESSAGE_COLUMNS, schema, messages),
    ]


def _whole(run: Run, rows: Sequence[MessageRow]) -> list[OutputBlock]:
    """Messages with their whole text, one block each."""
    return [
        Prose(
            one.content or row.of_parts,
            title=f"#{one.seq}  {one.role}  {run.time(one.created_at)}  {one.tokens} tokens",
        )
        for row in rows
        for one in [row.message]
    ]
