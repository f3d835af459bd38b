"""``rewrite``: other texts for summaries, drafted from their true sources."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.change.plan import Plan
from lcm_core.operations.drafting.items import BatchItem, select_items
from lcm_core.operations.rewrite import plan_restore
from lcm_core.operations.stale import stale_in
from lcm_core.records import SummaryId
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.wording import counted

from lcm_tui.cli import changing, drafting
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.drafting_outcome import Selection
from lcm_tui.cli.options import ChangeFlags, Selector
from lcm_tui.cli.selecting import owner_of, summary_beginning
from lcm_tui.views.blocks import Note


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which summaries are to be rewritten."""

    named: Selector
    wanted: tuple[str, ...]  #: beginnings of ids; none: by depth, or all
    depth: int | None
    stale: bool
    subtree: bool

    async def select(self, reader: Reader) -> Selection:
        """The summaries, sources first, and which are stale."""
        ids = [await summary_beginning(reader, one) for one in self.wanted]
        owner = await owner_of(reader, self.named, ids)
        old = await stale_in(reader, owner)
        if self.stale:
            ids = await _and_above(reader, [one.summary_id for one in old])
        items: list[BatchItem] = []
        if ids or not self.stale:
            items = await select_items(reader, owner, summary_ids=ids, depth=self.depth, subtree=self.subtree)
        blocks = []
        if old and not self.stale:
            number = counted(
                len(old), "summary of this conversation was", "summaries of this conversation were"
            )
            blocks.append(Note(f"{number} made from texts that were rewritten since: --stale names them."))
        data: Document = {
            "conversationId": owner,
            "stale": [{"summaryId": one.summary_id, "sources": list(one.sources)} for one in old],
        }
        return Selection(items, data, blocks)


def restore_text(run: Run, operation: str, flags: ChangeFlags) -> Answer:
    """Show what giving back the text from before a rewrite would do, or do it."""

    async def plan(reader: Reader) -> Plan:
        rendering = drafting.setting_of(run, reader.schema).rendering
        return await plan_restore(reader, operation, rendering=rendering)

    return changing.run_change(run, "rewrite", plan, flags)


async def _and_above(reader: Reader, stale: list[SummaryId]) -> list[SummaryId]:
    """Stale summaries with all that was made from them: that is stale once they are rewritten."""
    edges = await summary_store.edges_above(reader, stale)
    rows = await summary_store.summaries_in(reader, {*stale, *(edge.consumer for edge in edges)})
    owners = {row.conversation_id for row in rows if row.summary_id in stale}
    return [row.summary_id for row in rows if row.conversation_id in owners]
