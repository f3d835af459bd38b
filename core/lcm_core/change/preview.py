"""What a plan would do to the database as it is: in words, as JSON, as SQL, and how long a host would wait.

Reading only, and no lock: what is previewed is what is committed, verified by the same code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final

from lcm_core.base.errors import LcmError, RefusedError
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted, safe_line
from lcm_core.base.times import parse_utc
from lcm_core.base.values import Record, replace
from lcm_core.change.apply import literal, parameter, statements_of, with_new_ids
from lcm_core.change.connection import check_writable
from lcm_core.change.guard import check_tables, check_whole
from lcm_core.change.journal import Json, edits_of, encode_edits, touching, undone_now
from lcm_core.change.place import ContextChange, Listing, Step, Verified, verify
from lcm_core.change.plan import (
    CONTEXT,
    KEYS,
    Cells,
    Edit,
    Item,
    Moved,
    Owner,
    Plan,
    Ref,
    RowChange,
    RowCount,
    Splice,
    StalePlanError,
    Symbol,
    SymbolKind,
    Values,
    different_rows,
    listed,
    map_symbols,
    ref_of,
    row_counts,
    rows_json,
    substitute,
    title_of_several,
)
from lcm_core.change.reindex import (
    MESSAGES,
    SUMMARIES,
    indexed_text,
    search_entries,
    summary_text,
    written_tables,
)
from lcm_core.change.schema import check_unknown, unknown_parts
from lcm_core.change.snapshots import conversations_gone
from lcm_core.engine.rules import engine_rules
from lcm_core.store.context import Weight, weights_by_id
from lcm_core.store.context_view import Group, groups_of
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import Rows, quoted
from lcm_core.store.schema import Schema
from lcm_core.store.state import ActiveBatch, active_batches

# -- compactions that a 1.x engine prepares --------------------------------------------------------------
# It compares a fingerprint when it publishes; where that differs, what it has prepared is lost
# (docs/spec/prepared.md, "Fingerprints").

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
    edits = tuple(edits)
    return _lost(db, _rewritten(edits), contexts, schema, conversations_gone(edits))


async def prepared_work_lost(reader: Reader, summaries: Iterable[str]) -> list[str]:
    """What a 1.x engine has prepared and gives up when some summaries get other texts."""
    rewritten: dict[Ref, set[str]] = {one: {"the text"} for one in summaries}
    return await reader.run(_lost, rewritten, {}, reader.schema)


def _lost(
    db: Rows,
    rewritten: Mapping[Ref, set[str]],
    contexts: Mapping[Owner, ContextChange],
    schema: Schema,
    gone: Collection[int] = (),
) -> list[str]:
    """Of each batch that goes stale a sentence; *rewritten*: what changes of messages and summaries.

    *gone*: conversations that are deleted with all that belongs to them.
    """
    said = []
    for batch in active_batches(db, schema):
        owner, context = batch.conversation_id, contexts.get(batch.conversation_id)
        if owner in gone:
            said.append(f"What the engine is preparing of conversation {owner} is deleted with it")
            continue
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
    """The context items in the range of a batch."""
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


# -- the time of the lock --------------------------------------------------------------------------------
# How long a host waits for the lock while a plan is written: an estimate from rows and bytes.
#
# The rates are a rule, so that the same plan says the same on every machine: what plain sqlite3 took for
# rows of the engine's tables on one small server (``python -m benchmarks.lock`` prints estimate and
# measurement). A disk that is slow to sync a commit is not included.

#: From so many seconds on a preview says it.
WORTH_SAYING: Final = 0.1

_ROW: Final = 10e-6  #: s for a row that comes, with its indexes
#: The same where it is less: texts that come in order, links, and items of a context.
_COMES: Final = {
    "messages": 7e-6,
    "summaries": 7e-6,
    "summary_messages": 2e-6,
    "summary_parents": 2.5e-6,
    "context_items": 4e-6,
}
_GOES: Final = 4e-6  #: s for a row that goes, 2.5 where it is a link
_CHANGES: Final = 6e-6  #: s for a row that changes
_ORDINAL: Final = 2.5e-6  #: s for a context item that only changes its ordinal
_BYTE: Final = 5e-9  #: s for a byte of such rows
_SEARCH_ROW: Final = 5e-6  #: s for a row of a search table
_WORDS: Final = 30e-9  #: s for a character of text by words
_TRIGRAMS: Final = 100e-9  #: s for a character of text by three letters each
_FOREIGN: Final = 10  #: times that for one that is no ASCII: of ideographs hardly three are met again
_UNINDEXED: Final = 4  #: times as long until a text is out of a search table as until it is in it

#: What is indexed of a table, by search table: s for a character.
_SEARCH: Final = {
    "messages": (("messages_fts", _WORDS),),
    "summaries": (("summaries_fts", _WORDS), ("summaries_fts_cjk", _TRIGRAMS)),
}


def lock_seconds(steps: Iterable[Step], schema: Schema) -> float:
    """Seconds, about, for which the lock is held while some steps are written."""
    seconds = 0.0
    shifted: dict[Owner, int] = {}  # ordinals of a context are written once, however many splices there are
    for step in steps:
        seconds += sum(_parts(step, schema))
        if isinstance(step.edit, Splice):
            owner = step.edit.conversation_id
            shifted[owner] = max(shifted.get(owner, 0), len(step.shifts))
    return seconds + _ORDINAL * sum(shifted.values())


def lock_warning(seconds: float) -> str | None:
    """What a preview says of it; None where nobody would notice."""
    if seconds < WORTH_SAYING:
        return None
    return f"The host will wait about {seconds:,.{1 if seconds < 10 else 0}f} s while this is written"


def row_seconds(table: str, row: Cells, schema: Schema) -> float:
    """Seconds, about, for one row that comes, with its rows of the search tables."""
    return _COMES.get(table, _ROW) + _bytes(row) + sum(_search(table, row, schema))


def _parts(step: Step, schema: Schema) -> Iterator[float]:
    edit = step.edit
    if isinstance(edit, Splice):
        yield from (_COMES["context_items"] for _ in (*edit.removed, *edit.inserted))
        return
    if edit.before is None:
        yield row_seconds(edit.table, edit.row, schema)
        return
    if edit.after is None:
        yield min(_GOES, _COMES.get(edit.table, _GOES))
    else:
        yield _CHANGES + _bytes(edit.after)
        if "content" in edit.after:
            yield from _search(edit.table, edit.after, schema)
    if "content" in edit.before:
        yield from (_UNINDEXED * one for one in _search(edit.table, edit.before, schema))


def _bytes(row: Cells) -> float:
    return _BYTE * sum(len(cell) for cell in row.cells if isinstance(cell, str | bytes))


def _search(table: str, row: Cells, schema: Schema) -> Iterator[float]:
    text = row.get("content")
    length = 0
    if isinstance(text, str):
        ascii_only = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
        length = ascii_only + _FOREIGN * (len(text) - ascii_only)
    yield from (_SEARCH_ROW + rate * length for name, rate in _SEARCH.get(table, ()) if schema.has(name))


# -- as SQL ----------------------------------------------------------------------------------------------
# Statements that leave the same rows as a commit does.
#
# `script_of` is a whole script (docs/spec/changes.md, "As SQL"): one transaction, search tables too, no
# parameter left open. It fits the file as it is now; it checks no structure, and leaves nothing in the
# history.


def script_of(steps: Sequence[Step], values: Values, schema: Schema) -> Iterator[str]:
    """Statements that a shell of SQLite runs; *values* of all symbols as things are now."""
    resolved = [replace(step, edit=substitute(step.edit, values)) for step in steps]
    yield "PRAGMA foreign_keys = OFF;"
    yield "BEGIN IMMEDIATE;"
    yield from sql_of(resolved)
    yield from _sql_text_search([step.edit for step in resolved], schema)
    yield "COMMIT;"


def _sql_text_search(edits: Iterable[Edit], schema: Schema) -> Iterator[str]:
    """What the search tables have to follow: of a message by its id, of a summary in one scan a table."""
    entries = search_entries(edits)
    if schema.has(MESSAGES):
        gone = {**entries.gone, **dict.fromkeys(entries.come)}
        yield from (f"DELETE FROM {MESSAGES} WHERE rowid = {literal(one)};" for one in gone)
        rules = engine_rules(schema).search
        for message_id, content in entries.come.items():
            text = indexed_text(content, rules)
            if text is not None:
                values = f"{literal(message_id)}, {literal(text)}"
                yield f"INSERT INTO {MESSAGES} (rowid, content) VALUES ({values});"
    summaries = ", ".join(map(literal, {**entries.gone_summaries, **dict.fromkeys(entries.come_summaries)}))
    for table in (name for name in SUMMARIES if summaries and schema.has(name)):
        yield f"DELETE FROM {table} WHERE summary_id IN ({summaries});"
        for summary_id, content in entries.come_summaries.items():
            values = f"{literal(summary_id)}, {literal(summary_text(content))}"
            yield f"INSERT INTO {table} (summary_id, content) VALUES ({values});"


def sql_of(steps: Iterable[Step]) -> Iterator[str]:
    """The rows' statements alone; what nobody knows yet is a parameter such as ``:new_1``.

    Text that a script cannot hold (not valid UTF-8, with a NUL), or that a terminal would obey, stands as the
    bytes it is made of.
    """
    for step in steps:
        edit = step.edit
        if isinstance(edit, Splice):
            yield from _splice(edit, step)
        elif edit.before is None:
            yield _insert(edit.table, edit.row)
        elif edit.after is None:
            yield f"DELETE FROM {quoted(edit.table)} WHERE {_where(edit.key)};"
        else:
            columns = ", ".join(f"{quoted(name)} = {literal(value)}" for name, value in edit.after.values)
            yield f"UPDATE {quoted(edit.table)} SET {columns} WHERE {_where(edit.key, edit.before)};"


def _splice(edit: Splice, step: Step) -> Iterator[str]:
    for row in edit.removed:
        key = Cells.of({"conversation_id": edit.conversation_id, "ordinal": row["ordinal"]})
        ref = row.without("ordinal", "conversation_id", "created_at", "item_type")
        yield f"DELETE FROM {CONTEXT} WHERE {_where(key, ref)};"
    for old, new in step.shifts:
        yield (
            f"UPDATE {CONTEXT} SET ordinal = {new} "
            f"WHERE conversation_id = {literal(edit.conversation_id)} AND ordinal = {old};"
        )
    for row in edit.inserted:
        yield _insert(CONTEXT, row)


def _insert(table: str, row: Cells) -> str:
    own = _GIVEN_IDS.get(table, "")
    new = row.get(own)
    if isinstance(new, Symbol) and new.kind is SymbolKind.ID:
        return f"{_insertion(table, row.without(own))} -- its id is {parameter(new.name)}"
    return _insertion(table, row)


#: Columns that the database itself fills where a plan leaves them open.
_GIVEN_IDS: Final = {"messages": "message_id", "conversations": "conversation_id"}


def _insertion(table: str, row: Cells) -> str:
    return f"{_beginning(table, row.columns)}{', '.join(map(literal, row.cells))});"


@lru_cache(maxsize=128)
def _beginning(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {quoted(table)} ({', '.join(map(quoted, columns))}) VALUES ("


def _where(*cells: Cells) -> str:
    return " AND ".join(
        f"{quoted(name)} IS {literal(value)}" for each in cells for name, value in each.values
    )


# -- the preview -----------------------------------------------------------------------------------------

STOP_THE_HOST = (
    "This database was written by an engine before 0.5, which does not wait for a lock: stop the host first"
)


class Shifted(Record, frozen=True):
    """A context item that comes, goes or changes its ordinal."""

    conversation_id: int | Symbol
    ref: Ref
    old: int | None  #: ordinal; None: it comes
    new: int | None  #: ordinal; None: it goes

    @property
    def identity(self) -> str:
        """What it stands for, for machines: ``summary:sum_...`` or ``message:17``."""
        return f"{Item(self.ref).item_type}:{_plain(self.ref)}"


class ContextTokens(Record, frozen=True):
    """What one of several contexts that a plan touches adds up to, by the stored estimates."""

    conversation_id: int | Symbol
    before: int
    after: int


class Tokens(Record, frozen=True):
    """Tokens of the context that a plan is about, by the stored estimates; without one, of all it touches."""

    before: int
    after: int
    leaving: int = 0  #: of the items that go out of a context, whichever
    entering: int = 0  #: of the items that come into one
    made_of_before: tuple[Group, ...] = ()  #: what the one context that is touched is made of
    made_of_after: tuple[Group, ...] = ()
    contexts: tuple[ContextTokens, ...] = ()  #: each of those that are touched, where they are several

    @property
    def change(self) -> int:
        """By how much it grows."""
        return self.after - self.before


class Preview(Record, frozen=True):
    """What a plan would do to the database as it is."""

    plan: Plan
    steps: tuple[Step, ...]  #: the edits as they would go now
    shift: tuple[Shifted, ...]  #: in order of the new list; what goes is listed where it was
    tokens: Tokens
    rows: tuple[RowCount, ...]
    warnings: tuple[str, ...]
    values: Values  #: what symbols stand for now, ids of new rows too
    schema: Schema
    lock_seconds: float  #: seconds, about, for which the lock is held; of several commits the longest

    @property
    def different_rows(self) -> tuple[RowCount, ...]:
        """The rows that are touched, each once: a batch may touch one several times."""
        return different_rows(step.edit for step in self.steps) if self.plan.parts else self.rows

    @property
    def entering(self) -> tuple[Shifted, ...]:
        """What comes into a context."""
        return tuple(one for one in self.shift if one.old is None)

    @property
    def leaving(self) -> tuple[Shifted, ...]:
        """What leaves a context."""
        return tuple(one for one in self.shift if one.new is None)

    @property
    def moving(self) -> tuple[Shifted, ...]:
        """What only changes its ordinal."""
        return tuple(one for one in self.shift if one.old is not None and one.new is not None)

    def as_json(self) -> dict[str, Json]:
        """For machines, the same for every operation (docs/spec/decisions.md, "A change is a value")."""
        return {
            "kind": self.plan.kind,
            "conversationId": self.plan.conversation_id,
            "edits": encode_edits(step.edit for step in self.steps),
            "shift": [{"identity": one.identity, "from": one.old, "to": one.new} for one in self.shift],
            "tokens": self._tokens_json(),
            "rows": rows_json(self.rows),
            "warnings": list(self.warnings),
        }

    def _tokens_json(self) -> dict[str, Json]:
        found: dict[str, Json] = {"before": self.tokens.before, "after": self.tokens.after}
        if self.tokens.contexts:
            found["contexts"] = [
                {"conversationId": _number(one.conversation_id), "before": one.before, "after": one.after}
                for one in self.tokens.contexts
            ]
        return found

    def sql(self) -> Iterator[str]:
        """A script that leaves the same rows as the commit, for the file as it is now."""
        return script_of(self.steps, self.values, self.schema)

    def words(self) -> Iterator[str]:
        """What happens to rows outside the contexts, a line each, without texts; `shift` has the contexts."""
        for step in self.steps:
            if isinstance(step.edit, RowChange):
                yield from words_of(step)

    def text(self) -> Iterator[str]:
        """Lines for people, safe to print."""
        yield safe_line(self.plan.title)
        for step in self.steps:
            yield from (f"  {safe_line(line)}" for line in words_of(step))
        moves = (
            f"{counted(len(self.moving), 'item')} moved, {len(self.leaving):,} removed, "
            f"{len(self.entering):,} added"
        )
        yield f"Ordinals: {moves}."
        change = self.tokens.change
        yield f"Tokens in context: {self.tokens.before:,} -> {self.tokens.after:,} ({change:+,})."
        counts = [f"{one.table} +{one.insert} ~{one.update} -{one.delete}" for one in self.rows]
        yield f"Rows: {'; '.join(counts)}."
        yield from (f"Warning: {safe_line(warning)}." for warning in self.warnings)


async def preview_plan(reader: Reader, plan: Plan) -> Preview:
    """Work out what *plan* would do now.

    Raises:
        StalePlanError: the database moved on since the plan was made.
        RefusedError: something that we do not know refers to an altered row,
            or something else would write along.
    """
    return await reader.run(_preview, plan, reader.schema)


def _preview(db: Rows, plan: Plan, schema: Schema) -> Preview:
    check_whole(schema)
    check_tables(db, written_tables(plan.edits, schema), statements_of(plan.edits))
    verified = verify(db, plan.edits, schema.tables)
    if verified.moved:
        raise StalePlanError(verified.moved)
    check_unknown(db, schema, verified)
    shift: list[Shifted] = []
    for owner, context in verified.contexts.items():
        shift += _shift(owner, context.before, context.after)
    tokens = _tokens(db, schema, verified, plan.conversation_id, shift)
    waits = _lock_seconds(plan, verified.steps, schema)
    warnings = [*plan.warnings, *([words] if (words := lock_warning(waits)) else [])]
    warnings += (
        f"Column {column} is not in this plan and gets its default"
        for column in unknown_parts(schema)  # what a plan leaves out of known ones is meant
        if column in verified.defaulted and not any(column in warning for warning in warnings)
    )
    if not engine_rules(schema).locks.waits:
        warnings.append(STOP_THE_HOST)
    warnings += given_up(db, verified.edits, verified.contexts, schema)
    return Preview(
        plan,
        verified.steps,
        tuple(shift),
        tokens,
        row_counts(verified.edits),
        tuple(warnings),
        with_new_ids(db, verified.edits, verified.values),
        schema,
        waits,
    )


def _lock_seconds(plan: Plan, steps: Sequence[Step], schema: Schema) -> float:
    left = iter(steps)
    return max(
        (lock_seconds(islice(left, number), schema) for number in plan.parts or (len(steps),)), default=0.0
    )


def _shift(owner: int | Symbol, before: Listing, after: Listing) -> Iterator[Shifted]:
    """What changes between two lists; rows are told apart by their rowid."""
    staying = set(before.rows) & {row for row in after.rows if isinstance(row, int)}
    at = 0
    for row, ordinal, ref in [*zip(after.rows, after.ordinals, after.refs, strict=True), (None, 0, None)]:
        while at < len(before) and before.rows[at] not in staying:
            yield Shifted(owner, before.refs[at], before.ordinals[at], None)
            at += 1
        if isinstance(row, int):
            if before.ordinals[at] != ordinal:
                yield Shifted(owner, ref, before.ordinals[at], ordinal)
            at += 1
        elif row is not None:
            yield Shifted(owner, ref, None, ordinal)


def _tokens(
    db: Rows, schema: Schema, verified: Verified, conversation_id: int | None, shift: Sequence[Shifted]
) -> Tokens:
    """The sums of the plan's context, or of all it touches; a row that the plan makes weighs what it says.

    If no context changes but its tokens are counted again, it is that of the plan's conversation; in a batch,
    that of every conversation whose tokens change.
    """
    counted = [
        edit
        for edit in verified.edits
        if isinstance(edit, RowChange)
        and edit.after
        and edit.table in ("messages", "summaries")
        and isinstance(edit.after.get("token_count"), int)
    ]
    lists = {owner: (one.before.refs, one.after.refs) for owner, one in verified.contexts.items()}
    if counted and not lists and schema.has("context_items"):
        owners = {conversation_id}
        if conversation_id is None:
            owners = {
                one.conversation_id for one in weights_by_id(db, schema, map(_item_of, counted)).values()
            }
        sql = "SELECT message_id, summary_id FROM context_items WHERE conversation_id = ?"
        for owner in sorted(filter(None, owners)):
            rows = db.rows(sql, (owner,))
            refs = [message if summary is None else summary for message, summary in rows]
            lists[owner] = refs, refs
    refs_of = {ref for both in lists.values() for refs in both for ref in refs}
    stored: dict[Ref, Weight] = dict(weights_by_id(db, schema, refs_of).items())
    weights = {**stored, **dict(_made(counted, stored))}
    weighed = {
        owner: (
            [stored[ref] for ref in old if ref in stored],
            [weights[ref] for ref in new if ref in weights],
        )
        for owner, (old, new) in lists.items()
    }
    sums = tuple(
        ContextTokens(owner, sum(one.tokens for one in before), sum(one.tokens for one in after))
        for owner, (before, after) in weighed.items()
    )
    if not verified.contexts:
        sums = tuple(one for one in sums if one.before != one.after) or sums[:1]
    about = [one for one in sums if one.conversation_id == conversation_id] or sums
    made_of = map(groups_of, weighed[sums[0].conversation_id]) if len(sums) == 1 else ((), ())
    made_of_before, made_of_after = made_of
    return Tokens(
        sum(one.before for one in about),
        sum(one.after for one in about),
        leaving=sum(stored[one.ref].tokens for one in shift if one.new is None and one.ref in stored),
        entering=sum(weights[one.ref].tokens for one in shift if one.old is None and one.ref in weights),
        made_of_before=made_of_before,
        made_of_after=made_of_after,
        contexts=sums if len(sums) > 1 else (),
    )


def _item_of(edit: RowChange) -> object:
    """What a context names the row of a message or a summary by."""
    return edit.key["message_id" if edit.table == "messages" else "summary_id"]


def _made(edits: Iterable[RowChange], stored: Mapping[Ref, Weight]) -> Iterator[tuple[Ref, Weight]]:
    """What the rows weigh that a plan makes, or counts anew."""
    for edit in edits:
        ref = _item_of(edit)
        tokens = edit.after.get("token_count") if edit.after else None
        if not (isinstance(tokens, int) and isinstance(ref, int | str | Symbol)):
            continue
        if ref in stored:
            yield ref, replace(stored[ref], tokens=tokens)
            continue
        role, depth, owner = (edit.row.get(name) for name in ("role", "depth", "conversation_id"))
        yield (
            ref,
            Weight(
                tokens,
                str(role) if edit.table == "messages" else None,
                (depth if isinstance(depth, int) else 0) if edit.table == "summaries" else None,
                ConversationId(owner if isinstance(owner, int) else 0),
            ),
        )


def words_of(step: Step) -> Iterator[str]:
    """A step in words, without texts."""
    edit = step.edit
    if isinstance(edit, RowChange):
        named = f"{edit.table}: {_named(edit.table, edit.key.as_dict())}"
        if edit.before is None:
            yield f"add to {named}"
        elif edit.after is None:
            yield f"delete from {named}"
        else:
            yield f"change in {named}: {', '.join(edit.after.columns)}"
        return
    name = f"context of conversation {_plain(edit.conversation_id)}"
    for row in edit.removed:
        yield f"{name}: ordinal {_plain(row['ordinal'])} loses {_item(row)}"
    for row in edit.inserted:
        yield f"{name}: ordinal {_plain(row['ordinal'])} gets {_item(row)}"
    if edit.moves:
        yield f"{name}: {counted(len(edit.moves), 'ordinal changes', 'ordinals change')}"


def _named(table: str, row: Mapping[str, object]) -> str:
    return " ".join(_plain(row[name]) for name in KEYS.get(table, tuple(row)))


def _item(row: Cells) -> str:
    ref = ref_of(row)
    return f"{Item(ref).item_type} {_plain(ref)}"


def _number(owner: int | Symbol) -> int | str:
    return _plain(owner) if isinstance(owner, Symbol) else owner


def _plain(value: object) -> str:
    return value.name if isinstance(value, Symbol) else str(value)


# -- plans that are looked at ----------------------------------------------------------------------------
# A plan is checked again and again while it is looked at, and planned again when it is stale.
#
# One plan or a batch of them. A batch is previewed as one plan, which is exact, since edits see what edits
# before them do; it is committed plan by plan.


class Batch(Record, frozen=True):
    """Plans that belong together, and whether the planner makes others once these were committed."""

    plans: tuple[Plan, ...]
    more: bool = False


#: Reads what an operation needs and returns its plan, or the plans of a batch.
Planner = Callable[[Reader], Awaitable[Plan | Sequence[Plan] | Batch]]


class Planned(Record, frozen=True):
    """What would be done, against the database as it was when this was made."""

    plans: tuple[Plan, ...]
    preview: Preview  #: of all of them
    moved: tuple[Moved, ...] = ()  #: why it was planned again; empty when it was not
    more: bool = False  #: the rest is planned when these were committed


async def plan_for(
    reader: Reader, planner: Planner, held: Planned | None = None, moved: tuple[Moved, ...] = ()
) -> Planned:
    """Check the plans that are *held* against the database; plan when there are none or they are stale.

    *moved* is why the ones before were given up.

    Raises:
        LcmError: the operation is refused.
    """
    if held is not None:
        try:
            await check_complete(reader, planner, held.plans)
            return replace(held, preview=await preview_plan(reader, as_one_plan(held.plans)))
        except StalePlanError as error:
            moved = error.moved
    batch = await batch_of(reader, planner)
    if not batch.plans:
        raise RefusedError("There is nothing to change.")
    return Planned(batch.plans, await first_preview(reader, batch.plans), moved, batch.more)


async def check_complete(reader: Reader, planner: Planner, plans: Sequence[Plan]) -> None:
    """Hold plans that mean to take all of something (`Plan.whole`) against all that is there now.

    Each piece of a deletion is verified when it is committed; what came since belongs to none of them.

    Raises:
        StalePlanError: other rows would have to go by now.
        LcmError: the operation is refused by now.
    """
    if not plans or not all(one.whole for one in plans):
        return
    again = (await batch_of(reader, planner)).plans
    planned, now = ([edit for one in some for edit in one.edits] for some in (plans, again))
    if planned != now:
        then, found = (sum(one.delete for one in different_rows(edits)) for edits in (planned, now))
        said = f"{found:,}" if found != then else "others among them"
        raise StalePlanError([Moved("what goes", counted(then, "row"), said)])


async def rehearse(database: Database, planner: Callable[[Reader], Awaitable[Plan]]) -> None:
    """Refuse what would be refused when a plan like this one is committed: before its text is paid for.

    Raises:
        DatabaseMissingError, ReadOnlyError: the file cannot be written.
        StalePlanError, RefusedError: as the preview of the plan.
    """
    await asyncio.to_thread(check_writable, database.path)

    async def look(reader: Reader) -> None:
        await preview_plan(reader, await planner(reader))

    await database.read(look)


async def batch_of(reader: Reader, planner: Planner) -> Batch:
    """What a planner makes, whatever it returns.

    Raises:
        LcmError: the operation is refused, or the file lacks tables without which nothing is changed.
    """
    check_whole(reader.schema)
    made = await planner(reader)
    if isinstance(made, Batch):
        return made
    return Batch((made,) if isinstance(made, Plan) else tuple(made))


async def first_preview(reader: Reader, plans: Sequence[Plan]) -> Preview:
    """The preview of plans that were made within the same transaction of *reader*.

    Raises:
        RefusedError: they do not fit what is stored.
    """
    try:
        return await preview_plan(reader, as_one_plan(plans))
    except StalePlanError as error:
        # Nothing moved, for both were read in one transaction: what is stored is not what it is taken for.
        raise RefusedError(
            "The contents of the database prevent this change: "
            f"{listed(one.text for one in error.moved)}. Nothing was changed; "
            "`lcm-tui doctor` checks the database."
        ) from error


def as_one_plan(plans: Sequence[Plan]) -> Plan:
    """Several plans as one, in their order; one is itself."""
    first = plans[0]
    if len(plans) == 1:
        return first
    conversations = {plan.conversation_id for plan in plans}
    rows = different_rows(edit for plan in plans for edit in plan.edits)
    return Plan(
        kind=first.kind,
        title=title_of_several(first.kind, len(plans), conversations, rows),
        conversation_id=first.conversation_id if len(conversations) == 1 else None,
        edits=tuple(edit for number, plan in enumerate(plans) for edit in _renamed(plan.edits, number)),
        warnings=tuple(dict.fromkeys(warning for plan in plans for warning in plan.warnings)),
        batch=first.batch,
        allows=frozenset(key for plan in plans for key in plan.allows),
        select=first.select,
        parts=tuple(len(plan.edits) for plan in plans),
    )


def titles_of(plans: Sequence[Plan]) -> tuple[str, ...]:
    """What several plans do. The pieces of one deletion are one line, without the counts of the first."""
    if len(plans) == 1:
        return (plans[0].title,)
    found = (plan.title.rpartition(": ")[0] if plan.whole else plan.title for plan in plans)
    return tuple(dict.fromkeys(found))


# -- symbols are unique within a plan ----------------------------------------------------------------------


def _renamed(edits: Iterable[Edit], number: int) -> Iterable[Edit]:
    """The edits with symbols that no other plan of the batch has."""
    return (
        map_symbols(edit, lambda symbol: Symbol(f"{number}.{symbol.name}", symbol.kind)) for edit in edits
    )
