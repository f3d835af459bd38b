"""The tools: what each is called, takes, reads and answers (docs/mcp.md, "Tools"). All of them only read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import Final

from lcm_core import __version__
from lcm_core.errors import LcmError, NotFoundError, UsageError
from lcm_core.javascript import Json
from lcm_core.recall.documents import described_document, found_document, passage_document
from lcm_core.recall.find import NAMES, OTHER_SPELLING, Found, Hit, search
from lcm_core.recall.levels import level_of, levels_below, read_level
from lcm_core.recall.read import Page, beginning_of, cite, read_below, text_of, verify
from lcm_core.recall.terms import Mode, parse
from lcm_core.store.connecting import Rows
from lcm_core.store.context import context_entries, context_items
from lcm_core.store.conversations import count_rows
from lcm_core.store.database import Reader
from lcm_core.store.opening import file_state
from lcm_core.store.searched import DocumentKind, Filter
from lcm_core.times import iso_z, span_of, typed_moment, with_z
from lcm_core.wording import counted

from lcm_tui.mcp.answers import ToolAnswer, answered, quoted, refused, short
from lcm_tui.mcp.arguments import Argument, Given, Switch, Text, Whole
from lcm_tui.mcp.memory import CONVERSATION, MAX_TOKENS, Memory
from lcm_tui.mcp.scope import Allowed, Scope, scope_of

#: The step that begins, of how many at most, and what is done.
Report = Callable[[int, int, str], None]

#: Seconds that a call may take, and what of them a search and the reason for an empty one may.
DEADLINE_SECONDS: Final = 3.0
_SEARCH_SECONDS: Final = 2.0
_NEAR_SECONDS: Final = 0.4
#: Hits of each kind that are ranked: an answer has at most fifty.
_RANKED: Final = 500
_PREVIEW: Final = 200

_ID: Final = Text("msg#12, sum_..., file_..., a brief, or a citation such as msg#12@0123456789ab.", True, 200)
_TOKENS: Final = Whole("Tokens of text in this answer.", 4_000, 100, MAX_TOKENS)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool."""

    name: str
    help: str
    arguments: Mapping[str, Argument]
    call: Callable[[Memory, Given, Report], Awaitable[ToolAnswer]]
    seconds: float = DEADLINE_SECONDS
    only_reads: bool = True  #: False: it sends something to a model


def _reading(
    name: str,
    words: str,
    arguments: Mapping[str, Argument],
    load: Callable[[Reader, Memory, Given], Awaitable[ToolAnswer]],
) -> Tool:
    """A tool that answers from one read transaction."""

    async def call(memory: Memory, given: Given, _: Report) -> ToolAnswer:
        path = memory.database.path
        if await asyncio.to_thread(file_state, path) is None:
            raise NotFoundError(
                f"The database {path} is missing: it was moved or deleted.", code="NO_DATABASE"
            )
        return await memory.database.read(load, memory, given)

    return Tool(name, words, arguments, call)


def tools_of(memory: Memory) -> tuple[Tool, ...]:
    """The tools of a server: ``ask`` among them where a model was named at its start."""
    if memory.model is None:
        return TOOLS
    from lcm_tui.mcp import asking

    asks = Tool(asking.NAME, asking.HELP, asking.ARGUMENTS, asking.ask, asking.ASK_SECONDS, False)
    return (*TOOLS, asks)


def longest(memory: Memory) -> float:
    """Seconds that a call may take at most."""
    return max(one.seconds for one in tools_of(memory))


