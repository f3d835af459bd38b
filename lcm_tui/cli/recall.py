"""``grep``, ``describe`` and ``expand``: the memory is searched, shown and read down (docs/recall.md)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from lcm_core.base.errors import ExitCode, RefusedError
from lcm_core.base.files import reason_of
from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.text import as_typed, counted
from lcm_core.base.times import iso_z
from lcm_core.base.values import Record, replace, to_json
from lcm_core.store.conversations import list_conversations
from lcm_core.store.database import Reader
from lcm_core.store.listing import whole_id
from lcm_core.store.search import Document, DocumentKind, Filter, RecalledRows
from lcm_recall.answer import REPEATS
from lcm_recall.engine_tools import Expansions, expand_all, expansion_text
from lcm_recall.queries import recall_settings
from lcm_recall.read import (
    Level,
    Page,
    Passage,
    Verdict,
    cite,
    levels_below,
    read_below,
    text_of,
    verify,
)
from lcm_recall.results import Described, FoundPage, ReadPage, listed_levels
from lcm_recall.search import (
    NAMES,
    OTHER_SPELLING,
    Found,
    Hit,
    Near,
    forget,
    index_of,
    make_index,
    remember,
    search,
)
from lcm_recall.terms import Query
from lcm_recall.tools import RecallTools

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.progress import ProgressLine
from lcm_tui.tables.blocks import Facts, Note, Prose
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.search import levels_table

#: Kinds of summaries, which may be asked for beside the kinds of documents.
LEVELS = ("leaf", "condensed")


class Asked(Record, frozen=True):
    """What a search was asked for, besides its query."""

    conversation_id: ConversationId | None
    session_key: str | None
    agent: str | None
    roles: tuple[str, ...]
    tools: tuple[str, ...]
    kinds: tuple[str, ...]
    depth: int | None
    since: datetime | None
    before: datetime | None
    limit: int
    offset: int
    in_context: bool | None = None
    by_cache: bool = True  #: goes by the private index where there is one, and is kept as a recent search

    @property
    def filter(self) -> Filter:
        """The same for the search; conversations are found by those that are there."""
        of_summaries = tuple(kind for kind in self.kinds if kind in LEVELS)
        documents = [DocumentKind(kind) for kind in self.kinds if kind not in LEVELS]
        documents += [DocumentKind.SUMMARY] if of_summaries else []
        since, before = (None if one is None else iso_z(one) for one in (self.since, self.before))
        return Filter(
            None,
            tuple(dict.fromkeys(documents)) or tuple(DocumentKind),
            self.roles,
            self.tools,
            of_summaries,
            () if self.depth is None else (self.depth,),
            since,
            before,
            self.in_context,
        )


# -- grep --------------------------------------------------------------------------------------------------


def grep(run: Run, query: Query, asked: Asked, *, fail_empty: bool) -> Answer:
    """What is found, a page of it."""
    wanted = asked.filter
    settings = recall_settings(run.settings)
    path = run.settings.database.value
    index = index_of(path) if asked.by_cache else None

    async def load(reader: Reader) -> tuple[str, Found]:
        named, within = await in_scope(reader, asked.conversation_id, asked.session_key, asked.agent)
        narrowed = replace(wanted, conversations=within)
        found = await reader.run(
            lambda rows: search(
                rows,
                reader.schema,
                query,
                narrowed,
                settings,
                limit=asked.limit,
                offset=asked.offset,
                index=index,
                full_text=True,
            )
        )
        return named, found

    named, found = run.read(load)
    if asked.by_cache:
        remember(path, query.text)
    answer = run.answer(
        "grep", to_json(FoundPage.of(query.text, named, found)), _grep_blocks(run, named, found)
    )
    return replace(answer, exit_code=ExitCode.NOT_FOUND) if fail_empty and not found.total else answer


def bring_up_index(run: Run) -> None:
    """Make the private index of the database, or take in what is new or has changed; ctrl-C stops it."""
    line = ProgressLine()
    try:
        run.work(
            lambda database: make_index(
                database, lambda share: line.show("Indexing messages", round(share * 100), 100)
            )
        )
    except OSError as error:
        raise RefusedError(
            f"The index cannot be created ({reason_of(error)}); omit --index to search without it.",
            code="NO_INDEX",
        ) from error
    finally:
        line.clear()


def forget_searches(run: Run) -> Answer:
    """The index and the recent searches of the database are removed."""
    removed = forget(run.settings.database.value)
    data: JsonObject = {"removed": removed}
    told = f"Removed {counted(removed, 'file')} of the cache." if removed else "Nothing to remove."
    return run.answer("grep", data, [Note(told)])


async def in_scope(
    reader: Reader, number: int | None, key: str | None, agent: str | None
) -> tuple[str, tuple[ConversationId, ...] | None]:
    """The conversations that are asked for, with their name for the answer; None: all."""
    if number is None and key is None and agent is None:
        return "all conversations", None
    listed = await list_conversations(reader)
    key = key and as_typed(key, {one.conversation.session_key for one in listed})
    chosen = tuple(
        one.conversation.conversation_id
        for one in listed
        if (number is None or one.conversation.conversation_id == number)
        and (key is None or one.conversation.session_key == key)
        and (agent is None or one.conversation.agent == agent)
    )
    names = [] if number is None else [f"conversation {number}"]
    names += [] if key is None else [f"session family {key}"]
    names += [] if agent is None else [f"agent {agent}"]
    return f"{', '.join(names)} ({counted(len(chosen), 'conversation')})", chosen


def _grep_blocks(run: Run, named: str, found: Found) -> list[Block]:
    blocks: list[Block] = []
    for top, hits in found.groups:
        lines = [_hit_lines(run, hit) for hit in hits]
        title = "Hits that no summary of a context covers:" if top is None else f"Under {top}"
        blocks.append(Prose("\n".join(lines), title=title))
    coverage = found.coverage
    if not found.total and not any(count for _, count in coverage.searched):
        blocks.append(Note("Nothing was searched: there is no text in this scope."))
    elif not found.total:
        blocks.append(Note("Nothing was found."))
        blocks += [Note(_near_words(one)) for one in found.near]
    searched = ", ".join(f"{count:,} {NAMES[kind]}" for kind, count in coverage.searched)
    facts: list[tuple[str, str | int | None]] = [
        ("Scope", named),
        ("Hits", f"{len(found.hits)} of {found.total_text}" if found.total else "0"),
        ("Searched", searched),
        (
            "Coverage",
            "full" if coverage.is_full else f"bounded; {coverage.missing}",
        ),
        ("Time", f"{coverage.seconds:.2f} s"),
    ]
    blocks.append(Facts(facts))
    if found.next is not None:
        blocks.append(Note(f"More follow: --cursor {found.next}"))
    return blocks


def _hit_lines(run: Run, hit: Hit) -> str:
    way = f" under {' > '.join(hit.way)}" if len(hit.way) > 1 else " in the context" if hit.in_context else ""
    by = ", ".join(f"{name} {rank}" for name, rank in hit.found_by)
    head = f"{hit.citation}  conversation {hit.conversation_id}  {hit.label}  {run.time(hit.at)}  {hit.place}"
    other = "" if hit.spelled else f" {OTHER_SPELLING}"
    return f"{head}\n    {hit.snippet}\n    found by {by}{other}{way}"


def _near_words(near: Near) -> str:
    if near.found:
        return f'"{near.term}" alone is in {near.found_text}.'
    like = f" Similar words: {', '.join(near.spellings)}." if near.spellings else ""
    return f'"{near.term}" was not found.{like}'


def engine_grep(run: Run, query: str, asked: Asked, *, regex: bool, fail_empty: bool) -> Answer:
    """The same as the engine's own tool finds it; what it refuses was not found either."""
    given: dict[str, Json] = {
        "pattern": query,
        "mode": "regex" if regex else "full_text",
        "limit": asked.limit,
        "since": None if asked.since is None else iso_z(asked.since),
        "before": None if asked.before is None else iso_z(asked.before),
    }
    if asked.conversation_id is not None:
        given["conversationId"] = asked.conversation_id
    elif asked.session_key is None:
        given["allConversations"] = True
    only = {"message": "messages", "summary": "summaries", "file": "files"}
    if len(asked.kinds) == 1:
        given["scope"] = only.get(asked.kinds[0], "both")
    answer = _as_engine(run, "grep", "lcm_grep", given, asked.session_key)
    details = answer.data["details"]
    empty = not isinstance(details, Mapping) or not details.get("totalMatches")
    return replace(answer, exit_code=ExitCode.NOT_FOUND) if fail_empty and empty else answer


