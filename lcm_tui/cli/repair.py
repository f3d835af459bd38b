"""``repair``: every summary that is none gets a text made from its true sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypeAlias

import typer
from lcm_core.errors import NotFoundError, UsageError
from lcm_core.operations.repair import SURE, BadKind, RepairList, conversations_of, find_repair
from lcm_core.records import SummaryId
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader

from lcm_tui.cli import drafting, options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.drafting_outcome import Selection
from lcm_tui.cli.drafting_report import MOST
from lcm_tui.cli.readable import Block, Column, Note, Table, counted
from lcm_tui.cli.registry import command
from lcm_tui.cli.selecting import ConversationOptions, Selector, chosen, summary_beginning

All: TypeAlias = Annotated[bool, typer.Option("--all", metavar="", help="In every conversation.")]
Named: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--summary-id",
        metavar="ID",
        help="Only this one, or the beginning of its id; may be given several times.",
    ),
]
Kinds: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--kinds",
        metavar="KIND,...",
        help=f"Of {', '.join(BadKind)}; by default all but the last four, which are only suspected.",
    ),
]
Since: TypeAlias = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only those made from this time on.")
]
Limit: TypeAlias = Annotated[
    str | None, typer.Option("--limit", metavar="N", help="No more than that, sources first.")
]
Contaminated: TypeAlias = Annotated[
    bool,
    typer.Option("--contaminated", metavar="", help="Also what was made from them and has no mark of it."),
]


def _kinds(given: str | None, named: bool) -> frozenset[BadKind]:
    """The kinds that are asked for: the sure ones unless they are named; all for a summary by its id."""
    if given is None:
        return frozenset(BadKind) if named else SURE
    try:
        return frozenset(BadKind(one.strip().lower()) for one in given.split(","))
    except ValueError:
        raise options.invalid("kinds", f"must be of {', '.join(BadKind)}", given) from None


@dataclass(frozen=True, slots=True)
class _Search:
    """Which bad summaries are looked for."""

    named: Selector
    ids: tuple[str, ...]
    kinds: frozenset[BadKind]
    since: datetime | None
    limit: int | None
    contaminated: bool

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
            "No summary is broken: there is nothing to repair.",
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
        number = counted(len(rows), "summary", "summaries")
        title = f"Not chosen: {number} made from broken ones, without a mark of it (--contaminated)"
        yield Table(columns, rows[:MOST], title=title)
        if len(rows) > MOST:
            yield Note(f"{len(rows) - MOST:,} more are not shown; --json shows them all.")


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    command(app, "repair")(repair)


def repair(
    run: Run,
    *,
    conversation: ConversationOptions,
    all_: All = False,
    summary_id: Named = None,
    kinds: Kinds = None,
    since: Since = None,
    limit: Limit = None,
    contaminated: Contaminated = False,
    flags: drafting.DraftFlags,
) -> Answer:
    """Draft texts for broken summaries from their sources; without --apply or --draft no call is made."""
    free = flags.resume or flags.from_drafts is not None or bool(summary_id)
    named = conversation.selector("repair", needed=not (free or all_))
    if all_ and (named.given or summary_id):
        raise UsageError("--all takes neither a conversation nor --summary-id.", details={"option": "all"})
    search = _Search(
        named,
        tuple(options.stored_text(one) for one in summary_id or ()),
        _kinds(kinds, bool(summary_id)),
        None if since is None else options.moment_of("since", since),
        None if limit is None else options.whole_number("limit", limit, 1),
        contaminated,
    )
    return drafting.run_drafts(run, "repair", search.select, flags)