async def call(
    memory: Memory, name: str, values: Mapping[str, Json], report: Report = lambda *_: None
) -> ToolAnswer:
    """Call a tool; what goes wrong is an answer too, in one sentence."""
    seconds = DEADLINE_SECONDS
    try:
        tools = tools_of(memory)
        tool = next((one for one in tools if one.name == name), None)
        if tool is None:
            known = ", ".join(one.name for one in tools)
            raise UsageError(f"There is no tool {short(name, 40)}; there are {known}.")
        given = Given.read(tool.arguments, values)
        seconds = tool.seconds
        async with memory.turns if tool.only_reads else nullcontext(), asyncio.timeout(seconds):
            return await tool.call(memory, given, report)
    except TimeoutError:
        return refused(
            LcmError(
                f"{name} took longer than {seconds:g} s and was stopped; "
                "narrow it to a conversation, a kind or a time.",
                code="DEADLINE",
            )
        )
    except LcmError as error:
        return refused(error)


# -- conversations and status ------------------------------------------------------------------------------


async def _conversations(reader: Reader, memory: Memory, given: Given) -> ToolAnswer:
    scope = await scope_of(reader, memory.allowed)
    first, limit = _cursor(given), given.count("limit")
    page = scope.entries[first : first + limit]
    counts = await count_rows(reader, [one.conversation.conversation_id for one in page])
    rows: list[Json] = []
    lines = [f"{len(page)} of {len(scope.entries)} conversations, the newest activity first."]
    for one, held in zip(page, counts, strict=True):
        record = one.conversation
        summaries = sum(depth.count for depth in held.summaries)
        rows.append(
            {
                "conversationId": record.conversation_id,
                "sessionKey": short(record.session_key),
                "title": short(record.title),
                "active": record.active,
                "lastMessageAt": one.last_activity,
                "messages": held.messages,
                "summaries": summaries,
                "contextItems": held.context_items,
            }
        )
        state = "archived" if record.active is False else "active"
        lines.append(
            f"conversation {record.conversation_id} ({state}): {held.messages:,} messages, "
            f"{summaries:,} summaries, last message {short(one.last_activity, 40) or 'never'}"
        )
        lines += quoted(short(f"{record.session_key or record.session_id} {record.title or ''}"))
    after = first + len(page)
    more = str(after) if after < len(scope.entries) else None
    lines += _more(more)
    data: dict[str, Json] = {"total": len(scope.entries), "conversations": rows, "nextCursor": more}
    return answered(scope.name, lines, data)


async def _status(reader: Reader, memory: Memory, _: Given) -> ToolAnswer:
    scope = await scope_of(reader, memory.allowed)
    counts = await count_rows(reader, scope.ids)
    messages = sum(one.messages for one in counts)
    summaries = sum(depth.count for one in counts for depth in one.summaries)
    items = sum(one.context_items for one in counts)
    newest = next((one.last_activity for one in scope.entries if one.last_activity), None)
    lines = [
        f"{len(counts):,} conversations, {messages:,} messages, {summaries:,} summaries, "
        f"{items:,} context items; last message {short(newest, 40) or 'never'}.",
        f"Read only. Written by LCM {reader.schema.version}; lcm-tui {__version__}.",
    ]
    data: dict[str, Json] = {
        "conversations": len(counts),
        "messages": messages,
        "summaries": summaries,
        "contextItems": items,
        "lastMessageAt": newest,
        "readOnly": True,
        "writtenBy": reader.schema.version,
        "version": __version__,
    }
    return answered(scope.name, lines, data)


# -- search ------------------------------------------------------------------------------------------------


async def _search(reader: Reader, memory: Memory, given: Given) -> ToolAnswer:
    query = parse(given.text("query") or "", Mode(given.text("mode") or Mode.WORDS))
    scope = await scope_of(reader, memory.allowed, given.number("conversation"))
    wanted = _filter(scope, memory.allowed, given, memory.settings.zone)
    found = await reader.run(
        lambda rows: search(
            rows,
            reader.schema,
            query,
            wanted,
            memory.settings,
            limit=given.count("limit"),
            offset=_cursor(given),
            seconds=_SEARCH_SECONDS,
            near_seconds=_NEAR_SECONDS,
            words=memory.words,
            index=memory.index(),
            ranked=_RANKED,
        )
    )
    data = found_document(query.text, scope.name, found)
    return answered(scope.name, _found_lines(found), {**data, "hits": _short_hits(found)})