def _as_engine(run: Run, name: str, tool: str, given: JsonObject, session_key: str | None) -> Answer:
    settings = recall_settings(run.settings)
    answer = run.work(lambda database: RecallTools(database, settings).call(tool, given, session_key))
    data: JsonObject = {"text": answer.text, "details": answer.details}
    return run.answer(name, data, [Prose(answer.text)])


# -- describe and expand -----------------------------------------------------------------------------------


def engine_describe(run: Run, name: str) -> Answer:
    """A summary or a file as the engine's own tool describes it."""
    return _as_engine(run, "describe", "lcm_describe", {"id": name, "allConversations": True}, None)


def describe(run: Run, name: str) -> Answer:
    """One message, summary, brief or file; of a citation, whether it holds."""
    settings = recall_settings(run.settings)

    async def load(reader: Reader) -> tuple[str, Verdict, Document | None]:
        whole = await whole_id(reader, name)
        verdict, document = await reader.run(lambda rows: verify(rows, reader.schema, whole, settings))
        return whole, verdict, document

    name, verdict, document = run.read(load)
    data = to_json(Described.of(name, verdict, document))
    if document is None:
        gone = run.answer("describe", data, [Note(f"{name} is missing: this id is not in the database.")])
        return replace(gone, exit_code=ExitCode.NOT_FOUND)
    facts: list[tuple[str, str | int | None]] = [
        ("Citation", cite(document)),
        ("Kind", f"{document.kind}, {document.label}"),
        ("Conversation", str(document.conversation_id)),
        ("Time", run.time(document.at)),
    ]
    if "@" in name:
        facts.insert(1, ("The citation", str(verdict)))
    return run.answer("describe", data, [Facts(facts), Prose(text_of(document), title="Text")])


