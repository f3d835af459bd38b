"""``rewrite``: other texts for summaries, drafted from their true sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_core.base.errors import UsageError
from lcm_core.base.records import SummaryId
from lcm_core.base.text import counted
from lcm_core.base.values import Record, replace
from lcm_core.change.plan import Plan
from lcm_core.operations.drafting import BatchItem, draft_setting, select_items
from lcm_core.operations.repair import ABOVE_STALE, STALE
from lcm_core.operations.rewrite import plan_restore
from lcm_core.operations.stale import stale_in
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.changing import run_change
from lcm_tui.cli.command import command, flag, option
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import ConversationName, Stamp, Text, When, WholeNumber, invalid
from lcm_tui.cli.options import ChangeFlags, DraftFlags
from lcm_tui.cli.repair import broken_kinds, repair_broken
from lcm_tui.cli.selecting import owner_of, summary_beginning
from lcm_tui.tables.blocks import Note

if TYPE_CHECKING:  # what drafts costs more than help may
    from lcm_tui.cli.drafting import Selection


@command(
    "rewrite",
    examples=(
        "rewrite sum_4c4b",
        "rewrite 8 --depth 0 --draft drafts.json",
        "rewrite --from-draft drafts.json --accept every --apply",
    ),
)
@options.summary_options
@options.depth
@flag(
    "--all",
    "Every summary of the conversation; with --summary, --depth or --stale: everything below these too, "
    "sources first; with --broken: every conversation.",
    into="all_",
)
@flag("--broken", "Broken summaries: what `repair` does, with these options.")
@broken_kinds
@option("--since", When(), "TIME", "With --broken: only summaries made since this time, or as late as: 7d.")
@option("--limit", WholeNumber(1), "N", "With --broken: maximum number of summaries, sources first.")
@flag(
    "--stale",
    "Summaries made from a text that was rewritten since, and everything above them; with --broken: "
    "also those made from broken ones.",
)
@option("--restore", Text(), "OPERATION", "Restore the text of one summary from before a rewrite.")
@options.draft_flags
def rewrite(
    run: Run,
    *,
    target: options.SummaryOptions,
    depth: int | None,
    all_: bool,
    broken: bool,
    kinds: tuple[str, ...] | None,
    since: Stamp | None,
    limit: int | None,
    stale: bool,
    restore: str | None,
    flags: DraftFlags,
) -> Answer:
    """Draft new texts for summaries from their sources (no call without --apply or --draft)."""
    if broken:
        for name, value in (("depth", depth), ("restore", restore)):
            if value:
                raise invalid(name, "cannot be combined with --broken")
        return repair_broken(
            *(run, target, kinds, flags), everywhere=all_, since=since, limit=limit, contaminated=stale
        )
    for name, given in (("kind", kinds), ("since", since), ("limit", limit)):
        if given is not None:
            raise UsageError(f"--{name} requires --broken.", details={"option": name})
    if restore is not None:
        if target.given or depth is not None or all_ or stale or flags.resume:
            raise UsageError(
                "--restore cannot be combined with other selections.", details={"option": "restore"}
            )
        return _restore_text(run, restore, flags.change)
    free = flags.resume or flags.from_drafts is not None
    if not free:
        target.check("rewrite")
    named = sum([bool(target.summaries), depth is not None, stale])
    if named > 1 or bool(named or all_) == free:
        raise UsageError(
            "--summary, --depth, --all and --stale cannot be used with --resume or --from-draft."
            if free
            else "rewrite needs one of --summary ID, --depth N and --stale, or --all.",
            details={"option": "summary"},
        )
    from lcm_tui.cli.drafting import run_drafts

    return run_drafts(
        run,
        "rewrite",
        _Chosen(target.named, target.summaries, depth, stale, all_ and named == 1).select,
        flags,
    )


class _Chosen(Record, frozen=True):
    """Which summaries are to be rewritten."""

    named: ConversationName | None
    wanted: tuple[str, ...]  #: beginnings of ids; none: by depth, or all
    depth: int | None
    stale: bool
    subtree: bool

    async def select(self, reader: Reader) -> Selection:
        """The summaries, sources first, and which are stale."""
        from lcm_tui.cli.drafting import Selection

        ids = [await summary_beginning(reader, one) for one in self.wanted]
        owner = await owner_of(reader, self.named, ids)
        old = await stale_in(reader, owner)
        reasons = dict.fromkeys((one.summary_id for one in old), STALE)
        if self.stale:
            ids = await _and_above(reader, list(reasons))
            reasons = dict.fromkeys(ids, ABOVE_STALE) | reasons
        items: list[BatchItem] = []
        if ids or not self.stale:
            found = await select_items(reader, owner, summary_ids=ids, depth=self.depth, subtree=self.subtree)
            items = [replace(item, reason=reasons.get(item.summary_id, "")) for item in found]
        blocks = []
        if old and not self.stale:
            number = counted(
                len(old), "summary of this conversation was", "summaries of this conversation were"
            )
            blocks.append(Note(f"{number} made from texts that were rewritten since: --stale names them."))
        data: Document = {
            "conversationId": owner,
            "stale": [some_of(one, "summary_id sources") for one in old],
        }
        return Selection(items, data, blocks)


async def _and_above(reader: Reader, stale: list[SummaryId]) -> list[SummaryId]:
    """Stale summaries with all that was made from them: that is stale once they are rewritten."""
    edges = await summary_store.edges_above(reader, stale)
    rows = await summary_store.summaries_in(reader, {*stale, *(edge.consumer for edge in edges)})
    owners = {row.conversation_id for row in rows if row.summary_id in stale}
    return [row.summary_id for row in rows if row.conversation_id in owners]


def _restore_text(run: Run, operation: str, flags: ChangeFlags) -> Answer:
    """Show what giving back the text from before a rewrite would do, or do it."""

    async def plan(reader: Reader) -> Plan:
        setting = draft_setting(reader.schema, run.settings.engine, run.zone)
        return await plan_restore(reader, operation, rendering=setting.rendering)

    return run_change(run, "rewrite", plan, flags)
