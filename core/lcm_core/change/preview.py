"""What a plan would do, worked out against the database as it is: in words, as JSON, and as SQL.

Reading only, and no lock: what is previewed is what is committed, verified by the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from lcm_core.change.apply import statements_of, with_new_ids
from lcm_core.change.codec import Json, encode_edits
from lcm_core.change.errors import StalePlanError
from lcm_core.change.guard import check_tables, check_whole
from lcm_core.change.known_schema import check_unknown
from lcm_core.change.lock_time import lock_seconds, lock_warning
from lcm_core.change.place import Listing
from lcm_core.change.plan import (
    KEYS,
    Cells,
    Item,
    Plan,
    Ref,
    RowChange,
    RowCount,
    Symbol,
    Values,
    ref_of,
    row_counts,
)
from lcm_core.change.prepared import given_up
from lcm_core.change.search_index import written_tables
from lcm_core.change.sql_text import script_of
from lcm_core.change.verify import Step, Verified, verify
from lcm_core.context_view import Group, groups_of
from lcm_core.engine_rules import engine_rules
from lcm_core.records import ConversationId
from lcm_core.store.connecting import Rows
from lcm_core.store.context import Weight, weights_by_id
from lcm_core.store.database import Reader
from lcm_core.store.schema import Schema
from lcm_core.text import safe_line

STOP_THE_HOST = (
    "This database was written by an engine before 0.5, which does not wait for a lock: stop the host first"
)


@dataclass(frozen=True, slots=True)
class Shifted:
    """A context item that comes, goes or changes its ordinal."""

    conversation_id: int | Symbol
    ref: Ref
    old: int | None  #: ordinal; None: it comes
    new: int | None  #: ordinal; None: it goes

    @property
    def identity(self) -> str:
        """What it stands for, for machines: ``summary:sum_...`` or ``message:17``."""
        return f"{Item(self.ref).item_type}:{_plain(self.ref)}"


@dataclass(frozen=True, slots=True)
class ContextTokens:
    """What one of several contexts that a plan touches adds up to, by the stored estimates."""

    conversation_id: int | Symbol
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Tokens:
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


@dataclass(frozen=True, slots=True)
class Preview:
    """What a plan would do to the database as it is."""

    plan: Plan
    steps: tuple[Step, ...] = field(repr=False)  #: the edits as they would go now
    shift: tuple[Shifted, ...] = field(
        repr=False
    )  #: in order of the new list; what goes is listed where it was
    tokens: Tokens
    rows: tuple[RowCount, ...]
    warnings: tuple[str, ...]
    values: Values = field(repr=False)  #: what symbols stand for now, ids of new rows too
    schema: Schema = field(repr=False)
    lock_seconds: float  #: seconds, about, for which the lock is held; of several commits the longest

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
        """For machines, the same for every operation (docs/decisions.md, "A change is a value")."""
        rows: dict[str, Json] = {
            count.table: {"insert": count.insert, "update": count.update, "delete": count.delete}
            for count in self.rows
        }
        return {
            "kind": self.plan.kind,
            "conversationId": self.plan.conversation_id,
            "edits": encode_edits(step.edit for step in self.steps),
            "shift": [{"identity": one.identity, "from": one.old, "to": one.new} for one in self.shift],
            "tokens": self._tokens_json(),
            "rows": rows,
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
            f"{len(self.moving):,} items moved, {len(self.leaving):,} removed, {len(self.entering):,} added"
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
        for column in verified.defaulted
        if not any(column in warning for warning in warnings)
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

    Where no list changes but something is counted anew: those of the plan's conversation.
    """
    counted = [
        edit
        for edit in verified.edits
        if isinstance(edit, RowChange)
        and edit.after
        and edit.table in ("messages", "summaries")
        and isinstance(edit.after.get("token_count"), int)
    ]
    old: list[Ref] = [ref for one in verified.contexts.values() for ref in one.before.refs]
    new: list[Ref] = [ref for one in verified.contexts.values() for ref in one.after.refs]
    if counted and not verified.contexts and schema.has("context_items"):
        sql = "SELECT message_id, summary_id FROM context_items WHERE conversation_id = ?"
        rows = db.rows(sql, (conversation_id,))
        old = new = [message if summary is None else summary for message, summary in rows]
    stored: dict[Ref, Weight] = dict(weights_by_id(db, schema, {*old, *new}).items())
    weights = {**stored, **dict(_made(counted, stored))}
    before = [weight for ref in old if (weight := stored.get(ref))]
    after = [weight for ref in new if (weight := weights.get(ref))]
    one_context = len(verified.contexts) < 2
    contexts = tuple(
        ContextTokens(
            owner,
            sum(stored[ref].tokens for ref in one.before.refs if ref in stored),
            sum(weights[ref].tokens for ref in one.after.refs if ref in weights),
        )
        for owner, one in ({} if one_context else verified.contexts).items()
    )
    about = [one for one in contexts if one.conversation_id == conversation_id]
    counts = about or contexts
    return Tokens(
        sum(one.before for one in counts) if counts else sum(weight.tokens for weight in before),
        sum(one.after for one in counts) if counts else sum(weight.tokens for weight in after),
        leaving=sum(stored[one.ref].tokens for one in shift if one.new is None and one.ref in stored),
        entering=sum(weights[one.ref].tokens for one in shift if one.old is None and one.ref in weights),
        made_of_before=groups_of(before) if one_context else (),
        made_of_after=groups_of(after) if one_context else (),
        contexts=contexts,
    )


def _made(edits: Iterable[RowChange], stored: Mapping[Ref, Weight]) -> Iterator[tuple[Ref, Weight]]:
    """What the rows weigh that a plan makes, or counts anew."""
    for edit in edits:
        ref = edit.key["message_id" if edit.table == "messages" else "summary_id"]
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
        yield f"{name}: {len(edit.moves):,} ordinals change"


def _named(table: str, row: Mapping[str, object]) -> str:
    return " ".join(_plain(row[name]) for name in KEYS.get(table, tuple(row)))


def _item(row: Cells) -> str:
    ref = ref_of(row)
    return f"{Item(ref).item_type} {_plain(ref)}"


def _number(owner: int | Symbol) -> int | str:
    return _plain(owner) if isinstance(owner, Symbol) else owner


def _plain(value: object) -> str:
    return value.name if isinstance(value, Symbol) else str(value)