def expand(
    run: Run, name: str, budget: int, cursor: str | None, *, with_messages: bool, level: int | None
) -> Answer:
    """A page of what lies below a summary, or of one *level* of that."""
    settings = recall_settings(run.settings)

    async def load(reader: Reader) -> tuple[str, Page]:
        whole = await whole_id(reader, name)
        page = await reader.run(
            lambda rows: read_below(
                *(rows, reader.schema, whole, settings),
                tokens=budget,
                cursor=cursor,
                with_messages=with_messages,
                level=level,
            )
        )
        return whole, page

    name, page = run.read(load)
    data = to_json(ReadPage(name, page.tokens, page.passages, page.next))
    blocks: list[Block] = [Prose(one.text, title=passage_title(run, one)) for one in page.passages]
    if not page.passages:
        blocks.append(Note("Nothing fits: give more --tokens."))
    blocks.append(Facts([("Tokens", f"~{page.tokens:,} of {budget:,}")]))
    if page.next is not None:
        blocks.append(Note(f"More follows: --cursor {page.next}"))
    return run.answer("expand", data, blocks)


def expand_levels(run: Run, name: str) -> Answer:
    """What is below a summary level by level, and what each level costs."""

    async def load(reader: Reader) -> tuple[str, tuple[Level, ...]]:
        whole = await whole_id(reader, name)
        return whole, await reader.run(lambda rows: levels_below(rows, reader.schema, whole))

    whole, levels = run.read(load)
    data: JsonObject = {"id": whole.partition("@")[0], "levels": to_json(listed_levels(levels))}
    return run.answer("expand", data, [levels_table(levels)])


def engine_expand(run: Run, name: str, tokens: int, *, with_messages: bool) -> Answer:
    """What the engine gives a sub-agent that may read *tokens* of it: ids and sizes, no texts of messages."""

    async def load(reader: Reader) -> Expansions:
        return await reader.run(
            lambda rows: expand_all(
                RecalledRows(rows, reader.schema),
                [SummaryId(name)],
                include_messages=with_messages,
                cap=tokens,
            )
        )

    found = run.read(load)
    text = expansion_text(found)
    return run.answer("expand", {"text": text, "details": found.document}, [Prose(text)])


def passage_title(run: Run, one: Passage) -> str:
    """The line above a passage."""
    part = f", from character {one.start:,}" if one.start else ""
    part += "" if one.complete else ", continues"
    part += f", {REPEATS}" if one.repeats else ""
    part += f", {OTHER_SPELLING}" if one.other_spelling else ""
    return f"{'  ' * one.level}{one.citation}  {one.label}  {run.time(one.at)}{part}"
