"""What a change makes of the compactions that a 1.x engine prepares.

The engine compares a fingerprint when it publishes; where that differs, what it has prepared is lost
(docs/spec/prepared.md, "Fingerprints"). Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lcm_core.base.errors import LcmError
from lcm_core.base.times import parse_utc
from lcm_core.change.journal import edits_of, touching, undone_now
from lcm_core.change.place import ContextChange, Listing
from lcm_core.change.plan import Edit, Owner, Ref, RowChange, Splice
from lcm_core.store.database import Reader
from lcm_core.store.opening import Rows
from lcm_core.store.schema import Schema
from lcm_core.store.state import ActiveBatch, active_batches

#: Operations after the plan of a batch that are looked at, the newest first.
MOST_OPERATIONS: Final = 200

#: What the fingerprint of an item covers, id and ordinal besides (docs/spec/prepared.md, "Fingerprints").
_FINGERPRINTED: Mapping[str, Mapping[str, str]] = {
    "messages": {
        "content": "the text",
        "token_count": "the tokens",
        "created_at": "the time",
        "role": "the role",
        "seq": "the place",
    },
    "summaries": {
        "content": "the text",
        "token_count": "the tokens",
        "created_at": "the time",
        "depth": "the depth",
    },
}


def given_up(
    db: Rows, edits: Iterable[Edit], contexts: Mapping[Owner, ContextChange], schema: Schema
) -> list[str]:
    """What the engine has prepared and gives up when some edits are committed; each without a full stop."""
    return _lost(db, _rewritten(edits), contexts, schema)


async def prepared_work_lost(reader: Reader, summaries: Iterable[str]) -> list[str]:
    """What a 1.x engine has prepared and gives up when some summaries get other texts."""
    rewritten: dict[Ref, set[str]] = {one: {"the text"} for one in summaries}
    return await reader.run(_lost, rewritten, {}, reader.schema)


def _lost(
    db: Rows,
    rewritten: Mapping[Ref, set[str]],
    contexts: Mapping[Owner, ContextChange],
    schema: Schema,
) -> list[str]:
    """Of each batch that goes stale a sentence; *rewritten*: what changes of messages and summaries."""
    said = []
    for batch in active_batches(db, schema):
        owner, context = batch.conversation_id, contexts.get(batch.conversation_id)
        within = _in_range(db, batch)
        changed = set().union(*(rewritten.get(ref, ()) for ref in within))
        will = "will discard"
        if context is not None and (why := _moved_in_range(batch, context)):
            pass
        elif changed:
            why = f"changes {' and '.join(sorted(changed))} of what it is made from"
        elif context is not None and _behind(batch, context.after) < _behind(batch, context.before):
            will, why = "may discard", "leaves fewer messages behind its range"
        else:
            continue
        if _newest_that_changed(db, batch) is not None:
            continue  # it was lost by that operation; where this undoes it, the batch can be published again
        said.append(
            f"The engine is preparing a compaction of conversation {owner} and {will} it because this "
            f"{why}: {batch.worth}"
        )
    return list(dict.fromkeys(said))


def _rewritten(edits: Iterable[Edit]) -> dict[Ref, set[str]]:
    """The messages and summaries that are stored otherwise afterwards, and what of them an engine notices."""
    found: dict[Ref, set[str]] = {}
    for edit in edits:
        if not (isinstance(edit, RowChange) and edit.table in _FINGERPRINTED and edit.before is not None):
            continue
        ref = edit.key["message_id" if edit.table == "messages" else "summary_id"]
        before, after = edit.before, edit.after
        changed = {
            word
            for name, word in _FINGERPRINTED[edit.table].items()
            if after is not None and name in after and before.get(name) != after[name]
        }
        if isinstance(ref, int | str) and (changed or after is None):
            found.setdefault(ref, set()).update(changed or {"the rows"})
    return found


def _in_range(db: Rows, batch: ActiveBatch) -> set[Ref]:
    """What stands in the range of a batch."""
    sql = """SELECT item_type, message_id, summary_id FROM context_items
        WHERE conversation_id = ? AND ordinal BETWEEN ? AND ?"""
    rows = db.tuples(sql, (batch.conversation_id, batch.start, batch.end))
    return {summary if kind == "summary" else message for kind, message, summary in rows}


def _moved_in_range(batch: ActiveBatch, context: ContextChange) -> str | None:
    """What a change does to the items of a range; None when each stays where it is."""
    before, after = (
        [(at, ref) for at, ref in zip(one.ordinals, one.refs, strict=True) if batch.start <= at <= batch.end]
        for one in (context.before, context.after)
    )
    if before == after:
        return None
    same = {ref for _, ref in before} <= set(context.after.refs)
    return "gives what it is made from other ordinals" if same else "replaces what it is made from"


def _behind(batch: ActiveBatch, items: Listing) -> int:
    """Messages behind the range of a batch: the fresh tail is made of them."""
    return sum(
        at > batch.end and not isinstance(ref, str)
        for at, ref in zip(items.ordinals, items.refs, strict=True)
    )


# -- what was changed already ----------------------------------------------------------------------------


async def changed_since(reader: Reader) -> Mapping[str, str]:
    """The batches that operations of ours made stale since they were planned or moved, each with the newest.

    The engine finds out when it looks at them. What was undone since counts for nothing.
    """
    return await reader.run(_changed_since, reader.schema)


def _changed_since(db: Rows, schema: Schema) -> dict[str, str]:
    found = {}
    for batch in active_batches(db, schema):
        operation = _newest_that_changed(db, batch)
        if operation is not None:
            found[batch.batch_id] = operation
    return found


def _newest_that_changed(db: Rows, batch: ActiveBatch) -> str | None:
    since = parse_utc(batch.planned_at)
    everything = touching(db, batch.conversation_id)
    later = [one for one in everything if since is not None and (parse_utc(one.created_at) or since) > since]
    undone = undone_now(everything)
    ids = {one.id for one in later}
    within = _in_range(db, batch) if later else set()
    for one in later[:MOST_OPERATIONS]:
        if undone[one.id] is not None or one.undoes in ids:
            continue
        if one.export is not None:  # too large to be read for this; most of its conversation changed
            if one.conversation_id == batch.conversation_id:
                return one.id
            continue
        try:
            edits = edits_of(db, one)
        except LcmError:
            continue  # what it did is not known any more
        if within.intersection(_rewritten(edits)) or any(_reaches(edit, batch) for edit in edits):
            return one.id
    return None


def _reaches(edit: Edit, batch: ActiveBatch) -> bool:
    """Whether a change of a context moved or replaced something up to the end of a batch's range."""
    if not isinstance(edit, Splice) or edit.conversation_id != batch.conversation_id:
        return False
    places = [row.get("ordinal") for row in (*edit.removed, *edit.inserted)]
    places += (place for move in edit.moves for place in (move.old, move.new))
    return any(isinstance(place, int) and place <= batch.end for place in places)