def _filter(scope: Scope, allowed: Allowed, given: Given, zone: tzinfo | None) -> Filter:
    kind, role, tool = given.text("kind"), given.text("role"), given.text("tool")
    everything = allowed.everything and given.number("conversation") is None
    return Filter(
        None if everything else scope.ids,
        tuple(DocumentKind) if kind is None else (DocumentKind(kind),),
        () if role is None else (role,),
        () if tool is None else (tool,),
        since=_moment(given, "since", zone),
        before=_moment(given, "before", zone),
    )


def _moment(given: Given, name: str, zone: tzinfo | None) -> str | None:
    text = given.text(name)
    if text is None:
        return None
    span = span_of(text)
    try:
        moment = typed_moment(text, zone) if span is None else datetime.now(UTC) - span
    except OverflowError:
        moment = None
    if moment is None:
        raise UsageError(
            f"The argument {name} must be a time in ISO, such as 2026-03-01T12:00:00Z, or a span such as 7d."
        )
    return iso_z(moment)


def _short_hits(found: Found) -> list[Json]:
    """The hits as data; short stored values are cut as they are in the text."""
    hits = found_document("", "", found)["hits"]
    assert isinstance(hits, list)
    return [
        {name: short(one) if name in ("id", "label", "at") else one for name, one in hit.items()}
        for hit in hits
    ]


def _found_lines(found: Found) -> list[str]:
    coverage = found.coverage
    searched = ", ".join(f"{count:,} {NAMES[kind]}" for kind, count in coverage.searched)
    whole = "full" if coverage.is_full else f"bounded; {coverage.missing}"
    lines = [
        f"{len(found.hits)} of {found.total_text} hits, the best first.",
        f"Searched: {searched}. Coverage: {whole}. {coverage.seconds:.2f} s.",
    ]
    for hit in found.hits:
        lines += _hit_lines(hit)
    for near in found.near:
        count = f"alone is in {near.found_text}" if near.found else "was not found in what was searched"
        alike = f"; similar words: {', '.join(map(short, near.spellings))}" if near.spellings else ""
        lines += quoted(f'"{short(near.term)}" {count}{alike}')
    return lines + _more(None if found.next is None else str(found.next))


def _hit_lines(hit: Hit) -> list[str]:
    by = ", ".join(f"{name} {rank}" for name, rank in hit.found_by)
    over = f"; covered by {short(hit.way[-1])}" if hit.way and hit.way[-1] != hit.id else ""
    here = "; in the context" if hit.in_context else ""
    other = "" if hit.spelled else f" {OTHER_SPELLING}"
    head = (
        f"{short(hit.citation)}, {hit.kind} of conversation {hit.conversation_id}, "
        f"{short(with_z(hit.at), 40)}, {hit.place}; found by {by}{other}{over}{here}"
    )
    return ["", head, *quoted(f"{short(hit.label, 40)}: {short(hit.snippet, 600)}")]


# -- describe and expand -----------------------------------------------------------------------------------


async def _describe(reader: Reader, memory: Memory, given: Given) -> ToolAnswer:
    name = given.text("id") or ""
    scope = await scope_of(reader, memory.allowed)
    verdict, document = await reader.run(
        lambda rows: verify(rows, reader.schema, name, memory.settings, within=scope.ids)
    )
    if document is None:
        raise NotFoundError(f"{short(name)} is not in the scope of this server ({memory.allowed.name}).")
    whole = text_of(document)
    text = beginning_of(whole, given.count("tokens"))
    cut = len(text) < len(whole)
    data = {
        **described_document(name, verdict, document),
        "texts": [{"place": "all", "text": text}],
        "characters": len(whole),
        "cut": cut,
    }
    lines = [
        f"{short(cite(document))}, {document.kind} of conversation {document.conversation_id}, "
        f"{short(with_z(document.at), 40)}, {len(whole):,} characters.",
    ]
    if "@" in name:
        lines.append(f"The citation {short(name)}: {verdict}.")
    lines += [*quoted(short(document.label)), *quoted(text)]
    if cut:
        lines.append(f"Cut after {len(text):,} characters: expand reads all of it, page by page.")
    return answered(scope.name, lines, data)


