"""``summaries``: listed, drawn as a map, and what `show` has of one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lcm_core.base.records import ConversationId, MessageId, SummaryText
from lcm_core.base.setting_values import Json
from lcm_core.base.text import preview
from lcm_core.base.values import Record
from lcm_core.engine.markers import beginning
from lcm_core.engine.rules import engine_rules
from lcm_core.store.database import Reader
from lcm_core.store.listing import ListedSummary, Page, Window, listed_summaries, messages_by_id, summary_page
from lcm_core.store.schema import Schema
from lcm_core.store.summaries import consumers_of, edges_of, source_message_ids, texts_of

from lcm_tui.cli import messages, options
from lcm_tui.cli.answer import OURS, Answer, Paging, Run
from lcm_tui.cli.command import command
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import Choice
from lcm_tui.cli.messages import MESSAGE_COLUMNS, MessageRow, part_texts, rows_of
from lcm_tui.cli.options import Named
from lcm_tui.cli.selecting import owner_if_named, summary_beginning
from lcm_tui.cli.working import run_at
from lcm_tui.tables.blocks import (
    Cell,
    Facts,
    ListColumn,
    Mark,
    Note,
    Prose,
    json_names,
    json_of,
    kind_words,
    list_table,
    not_recorded,
)
from lcm_tui.tables.blocks import OutputBlock as Block

if TYPE_CHECKING:
    from lcm_core.engine.previous import PreviousChoice, PreviousContext


def _file_ids(item: ListedSummary) -> Json:
    """The ids in the stored JSON array; null when it is none."""
    try:
        found = json.loads(item.summary.file_ids)
    except (ValueError, RecursionError):
        return None
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else None


# fmt: off
#: What lists say of a summary. ``parentCount`` counts its consumers and ``childCount`` its sources, as in the
#: engine's command.
SUMMARY_COLUMNS: Final[tuple[ListColumn[ListedSummary, None], ...]] = (
    ListColumn("id", heading="Summary", json="summaryId", value="summary.summary_id"),
    ListColumn("conversation", right=True, heading="Conv.", spare=1, json="conversationId",
               value="summary.conversation_id", text=str),
    ListColumn("depth", right=True, heading="Depth", value="summary.depth"),
    ListColumn("kind", heading="Kind", spare=3, json="kind", value="summary.kind"),
    ListColumn("level", json="depth", value="summary.depth"),
    ListColumn("tokens", right=True, heading="Tokens", json="tokenCount", value="summary.tokens"),
    ListColumn("earliest", json="earliestAt", stored="summaries.earliest_at", value="summary.earliest_at"),
    ListColumn("latest", json="latestAt", stored="summaries.latest_at", value="summary.latest_at"),
    ListColumn("covers", heading="Covers until", spare=2, json="coverageAt", time=True, value="covers_until"),
    ListColumn("below", json="descendantCount", stored="summaries.descendant_count",
               value="summary.descendant_count"),
    ListColumn("below_tokens", json="descendantTokenCount", stored="summaries.descendant_token_count",
               value="summary.descendant_tokens"),
    ListColumn("said_tokens", json="sourceMessageTokenCount", stored="summaries.source_message_token_count",
               value="summary.source_message_tokens"),
    ListColumn("created", json="createdAt", stored="summaries.created_at", time=True,
               value="summary.created_at"),
    ListColumn("files", json="fileIds", value=_file_ids),
    ListColumn("model", json="model", stored="summaries.model", value="summary.model"),
    ListColumn("consumers", right=True, heading="Consumers", spare=4, json="parentCount", value="consumers"),
    ListColumn("sources", json="childCount", value="sources"),
    ListColumn("messages", json="sourceMessageCount", value="source_messages"),
    ListColumn("made_of", right=True, heading="Sources", spare=5,
               value=lambda item: item.sources + item.source_messages),
    ListColumn("preview", json="preview", value=lambda item: preview(item.content)),
    ListColumn("text", grows=True, heading="Text", value=lambda item: preview(beginning(item.content))),
)
WHOLE_COLUMNS: Final = (*SUMMARY_COLUMNS, ListColumn("content", json="content", value="content"))
#: What is said of a message that a leaf was made from.
SOURCE_COLUMNS: Final = tuple(
    one for one in messages.WHOLE_COLUMNS if one.json not in ("conversationId", "largeContent", "preview")
)
# fmt: on


class _Shown(Record, frozen=True):
    schema: Schema
    summary: ListedSummary
    consumers: list[ListedSummary]
    sources: list[ListedSummary]
    messages: list[MessageRow]
    gone: tuple[str, ...]  #: sources and source messages whose row is missing


@command(
    "summaries",
    forms=("csv",),
    examples=("summaries --conversation-id 1 --kind condensed", "summaries 1 --map"),
)
@options.engine_conversation
@options.page_options
@options.depth
@options.filter_option("--kind", Choice("leaf", "condensed"), "leaf|condensed", "Only this kind.")
@options.include_content
@options.time_options
@options.at
@options.as_map
def summaries(
    run: Run,
    *,
    conversation: options.EngineConversation,
    paged: options.PageOptions,
    depth: int | None,
    kind: str | None,
    include_content: bool,
    times: options.TimeOptions,
    at: str | None,
    as_map: bool,
) -> Answer:
    """List the summaries of one or all conversations, newest coverage first."""
    named = conversation.named("summaries", needed=as_map or at is not None)
    run = run_at(run, named, at)
    if as_map and named is not None:
        options.alone("--map", "--conversation-id", "--session-key", "--at")
        from lcm_tui.cli import coverage

        return coverage.draw(run, named)
    window = options.window(run, "summaries", paged, times, as_engine=True)
    schema, owner, page = run.read(_load_list, named, window, depth, kind, include_content)
    whole = [_prose(run, item) for item in page.items] if include_content else []
    columns = WHOLE_COLUMNS if include_content else SUMMARY_COLUMNS
    return run.answer(
        "summaries.list",
        {
            "conversationId": owner,
            "items": [json_of(columns, item) for item in page.items],
        },
        whole or [list_table(columns, page.items, run.time, empty="No summary matches.")],
        paging=Paging("summaries", window.limit, len(page.items), page.next),
        not_recorded=not_recorded(SUMMARY_COLUMNS, schema, "items"),
        names=json_names(columns),
    )


async def _load_list(
    reader: Reader, named: Named | None, window: Window, depth: int | None, kind: str | None, whole: bool
) -> tuple[Schema, ConversationId | None, Page[ListedSummary]]:
    owner = await owner_if_named(reader, named)
    page = await summary_page(reader, owner, window, depth=depth, kind=kind, whole=whole)
    return reader.schema, owner, page


def show_summary(run: Run, summary_id: str) -> Answer:
    """Show the one whose id begins so: its text, its sources, and the summaries that use it."""
    found = run.read(_load, summary_id)
    data: Document = {
        "summary": json_of(WHOLE_COLUMNS, found.summary),
        "parents": [json_of(WHOLE_COLUMNS, item) for item in found.consumers],
        "children": [json_of(WHOLE_COLUMNS, item) for item in found.sources],
        "sourceMessages": [json_of(SOURCE_COLUMNS, row) for row in found.messages],
    }
    if found.gone:
        data[OURS] = {"missing": list(found.gone)}
    missing = not_recorded(SUMMARY_COLUMNS, found.schema, "summary")
    return run.answer("summaries.show", data, _blocks(run, found), not_recorded=missing)


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
        rows_of(messages, await part_texts(reader, messages)),
        tuple(str(key) for key in (*source_ids, *message_ids) if key not in there),
    )


def show_previous(run: Run, summary_id: str, rules: str | None) -> Answer:
    """Show the previous context that it was made with, reconstructed, and the one for a rewrite."""
    found, texts = run.read(_load_previous, summary_id, rules)
    data: Document = {
        **some_of(found, "summary_id applies why_not"),
        "reconstructed": True,
        "asGiven": _choice_document(found.as_given),
        "otherwise": [_choice_document(choice) for choice in found.otherwise],
        "forRewrite": _choice_document(found.for_rewrite),
    }
    return run.answer("summaries.show", data, _previous_blocks(run, found, texts))


async def _load_previous(
    reader: Reader, wanted: str, rules: str | None
) -> tuple[PreviousContext, Sequence[SummaryText]]:
    from lcm_core.writers.source import previous_of

    summary_id = await summary_beginning(reader, wanted)
    found = await previous_of(reader, summary_id, engine_rules(reader.schema, rules))
    return found, await texts_of(reader, found.summary_ids)


def _choice_document(choice: PreviousChoice) -> Document:
    return {
        "assumption": choice.assumption,
        "nodes": [
            {
                **some_of(node.summary, "summary_id kind depth tokens"),
                **some_of(node, "broken first_seq last_seq origin"),
            }
            for node in choice.nodes
        ],
        **some_of(choice, "text passed_over"),
    }


def _previous_blocks(run: Run, found: PreviousContext, texts: Sequence[SummaryText]) -> list[Block]:
    from lcm_tui.tables.previous import CONSIDERED_COLUMNS, considered  # with the texts of the app

    if not found.applies:
        return [Note(found.why_not or "")]
    summaries = {text.summary.summary_id: text.summary for text in texts}
    choices = [("As given", "given", found.as_given)]
    choices += [("Or", "perhaps", choice) for choice in found.otherwise]
    choices.append(("For a rewrite", "taken", found.for_rewrite))
    blocks: list[Block] = [Note("Reconstructed: the database does not record what was given.")]
    for title, use, choice in choices:
        rows = list(considered(choice, use, summaries).values())
        blocks.append(Facts([("Based on", choice.assumption)], title=title))
        if rows:
            blocks.append(list_table(CONSIDERED_COLUMNS, rows, run.time))
        blocks.append(Prose(choice.text or "No previous context.", title=f"{title}: text"))
    return blocks


def _prose(run: Run, item: ListedSummary) -> Prose:
    record = item.summary
    kind, when = kind_words(record.kind, record.depth), run.time(item.covers_until)
    title = f"{record.summary_id}  {kind}  {record.tokens:,} tokens  until {when}"
    return Prose(item.content, title=title)


def _blocks(run: Run, found: _Shown) -> list[Block]:
    from lcm_tui.tables.summaries import summary_facts  # with the texts of the app: not for help

    record = found.summary.summary
    facts = [(name.capitalize(), value) for name, value in summary_facts(record, found.schema, run.time)]
    facts.append(("Files", _ids(_file_ids(found.summary))))
    if found.gone:
        facts.append(("Missing sources", ", ".join(found.gone)))
    blocks: list[Block] = [Facts(facts), Prose(found.summary.content, title="Text")]
    blocks.append(
        list_table(SUMMARY_COLUMNS, found.consumers, run.time, title="Consumers", empty="No summary uses it.")
    )
    if found.sources or record.kind != "leaf":
        blocks.append(list_table(SUMMARY_COLUMNS, found.sources, run.time, title="Sources"))
    if found.messages or record.kind == "leaf":
        blocks.append(list_table(MESSAGE_COLUMNS, found.messages, run.time, title="Source messages"))
    return blocks


def _ids(stored: Json) -> Cell:
    if stored is None:
        return "the list of ids is damaged"
    return ", ".join(str(item) for item in stored) if isinstance(stored, list) and stored else Mark.NOTHING
