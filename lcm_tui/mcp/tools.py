"""The tools: methods with typed parameters and answers, of which the SDK makes their schemas. All only read.

Source: docs/spec/mcp.md, "Tools". The docstring of a tool is what a model reads of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from time import monotonic
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, get_args

import mcp_types as types
import msgspec
from lcm_core import __version__
from lcm_core.base.errors import LcmError, NotFoundError, UsageError
from lcm_core.base.records import ConversationId, SummaryId, Timestamp
from lcm_core.base.text import ELLIPSIS, counted, safe_line, safe_text
from lcm_core.base.times import iso_z, with_z
from lcm_core.base.values import Record, replace, to_json
from lcm_core.engine.markers import BadKind
from lcm_core.store.context import context_entries, context_items
from lcm_core.store.conversations import count_rows
from lcm_core.store.database import Reader
from lcm_core.store.listing import whole_id
from lcm_core.store.opening import file_state
from lcm_core.store.search import DocumentKind, Filter
from lcm_core.store.summaries import broken_in
from lcm_recall.ask import Asked, AskedAnswer, AskLimits, Failure, Inquiry
from lcm_recall.queries import recall_settings
from lcm_recall.read import (
    Page,
    Passage,
    beginning_of,
    levels_below,
    read_below,
    read_conversation,
    text_of,
    unknown,
    verify,
)
from lcm_recall.results import (
    Described,
    FoundHit,
    FoundPage,
    LevelSize,
    OutsideTime,
    Part,
    ReadPage,
    level_sizes,
    outside_time,
)
from lcm_recall.search import OTHER_SPELLING, Found, index_of, search
from lcm_recall.terms import KnownWords, Mode, Query, moment_of, parse
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from pydantic import BaseModel, ConfigDict, Field, create_model

from lcm_tui.mcp.scope import UNTRUSTED, Scope, Served, scope_of, short
from lcm_tui.tables.conversation_rows import CONVERSATION_COLUMNS, Row

T = TypeVar("T")

#: Seconds of a call that a search may take, the reason for an empty one, and hits outside the time asked.
_SEARCH_SECONDS, _NEAR_SECONDS, _OUTSIDE_SECONDS = 2.0, 0.4, 0.6
#: Of the status the search for broken summaries, and of a question the model.
_BROKEN_SECONDS, _MODEL_SECONDS = 1.5, 45.0
#: Tokens of text in an answer.
MAX_TOKENS: Final = 8_000
#: Hits of each kind that are ranked: an answer has at most fifty.
_RANKED: Final = 500
#: Characters of a preview; broken summaries that are named; messages that a resource ends with.
_PREVIEW, _NAMED, _LAST = 200, 20, 50
#: Characters of an answer as text, for a hostile text grows where its controls are written out, and as data.
MAX_CHARACTERS, MAX_DATA = 40_000, 80_000

# -- parameters ------------------------------------------------------------------------------------------

_Id = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="msg#12, sum_..., file_..., a brief, a citation such as msg#12@0123456789ab, or a unique "
        "beginning of the id of a summary or brief.",
    ),
]
_Number = Annotated[int, Field(ge=1, le=2**53 - 1, description="The conversation, by its id.")]
_OnlyNumber = Annotated[int | None, Field(ge=1, le=2**53 - 1, description="Only this conversation.")]
_OnlySession = Annotated[str | None, Field(max_length=1_000, description="Only this session key.")]
_OnlyAgent = Annotated[str | None, Field(max_length=200, description="Only this agent, such as main.")]
_Tokens = Annotated[int, Field(ge=100, le=MAX_TOKENS, description="Tokens of text in this answer.")]
_Cursor = Annotated[str | None, Field(max_length=40, description="nextCursor of the page before.")]
_Since = Annotated[
    str | None,
    Field(
        max_length=40,
        description="Not before this time: in ISO (local without a zone), or a span such as 7d up to now.",
    ),
]
_Before = Annotated[str | None, Field(max_length=40, description="Before this time, given likewise.")]

# -- answers ---------------------------------------------------------------------------------------------


class Answer(Record, Generic[T], frozen=True):
    """What a tool answers: the data, and the same told in lines, in which stored text is quoted."""

    scope: Scope
    data: T
    lines: Sequence[str]


class Envelope(Record, frozen=True):
    """What every answer has."""

    scope: str
    untrusted: str
    data_cut: Annotated[bool, msgspec.Meta(description="Texts were cut: ask for less at a time.")]


class ListedConversation(Record, frozen=True, forbid_unknown_fields=True):
    """A conversation in a list."""

    conversation_id: ConversationId
    session_key: str
    active: bool | None
    title: str
    messages: int
    summaries: int
    context_items: int
    last_message_at: Timestamp | None


class ConversationPage(Record, frozen=True):
    """A page of conversations, the newest activity first."""

    total: int
    conversations: list[ListedConversation]
    next_cursor: str | None


class MessagePage(Record, frozen=True):
    """A page of a conversation, in its order."""

    conversation_id: ConversationId
    total: int
    tokens: int
    passages: tuple[Passage, ...]
    next_cursor: str | None


class Item(Record, frozen=True):
    """An item of a context."""

    ordinal: int
    id: str
    type: Literal["message", "summary"]
    label: str
    tokens: int | None
    at: Timestamp | None
    preview: str
    missing: bool


class ItemPage(Record, frozen=True):
    """A page of a context."""

    conversation_id: ConversationId
    total: int
    items: list[Item]
    next_cursor: str | None


class BrokenSummary(Record, frozen=True):
    """A summary that certainly is none."""

    summary_id: SummaryId
    conversation_id: ConversationId
    kind: BadKind


class Status(Record, frozen=True):
    """What there is, and which summaries say nothing."""

    conversations: int
    messages: int
    summaries: int
    context_items: int
    last_message_at: Timestamp | None
    broken: list[BrokenSummary]
    broken_total: int
    not_checked: Annotated[int, msgspec.Meta(description="Conversations not looked through for them.")]
    written_by: str
    version: str
    read_only: bool = True


def offered(work: Callable[..., Awaitable[Answer[Any]]]) -> Callable[..., Awaitable[types.CallToolResult]]:
    """A tool as the SDK takes it: its output schema is that of the record in its answer."""

    @wraps(work)
    async def call(**given: Any) -> types.CallToolResult:
        return _result(await work(**given))

    signature = inspect.signature(work, eval_str=True)
    [record] = get_args(signature.return_annotation)
    answer = Annotated[types.CallToolResult, _model_of(record)]
    call.__signature__ = signature.replace(return_annotation=answer)  # type: ignore[attr-defined]
    return call


def _model_of(record: type) -> type[BaseModel]:
    """A model for the SDK that has the schema of a record and of what every answer has."""
    known = msgspec.json.schema_components((Envelope, record), ref_template="{name}")[1]
    envelope, own = known["Envelope"], known[record.__name__]
    required = [*dict.fromkeys([*own["required"], *envelope["required"]])]
    schema = {**own, "properties": {**own["properties"], **envelope["properties"]}, "required": required}

    def put(made: dict[str, Any]) -> None:
        made.clear()
        made.update(_inlined(schema, known))

    return create_model(record.__name__, __config__=ConfigDict(extra="allow", json_schema_extra=put))


def _inlined(schema: Any, known: Mapping[str, Any]) -> Any:
    """A schema with what it refers to in place: pydantic takes no references but its own."""
    if isinstance(schema, Mapping):
        whole = {**known.get(schema.get("$ref", ""), {}), **schema}
        return {name: _inlined(value, known) for name, value in whole.items() if name != "$ref"}
    return [_inlined(value, known) for value in schema] if isinstance(schema, list) else schema


def _result(answer: Answer[Any]) -> types.CallToolResult:
    """Both forms of an answer, safe and within their limits."""
    scope = safe_line(answer.scope.name)
    text = "\n".join([f"Scope: {scope}.", *answer.lines, UNTRUSTED])
    if len(text) > MAX_CHARACTERS:
        end = f"\n{ELLIPSIS} cut at {MAX_CHARACTERS:,} characters: ask for less at a time.\n{UNTRUSTED}"
        text = text[: MAX_CHARACTERS - len(end)] + end
    longest, whole = MAX_DATA, to_json(answer.data)
    data = _safe(whole, longest)
    while len(json.dumps(data, ensure_ascii=False)) > MAX_DATA and longest > _PREVIEW:
        longest //= 2
        data = _safe(whole, longest)
    data |= to_json(Envelope(scope, UNTRUSTED, data_cut=longest < MAX_DATA))
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=data)


def _safe(value: Any, longest: int) -> Any:
    """The same value with every text, and every name in it, made safe, and longer texts cut."""
    if isinstance(value, str):
        text = safe_text(value)
        return text if len(text) <= longest else text[: longest - 1] + ELLIPSIS
    if isinstance(value, Mapping):
        return {safe_line(name): _safe(inner, longest) for name, inner in value.items()}
    return [_safe(inner, longest) for inner in value] if isinstance(value, Sequence) else value


# -- the tools -------------------------------------------------------------------------------------------


class Memory:
    """What a server reads from; its public methods are the tools."""

    def __init__(self, served: Served) -> None:
        self._database, self._allowed, self._model = served.database, served.allowed, served.model
        self._settings = recall_settings(served.settings)
        self._by_index, self._index_folder = served.settings.search_cache.value, served.index_folder
        self._words = KnownWords()
        self._asking = asyncio.Lock()

    async def search(
        self,
        query: Annotated[
            str,
            Field(
                max_length=1_000,
                description='Words, "a phrase", the start of a word*; all must match: begin with few.',
            ),
        ],
        mode: Annotated[
            Literal["words", "substring", "regex"], Field(description="How the query is read.")
        ] = "words",
        conversation: _OnlyNumber = None,
        session_key: _OnlySession = None,
        agent: _OnlyAgent = None,
        kind: Annotated[
            Literal["message", "summary", "brief", "file"] | None, Field(description="Only of this kind.")
        ] = None,
        role: Annotated[
            str | None, Field(max_length=100, description="Only messages of this role, such as user.")
        ] = None,
        tool: Annotated[
            str | None, Field(max_length=200, description="Only messages that call this tool.")
        ] = None,
        since: _Since = None,
        before: _Before = None,
        limit: Annotated[int, Field(ge=1, le=50, description="Hits of a page.")] = 10,
        cursor: _Cursor = None,
    ) -> Answer[FoundPage]:
        """Find where something was said: messages, tool calls, summaries, focus briefs and large files.

        Use it first, whenever the answer may be in an earlier or archived conversation. Next: lcm_read with
        the id of a hit whose snippet is too short, or with coveredBy for what surrounds it; lcm_messages
        with start for what was said next to it. Without hits and with full coverage it was not said.
        """
        asked = parse(query, Mode(mode))
        start, end = self._moment("since", since), self._moment("before", before)

        async def load(reader: Reader) -> Answer[FoundPage]:
            scope = await scope_of(reader, self._allowed, conversation, session_key, agent)
            wanted = Filter(
                None if scope.everything else scope.ids,
                tuple(DocumentKind) if kind is None else (DocumentKind(kind),),
                () if role is None else (role.strip(),),
                () if tool is None else (tool.strip(),),
                since=start,
                before=end,
            )
            end_at = monotonic() + _SEARCH_SECONDS + _OUTSIDE_SECONDS
            size = limit, _number(cursor)
            found = await self._search(reader, asked, wanted, size, _SEARCH_SECONDS, _NEAR_SECONDS)

            async def search_again(other: Filter) -> Found:
                left = max(0.1, end_at - monotonic())
                return await self._search(reader, asked, other, (1, 0), left, 0.0)

            outside = None if found.total else await outside_time(wanted, search_again)
            page = FoundPage.of(asked.text, scope.name, found if outside is None else replace(found, near=()))
            return Answer(scope, replace(page, outside_time=outside), list(_hit_lines(page, outside, found)))

        return await self._read(load)

    async def read(
        self,
        id: _Id,  # noqa: A002
        tokens: _Tokens = 4_000,
        cursor: _Cursor = None,
        summaries_only: Annotated[bool, Field(description="Omit the messages.")] = False,
        levels: Annotated[
            bool, Field(description="List the levels below a summary with their tokens, without texts.")
        ] = False,
        level: Annotated[
            int | None, Field(ge=0, description="Only the texts of this level; 0 is the summary itself.")
        ] = None,
    ) -> Answer[ReadPage]:
        """Read what a summary was made from, down to the messages, page by page, with citations.

        Use it when a snippet or a summary is too short to answer from; also for a whole message, brief or
        file. Of a large summary list the levels first, then read one. Next: nextCursor as cursor.
        """
        if levels and (level is not None or summaries_only or cursor is not None):
            raise UsageError("Give levels alone: it lists them without texts.")
        if level is not None and summaries_only:
            raise UsageError("Give either level or summaries_only: a level has both kinds of texts.")

        async def load(reader: Reader) -> Answer[ReadPage]:
            scope, name = await self._named(reader, id)
            if levels:
                sizes = level_sizes(await reader.run(levels_below, reader.schema, name, scope.ids))
                none = ReadPage(name.partition("@")[0], 0, (), None, sizes)
                return Answer(scope, none, list(_level_lines(name, sizes)))
            page = await reader.run(
                read_below,
                reader.schema,
                name,
                self._settings,
                tokens=tokens,
                cursor=cursor,
                with_messages=not summaries_only,
                level=level,
                within=scope.ids,
            )
            data = ReadPage(name, page.tokens, page.passages, page.next, [])
            return Answer(scope, data, list(_page_lines(page)))

        return await self._read(load)

    async def show(
        self,
        id: _Id,  # noqa: A002
        tokens: _Tokens = 4_000,
    ) -> Answer[Described]:
        """Show one message, summary, focus brief or large file by its id, with its citation.

        Use it to verify a citation before you rely on it: the verdict says whether the text is still what was
        read. Next: lcm_read for what is below a summary, or for a text that was cut.
        """

        async def load(reader: Reader) -> Answer[Described]:
            scope, name = await self._named(reader, id)
            verdict, document = await reader.run(
                verify, reader.schema, name, self._settings, within=scope.ids
            )
            if document is None:
                if "@" not in name:
                    raise unknown(name)
                gone = Described.of(name.partition("@")[0], verdict, None)
                return Answer(scope, gone, [f"The citation {short(name)}: {verdict}."])
            whole = text_of(document)
            text = beginning_of(whole, tokens)
            cut = len(text) < len(whole)
            data = Described.of(name, verdict, document)
            data = replace(data, texts=(Part("all", text),), characters=len(whole), cut=cut)
            lines = [
                f"{short(data.citation)}, {document.kind} of conversation {document.conversation_id}, "
                f"{short(with_z(document.at), 40)}, {len(whole):,} characters."
            ]
            lines += [f"The citation {short(name)}: {verdict}."] if "@" in name else []
            lines += _quoted(f"{short(document.label)}:\n{text}")
            lines += [f"Cut after {len(text):,} characters: lcm_read reads all of it."] if cut else []
            return Answer(scope, data, lines)

        return await self._read(load)

    async def messages(
        self,
        conversation: _Number,
        start: Annotated[
            str | None, Field(max_length=40, description="Begin at this message, such as msg#12 of a hit.")
        ] = None,
        last: Annotated[
            int | None, Field(ge=1, le=10_000, description="Begin so many messages before the end.")
        ] = None,
        tokens: _Tokens = 4_000,
        cursor: _Cursor = None,
    ) -> Answer[MessagePage]:
        """Read a conversation in its order, with tool calls, page by page, from any place.

        Use it for what was said around a hit of lcm_search (start), or for the end of a conversation (last).
        Next: the same with nextCursor as cursor.
        """
        if sum(given is not None for given in (start, last, cursor)) > 1:
            raise UsageError("Give only one of start, last and cursor.")

        async def load(reader: Reader) -> Answer[MessagePage]:
            scope = await scope_of(reader, self._allowed, conversation)
            [owner] = scope.ids
            place = start if cursor is None else cursor
            page = await read_conversation(reader, owner, place, last=last, tokens=tokens)
            [count] = await count_rows(reader, [owner])
            data = MessagePage(owner, count.messages, page.tokens, page.passages, page.next)
            of = f"Of {counted(count.messages, 'message')} of the conversation, in order:"
            return Answer(scope, data, [of, *_page_lines(page)])

        return await self._read(load)

    async def conversations(
        self,
        session_key: _OnlySession = None,
        agent: _OnlyAgent = None,
        limit: Annotated[int, Field(ge=1, le=100, description="Conversations of a page.")] = 20,
        cursor: _Cursor = None,
    ) -> Answer[ConversationPage]:
        """List the conversations that may be read, by last activity: ids, session keys, titles, sizes.

        Use it to learn to which conversation, session or agent lcm_search can be narrowed. Next: lcm_messages
        reads one of them.
        """

        async def load(reader: Reader) -> Answer[ConversationPage]:
            scope = await scope_of(reader, self._allowed, None, session_key, agent)
            page, following = _page(scope.entries, cursor, limit)
            counts = await count_rows(reader, [one.conversation.conversation_id for one in page])
            listed: list[ListedConversation] = []
            for entry, count in zip(page, counts, strict=True):
                row = Row(entry, counts=count)
                values = {column.agents: column.of(row) for column in CONVERSATION_COLUMNS if column.agents}
                texts = {name: short(values[name]) for name in ("sessionKey", "title")}
                listed.append(msgspec.convert({**values, **texts}, ListedConversation))
            lines = [
                f"{len(page)} of {counted(len(scope.entries), 'conversation')}, the newest activity first."
            ]
            for one in listed:
                state = "archived" if one.active is False else "active"
                lines.append(
                    f"conversation {one.conversation_id} ({state}): {counted(one.messages, 'message')}, "
                    f"{counted(one.summaries, 'summary')}, "
                    f"last message {short(one.last_message_at, 40) or 'never'}"
                )
                lines += _quoted(f"{one.session_key} {one.title}".strip())
            data = ConversationPage(len(scope.entries), listed, following)
            return Answer(scope, data, lines + _more(following))

        return await self._read(load)

    async def context(
        self,
        conversation: _Number,
        limit: Annotated[int, Field(ge=1, le=100, description="Items of a page.")] = 30,
        cursor: _Cursor = None,
    ) -> Answer[ItemPage]:
        """List the items in the context of a conversation now: summaries and messages, with previews.

        Use it to see what a model is sent of a conversation, before any budget leaves some of it out. Next:
        lcm_read with the id of a summary.
        """

        async def load(reader: Reader) -> Answer[ItemPage]:
            scope = await scope_of(reader, self._allowed, conversation)
            [owner] = scope.ids
            items = list(await context_items(reader, owner))
            chosen, following = _page(items, cursor, limit)
            rows: list[Item] = []
            lines = [
                f"{len(chosen)} of {counted(len(items), 'item')} of the context, in order. What does not fit "
                "into the model's budget, which is not known here, is left out of what is sent."
            ]
            for entry in await context_entries(reader, list(chosen)):
                item = entry.item
                foreign = entry.conversation_id not in (None, owner)  # damage: a row of another one
                row = Item(
                    item.ordinal,
                    f"msg#{item.message_id}" if item.summary_id is None else short(item.summary_id),
                    "summary" if entry.is_summary else "message",
                    "" if foreign else short(entry.kind if entry.is_summary else entry.role, 40),
                    entry.tokens,
                    entry.said_at and Timestamp(with_z(entry.said_at)),
                    "" if foreign else short(entry.preview, _PREVIEW),
                    entry.dangling,
                )
                rows.append(row)
                gone = "; row missing" if row.missing else f", {row.tokens or 0:,} tokens"
                lines += [f"{row.ordinal}: {row.id}{gone}", *_quoted(f"{row.label}: {row.preview}")]
            return Answer(scope, ItemPage(owner, len(items), rows, following), lines + _more(following))

        return await self._read(load)

    async def status(self) -> Answer[Status]:
        """Say what may be read, how much of it there is, and which summaries are broken.

        Use it to learn whether the memory can be relied on. Do not quote a broken summary. Next: lcm_read
        with its id for what it was made from.
        """

        broken: list[BrokenSummary] = []
        left: list[ConversationId] = []

        async def look(reader: Reader) -> None:
            left.extend((await scope_of(reader, self._allowed)).ids)
            while left:
                found = await broken_in(reader, left[0])
                broken.extend(BrokenSummary(one, left[0], kind) for one, kind in found.items())
                del left[0]

        async def load(reader: Reader) -> Answer[Status]:
            scope = await scope_of(reader, self._allowed)
            counts = await count_rows(reader, scope.ids)
            data = Status(
                len(counts),
                sum(one.messages for one in counts),
                sum(one.summary_count for one in counts),
                sum(one.context_items for one in counts),
                next((one.last_activity for one in scope.entries if one.last_activity), None),
                broken[:_NAMED],
                len(broken),
                len(left),
                reader.schema.version,
                __version__,
            )
            lines = [
                f"{counted(data.conversations, 'conversation')}, {counted(data.messages, 'message')}, "
                f"{counted(data.summaries, 'summary')}, {counted(data.context_items, 'context item')}; last "
                f"message {short(data.last_message_at, 40) or 'never'}.",
                f"{counted(len(broken), 'broken summary')}{':' if broken else '.'}",
                *(
                    f"{short(one.summary_id)} of conversation {one.conversation_id}: {one.kind}"
                    for one in data.broken
                ),
            ]
            lines += [f"{counted(len(left), 'conversation')} not checked for broken ones."] if left else []
            lines.append(f"Read only. Written by LCM {data.written_by}; lcm-tui {__version__}.")
            return Answer(scope, data, lines)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BROKEN_SECONDS):
                await self._read(look)
        return await self._read(load)

    async def ask(
        self,
        context: Context[Any, Any],
        question: Annotated[str, Field(min_length=1, max_length=2_000, description="What you want to know.")],
        conversation: _OnlyNumber = None,
        session_key: _OnlySession = None,
        agent: _OnlyAgent = None,
        tokens: Annotated[int, Field(ge=500, le=MAX_TOKENS, description="Tokens of evidence.")] = 4_000,
    ) -> Answer[AskedAnswer]:
        """Have a question answered by a model that searches and reads this memory.

        Use it when lcm_search and lcm_read do not answer: it takes time and may cost money. The answer comes
        with checked citations and with the evidence beside it. Next: lcm_read where that is too short.
        """
        assert self._model is not None
        scope = await self._database.read(scope_of, self._allowed, conversation, session_key, agent)
        limits = AskLimits(tokens, seconds=_MODEL_SECONDS)
        within = None if scope.everything else scope.ids
        inquiry = Inquiry(self._database, self._settings, question.strip(), limits, within)
        told: list[asyncio.Task[None]] = []

        def report(call: int, words: str) -> None:
            told.append(asyncio.create_task(context.report_progress(call, limits.calls, words)))

        report(0, "Looking for evidence")
        await inquiry.gather(for_model=True)
        async with self._asking:  # one question at a time: each has the limits of cost to itself
            asked = await inquiry.ask(self._model, report)
        await asyncio.gather(*told)
        failed = None if asked.failed is None else Failure(asked.failed.code, asked.failed.message)
        data = replace(AskedAnswer.of(scope.name, asked), failed=failed)
        return Answer(scope, data, list(_asked_lines(asked)))

    @property
    def tools(self) -> list[Callable[..., Awaitable[Answer[Any]]]]:
        """The tools: `ask` among them where a model was named at the start."""
        reading = (self.search, self.read, self.show, self.messages, self.conversations, self.context)
        return [*reading, self.status, *(() if self._model is None else (self.ask,))]

    async def _read(self, load: Callable[[Reader], Awaitable[T]]) -> T:
        path = self._database.path
        if await asyncio.to_thread(file_state, path) is None:
            raise NotFoundError(
                f"The database {path} is missing: it was moved or deleted.", code="NO_DATABASE"
            )
        return await self._database.read(load)

    async def _named(self, reader: Reader, name: str) -> tuple[Scope, str]:
        """The scope, and the whole of an id that may be the beginning of one in it."""
        scope = await scope_of(reader, self._allowed)
        return scope, await whole_id(reader, name.strip(), None if scope.everything else scope.ids)

    async def _search(
        self, reader: Reader, query: Query, wanted: Filter, page: tuple[int, int], seconds: float, near: float
    ) -> Found:
        limit, offset = page
        return await reader.run(
            search,
            reader.schema,
            query,
            wanted,
            self._settings,
            limit=limit,
            offset=offset,
            seconds=seconds,
            near_seconds=near,
            words=self._words,
            full_text=True,
            index=index_of(self._database.path, self._index_folder) if self._by_index else None,
            ranked=_RANKED,
        )

    def _moment(self, name: str, text: str | None) -> str | None:
        if text is None:
            return None
        moment = moment_of(text, self._settings.zone, datetime.now(UTC))
        if moment is None:
            raise UsageError(
                f"The argument {name} must be a time in ISO, such as 2026-03-01T12:00:00Z, or a span such "
                "as 7d."
            )
        return iso_z(moment)


def offer(server: MCPServer[Any], memory: Memory) -> None:
    """The tools of a memory, the resource and the prompts, to a server."""
    for work in memory.tools:
        asks = work == memory.ask
        hints = types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=not asks, open_world_hint=asks
        )
        server.tool(f"lcm_{work.__name__}", description=inspect.getdoc(work), annotations=hints)(
            offered(work)
        )

    @server.resource("lcm://conversation/{conversation}", mime_type="text/plain")
    async def conversation(conversation: str) -> str:
        """The last messages of a conversation, in order."""
        if not (conversation.isascii() and conversation.isdigit() and len(conversation) < 16):
            raise ResourceNotFoundError("There is no such resource; lcm://conversation/1 is one.")
        try:
            answer = await memory.messages(int(conversation), last=_LAST, tokens=MAX_TOKENS)
        except LcmError as error:
            raise ResourceNotFoundError(short(error.message, 500)) from error
        [content] = _result(answer).content
        assert isinstance(content, types.TextContent)
        return content.text

    @server.prompt(title="Recall")
    def recall(question: str) -> str:
        """Answer a question from the memory, with citations."""
        return (
            f"Answer from the memory: {question}\n\n"
            "Find where it was said with lcm_search, few words at first. Read on with lcm_read or "
            "lcm_messages where a hit is too short. Cite each statement by its citation, and say what you "
            "did not find."
        )

    @server.prompt(title="Check citations")
    def check_citations(text: str) -> str:
        """Check whether the citations of a text still hold."""
        return (
            "Verify each citation such as msg#12@0123456789ab in the text below with lcm_show. Say which "
            "hold, which have changed and which are gone, and whether each supports its statement."
            f"\n\n{text}"
        )


# -- answers in lines ------------------------------------------------------------------------------------


def _quoted(text: str) -> Iterator[str]:
    """The lines of a stored text, each of them marked; no stored text can begin a line without it."""
    return (f"| {line}" for line in safe_text(text).split("\n"))


def _more(cursor: str | None) -> list[str]:
    return [f'More follow: cursor "{cursor}".'] if cursor is not None else []


def _head(one: FoundHit | Passage, name: str) -> str:
    return f"{short(name)}, {one.kind} of conversation {one.conversation_id}, {short(one.at, 40)}"


def _hit_lines(page: FoundPage, outside: OutsideTime | None, found: Found) -> Iterator[str]:
    if outside is not None:
        yield f"0 hits in the time asked; {outside.text}."
    else:
        of = f"{found.total_text} {'hit' if page.total == 1 else 'hits'}"
        yield f"{len(page.hits)} of {of}, the best first." if page.total else "0 hits."
    yield f"Searched: {found.coverage.searched_text}. Coverage: {found.coverage.text}."
    for hit in page.hits:
        over = f"; covered by {short(hit.covered_by)}" if hit.covered_by not in (None, hit.id) else ""
        here = "; in the context" if hit.in_context else ""
        other = f"; {OTHER_SPELLING}" if hit.other_spelling else ""
        yield f"{_head(hit, hit.id)}, {hit.place}{other}{over}{here}"
        yield from _quoted(f"{short(hit.label, 40)}: {short(hit.snippet, 600)}")
    for near in page.near:
        yield from _quoted(short(near.text, 500))
    yield from _more(page.next_cursor)


def _passage_lines(one: Passage) -> Iterator[str]:
    level = f", level {one.level}" if one.level else ""
    yield f"{_head(one, one.citation)}{level}{one.part_text}"
    yield from _quoted(f"{short(one.label, 40)}: {one.text}")


def _page_lines(page: Page) -> Iterator[str]:
    yield f"{counted(len(page.passages), 'passage')}, about {page.tokens:,} tokens."
    for one in page.passages:
        yield from _passage_lines(one)
    yield from _more(page.next)


def _level_lines(name: str, sizes: Sequence[LevelSize]) -> Iterator[str]:
    yield f"{counted(len(sizes), 'level')}, without texts; level 0 is {short(name)}."
    for one in sizes:
        missing = f", {one.missing:,} missing" if one.missing else ""
        yield (
            f"level {one.level}: {counted(one.summaries, 'summary')}, "
            f"{counted(one.messages, 'message')}{missing}; {one.tokens:,} stored tokens, "
            f"{one.tokens_to_here:,} down to here"
        )


def _asked_lines(asked: Asked) -> Iterator[str]:
    if asked.answer is None:
        yield f"{short(asked.model)} gave no answer."
    else:
        yield f"Answer of {short(asked.model)} in {counted(asked.calls, 'call')}:"
        yield from _quoted(asked.answer)
        yield f"It cites {', '.join(map(short, asked.citations)) or 'nothing'}."
    yield from (short(one, 500) for one in asked.remarks[-20:])
    yield f"Evidence, about {asked.tokens:,} tokens:"
    for passage in asked.cited_first:
        yield from _passage_lines(passage)
    yield from (short(one, 250) for one in asked.gap_texts)


# -- pages -----------------------------------------------------------------------------------------------


def _number(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise UsageError("The argument cursor is not valid: use the one in the previous answer, or omit it.")
    return int(cursor)


def _page(rows: Sequence[T], cursor: str | None, limit: int) -> tuple[Sequence[T], str | None]:
    """The rows of a page, and the cursor of the next."""
    first = _number(cursor)
    after = first + limit
    return rows[first:after], str(after) if after < len(rows) else None
