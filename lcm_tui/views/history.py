"""What was changed: operations as a table, and one of them with what it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lcm_core.change.journal import Operation
from lcm_core.change.plan import Edit
from lcm_core.change.preview import words_of
from lcm_core.change.verify import Step

from lcm_tui.views.blocks import Block, Cell, Column, Facts, Prose, Table, When
from lcm_tui.views.preview import rows_table, some

EMPTY = "Nothing was changed in this database by lcm-tui, as far as its history goes back."


@dataclass(frozen=True, slots=True)
class ListedOperation:
    """An operation in the list."""

    operation: Operation
    effective: bool | None  #: whether what it did holds now; None: the history does not tell any more
    undone_by: str | None  #: what undoes it now


def operations_table(when: When, items: Sequence[ListedOperation], *, unfold: bool) -> Table:
    """Operations, the newest first; a batch is one line unless *unfold*."""
    columns = (
        Column("Operation"),
        Column("When", spare=1),
        Column("Conv.", right=True, spare=2),
        Column("Tokens", right=True, spare=3),
        Column("Now"),
        Column("Undone by", spare=4),
        Column("What", grows=True),
    )
    lines: dict[str, list[ListedOperation]] = {}
    for one in items:
        key = one.operation.batch if one.operation.batch is not None and not unfold else one.operation.id
        lines.setdefault(key, []).append(one)
    return Table(columns, [_line(when, line) for line in lines.values()], empty=EMPTY)


def _line(when: When, line: Sequence[ListedOperation]) -> tuple[Cell, ...]:
    """An operation, or what is listed of a batch, in the place of its newest one."""
    newest = line[0]
    owners = {one.operation.conversation_id for one in line}
    [owner] = owners if len(owners) == 1 else [None]
    states = {None if one.effective is None else "in effect" if one.effective else "undone" for one in line}
    by = {one.undone_by for one in line}
    many = len(line) > 1
    return (
        newest.operation.batch if many else newest.operation.id,
        when(newest.operation.created_at),
        None if owner is None else str(owner),
        f"{sum(one.operation.tokens for one in line):+,}",
        states.pop() if len(states) == 1 else "in part",
        by.pop() if len(by) == 1 else None,
        f"{len(line):,} operations, the newest: {newest.operation.title}" if many else newest.operation.title,
    )


@dataclass(frozen=True, slots=True)
class ShownOperation:
    """An operation, what it did, and whether it can be taken back."""

    operation: Operation
    edits: Sequence[Edit] | None  #: None: they cannot be read
    undone_by: str | None  #: what undoes it now; None: it is in effect
    why_not: str | None  #: why it can be neither undone nor redone

    @property
    def effective(self) -> bool:
        """Whether what it did holds now."""
        return self.undone_by is None


def operation_blocks(when: When, found: ShownOperation) -> list[Block]:
    """One operation: what it did, and how it stands."""
    one = found.operation
    facts: list[tuple[str, Cell]] = [
        ("Operation", one.id),
        ("When", when(one.created_at)),
        ("Conversation", None if one.conversation_id is None else str(one.conversation_id)),
        ("Tokens in context", f"{one.tokens:+,}"),
        ("Batch", one.batch),
        ("Undoes", one.undoes),
        ("Undone by", found.undone_by),
        ("By lcm-tui", one.tool_version),
        ("Now", _state(found)),
    ]
    blocks: list[Block] = [Facts(facts, title=one.title)]
    if found.edits is not None:
        words = [line for edit in found.edits for line in words_of(Step(edit))]
        blocks.append(Prose("\n".join(some(words)), title="What it did"))
    return [*blocks, rows_table(one.rows)]


def _state(found: ShownOperation) -> str:
    held = "in effect" if found.effective else "undone"
    if found.why_not is not None:
        return f"{held}: {found.why_not}"
    return f"{held}, can be {'undone' if found.effective else 'redone'}"
