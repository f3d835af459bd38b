"""Which summaries were made from a text that has been replaced since, as far as the history shows.

Nothing in the database records it and no column is added for it: it follows from the journal, which holds
every text before and after. A summary rests on the texts that its sources had when its own text was made; an
undo or a restore gives back a text that was made then. A pruned history shows less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from lcm_core.base.records import ConversationId, Summary, SummaryId
from lcm_core.base.times import sort_key
from lcm_core.base.values import Record, Struct, field
from lcm_core.change.journal import Operation, all_operations, edits_of
from lcm_core.change.plan import Cells, Edit, Splice
from lcm_core.engine.markers import Wrong
from lcm_core.operations.rows import sources_of
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.store.opening import Rows

#: The operations that make a text for a summary.
MAKING: Final = frozenset({"rewrite", "repair"})
#: Those that bring back one that was made before.
_BRINGING: Final = frozenset({"restore", "undo", "redo"})


class Stale(Record, frozen=True):
    """A summary that was made from texts that have been replaced since."""

    summary_id: SummaryId
    sources: tuple[SummaryId, ...]  #: those that say something else now, in order of condensation
    depth: int


async def stale_in(reader: Reader, conversation_id: ConversationId) -> list[Stale]:
    """The stale summaries of a conversation, those nearer to the messages first."""
    changes = await reader.run(_changes, conversation_id)
    if not changes:
        return []
    touched = {turn.summary_id for _, turns in changes for turn in turns}
    edges = await summary_store.edges_above(reader, touched)
    # Only what rests directly on a text that changed is stale; what rests on that is once it is rewritten.
    consumers = {edge.consumer for edge in edges if edge.source in touched}
    sources = await sources_of(reader, consumers)
    rows = await summary_store.summaries_in(reader, consumers)
    history = _History(sources, sorted(rows, key=lambda one: sort_key(one.created_at)))
    for operation, turns in changes:
        history.take(operation, turns)
    history.make_until(None)
    found = [Stale(one.summary_id, history.changed(one.summary_id), one.depth) for one in rows]
    return sorted((one for one in found if one.sources), key=lambda one: (one.depth, one.summary_id))


async def read_wrong(
    reader: Reader, conversation_id: ConversationId, among: Sequence[SummaryId] | None = None
) -> Wrong:
    """The broken and the stale summaries of a conversation, or those *among* some; reads all their texts."""
    found = {one.summary_id for one in await stale_in(reader, conversation_id)}
    if among is None:
        return Wrong(await summary_store.broken_in(reader, conversation_id), frozenset(found))
    return Wrong(await summary_store.broken_among(reader, among), frozenset(found.intersection(among)))


async def stale_everywhere(reader: Reader) -> dict[ConversationId, list[SummaryId]]:
    """The stale summaries of each conversation that has any, those nearer to the messages first."""
    found = {owner: await stale_in(reader, owner) for owner in await reader.run(_made_anew_in)}
    return {owner: [one.summary_id for one in stale] for owner, stale in found.items() if stale}


def _made_anew_in(db: Rows) -> list[ConversationId]:
    owners = {one.conversation_id for one in all_operations(db) if one.kind in MAKING}
    return sorted(ConversationId(one) for one in owners if one is not None)


class _Turn(Record, frozen=True):
    """A summary gets another text; texts by their digests."""

    summary_id: SummaryId
    before: bytes
    after: bytes


def _changes(db: Rows, conversation_id: ConversationId) -> list[tuple[Operation, list[_Turn]]]:
    """The operations that make or change summaries, the oldest first, and the texts that each changed."""
    done = list(all_operations(db, conversation_id=conversation_id))[::-1]
    if not any(one.kind in MAKING for one in done):
        return []
    return [(one, _turns(edits_of(db, one))) for one in done if one.kind in MAKING | _BRINGING]


def _turns(edits: Iterable[Edit]) -> list[_Turn]:
    return [
        _Turn(summary_id, _digest(before), _digest(after)) for summary_id, before, after in rewritten(edits)
    ]


def rewritten(edits: Iterable[Edit]) -> Iterator[tuple[SummaryId, Cells, Cells]]:
    """The summaries that get another text, and what changes of their rows: before and after."""
    for edit in edits:
        if isinstance(edit, Splice) or edit.table != "summaries" or "content" not in edit.row:
            continue
        if edit.before and edit.after:
            yield SummaryId(str(edit.key["summary_id"])), edit.before, edit.after


def _digest(cells: Cells) -> bytes:
    return blake2b(str(cells["content"]).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _History(Struct):
    """Walks through the operations in their order."""

    sources: Mapping[SummaryId, Iterable[SummaryId]]
    unmade: list[Summary]  #: consumers whose making has not been passed yet, the oldest first
    now: dict[SummaryId, bytes | None] = field(default_factory=dict)  #: None: as it was before all of this
    first: dict[SummaryId, bytes] = field(default_factory=dict)  #: the texts that None means
    made_from: dict[tuple[SummaryId, bytes | None], Mapping[SummaryId, bytes | None]] = field(
        default_factory=dict
    )

    def make_until(self, moment: str | None) -> None:
        """Pass the making of all consumers that were made before *moment*; None: of all."""
        while self.unmade and (moment is None or sort_key(self.unmade[0].created_at) <= sort_key(moment)):
            self._make(self.unmade.pop(0).summary_id, None)

    def _make(self, consumer: SummaryId, text: bytes | None) -> None:
        self.made_from[consumer, text] = {
            source: self.now.get(source) for source in self.sources.get(consumer, ())
        }

    def take(self, operation: Operation, turns: Iterable[_Turn]) -> None:
        """Pass one operation: what makes a text, or what brings one back."""
        self.make_until(operation.created_at)
        for turn in turns:
            first = self.first.setdefault(turn.summary_id, turn.before)
            after = None if turn.after == first else turn.after
            if operation.kind in MAKING or (turn.summary_id, after) not in self.made_from:
                self._make(turn.summary_id, after)
            self.now[turn.summary_id] = after

    def changed(self, consumer: SummaryId) -> tuple[SummaryId, ...]:
        """The sources of a summary that had another text when its present one was made."""
        then = self.made_from.get((consumer, self.now.get(consumer)), {})
        return tuple(one for one, text in then.items() if self.now.get(one) != text)
