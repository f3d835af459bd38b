"""``repair``: every summary that is none gets a text made from its true sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lcm_core.errors import NotFoundError
from lcm_core.operations.repair import SURE, BadKind, RepairList, conversations_of, find_repair
from lcm_core.records import SummaryId
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.wording import counted

from lcm_tui.cli.documents import Document
from lcm_tui.cli.drafting_outcome import Selection
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import chosen, summary_beginning
from lcm_tui.views.blocks import Block, Column, Note, Table
from lcm_tui.views.drafts import MOST


@dataclass(frozen=True, slots=True)
class Search:
    """Which bad summaries are looked for."""

    named: Selector
    ids: tuple[str, ...]
    kinds: frozenset[BadKind]
    since: datetime | None
    limit: int | None
    contaminated: bool

    @classmethod
    def of(
        cls,
        named: Selector,
        ids: tuple[str, ...],
        kinds: tuple[str, ...] | None,
        since: datetime | None,
        limit: int | None,
        *,
        contaminated: bool,
    ) -> Search:
        """As the options say: by default the kinds that are sure, and all for a summary by its id."""
        usual = frozenset(BadKind) if ids else SURE
        wanted = usual if kinds is None else frozenset(map(BadKind, kinds))
        return cls(named, ids, wanted, since, limit, contaminated)

    async def select(self, reader: Reader) -> Selection:
        """What there is to repair, sources first."""
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
        owner = (await chosen(reader, self.named)).conversation_id if self.named.given else None
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
                    "summaryId": bad.summary.summary_id,
                    "conversationId": one.conversation_id,
                    "kind": bad.kind.value,
                    "check": bad.kind.check,
                }
                for one in found
                for bad in one.bad
            ],
            "contaminated": [
                {
                    "summaryId": spoiled.summary.summary_id,
                    "conversationId": one.conversation_id,
                    "sources": list(spoiled.sources),
                    "direct": spoiled.direct,
                    "chosen": self.contaminated,
                }
                for one in found
                for spoiled in one.contaminated
            ],
        }


def _spoiled_blocks(found: Sequence[RepairList]) -> Iterator[Block]:
    """What was made from bad summaries and is not chosen."""
    rows = [
        (one.summary.summary_id, one.summary.depth, ", ".join(one.sources))
        for repair in found
        for one in repair.contaminated
    ]
    if rows:
        columns = (Column("Summary"), Column("Depth", right=True), Column("Made from", grows=True))
        number = counted(len(rows), "summary")
        title = f"Not included: {number} made from broken ones (include with --contaminated)"
        yield Table(columns, rows[:MOST], title=title)
        if len(rows) > MOST:
            yield Note(f"{len(rows) - MOST:,} more are not shown; --json shows them all.")