async def _expand(reader: Reader, memory: Memory, given: Given) -> ToolAnswer:
    scope = await scope_of(reader, memory.allowed)
    if given.flag("levels"):
        return await _levels(reader, scope, given)
    name, number = given.text("id") or "", given.number("level")
    tokens, cursor = given.count("tokens"), given.text("cursor")
    if number is not None and given.flag("summaries_only"):
        raise UsageError("Give either level or summaries_only: a level has both kinds of texts.")

    def read(rows: Rows) -> Page:
        if number is not None:
            level = level_of(levels_below(rows, reader.schema, name, scope.ids), number, name)
            return read_level(rows, reader.schema, level, tokens=tokens, cursor=cursor)
        return read_below(
            rows,
            reader.schema,
            name,
            memory.settings,
            tokens=tokens,
            cursor=cursor,
            with_messages=not given.flag("summaries_only"),
            within=scope.ids,
        )

    page = await reader.run(read)
    lines = [f"{len(page.passages)} passages, about {page.tokens:,} tokens."]
    for one in page.passages:
        part = f", from character {one.start:,}" if one.start else ""
        part += "" if one.complete else ", continues"
        lines += [
            "",
            f"{short(one.citation)}, level {one.level}, {one.kind} of conversation {one.conversation_id}, "
            f"{short(with_z(one.at), 40)}{part}",
            *quoted(f"{short(one.label, 40)}:"),
            *quoted(one.text),
        ]
    data: dict[str, Json] = {
        "id": given.text("id"),
        "tokens": page.tokens,
        "passages": [passage_document(one) for one in page.passages],
        "nextCursor": page.next,
    }
    return answered(scope.name, lines + _more(page.next), data)


async def _levels(reader: Reader, scope: Scope, given: Given) -> ToolAnswer:
    for other in ("level", "summaries_only", "cursor"):
        if other in given.values:
            raise UsageError(f"Give either levels or {other}: levels lists them without texts.")
    name = (given.text("id") or "").partition("@")[0]
    levels = await reader.run(levels_below, reader.schema, name, scope.ids)
    lines = [f"{len(levels)} levels, without texts; level 0 is {short(name)}."]
    total, rows = 0, list[Json]()
    for one in levels:
        total += one.tokens
        missing = f", {one.missing:,} missing" if one.missing else ""
        lines.append(
            f"level {one.number}: {counted(len(one.summaries), 'summary')}, "
            f"{counted(len(one.messages), 'message')}{missing}; {one.tokens:,} stored tokens, "
            f"{total:,} down to here"
        )
        rows.append(
            {
                "level": one.number,
                "summaries": len(one.summaries),
                "messages": len(one.messages),
                "missing": one.missing,
                "tokens": one.tokens,
                "tokensToHere": total,
            }
        )
    return answered(scope.name, [*lines, ""], {"id": name, "levels": rows})


# -- context -----------------------------------------------------------------------------------------------


