"""``conversations``: listed, shown, exported, archived, pruned, deleted and forgotten."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lcm_core.base.errors import UsageError
from lcm_core.base.files import make_private, write_private
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.settings import Settings
from lcm_core.base.values import Record, to_json
from lcm_core.engine.rules import FreshTail
from lcm_core.store.conversations import ConversationEntry
from lcm_core.store.database import Reader
from lcm_core.store.focus import active_brief, list_briefs
from lcm_core.store.listing import Page, Window, conversation_page
from lcm_core.store.messages import context_messages
from lcm_core.store.opening import database_files
from lcm_core.store.schema import Schema
from lcm_core.store.state import (
    BOOTSTRAP,
    CURSORS,
    MAINTENANCE,
    NOT_PRINTED,
    TELEMETRY,
    StateRow,
    engine_state,
)
from lcm_core.store.statistics import (
    Statistics,
    growth_of,
)

from lcm_tui.cli import documents, options
from lcm_tui.cli.answer import OURS, Answer, Paging, Run
from lcm_tui.cli.command import argument, command, flag, gather, option
from lcm_tui.cli.documents import Document
from lcm_tui.cli.kinds import (
    Choice,
    ConversationArgument,
    ConversationName,
    FilePath,
    Size,
    Stamp,
    StoredText,
    Text,
    When,
    WholeNumber,
)
from lcm_tui.cli.options import Named
from lcm_tui.cli.selecting import as_text, chosen, numbers_of, tail_of
from lcm_tui.tables.blocks import Facts, ListColumn, json_names, json_of, list_table, not_recorded
from lcm_tui.tables.conversation_rows import CONVERSATION_COLUMNS, Row
from lcm_tui.tables.conversations import ShownConversation, conversation_blocks

if TYPE_CHECKING:
    from lcm_core.operations.prune import Criteria
    from lcm_core.store.remembered import FileMemory

#: State columns that hold 0 or 1.
_SWITCHES = frozenset({"fork_bounded", "pending", "running"})


@command("conversations list", forms=("csv",), examples=("conversations list --recency 7d",))
@options.page_options
@options.time_options
def list_(run: Run, *, paged: options.PageOptions, times: options.TimeOptions) -> Answer:
    """List all conversations, including archived ones, newest activity first.

    JSON, CSV and the engine's table list the one last updated first, as the engine's command does.
    """
    by_activity = not run.presentation.prints_data
    resource = "conversations by activity" if by_activity else "conversations"
    window = options.window(run, resource, paged, times, as_engine=True)
    schema, page = run.read_remembering(_load_list, run.settings, window, by_activity)
    return run.answer(
        "conversations.list",
        {"items": [json_of(CONVERSATION_COLUMNS, row) for row in page.items]},
        [list_table(CONVERSATION_COLUMNS, page.items, run.time, schema, empty="No conversations.")],
        paging=Paging(resource, window.limit, len(page.items), page.next),
        not_recorded=not_recorded(CONVERSATION_COLUMNS, schema, "items"),
        names=json_names(CONVERSATION_COLUMNS),
    )


async def _load_list(
    reader: Reader, memory: FileMemory, settings: Settings, window: Window, by_activity: bool
) -> tuple[Schema, Page[Row]]:
    page = await conversation_page(reader, window, by_activity=by_activity)
    ids = [record.conversation_id for record in page.items]
    raw, counted = await context_messages(reader, ids), await memory.statistics_of(reader, ids)
    rows = [
        _row(
            record,
            counted[record.conversation_id],
            tail_of(raw[record.conversation_id], reader.schema, settings, record.session_key),
        )
        for record in page.items
    ]
    return reader.schema, Page(tuple(rows), page.next)


def _row(record: Conversation, counted: Statistics, tail: FreshTail) -> Row:
    return Row(ConversationEntry(record, counted.messages.latest), counted=counted, tail=tail)


@command("conversations show", examples=("conversations show 1",))
@options.engine_conversation
def show(run: Run, *, conversation: options.EngineConversation) -> Answer:
    """Show one conversation: its counts, its context, and what the engine records about it."""
    return show_conversation(run, conversation.needed("conversations.show"))


def show_conversation(run: Run, named: Named) -> Answer:
    """Show the one that is named."""
    found = run.read_remembering(_load, run.settings, named)
    return run.answer(
        "conversations.show",
        json_of(SHOWN_COLUMNS, found),
        conversation_blocks(run.time, found),
        not_recorded=[
            *not_recorded(CONVERSATION_COLUMNS, found.schema, "conversation"),
            *not_recorded(SHOWN_COLUMNS, found.schema),
        ],
    )


async def _load(reader: Reader, memory: FileMemory, settings: Settings, named: Named) -> ShownConversation:
    record = await chosen(reader, named)
    raw = await context_messages(reader, [record.conversation_id])
    counted = await memory.statistics_of(reader, [record.conversation_id])
    active = await active_brief(reader, record.conversation_id)
    return ShownConversation(
        reader.schema,
        record,
        counted[record.conversation_id],
        tail_of(raw[record.conversation_id], reader.schema, settings, record.session_key),
        await engine_state(reader, record.conversation_id),
        len(await list_briefs(reader, record.conversation_id)),
        None if active is None else as_text(active),
        await growth_of(reader, record.conversation_id),
    )


@command(
    "conversations export",
    examples=("conversations export 1", "conversations export 1 --to talk.md"),
)
@options.needed_conversation
@option(
    "--to",
    FilePath(text=True),
    "PATH",
    "The output file or folder (default: the folder of exports in your data folder). A file that ends "
    "with .md gets only the messages, to be read.",
)
def export(run: Run, *, conversation: ConversationName, to: Path | None) -> Answer:
    """Write a conversation to a new private file, which `import` reads; nothing is deleted."""
    written = run.read(_export, conversation, run.settings.database.value, to)
    facts = Facts([("Export", str(written.path)), ("Size", f"{written.bytes:,} bytes")])
    return run.answer("conversations.export", to_json(written), [facts])


class _Written(Record, frozen=True):
    conversation_id: ConversationId
    path: Path
    bytes: int


async def _export(reader: Reader, named: Named, database: Path, to: Path | None) -> _Written:
    from lcm_core.operations.export import default_folder, export_name, export_to

    record = await chosen(reader, named)
    number, place = record.conversation_id, make_private(default_folder()) if to is None else to
    if place.is_dir():
        place /= f"{export_name(number, datetime.now(UTC))}.jsonl"
    if place.suffix != ".md":
        made = await export_to(reader, record, place, database)
        return _Written(number, made.path, made.bytes)
    from lcm_recall.read import conversation_markdown

    text = await conversation_markdown(reader, record)
    path = await asyncio.to_thread(write_private, place, text, never=database_files(database))
    return _Written(number, path, path.stat().st_size)


# -- put away --------------------------------------------------------------------------------------------

_WHICH: Final = "Which conversations (all conditions must match)"
#: The engine's own cleaners (`prune.Cleaner`), and what else may be true of a conversation.
CLEANERS: Final = ("archived_subagents", "cron_sessions", "null_subagent_context")
_ALL, _EMPTY, _NO_KEY, _ORPHANED, _ARCHIVED = "all", "empty", "no-key", "orphaned", "archived"


_condition: Final = partial(option, section=_WHICH)


class Chosen(Record, frozen=True):
    """Which conversations are meant: all conditions must match."""

    conversations: tuple[ConversationName, ...] = ()
    until: Stamp | None = None
    larger_than: int | None = None
    max_messages: int | None = None
    session_key: str | None = None
    only: tuple[str, ...] = ()
    cleaner: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()

    def criteria(self, run: Run, command: str) -> Criteria:
        """The same as it is looked for.

        Raises:
            UsageError: there is no condition, or agents are named and no cleaner.
        """
        from lcm_core.operations.prune import Cleaner, Cleaning, Criteria, TranscriptFolders

        settings = run.settings
        if self.agent and not self.cleaner:
            raise UsageError("--agent requires --cleaner.", details={"option": "agent"})
        cleaners = tuple(one for one in Cleaner if one in self.cleaner or _ALL in self.cleaner)
        folders = TranscriptFolders(settings.sessions.value, settings.state_dir.value)
        found = Criteria(
            ids=run.read(numbers_of, self.conversations),
            older_than=None if self.until is None else datetime.now(UTC) - self.until.moment(run.clock),
            larger_than=self.larger_than,
            max_messages=self.max_messages,
            empty=_EMPTY in self.only,
            session_pattern=self.session_key,
            no_key=_NO_KEY in self.only,
            orphaned=folders if _ORPHANED in self.only else None,
            archived=_ARCHIVED in self.only,
            cleaning=Cleaning(cleaners, self.agent or settings.agents.value) if cleaners else None,
        )
        if not found:
            raise UsageError(
                f"{options.spoken(command)} needs conversations, or a condition such as --until 90d.",
                code="MISSING_SELECTOR",
                details={"command": command},
            )
        return found


_chosen = gather(
    "which",
    Chosen,
    argument(
        "conversations",
        ConversationArgument(),
        "[CONVERSATION...]",
        "The conversations (id, session key or a unique part of the title); or conditions.",
        nargs=-1,
        required=False,
    ),
    _condition("--until", When(), "TIME", "The newest message is from before this time, or older: 90d."),
    _condition("--larger-than", Size(), "SIZE", "Its texts are larger than: 50MB, 800KB, 1GB."),
    _condition("--max-messages", WholeNumber(0), "N", "It has at most this many messages."),
    _condition(
        "--session-key",
        StoredText(empty=False),
        "GLOB",
        "Its session key or id is this, or matches a pattern such as 'agent:*:cron:*'.",
    ),
    _condition(
        "--only",
        Choice(_EMPTY, _NO_KEY, _ORPHANED, _ARCHIVED),
        "WHAT",
        "empty (no messages, summaries or context), no-key (no session key), orphaned (its recorded "
        "transcript no longer exists on this machine), archived; may be given several times.",
        multiple=True,
    ),
    _condition(
        "--cleaner",
        Choice(*CLEANERS, _ALL),
        "NAME",
        f"The engine's own cleaner of this name would delete it: {', '.join(CLEANERS)}, or {_ALL}; may "
        "be given several times.",
        multiple=True,
    ),
    _condition(
        "--agent",
        Text(empty=False),
        "NAME",
        "An agent whose conversations --cleaner selects (default: the agents of the host's "
        "configuration, else main); may be given several times.",
        multiple=True,
    ),
)


@command(
    "conversations archive",
    examples=("conversations archive 3", "conversations archive --until 90d --apply"),
)
@_chosen
@options.sql_flags()
def archive(run: Run, *, which: Chosen, flags: options.SqlFlags) -> Answer:
    """Mark conversations as ended, as the host does (previews unless --apply). No data is deleted."""
    from lcm_tui.cli.removing import archive

    return archive(run, which.criteria(run, "conversations.archive"), flags)


@command("conversations prune", examples=("conversations prune 3",))
@_chosen
@options.sql_flags()
def prune(run: Run, *, which: Chosen, flags: options.SqlFlags) -> Answer:
    """Prune contexts as /new does (previews unless --apply).

    Messages leave the context, and summaries below newSessionRetainDepth. All of them stay stored.
    """
    from lcm_tui.cli.removing import prune

    return prune(run, which.criteria(run, "conversations.prune"), flags)


@command(
    "conversations delete",
    examples=("conversations delete 3", "conversations delete --cleaner cron_sessions"),
)
@_chosen
@option(
    "--to",
    FilePath(),
    "PATH",
    "The folder for the exports (default: the folder of exports in your data folder).",
)
@flag("--forever", "Erase them, without an export and out of the history. This CANNOT be undone.")
@options.sql_flags()
def delete(run: Run, *, which: Chosen, to: Path | None, forever: bool, flags: options.SqlFlags) -> Answer:
    """Export conversations to files, then delete every row of them (previews unless --apply)."""
    from lcm_tui.cli.removing import Removing

    if forever and to is not None:
        raise UsageError("--forever makes no export: omit --to.", details={"option": "to"})
    criteria = which.criteria(run, "conversations.delete")
    return Removing(run, criteria, flags, to, forget=forever).answer()


# -- as JSON ---------------------------------------------------------------------------------------------


def _state_document(row: StateRow | None) -> Document | None:
    if row is None:
        return None
    theirs: Document = {}
    ours: Document = {}
    for name, value in row.items():
        written = bool(value) if name in _SWITCHES else documents.scalar(value)
        (ours if name in NOT_PRINTED else theirs)[documents.camel(name)] = written
    return {**theirs, OURS: ours} if ours else theirs


# fmt: off
#: What is said of one conversation.
SHOWN_COLUMNS: Final[tuple[ListColumn[ShownConversation, None], ...]] = (
    ListColumn("conversation", json="conversation", value=lambda one: json_of(
        CONVERSATION_COLUMNS, _row(one.conversation, one.counted, one.tail))),
    ListColumn("depths", json="summaryDepths", value=lambda one: to_json(one.counted.depths)),
    ListColumn("context", json="context", value=lambda one: to_json(one.counted.context)),
    ListColumn("telemetry", json="telemetry", stored=TELEMETRY,
               value=lambda one: _state_document(one.state.telemetry)),
    ListColumn("maintenance", json="maintenance", stored=MAINTENANCE,
               value=lambda one: _state_document(one.state.maintenance)),
    ListColumn("bootstrap", json="bootstrap", stored=BOOTSTRAP,
               value=lambda one: _state_document(one.state.bootstrap)),
    ListColumn("briefs", json="focusBriefs", stored="focus_briefs", value=lambda one: {
        "count": one.briefs, "activeBrief": one.active and documents.active_brief(one.active)}),
    ListColumn("files", json="largeFiles", value=lambda one: to_json(one.state.files)),
    ListColumn("cause", json=f"{OURS}.archiveCause", stored="conversations.archive_cause",
               value="conversation.archive_cause"),
    ListColumn("cursor", json=f"{OURS}.transcriptCursor", stored=CURSORS,
               value=lambda one: _state_document(one.state.cursor)),
)
# fmt: on
