"""``summaries list``, ``summaries show`` and ``summaries previous``."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.base.records import ConversationId, Message, MessageId, Summary
from lcm_core.base.setting_values import Json
from lcm_core.base.text import preview
from lcm_core.base.values import Record
from lcm_core.engine.markers import beginning
from lcm_core.engine.previous import PreviousChoice, PreviousContext
from lcm_core.engine.rules import engine_rules
from lcm_core.store.database import Reader
from lcm_core.store.listing import ListedSummary, Page, Window, listed_summaries, messages_by_id, summary_page
from lcm_core.store.schema import Schema
from lcm_core.store.summaries import consumers_of, edges_of, source_message_ids
from lcm_core.writers.source import previous_of

from lcm_tui.cli import documents
from lcm_tui.cli.answer import Answer, Paging, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.messages import PartTexts, message_table, part_texts
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import chosen, summary_beginning
from lcm_tui.tables.blocks import Cell, Facts, Mark, Note, Prose, Table, kind_words
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.blocks import OutputColumn as Column


class Filters(Record, frozen=True):
    """Which summaries are listed, and whether with their texts."""

    depth: int | None
    kind: str | None
    whole: bool


class _Shown(Record, frozen=True):
    schema: Schema
    summary: ListedSummary
    consumers: list[ListedSummary]
    sources: list[ListedSummary]
    messages: list[Message]
    parts: PartTexts
    gone: tuple[str, ...]  #: sources and source messages whose row is missing


def list_(run: Run, named: Selector, window: Window, filters: Filters) -> Answer:
    """A page of the summaries of a conversation, or of all."""
    schema, owner, page = run.read(_load_list, named, window, filters)
    whole = [_prose(run, item) for item in page.items] if filters.whole else []
    return run.answer(
        "summaries.list",
        {
            "conversationId": owner,
            "items": [documents.summary(item, content=filters.whole) for item in page.items],
        },
        whole or [_table(run, page.items, empty="No summary matches.")],
        paging=Paging("summaries", window.limit, len(page.items), page.next),
        not_recorded=[f"items.{name}" for name in documents.not_recorded(schema, "summaries")],
        more_columns=["content"] if filters.whole else (),
    )


async def _load_list(
    reader: Reader, named: Selector, window: Window, filters: Filters
) -> tuple[Schema, ConversationId | None, Page[ListedSummary]]:
    owner = (await chosen(reader, named)).conversation_id if named.given else None
    page = await summary_page(
        reader, owner, window, depth=filters.depth, kind=filters.kind, whole=filters.whole
    )
    return reader.schema, owner, page


def show(run: Run, wanted: str) -> Answer:
    """One summary with what stands around it; *wanted* is its id or the beginning of it."""
    found = run.read(_load, wanted)
    consumers: list[Json] = [documents.summary(item, content=True) for item in found.consumers]
    sources: list[Json] = [documents.summary(item, content=True) for item in found.sources]
    data: Document = {
        "summary": documents.summary(found.summary, content=True),
        "parents": consumers,
        "children": sources,
        "sourceMessages": [documents.source_message(item) for item in found.messages],
        "consumers": consumers,
        "sources": sources,
    }
    if found.gone:
        data["missing"] = list(found.gone)
    missing = documents.not_recorded(found.schema, "summaries")
    return run.answer(
        "summaries.show", data, _blocks(run, found), not_recorded=[f"summary.{name}" for name in missing]
    )


async def _load(reader: Reader, wanted: str) -> _Shown:
    [summary] = await listed_summaries(reader, [await summary_beginning(reader, wanted)])
    summary_id = summary.summary.summary_id
    source_ids = [edge.source for edge in await edges_of(reader, [summary_id])]
    message_ids = [MessageId(key) for key in await source_message_ids(reader, summary_id)]
    sources = await listed_summaries(reader, source_ids)
    messages = await messages_by_id(reader, message_ids)
    there: set[str | int] = {item.summary.summary_id for item in sources}
    there.update(item.message_id for item in messages)
    return _Shown(
        reader.schema,
        summary,
        await listed_summaries(reader, [edge.consumer for edge in await consumers_of(reader, summary_id)]),
        sources,
        messages,
        await part_texts(reader, messages),
        tuple(str(key) for key in (*source_ids, *message_ids) if key not in there),
    )


def previous(run: Run, wanted: str, rules: str | None) -> Answer:
    """The previous context of one summary by *rules*; *wanted* is its id or the beginning of it."""
    found = run.read(_load_previous, wanted, rules)
    data: Document = {
        "summaryId": found.summary_id,
        "applies": found.applies,
        "whyNot": found.why_not,
        "reconstructed": True,
        "asGiven": _choice_document(found.as_given),
        "otherwise": [_choice_document(choice) for choice in found.otherwise],
        "forRewrite": _choice_document(found.for_rewrite),
    }
    return run.answer("summaries.previous", data, _previous_blocks(found))


async def _load_previous(reader: Reader, wanted: str, rules: str | None) -> PreviousContext:
    summary_id = await summary_beginning(reader, wanted)
    return await previous_of(reader, summary_id, engine_rules(reader.schema, rules))


def _choice_document(choice: PreviousChoice) -> Document:
    return {
        "assumption": choice.assumption,
        "nodes": [
            {
                "summaryId": node.summary_id,
                "kind": node.summary.kind,
                "depth": node.summary.depth,
                "tokenCount": node.summary.tokens,
                "broken": node.broken,
                "firstSeq": node.first_seq,
                "lastSeq": node.last_seq,
                "origin": node.origin,
            }
            for node in choice.nodes
        ],
        "text": choice.text,
        "passedOver": [{"summaryId": one.summary_id, "reason": one.reason} for one in choice.passed_over],
    }


def _previous_blocks(found: PreviousContext) -> list[Block]:
    if not found.applies:
        return [Note(found.why_not or "")]
    choices = [("As given", found.as_given), *(("Or", choice) for choice in found.otherwise)]
    choices.append(("For a rewrite", found.for_rewrite))
    note = Note("Reconstructed: the database does not record what was given.")
    return [note, *(block for title, choice in choices for block in _choice(title, choice))]


def _choice(title: str, choice: PreviousChoice) -> list[Block]:
    nodes: list[tuple[str, Cell]] = [
        (
            node.summary_id,
            f"{_sort(node.summary)}, {node.summary.tokens:,} tokens, {node.origin}"
            + (f", broken ({node.broken})" if node.broken else ""),
        )
        for node in choice.nodes
    ]
    passed: list[tuple[str, Cell]] = [
        (one.summary_id, f"skipped: {one.reason}") for one in choice.passed_over
    ]
    return [
        Facts([("Based on", choice.assumption), *nodes, *passed], title=title),
        Prose(choice.text or "No previous context.", title=f"{title}: text"),
    ]


def _sort(summary: Summary) -> str:
    return kind_words(summary.kind, summary.depth)


def _table(run: Run, items: Sequence[ListedSummary], *, title: str = "", empty: str = "None.") -> Table:
    columns = (
        Column("Summary"),
        Column("Conv.", right=True, spare=1),
        Column("Depth", right=True),
        Column("Kind", spare=3),
        Column("Tokens", right=True),
        Column("Covers until", spare=2),
        Column("Consumers", right=True, spare=4),
        Column("Sources", right=True, spare=5),
        Column("Text", grows=True),
    )
    rows = [
        (
            item.summary.summary_id,
            str(item.summary.conversation_id),
            item.summary.depth,
            item.summary.kind,
            item.summary.tokens,
            run.time(item.covers_until),
            item.consumers,
            item.sources + item.source_messages,
            preview(beginning(item.content)),
        )
        for item in items
    ]
    return Table(columns, rows, title=title, empty=empty)


def _prose(run: Run, item: ListedSummary) -> Prose:
    record = item.summary
    when = run.time(item.covers_until)
    title = f"{record.summary_id}  {_sort(record)}  {record.tokens:,} tokens  until {when}"
    return Prose(item.content, title=title)


def _blocks(run: Run, found: _Shown) -> list[Block]:
    record, schema = found.summary.summary, found.schema

    def recorded(column: str, value: Cell) -> Cell:
        return value if schema.has("summaries", column) else Mark.NOT_RECORDED

    facts: list[tuple[str, Cell]] = [
        ("Summary", record.summary_id),
        ("Conversation", str(record.conversation_id)),
        ("Kind", f"{record.kind}, depth {record.depth}"),
        ("Tokens", record.tokens),
        ("Covers from", recorded("earliest_at", run.time(record.earliest_at))),
        ("  to", recorded("latest_at", run.time(record.latest_at))),
        ("Made", run.time(record.created_at)),
        ("Model", recorded("model", record.model)),
        ("Summaries below", recorded("descendant_count", record.descendant_count)),
        ("  tokens", recorded("descendant_token_count", record.descendant_tokens)),
        ("Message tokens", recorded("source_message_token_count", record.source_message_tokens)),
        ("Files", _ids(documents.file_ids(record.file_ids))),
    ]
    if found.gone:
        facts.append(("Missing sources", ", ".join(found.gone)))
    blocks: list[Block] = [Facts(facts), Prose(found.summary.content, title="Text")]
    blocks.append(_table(run, found.consumers, title="Consumers", empty="No summary uses it."))
    if found.sources or record.kind != "leaf":
        blocks.append(_table(run, found.sources, title="Sources"))
    if found.messages or record.kind == "leaf":
        blocks.append(message_table(run, found.messages, found.parts, title="Source messages", empty="None."))
    return blocks


def _ids(stored: Json) -> Cell:
    if stored is None:
        return "the list of ids is damaged"
    return ", ".join(str(item) for item in stored) if isinstance(stored, list) and stored else Mark.NOTHING