async def _context(reader: Reader, memory: Memory, given: Given) -> ToolAnswer:
    scope = await scope_of(reader, memory.allowed, given.number("conversation"))
    [owner] = scope.ids
    items = await context_items(reader, owner)
    first, limit = _cursor(given), given.count("limit")
    page = await context_entries(reader, list(islice(items, first, first + limit)))
    lines = [
        f"{len(page)} of {len(items):,} items of the context, in order. What does not fit into the model's "
        "budget, which is not known here, is left out of what is sent.",
    ]
    rows: list[Json] = []
    for entry in page:
        item = entry.item
        foreign = entry.conversation_id not in (None, owner)  # damage: a row of another conversation
        name = f"msg#{item.message_id}" if item.summary_id is None else short(item.summary_id)
        preview = "" if foreign else short(entry.preview, _PREVIEW)
        label = "" if foreign else short(entry.role if item.summary_id is None else entry.kind, 40)
        rows.append(
            {
                "ordinal": item.ordinal,
                "id": name,
                "type": "message" if item.summary_id is None else "summary",
                "label": label,
                "tokens": entry.tokens,
                "at": None if entry.said_at is None else with_z(entry.said_at),
                "preview": preview,
                "missing": entry.dangling,
            }
        )
        gone = "; row missing" if entry.dangling else f", {entry.tokens:,} tokens"
        lines += ["", f"{item.ordinal}: {name}{gone}", *quoted(f"{label}: {preview}")]
    after = first + len(page)
    more = str(after) if after < len(items) else None
    data: dict[str, Json] = {"conversationId": owner, "total": len(items), "items": rows, "nextCursor": more}
    return answered(scope.name, lines + _more(more), data)


def _cursor(given: Given) -> int:
    text = given.text("cursor")
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError("The argument cursor is not valid: use the one in the previous answer, or omit it.")
    return int(text)


def _more(cursor: str | None) -> list[str]:
    return ["", f'More follow: cursor "{cursor}".'] if cursor is not None else [""]


# -- all of them -------------------------------------------------------------------------------------------

_CURSOR: Final = Text("The next page: the cursor in the previous answer.", longest=40)
TOOLS: Final = (
    _reading(
        "conversations",
        "List the conversations that may be read: ids, session keys, titles, sizes, last activity.",
        {"limit": Whole("Conversations of a page.", 20, 1, 100), "cursor": _CURSOR},
        _conversations,
    ),
    _reading(
        "search",
        "Find where something was said: messages, tool inputs and outputs, summaries, focus briefs and large "
        "files, also of old and archived conversations. All words must match. Hits have ids for describe and "
        "expand; the answer says what was searched.",
        {
            "query": Text('Words, "a phrase", the start of a word*; all must match.', True),
            "mode": Text("How the query is read; words by default.", words=tuple(Mode)),
            "conversation": CONVERSATION,
            "kind": Text("Only of this kind.", words=tuple(DocumentKind)),
            "role": Text("Only messages of this role, such as user or assistant.", longest=100),
            "tool": Text("Only messages that call this tool.", longest=200),
            "since": Text(
                "Not before this time: in ISO (local without a zone), or a span such as 7d or 3h up to now.",
                longest=40,
            ),
            "before": Text("Before this time: in ISO, or a span up to now.", longest=40),
            "limit": Whole("Hits of a page.", 10, 1, 50),
            "cursor": _CURSOR,
        },
        _search,
    ),
    _reading(
        "describe",
        "Show one message, summary, focus brief or large file by its id, with its citation; for a citation, "
        "whether it still holds.",
        {"id": _ID, "tokens": _TOKENS},
        _describe,
    ),
    _reading(
        "expand",
        "Read down from a summary to the summaries and messages below it, page by page, with citations; or "
        "list its levels with their sizes, and read one of them.",
        {
            "id": _ID,
            "tokens": _TOKENS,
            "cursor": _CURSOR,
            "summaries_only": Switch("Omit the messages."),
            "levels": Switch("List the levels below a summary with their tokens, without texts."),
            "level": Whole("Only the texts of this level; 0 is the summary itself.", least=0),
        },
        _expand,
    ),
    _reading(
        "context",
        "List the items in the context of a conversation now: summaries and messages, in order, before any "
        "budget leaves some of them out.",
        {
            "conversation": Whole("The conversation, by its id.", needed=True),
            "limit": Whole("Items of a page.", 30, 1, 100),
            "cursor": _CURSOR,
        },
        _context,
    ),
    _reading("status", "Say what this server may read, and how much of it there is.", {}, _status),
)
