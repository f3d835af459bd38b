"""Fixes without a model: one plan for a set of findings, whatever they have in common.

What a conversation is after all its fixes is worked out once, from the present rows and not from the
findings, which name only some of them: links and edges first, then token counts, what follows from these
upward, lists of files, and the context last. The edits are the difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from lcm_core.base.findings import Finding, FixId, Proof
from lcm_core.base.records import SummaryId
from lcm_core.base.text import counted, phrase
from lcm_core.base.times import sql_utc
from lcm_core.base.values import Record, Struct, field, replace
from lcm_core.change.place import Listing, Place, carry_out, carry_out_moves, moves_from_zero
from lcm_core.change.plan import (
    Cells,
    Edit,
    Move,
    Plan,
    RowChange,
    Splice,
    fault_key,
    renumbering,
    row_counts,
)
from lcm_core.checks.check import Limits
from lcm_core.checks.messages import load_messages
from lcm_core.checks.repetitions import Repetition
from lcm_core.checks.structure import Structure, load_structure
from lcm_core.operations.fix import (
    CONTEXT_FIXES,
    NOTHING,
    Chosen,
    Entry,
    Keep,
    NewContext,
    Requests,
    derived,
    filled_tool_columns,
    in_order,
    items_of,
    line_edits,
    new_context,
    numbered,
    recounted,
    relinked,
    relisted,
    requests_of,
    summary_updates,
    without_false_lines,
    without_loose_ends,
)
from lcm_core.operations.rows import context_item, delete, listing_of, updates
from lcm_core.store import ownership as loose_ends
from lcm_core.store.context import context_rows
from lcm_core.store.database import Reader
from lcm_core.store.opening import SqlValue

# -- edits of a context ----------------------------------------------------------------------------------
# The edits that turn the present list of context items into the new one. Pure.
#
# First the renumbering, if one is needed, so that everything after it counts on a list without holes; then
# one splice for each run that differs. Each is planned on the list as those before it leave it.

#: So many splices at most: each looks through the whole list, and runs that lie close become one.
MOST_SPLICES = 64


class _Hunk(Record, frozen=True):
    """Neighbouring items that give way to others; places in the old and in the new list."""

    old: range
    new: range


def edits_of_list(
    conversation_id: int, rows: Sequence[Cells], entries: Sequence[Entry], *, renumbered: bool, stamp: str
) -> list[Splice]:
    """What makes the list *entries* of the whole *rows*, which are in order of their ordinals."""
    listing, edits = _spliced(conversation_id, rows, entries, stamp, ())
    if not renumbered or listing.ordinals == list(range(len(listing))):
        return edits  # what came took the only gaps
    whole = listing_of(rows)
    moves = tuple(moves_from_zero(whole))
    return _spliced(conversation_id, rows, entries, stamp, moves)[1]


def _spliced(
    conversation_id: int, rows: Sequence[Cells], entries: Sequence[Entry], stamp: str, moves: tuple[Move, ...]
) -> tuple[Listing, list[Splice]]:
    """The list after some ordinals moved and everything that differs gave way, and the edits for it."""
    listing = listing_of(rows)
    edits: list[Splice] = []
    if moves:
        done = carry_out_moves(listing, renumbering(conversation_id, moves))
        if isinstance(done, str):
            raise ValueError(done)
        edits.append(done.splice)
    current = [row.but(ordinal=ordinal) for row, ordinal in zip(rows, listing.ordinals, strict=True)]
    for run in _joined(list(_runs(len(rows), entries))):
        # Runs go from the first on, so that before one the list is the new one already.
        removed = current[run.old.start : run.old.stop]
        inserted = [_row(conversation_id, entries[at], current, stamp) for at in run.new]
        edits.append(_splice(listing, conversation_id, run, removed, inserted))
    return listing, edits


def _row(conversation_id: int, entry: Entry, rows: Sequence[Cells], stamp: str) -> Cells:
    if entry.at is not None:
        return rows[entry.at]
    return context_item(conversation_id, entry.ref, stamp)


def _runs(count: int, entries: Sequence[Entry]) -> Iterator[_Hunk]:
    """Where the two lists differ between the items that stay in their order."""
    staying = in_order([entry.at for entry in entries])
    old = new = 0
    for at in [*staying, len(entries)]:
        end = count if at == len(entries) else entries[at].at
        if end is not None and (old < end or new < at):
            yield _Hunk(range(old, end), range(new, at))
        old, new = (count if end is None else end) + 1, at + 1


def _joined(runs: list[_Hunk]) -> list[_Hunk]:
    """The same with runs that lie close made into one, so that there are few enough."""
    if len(runs) <= MOST_SPLICES:
        return runs
    gaps = [after.old.start - before.old.stop for before, after in pairwise(runs)]
    apart = set(sorted(range(len(gaps)), key=gaps.__getitem__)[-(MOST_SPLICES - 1) :])
    found = [runs[0]]
    for at, run in enumerate(runs[1:]):
        last = found[-1]
        if at in apart:
            found.append(run)
        else:
            found[-1] = _Hunk(range(last.old.start, run.old.stop), range(last.new.start, run.new.stop))
    return found


def _splice(
    listing: Listing, conversation_id: int, run: _Hunk, removed: Sequence[Cells], inserted: Sequence[Cells]
) -> Splice:
    start, behind_at = run.new.start, run.new.start + len(removed)
    ordinals = listing.ordinals
    ahead = ordinals[start - 1] if start else None
    behind = ordinals[behind_at] if behind_at < len(ordinals) else None
    if removed:
        first, shift = ordinals[start], len(inserted) - len(removed)
    elif ahead is None:
        first, shift = (0, 0) if behind is None else (min(behind, 0), 0)
    else:
        first, shift = ahead + 1, 0
    end = first + len(inserted)
    if not removed and behind is not None:
        shift = max(0, end - behind)  # what comes takes the gap that it left
    rows = [row.but(ordinal=listing.ordinals[start + at]) for at, row in enumerate(removed)]
    return carry_out(
        listing, conversation_id, Place(start, tuple(range(first, end)), shift), rows, inserted
    ).splice


# -- the plan --------------------------------------------------------------------------------------------


class Fixes(Record, frozen=True):
    """What fixes some findings."""

    plan: Plan  #: without edits when no row has to change
    #: search tables to rebuild after it (`lcm_core.change.reindex`): no part of a plan
    search: tuple[str, ...]
    left: tuple[str, ...]  #: what it leaves as it is, in sentences

    def __bool__(self) -> bool:
        return bool(self.plan) or bool(self.search)


async def plan_fixes(
    reader: Reader,
    findings: Iterable[Finding],
    *,
    keep: Keep = Keep.SUMMARIES,
    limits: Limits | None = None,
    now: datetime | None = None,
) -> Fixes:
    """One plan that makes all fixes which *findings* carry; findings without one are left alone.

    It is made from what is in the database now: a finding that is gone changes nothing. Where a summary
    and what it covers are side by side, *keep* says what stays; the sources only when all of them are
    there. *limits* as the checks had them.
    """
    requests = requests_of(findings)
    at = now or datetime.now(UTC)
    done = _Done()
    everywhere = {
        fix: chosen for fix, chosen in requests.by_conversation.get(None, {}).items() if fix in _LOOSE_ENDS
    }
    asked = {owner for owner in requests.by_conversation if isinstance(owner, int)}
    if everywhere:
        asked.update(await loose_ends.conversations_with_loose_ends(reader))
    for owner in sorted(asked):
        fixes = {**everywhere, **requests.by_conversation.get(owner, {})}
        structure = await load_structure(reader, owner)
        if structure is not None:
            if FixId.DROP_DANGLING_ITEMS not in fixes:
                done.still_named.update(structure.remains)
            await _Fixing(reader, structure, fixes, limits or Limits(at), keep, sql_utc(at), done).plan()
    await _rows_of_nobody(reader, requests, done)
    if requests.splits:
        owners = ", ".join(map(str, requests.splits))
        done.left.append(f"the split session of conversation {owners} is merged by another operation (merge)")
    plan = Plan(
        kind="fix",
        title=_title(done),
        conversation_id=next(iter(done.owners)) if len(done.owners) == 1 else None,
        edits=tuple(done.edits),
        warnings=tuple(done.left),
        allows=frozenset(done.allows),
    )
    return Fixes(plan, requests.search, tuple(done.left))


#: What is also found in rows that belong to no conversation, looking at the whole file.
_LOOSE_ENDS: Final = frozenset({FixId.DROP_DANGLING_ITEMS, FixId.DELETE_ORPHAN_LINKS})


class _Done(Struct):
    """What the plan holds so far."""

    edits: list[Edit] = field(default_factory=list)
    allows: set[str] = field(default_factory=set)
    left: list[str] = field(default_factory=list)
    owners: set[int] = field(default_factory=set)
    counts: dict[tuple[str, str, str], int] = field(default_factory=dict)  #: by verb, noun and the rest
    #: summaries that are gone and are in a context all the same: their lines are what is left of them
    still_named: set[SummaryId] = field(default_factory=set)

    def count(self, verb: str, noun: str, number: int, rest: str = "") -> None:
        """Note how much of something was done."""
        if number:
            self.counts[verb, noun, rest] = self.counts.get((verb, noun, rest), 0) + number

    @property
    def words(self) -> str:
        """What was done, as part of a sentence."""
        return ", ".join(
            " ".join(filter(None, (verb, counted(number, noun), rest)))
            for (verb, noun, rest), number in self.counts.items()
        )


async def _rows_of_nobody(reader: Reader, requests: Requests, done: _Done) -> None:
    """Rows that no structure holds: parts without message, lines without summary, sources of briefs."""
    for fix, load, noun in (
        (FixId.DELETE_ORPHAN_PARTS, loose_ends.orphan_part_rows, "orphan part"),
        (FixId.DELETE_ORPHAN_LINKS, loose_ends.brief_sources_gone, "lost source of a focus brief"),
        (FixId.DELETE_ORPHAN_LINKS, loose_ends.lines_of_no_summary, "orphan link or edge"),
    ):
        owners = requests.owners_of(fix)
        if owners is None or owners:
            rows = await load(reader, owners)
            gone = [(table, row) for table, row in rows if row.get("summary_id") not in done.still_named]
            for table, row in gone:
                done.edits += delete(table, [row])
            done.count("delete", noun, len(gone))
            if len(gone) < len(rows):
                kept = len(rows) - len(gone)
                done.left.append(
                    f"{phrase(kept, noun, None, 'tell')} what replaces a missing summary that a context "
                    "still refers to: fix that (A2) first, or together"
                )


class _Fixing(Record, frozen=True):
    """The fixes of one conversation."""

    reader: Reader
    before: Structure
    fixes: Mapping[FixId, Chosen]
    limits: Limits
    keep: Keep
    stamp: str
    done: _Done

    async def plan(self) -> None:
        """Work out what the conversation is after its fixes, and add the edits that make it so."""
        known = len(self.done.edits)
        spare: Collection[int] = ()
        now = self.before
        if self.fixes.keys() & {FixId.DROP_REPEATED_MESSAGES, FixId.RESTORE_MESSAGES}:
            scan = await load_messages(self.reader, now)
            now = replace(now, copies=await asyncio.to_thread(scan.copies))
            spare = await asyncio.to_thread(self._spare, scan.repetitions())
        lined = await asyncio.to_thread(self._lines, now)
        now = await self._tokens(lined)
        now = await asyncio.to_thread(derived, [self.before, lined], now, self.fixes)
        files: Mapping[SummaryId, str] = {}
        if FixId.RECOMPUTE_FILE_IDS in self.fixes:
            files = await relisted(self.reader, now, self.fixes[FixId.RECOMPUTE_FILE_IDS])
        await self._rows(now, files)
        if FixId.FILL_TOOL_COLUMNS in self.fixes:
            filled = await filled_tool_columns(self.reader, now.id, self.fixes[FixId.FILL_TOOL_COLUMNS])
            self.done.edits += filled
            self.done.count("fill in", "tool call id", len(filled))
        if self.fixes.keys() & CONTEXT_FIXES:
            await self._context(now, spare)
        if len(self.done.edits) > known:
            self.done.owners.add(self.before.id)

    def _lines(self, now: Structure) -> Structure:
        if FixId.DELETE_ORPHAN_LINKS in self.fixes:
            now = without_loose_ends(now)
        if FixId.DELETE_FALSE_LINES in self.fixes:
            now = without_false_lines(now, self.fixes[FixId.DELETE_FALSE_LINES])
        if FixId.RELINK in self.fixes:
            now = relinked(now, self.fixes[FixId.RELINK])
        if FixId.NUMBER_SOURCES in self.fixes:
            now = numbered(now, self.fixes[FixId.NUMBER_SOURCES])
        return now

    def _spare(self, repetitions: Iterable[Repetition]) -> frozenset[int]:
        """The copies that are to go: of the findings that were chosen, where the originals are in sight."""
        chosen = self.fixes.get(FixId.DROP_REPEATED_MESSAGES, NOTHING)
        return frozenset(
            message_id
            for one in repetitions
            if one.proof is not Proof.LENGTH and one.copy_ids[0] in chosen
            for message_id in one.spare
        )

    async def _tokens(self, now: Structure) -> Structure:
        if FixId.RECOMPUTE_TOKENS not in self.fixes:
            return now
        now, lost = await recounted(self.reader, now, self.fixes[FixId.RECOMPUTE_TOKENS])
        if lost:
            self.done.left.append(
                f"{counted(len(lost), 'message')} of conversation {self.before.id} cannot be recounted: "
                "what the host sent is not in the database"
            )
        counts: dict[SqlValue, Mapping[str, SqlValue]] = {
            now.messages.ids[place]: {"token_count": count}
            for place, count in enumerate(now.messages.tokens)
            if count != self.before.messages.tokens[place]
        }
        edits = await updates(self.reader, "messages", "message_id", counts)
        self.done.edits += edits
        self.done.count("count", "message", len(edits), "again")
        return now

    async def _rows(self, now: Structure, files: Mapping[SummaryId, str]) -> None:
        lines = await line_edits(self.reader, self.before, now)
        summaries = await summary_updates(self.reader, self.before, now, files)
        # Sources are deeper down before their consumers are: rows first, then what joins them.
        self.done.edits += [*summaries, *lines]
        counts = row_counts(lines)
        self.done.count("delete", "link or edge", sum(one.delete for one in counts))
        self.done.count("number", "source", sum(one.update for one in counts), "again")
        self.done.count("link", "lost source", sum(one.insert for one in counts), "again")
        self._count_summaries(
            now, {edit.key["summary_id"] for edit in summaries if isinstance(edit, RowChange)}
        )

    def _count_summaries(self, now: Structure, changed: Collection[object]) -> None:
        """Those of the findings, and what follows from them: sums change above, or are right again."""
        asked = {key for one in self.fixes.values() for key in one.keys} & now.nodes.keys()
        every = any(one.everything for one in self.fixes.values())
        above = 0 if every else len({*changed} - asked)
        counters = self.fixes.get(FixId.RECOMPUTE_COUNTERS, NOTHING).keys
        right = (counters & now.nodes.keys()) - {*changed}
        self.done.count("correct", "summary", len(changed) - above)
        self.done.count("correct", "sum", above, "above them")
        self.done.count("leave", "summary", len(right), "that is right then")

    async def _context(self, now: Structure, spare: Collection[int]) -> None:
        rows = items_of(await context_rows(self.reader, now.id))
        if rows is None:
            self.done.left.append(
                f"the context of conversation {now.id} has items that an undo could not restore (A15, or "
                "ordinals and references of another type), so nothing is changed in it"
            )
            return
        new = await asyncio.to_thread(new_context, now, self.fixes, spare, self.limits, self.keep)
        edits = await asyncio.to_thread(
            edits_of_list, now.id, rows, new.entries, renumbered=new.renumbered, stamp=self.stamp
        )
        self.done.edits += edits
        # They are in no context and no summary from here on: that is what is meant by it.
        self.done.allows.update(fault_key("A11", now.id, message_id) for message_id in new.copies)
        self._count_items(new, sum(bool(edit.moves) for edit in edits))

    def _count_items(self, new: NewContext, renumbered: int) -> None:
        count = self.done.count
        count("drop", "dangling item", new.dangling)
        count("put", "source of a missing summary", new.sources, "in its place")
        count("drop", "item", new.foreign, "of another conversation")
        count("drop", "duplicate item", new.repeated)
        count("drop", "covered item", new.covered)
        count("take", "repeated message", len(new.copies), "out of the context")
        count("bring", "item", new.restored, "back")
        count("move", "item", new.moved, "to where it belongs")
        count("count the ordinals of", "context", renumbered, "from 0")


def _title(done: _Done) -> str:
    where = f" of conversation {next(iter(done.owners))}" if len(done.owners) == 1 else ""
    return f"Fix{where}: {done.words or 'no row has to change'}"


__all__ = ["Fixes", "Keep", "plan_fixes"]
