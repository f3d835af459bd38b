"""``rewrite``: other texts for summaries, drafted from their true sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

import typer
from lcm_core.change.plan import Plan
from lcm_core.errors import UsageError
from lcm_core.operations.drafting.items import BatchItem, select_items
from lcm_core.operations.rewrite import plan_restore
from lcm_core.operations.stale import stale_in
from lcm_core.records import SummaryId
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader

from lcm_tui.cli import changing, drafting, options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.change_flags import ChangeFlags
from lcm_tui.cli.documents import Document
from lcm_tui.cli.drafting_outcome import Selection
from lcm_tui.cli.readable import Note, counted
from lcm_tui.cli.registry import command
from lcm_tui.cli.selecting import ConversationOptions, Selector, chosen, summary_beginning

Summaries: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--summary", metavar="ID", help="This one, or the beginning of its id; may be given several times."
    ),
]
All: TypeAlias = Annotated[bool, typer.Option("--all", metavar="", help="Every summary of the conversation.")]
Stale: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--stale", metavar="", help="Those made from a text that was rewritten since, and what is above."
    ),
]
Restore: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--restore",
        metavar="OPERATION",
        help="Give back the text from before a rewrite, of one summary only.",
    ),
]
Subtree: TypeAlias = Annotated[
    bool, typer.Option("--subtree", metavar="", help="With everything below, sources before consumers.")
]


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    command(app, "rewrite")(rewrite)


def rewrite(
    run: Run,
    *,
    conversation: ConversationOptions,
    summary: Summaries = None,
    depth: options.Depth = None,
    all_: All = False,
    stale: Stale = False,
    subtree: Subtree = False,
    restore: Restore = None,
    flags: drafting.DraftFlags,
) -> Answer:
    """Draft other texts for summaries from their sources; without --apply or --draft no call is made."""
    if restore is not None:
        if conversation.given or summary or depth or all_ or stale or flags.resume:
            raise UsageError(
                "--restore takes an operation and nothing else to choose by.", details={"option": "restore"}
            )
        return _restore(run, options.readable_text("--restore", restore), flags.change)
    free = flags.resume or flags.from_drafts is not None
    named = conversation.selector("rewrite", needed=not free)
    if sum([bool(summary), depth is not None, all_, stale]) != (0 if free else 1):
        raise UsageError(
            "rewrite takes none of them with --resume and --from-drafts."
            if free
            else "rewrite needs one of --summary ID, --depth N, --all and --stale.",
            details={"option": "summary"},
        )
    wanted = tuple(options.stored_text(one) for one in summary or ())
    choice = _Choice(named, wanted, options.depth_of(depth), stale, subtree)
    return drafting.run_drafts(run, "rewrite", choice.select, flags)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which summaries are to be rewritten."""

    named: Selector
    wanted: tuple[str, ...]  #: beginnings of ids; none: by depth, or all
    depth: int | None
    stale: bool
    subtree: bool

    async def select(self, reader: Reader) -> Selection:
        """The summaries, sources first, and which are stale."""
        owner = (await chosen(reader, self.named)).conversation_id
        ids = [await summary_beginning(reader, one) for one in self.wanted]
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


def _restore(run: Run, operation: str, flags: ChangeFlags) -> Answer:
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
