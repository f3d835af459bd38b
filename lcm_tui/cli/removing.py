"""What ``conversations archive``, ``prune`` and ``delete`` do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from lcm_core.base.values import Record, replace, to_json
from lcm_core.change.plan import Plan
from lcm_core.change.undo import Scrubbed
from lcm_core.operations.disk import freed_by
from lcm_core.operations.export import default_folder, forgetting_means
from lcm_core.operations.prune import (
    MEANINGS,
    Cleaned,
    Cleaner,
    Criteria,
    Selection,
    plan_archive,
    plan_delete,
    select,
    selection,
)
from lcm_core.store.database import Reader
from lcm_core.store.statistics import ConversationSize

from lcm_tui.cli import changing
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.options import SqlFlags
from lcm_tui.flows.change import Confirmation
from lcm_tui.flows.prune import Deleting
from lcm_tui.flows.ui import Ui
from lcm_tui.tables.blocks import (
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
from lcm_tui.tables.disk import SIZE_COLUMNS, freed_sentences

# -- which conversations ---------------------------------------------------------------------------------
# As JSON and for people.

NOTHING: Final = "No conversation matches."

#: Rows of a table for people; JSON has all.
SHOWN = 25


class CleanerCount(Record, frozen=True):
    """What a cleaner of the engine selects."""

    name: Cleaner
    conversations: int
    messages: int  #: of these conversations


# fmt: off
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
    items: list[Document] = [json_of(SIZE_COLUMNS, one) for one in found.conversations]
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
    blocks: list[OutputBlock] = [sizes_table(run, found.conversations)]
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
    agents, known = junk.cleaning.agents, run.settings.agents
    origin = known.name or "the host's configuration lists none"
    if agents != known.value:
        origin = "--agent"
    blocks.append(Note(f"Agents: {', '.join(agents)} ({origin})."))
    if junk.others:
        said = ", ".join(f"{agent} ({count:,})" for agent, count in sorted(junk.others.items()))
        blocks.append(Note(f"Not selected, because their agents are not among these: {said} (--agent NAME)."))
    return blocks


def sizes_table(run: Run, found: Sequence[ConversationSize], title: str = "") -> Table:
    """Conversations, the largest first."""

    def when(stored: str | None) -> str | None:
        return run.time(stored) or "no messages"

    table = list_table(SIZE_COLUMNS, found[:SHOWN], when, title=title, empty=NOTHING)
    if not (rest := found[SHOWN:]):
        return table
    texts = None if rest[0].bytes is None else bytes_text(sum(one.bytes or 0 for one in rest))
    messages, summaries = (sum(one.messages for one in rest), sum(one.summaries for one in rest))
    more = (None, f"and {len(rest):,} more", None, messages, summaries, texts, None)
    return replace(table, rows=[*table.rows, more])


# -- archiving, and pruning a context ----------------------------------------------------------------------


def archive(run: Run, criteria: Criteria, flags: SqlFlags) -> Answer:
    """Mark them as ended."""

    async def plan(reader: Reader) -> changing.Proposal:
        found = await selection(reader, criteria)
        made = await plan_archive(reader, [one.id for one in found.conversations])
        nothing = "They are already archived." if found.conversations else NOTHING
        blocks = _selection_blocks(run, found)
        return changing.Proposal((made,), data=_selection(found), blocks=blocks, nothing=nothing)

    return changing.run_change(run, "conversations.archive", plan, flags)


def prune(run: Run, criteria: Criteria, flags: SqlFlags) -> Answer:
    """Prune their contexts as ``/new`` does."""
    from lcm_host.appending import plan_new_session  # 15 ms that the other commands need not wait for

    depth = run.settings.engine.new_session_retain_depth.value

    async def plan(reader: Reader) -> changing.Proposal:
        found = await selection(reader, criteria)
        now = datetime.now(UTC)
        plans = [await plan_new_session(reader, one.id, depth, now=now) for one in found.conversations]
        nothing = f"No context contains messages or summaries of a depth below {depth}."
        blocks = _selection_blocks(run, found)
        return changing.Proposal(tuple(plans), data={"retainDepth": depth}, blocks=blocks, nothing=nothing)

    return changing.run_change(run, "conversations.prune", plan, flags)


# -- deleting and forgetting -------------------------------------------------------------------------------


class Removing(Deleting):
    """One run that deletes, wave by wave, or forgets."""

    def __init__(
        self,
        run: Run,
        criteria: Criteria,
        flags: SqlFlags,
        folder: Path | None = None,
        *,
        forget: bool = False,
    ) -> None:
        super().__init__(self._plan, run.settings.database.value, folder or default_folder())
        if forget:
            self.kept.turn()
        self._run, self._criteria, self._flags = run, criteria, flags
        self._chosen: Selection | None = None  #: as they were shown first
        self._last: int | None = None  #: the conversation of the latest commit since it was planned
        self._large_files = 0  #: of what goes, which stay
        self._tried = False  #: a commit was begun
        self._begun: set[int] = set()  #: some of it is deleted, so that the rest follows

    def answer(self) -> Answer:
        """Show it and, with ``--apply``, do it."""
        told = changing.run_change(self._run, "conversations.delete", self, self._flags)
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
        data: Document = {**_selection(self._chosen), "complete": deletion.complete}
        blocks = _selection_blocks(self._run, self._chosen)
        if self.conversations:
            freed = await freed_by(reader, ids, deletion.plans)
            data["freed"] = to_json(freed)
            self._large_files = self._large_files or freed.files
            exported = (f"Exported to {self.folder} first",)
            means = forgetting_means(self._path, ids) if self.forgets else exported
            blocks += (Note(f"{line}.") for line in (*means, *freed_sentences(freed)))
        if not deletion.complete:
            blocks.append(Note("The rows of the first one are shown; the others are similar."))
        return changing.Proposal(
            deletion.plans, not deletion.complete, data=data, blocks=blocks, nothing=NOTHING, brief=True
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
        if self.forgets:
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
        lines.append(("To give the space to the disk", self._run.line("disk", "--free", "pages", "--apply")))
        if self._large_files:
            strays = self._run.line("disk", "--free", "strays", "--apply")
            lines.append(("To remove their large files", strays))
        return document, [Facts(lines)]
