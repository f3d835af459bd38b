"""``repair``: every summary that is none gets a text made from its true sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lcm_core.base.errors import NotFoundError, UsageError
from lcm_core.base.records import SummaryId
from lcm_core.base.text import counted
from lcm_core.base.values import Record
from lcm_core.engine.markers import BadKind
from lcm_core.operations.repair import SURE, ContaminatedSummary, RepairList, conversations_of, find_repair
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import command, flag, option
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import ConversationName, Stamp, Words
from lcm_tui.cli.options import DraftFlags
from lcm_tui.cli.selecting import owner_if_named, summary_beginning
from lcm_tui.tables.blocks import ListColumn, Note, OutputBlock, json_of, list_table

if TYPE_CHECKING:  # what drafts costs more than help may
    from lcm_tui.cli.drafting import Selection


broken_kinds = option(
    "--kind",
    Words(*BadKind),
    "KIND,...",
    f"Of {', '.join(BadKind)}; by default all except the last four, which are only suspected.",
    into="kinds",
)


@command(
    "repair",
    examples=("repair", "repair --all --kind fallback,truncated", "repair 3 --apply --accept every"),
)
@options.summary_options
@flag("--all", "Check every conversation.", into="all_")
@broken_kinds
@options.usual_draft_flags
def repair(
    run: Run,
    *,
    target: options.SummaryOptions,
    all_: bool,
    kinds: tuple[str, ...] | None,
    flags: DraftFlags,
) -> Answer:
    """Draft new texts for broken summaries from their sources (no call without --apply or --draft).

    Without a conversation or a summary, it shows what is broken in the whole database. `rewrite --broken` is
    the same with more options.
    """
    return repair_broken(run, target, kinds, flags, everywhere=all_)


def repair_broken(
    run: Run,
    target: options.SummaryOptions,
    kinds: tuple[str, ...] | None,
    flags: DraftFlags,
    *,
    everywhere: bool,
    since: Stamp | None = None,
    limit: int | None = None,
    contaminated: bool = False,
) -> Answer:
    """What ``repair`` does; *contaminated*: also with what was made from broken summaries."""
    free = flags.resume or flags.from_drafts is not None
    if (flags.change.apply or flags.draft is not None) and not (free or everywhere):
        target.check("repair", "; --all takes every one")
    if everywhere and target.given:
        raise UsageError("--all cannot be used with a conversation or --summary.", details={"option": "all"})
    from lcm_tui.cli.drafting import run_drafts

    usual = frozenset(BadKind) if target.summaries else SURE
    wanted = usual if kinds is None else frozenset(map(BadKind, kinds))
    made = None if since is None else since.moment(run.clock)
    search = _Search(target.named, target.summaries, wanted, made, limit, contaminated)
    return run_drafts(run, "repair", search.select, flags)


class _Search(Record, frozen=True):
    """Which bad summaries are looked for."""

    named: ConversationName | None
    ids: tuple[str, ...]
    kinds: frozenset[BadKind]  #: by default those that are sure, and all for a summary by its id
    since: datetime | None
    limit: int | None
    contaminated: bool

    async def select(self, reader: Reader) -> Selection:
        """What there is to repair, sources first."""
        from lcm_tui.cli.drafting import Selection

        found = await self._found(reader)
        items = [item for one in found for item in (one.all_items if self.contaminated else one.items)]
        if self.limit is not None:
            items = items[: self.limit]
        return Selection(
            items,
            self._document(found),
            [] if self.contaminated else list(_spoiled_blocks(found)),
            "No broken summaries: nothing to repair.",
        )

    async def _found(self, reader: Reader) -> list[RepairList]:
        ids = [await summary_beginning(reader, one) for one in self.ids]
        owner = await owner_if_named(reader, self.named)
        owners = await conversations_of(reader, owner)
        by_owner: dict[int, list[SummaryId]] = {}
        if ids:
            for row in await summary_store.summaries_in(reader, ids):
                by_owner.setdefault(row.conversation_id, []).append(row.summary_id)
            if owner is not None and by_owner.keys() - {owner}:
                raise NotFoundError(
                    f"Conversation {owner} has no such summary: {', '.join(ids)}.", code="SUMMARY_NOT_FOUND"
                )
            owners = [one for one in owners if one in by_owner]
        return [
            await find_repair(
                reader, one, kinds=self.kinds, summary_ids=by_owner.get(one, ()), since=self.since
            )
            for one in owners
        ]

    def _document(self, found: Sequence[RepairList]) -> Document:
        kinds = Counter(bad.kind for one in found for bad in one.bad)
        return {
            "kinds": {str(kind): kinds[kind] for kind in BadKind if kinds[kind]},
            "bad": [
                {
                    **some_of(bad.summary, "summary_id conversation_id"),
                    "kind": bad.kind.value,
                    "check": bad.kind.check,
                }
                for one in found
                for bad in one.bad
            ],
            "contaminated": [
                {
                    **json_of(_SPOILED_COLUMNS, spoiled),
                    "conversationId": one.conversation_id,
                    "chosen": self.contaminated,
                }
                for one in found
                for spoiled in one.contaminated
            ],
        }


#: What is said of a summary that was made from broken ones.
_SPOILED_COLUMNS: Final[tuple[ListColumn[ContaminatedSummary, None], ...]] = (
    ListColumn("summary", heading="Summary", json="summaryId", value="summary.summary_id"),
    ListColumn("depth", right=True, heading="Depth", value="summary.depth"),
    ListColumn("from", grows=True, heading="Made from", value=lambda one: ", ".join(one.sources)),
    ListColumn("sources", json="sources", value=lambda one: list(one.sources)),
    ListColumn("direct", json="direct", value="direct"),
)


def _spoiled_blocks(found: Sequence[RepairList]) -> Iterator[OutputBlock]:
    """What was made from bad summaries and is not chosen."""
    from lcm_tui.tables.drafts import MOST

    rows = [one for repair in found for one in repair.contaminated]
    if rows:
        number = counted(len(rows), "summary")
        title = f"Not included: {number} made from broken ones (include with `rewrite --broken --stale`)"
        yield list_table(_SPOILED_COLUMNS, rows[:MOST], title=title)
        if len(rows) > MOST:
            yield Note(f"{len(rows) - MOST:,} more are not shown; --json shows them all.")
