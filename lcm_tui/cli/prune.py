"""``prune``: disk use, and conversations archived, deleted or erased."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

import click
from lcm_core.base.errors import LcmError, UsageError
from lcm_core.base.records import ConversationId
from lcm_core.base.values import Record, replace, to_json
from lcm_core.change.plan import Plan
from lcm_core.change.undo import Scrubbed
from lcm_core.change.vacuum import vacuum as give_space_back
from lcm_core.operations.disk import AgeBand, SpaceUse, freed_by, space_of
from lcm_core.operations.export import (
    default_folder,
    forgetting_means,
)
from lcm_core.operations.prune import (
    MEANINGS,
    Cleaned,
    Cleaner,
    Cleaning,
    Criteria,
    Selection,
    TranscriptFolders,
    plan_archive,
    plan_delete,
    select,
    selection,
)
from lcm_core.store.database import Reader
from lcm_core.store.statistics import ConversationSize, FileSize

from lcm_tui.cli import answer as answering
from lcm_tui.cli import changing, options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import Sectioned, command
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import Choice, Duration, FilePath, Kind, Raw, Text, WholeNumber, invalid
from lcm_tui.cli.options import CONVERSATION, ChangeFlags, SqlFlags
from lcm_tui.cli.working import interruptible
from lcm_tui.flows.change import Confirmation
from lcm_tui.flows.prune import Deleting
from lcm_tui.flows.ui import Ui
from lcm_tui.tables.blocks import (
    Cell,
    Facts,
    ListColumn,
    Note,
    OutputBlock,
    OutputColumn,
    Table,
    bytes_text,
    json_of,
    list_table,
)
from lcm_tui.tables.disk import freed_sentences

# -- disk use --------------------------------------------------------------------------------------------
# As JSON and for people.

#: Rows of a table for people; JSON has all.
SHOWN = 25


class CleanerCount(Record, frozen=True):
    """What a cleaner of the engine selects."""

    name: Cleaner
    conversations: int
    messages: int  #: of these conversations


# fmt: off
CONVERSATIONS: Final[tuple[ListColumn[ConversationSize, None], ...]] = (
    ListColumn("conversation", heading="Conversation", right=True, json="conversationId", value="id"),
    ListColumn("session", heading="Session", grows=True,
               value=lambda one: one.conversation.session_key or one.conversation.session_id),
    ListColumn("session_id", json="sessionId", value="conversation.session_id"),
    ListColumn("session_key", json="sessionKey", value="conversation.session_key"),
    ListColumn("state", heading="State", spare=1, json="active", value="conversation.active",
               text=lambda active: "active" if active else "archived"),
    ListColumn("cause", json="archiveCause", value="conversation.archive_cause"),
    ListColumn("messages", heading="Messages", right=True, json="messageCount", value="messages"),
    ListColumn("summaries", heading="Summaries", right=True, spare=2, json="summaryCount", value="summaries"),
    ListColumn("items", json="contextItems", value="context_items"),
    ListColumn("texts", heading="Texts", right=True, json="textBytes", value="bytes", text=bytes_text),
    ListColumn("last", heading="Last message", spare=3, json="latestMessageAt", value="last_activity",
               time=True),
    ListColumn("created", json="createdAt", value="conversation.created_at"),
)
AGES: Final[tuple[ListColumn[AgeBand, None], ...]] = (
    ListColumn("age", heading="Newest message", json="newestMessage", value="title"),
    ListColumn("conversations", heading="Conversations", right=True, json="conversations",
               value="conversations"),
    ListColumn("messages", heading="Messages", right=True, json="messages", value="messages"),
    ListColumn("texts", heading="Texts", right=True, json="textBytes", value="bytes", text=bytes_text),
)
CLEANERS: Final[tuple[ListColumn[CleanerCount, None], ...]] = (
    ListColumn("cleaner", heading="Cleaner", json="name", value="name"),
    ListColumn("meaning", heading="Selects", grows=True, value=lambda one: MEANINGS[one.name]),
    ListColumn("conversations", heading="Conversations", right=True, json="conversationCount",
               value="conversations"),
    ListColumn("messages", heading="Messages", right=True, json="messageCount", value="messages"),
)
# fmt: on


def _selection(found: Selection) -> Document:
    """The conversations that are meant; with what the cleaners say of them, when they were asked."""
    items: list[Document] = [json_of(CONVERSATIONS, one) for one in found.conversations]
    if (junk := found.cleaned) is None:
        return {"items": [*items]}
    for item, one in zip(items, found.conversations, strict=True):
        item |= {"cleaners": to_json(junk.chosen[one.id]), "firstMessage": junk.previews.get(one.id)}
    return {
        "items": [*items],
        "cleaners": [json_of(CLEANERS, one) for one in _by_cleaner(found.conversations, junk)],
        **some_of(junk.cleaning, "agents"),
        "otherAgents": to_json(junk.others),
    }


def _by_cleaner(found: Sequence[ConversationSize], junk: Cleaned) -> list[CleanerCount]:
    those = {
        cleaner: [one.messages for one in found if cleaner in junk.chosen[one.id]]
        for cleaner in junk.cleaning.cleaners
    }
    return [CleanerCount(cleaner, len(counts), sum(counts)) for cleaner, counts in those.items()]


def _selection_blocks(run: Run, found: Selection) -> list[OutputBlock]:
    """The conversations that are meant; behind them, what each cleaner selects and how they begin."""
    blocks: list[OutputBlock] = [_conversations_table(run, found.conversations)]
    if (junk := found.cleaned) is None:
        return blocks
    counts = _by_cleaner(found.conversations, junk)
    blocks.append(list_table(CLEANERS, counts, run.time, title="By cleaner of the engine"))
    begins = [
        (one.id, junk.previews[one.id]) for one in found.conversations[:SHOWN] if one.id in junk.previews
    ]
    if begins:
        columns = (OutputColumn("Conversation", right=True), OutputColumn("First message", grows=True))
        blocks.append(Table(columns, begins, "How they begin"))
    blocks.append(Note(_agents(run, junk)))
    if junk.others:
        said = ", ".join(f"{agent} ({count:,})" for agent, count in sorted(junk.others.items()))
        blocks.append(Note(f"Not selected, because their agents are not among these: {said} (--agent NAME)."))
    return blocks


def _agents(run: Run, junk: Cleaned) -> str:
    """Whose conversations are looked at, and who says so."""
    agents, known = junk.cleaning.agents, run.settings.agents
    if agents != known.value:
        return f"Agents: {', '.join(agents)} (--agent)."
    origin = known.name or "the host's configuration lists none"
    return f"Agents: {', '.join(agents)} ({origin})."


def _conversations_table(run: Run, found: Sequence[ConversationSize], title: str = "") -> Table:
    """Conversations, the largest first."""

    def when(stored: str | None) -> str | None:
        return run.time(stored) or "no messages"

    empty = "No conversation matches."
    table = list_table(CONVERSATIONS, found[:SHOWN], when, title=title, empty=empty)
    if not (rest := found[SHOWN:]):
        return table
    texts = bytes_text(sum(one.bytes or 0 for one in rest))
    messages, summaries = (sum(one.messages for one in rest), sum(one.summaries for one in rest))
    more = (None, f"and {len(rest):,} more", None, messages, summaries, texts, None)
    return replace(table, rows=[*table.rows, more])


def _space_answer(run: Run, space: SpaceUse) -> Answer:
    """What takes the space of the whole file."""
    file = space.file
    facts: list[tuple[str, Cell]] = [
        ("File", bytes_text(file.bytes)),
        ("Free inside it", bytes_text(file.free)),
        ("Write-ahead log", bytes_text(space.wal_bytes)),
    ]
    title = "Conversations, by the bytes of their texts"
    blocks = (
        Facts(facts),
        _tables(file),
        _conversations_table(run, space.conversations, title),
        list_table(AGES, space.ages, run.time, title="By age"),
        Note("Select conversations with --older-than 90d, --larger-than 50MB, --empty and others."),
    )
    data = {
        "file": {**some_of(file, "bytes free"), **some_of(space, "wal_bytes")},
        "tables": to_json(file.tables),
        "items": [json_of(CONVERSATIONS, one) for one in space.conversations],
        "ages": [json_of(AGES, one) for one in space.ages],
    }
    return run.answer("prune", data, blocks)


def _tables(file: FileSize) -> OutputBlock:
    if file.tables is None:
        return Note("This SQLite cannot measure tables (no dbstat).")
    columns = (
        OutputColumn("Table"),
        OutputColumn("Size", right=True),
        OutputColumn("Of that, indexes", right=True),
        OutputColumn("Share", right=True),
    )
    whole = max(file.bytes, 1)
    rows = [
        (one.name, bytes_text(one.bytes), bytes_text(one.indexes), f"{100 * one.bytes / whole:.0f} %")
        for one in file.tables
    ]
    return Table(columns, rows, "Tables, with indexes and search data")


# -- the command -----------------------------------------------------------------------------------------


class Action(StrEnum):
    """What is done with the conversations that are meant."""

    ARCHIVE = "archive"
    DELETE = "delete"
    FORGET = "forget"
    NEW_SESSION = "new-session"


_SELECT = "Which conversations (all conditions must match)"
_DO = "Action"
_ALL = "all"


#: Bytes of a unit, powers of 1000 as sizes are shown.
_BYTES = {"": 1, "B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000, "TB": 1_000_000_000_000}


class Size(Kind[int]):
    """A size such as ``50MB``, ``800KB`` or ``1.5GB``."""

    def read(self, name: str, value: str) -> int:
        """The bytes."""
        match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([KMGT]?B?)", value.upper())
        unit = None if match is None else match[2] if match[2] in _BYTES else f"{match[2]}B"
        if match is None or unit not in _BYTES:
            raise invalid(name, "must be a size such as 50MB, 800KB or 1.5GB", value)
        return int(float(match[1]) * _BYTES[unit])


@command(
    "prune",
    examples=(
        "prune",
        "prune --older-than 90d --archive",
        "prune --cleaner cron_sessions",
        "prune 3 --delete --apply",
    ),
)
@click.argument(
    "conversations",
    type=CONVERSATION,
    nargs=-1,
    required=False,
    metavar="[CONVERSATION_ID...]",
    help="Conversation ids.",
)
@click.option(
    "--older-than",
    cls=Sectioned,
    section=_SELECT,
    type=Duration(),
    metavar="DURATION",
    help="The newest message is older than this: 90d, 12w, 6mo (months of 30 days), 1y.",
)
@click.option(
    "--larger-than",
    cls=Sectioned,
    section=_SELECT,
    type=Size(),
    metavar="SIZE",
    help="Its texts are larger than: 50MB, 800KB, 1GB.",
)
@click.option(
    "--max-messages",
    cls=Sectioned,
    section=_SELECT,
    type=WholeNumber(0),
    metavar="N",
    help="It has at most this many messages.",
)
@click.option(
    "--empty",
    cls=Sectioned,
    section=_SELECT,
    is_flag=True,
    help="It has no messages, no summaries and no context.",
)
@click.option(
    "--session-pattern",
    cls=Sectioned,
    section=_SELECT,
    type=Raw(),
    metavar="GLOB",
    help="Its session key or id matches a pattern such as 'agent:*:cron:*'.",
)
@click.option("--no-session-key", cls=Sectioned, section=_SELECT, is_flag=True, help="It has no session key.")
@click.option(
    "--orphaned",
    cls=Sectioned,
    section=_SELECT,
    is_flag=True,
    help="Its recorded transcript no longer exists on this machine.",
)
@click.option("--archived", cls=Sectioned, section=_SELECT, is_flag=True, help="It is already archived.")
@click.option(
    "--cleaner",
    "cleaners",
    cls=Sectioned,
    section=_SELECT,
    type=Choice(*Cleaner, _ALL),
    metavar="NAME",
    multiple=True,
    help=f"The engine's own cleaner of this name would delete it: {', '.join(Cleaner)}, or {_ALL}; may be "
    "given several times.",
)
@click.option(
    "--agent",
    "agents",
    cls=Sectioned,
    section=_SELECT,
    type=Text(empty=False),
    metavar="NAME",
    multiple=True,
    help="An agent whose conversations --cleaner selects (default: the agents of the host's configuration, "
    "else main); may be given several times.",
)
@click.option(
    "--archive",
    cls=Sectioned,
    section=_DO,
    is_flag=True,
    help="Mark it as ended, as the host does; no data is deleted.",
)
@click.option(
    "--delete",
    cls=Sectioned,
    section=_DO,
    is_flag=True,
    help="Export it to a file, then delete every row (can be undone).",
)
@click.option(
    "--forget",
    cls=Sectioned,
    section=_DO,
    is_flag=True,
    help="Erase it permanently, without an export or history. CANNOT be undone.",
)
@click.option(
    "--new-session",
    cls=Sectioned,
    section=_DO,
    is_flag=True,
    help="Prune its context as /new does: remove messages, and summaries below newSessionRetainDepth.",
)
@click.option(
    "--export-to",
    cls=Sectioned,
    section=_DO,
    type=FilePath(),
    metavar="DIR",
    help="The folder for the exports of --delete (default: the data folder of lcm-tui).",
)
@click.option(
    "--vacuum",
    cls=Sectioned,
    section=_DO,
    is_flag=True,
    help="Rewrite the file after --delete (VACUUM), so that it gets smaller.",
)
@options.sql_flags()
def prune(
    run: Run,
    *,
    conversations: tuple[ConversationId, ...],
    older_than: timedelta | None,
    larger_than: int | None,
    max_messages: int | None,
    empty: bool,
    session_pattern: str | None,
    no_session_key: bool,
    orphaned: bool,
    archived: bool,
    cleaners: tuple[str, ...],
    agents: tuple[str, ...],
    archive: bool,
    delete: bool,
    forget: bool,
    new_session: bool,
    export_to: Path | None,
    vacuum: bool,
    flags: SqlFlags,
) -> Answer:
    """Show disk use; archive, delete or erase conversations (previews unless --apply)."""
    settings = run.settings
    if agents and not cleaners:
        raise UsageError("--agent requires --cleaner.", details={"option": "agent"})
    cleaning = Cleaning(
        tuple(one for one in Cleaner if one in cleaners or _ALL in cleaners), agents or settings.agents.value
    )
    criteria = Criteria(
        ids=tuple(map(ConversationId, conversations)),
        older_than=older_than,
        larger_than=larger_than,
        max_messages=max_messages,
        empty=empty,
        session_pattern=session_pattern,
        no_key=no_session_key,
        orphaned=TranscriptFolders(settings.sessions.value, settings.state_dir.value) if orphaned else None,
        archived=archived,
        cleaning=cleaning if cleaners else None,
    )
    named = (("archive", archive), ("delete", delete), ("forget", forget), ("new-session", new_session))
    given = [action for action, wanted in named if wanted]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} exclude each other.", details={"option": given[1]})
    if not given and flags.apply:
        raise UsageError(
            "prune --apply requires an action: --archive, --delete, --forget or --new-session.",
            details={"option": "apply"},
        )
    if given and not criteria:
        raise UsageError(
            f"prune --{given[0]} needs conversations, or a condition such as --older-than 90d.",
            details={"option": given[0]},
        )
    for option, value in (("export-to", export_to), ("vacuum", vacuum or None)):
        if value is not None and not delete:
            raise UsageError(f"--{option} requires --delete.", details={"option": option})
    if not given:
        return _listed(run, criteria)
    action = Action(given[0])
    if action is Action.ARCHIVE:
        return _archive(run, criteria, flags)
    if action is Action.NEW_SESSION:
        return _new_session(run, criteria, flags)
    folder = default_folder() if export_to is None else export_to
    return _Pruning(run, criteria, flags, action, folder, vacuum).answer()


# -- listing -----------------------------------------------------------------------------------------------


def _listed(run: Run, criteria: Criteria) -> Answer:
    """Everything, or the conversations that are meant."""
    if not criteria:
        path = run.settings.database.value
        return _space_answer(run, run.read(space_of, path))
    found = run.read(selection, criteria)
    blocks = _selection_blocks(run, found)
    if found.conversations:
        blocks.append(Note("Add --archive, --delete or --forget to preview the result."))
    return run.answer("prune", _selection(found), blocks)


def _archive(run: Run, criteria: Criteria, flags: ChangeFlags) -> Answer:
    async def plan(reader: Reader) -> changing.Proposal:
        found = await selection(reader, criteria)
        made = await plan_archive(reader, [one.id for one in found.conversations])
        data: Document = {"action": Action.ARCHIVE.value, **_selection(found)}
        nothing = "They are already archived." if found.conversations else "No conversation matches."
        blocks = _selection_blocks(run, found)
        return changing.Proposal((made,), data=data, blocks=blocks, nothing=nothing)

    return changing.run_change(run, "prune", plan, flags)


def _new_session(run: Run, criteria: Criteria, flags: ChangeFlags) -> Answer:
    from lcm_host.appending import plan_new_session  # 15 ms that the other actions need not wait for

    depth = run.settings.engine.new_session_retain_depth.value

    async def plan(reader: Reader) -> changing.Proposal:
        found = await selection(reader, criteria)
        now = datetime.now(UTC)
        plans = [await plan_new_session(reader, one.id, depth, now=now) for one in found.conversations]
        blocks = _selection_blocks(run, found)
        data: Document = {"action": Action.NEW_SESSION.value, "retainDepth": depth}
        nothing = f"No context contains messages or summaries of a depth below {depth}."
        return changing.Proposal(tuple(plans), data=data, blocks=blocks, nothing=nothing)

    return changing.run_change(run, "prune", plan, flags)


# -- deleting and forgetting -------------------------------------------------------------------------------


class _Pruning(Deleting):
    """One run that deletes, wave by wave."""

    def __init__(
        self, run: Run, criteria: Criteria, flags: ChangeFlags, action: Action, folder: Path, vacuum: bool
    ) -> None:
        super().__init__(self._plan, run.settings.database.value, folder)
        if action is Action.FORGET:
            self.kept.turn()
        self._run, self._criteria, self._flags, self._action = run, criteria, flags, action
        self._vacuum = vacuum
        self._chosen: Selection | None = None  #: as they were shown first
        self._last: int | None = None  #: the conversation of the latest commit since it was planned
        self._tried = False  #: a commit was begun
        self._begun: set[int] = set()  #: some of it is deleted, so that the rest follows

    def answer(self) -> Answer:
        """Show it and, with ``--apply``, do it."""
        told = changing.run_change(self._run, "prune", self, self._flags)
        if not self._tried:
            return told
        data, blocks = self._afterwards()
        return replace(told, data={**told.data, **data}, blocks=[*told.blocks, *blocks])

    async def _plan(self, reader: Reader) -> changing.Proposal:
        """The next plans; what was not begun must still be meant."""
        self._last = None
        if self._chosen is None:
            self._chosen = await selection(reader, self._criteria)
            ids = [one.id for one in self._chosen.conversations]
            self.conversations = tuple(ids)
        else:
            again = replace(self._criteria, ids=(), larger_than=None)
            meant = {one.id for one in await select(reader, again, sizes=False)} | self._begun
            ids = [one for one in self.conversations if one in meant]
        if self._flags.sql and not self._flags.apply:  # a script is whole
            deletion = await plan_delete(reader, ids, forget=self.forgets, rows=sys.maxsize)
        else:
            deletion = await plan_delete(reader, ids, forget=self.forgets)
        data: Document = {
            "action": self._action.value,
            **_selection(self._chosen),
            "complete": deletion.complete,
        }
        blocks = _selection_blocks(self._run, self._chosen)
        if self.forgets and self.conversations:
            blocks += (Note(f"{line}.") for line in forgetting_means(self._path, ids))
        elif self.conversations:
            blocks.append(Note(f"Each is exported to {self.folder} before it is deleted."))
            blocks += (Note(f"{line}.") for line in freed_sentences(await freed_by(reader, ids)))
        if not deletion.complete:
            blocks.append(Note("The rows of the first one are shown; the others are similar."))
        nothing = "No conversation matches."
        return changing.Proposal(
            deletion.plans,
            more=not deletion.complete,
            data=data,
            blocks=blocks,
            nothing=nothing,
            brief=True,
        )

    def confirmation(self) -> Confirmation | None:
        """The number, in a question of a terminal."""
        wanted, ids = super().confirmation(), self.conversations
        if wanted is None:
            return None
        what = "the number of the conversation" if len(ids) == 1 else "how many conversations"
        how = "it permanently" if len(ids) == 1 else "permanently"
        return Confirmation(wanted.text, f"Type {what} to erase {how} ({wanted.text}):")

    async def before(self, ui: Ui, plan: Plan) -> None:
        """Export what goes, or take it out of the history."""
        await super().before(ui, plan)
        if self._last is not None:  # one plan follows on another only when that was committed
            self._begun.add(self._last)
        self._last, self._tried = plan.conversation_id, True

    def _afterwards(self) -> tuple[Document, list[OutputBlock]]:
        """What is to be done when the rows are gone, and what to say of it."""
        if self._action is Action.FORGET:
            done = self.scrubbed or Scrubbed((), False, False, ())
            facts = [
                ("Operations removed from the history", str(self.traces.operations)),
                ("Drafts files removed or emptied", str(len(self.traces.drafts))),
                ("Full-text tables merged", ", ".join(done.merged) or "none"),
                ("File rewritten (VACUUM)", "yes" if done.rewritten else "no"),
                ("Write-ahead log emptied", "yes" if done.truncated else "no"),
            ]
            document = {**to_json(self.traces), **to_json(done)}
            return document, [Facts(facts), *(Note(f"{problem}.") for problem in done.problems)]
        document = {"exports": [some_of(one, "conversation_id path bytes rows") for one in self.exports]}
        lines = [(f"Conversation {one.conversation_id} is in", str(one.path)) for one in self.exports]
        blocks: list[OutputBlock] = [Facts(lines)]
        if self._vacuum:
            try:
                with interruptible() as stopped:
                    before, after = give_space_back(self._path, wait=answering.BUSY_SECONDS, stopped=stopped)
                document |= {"bytesBefore": before, "bytesAfter": after}
                blocks.append(Facts([("The file", f"{bytes_text(before)}, now {bytes_text(after)}")]))
            except LcmError as error:
                document |= {"problems": [error.message]}
                blocks.append(Note(f"The file was not rewritten: {error.message}"))
        else:
            blocks.append(Note("The space is free inside the file; lcm-tui vacuum gives it to the disk."))
        return document, blocks
