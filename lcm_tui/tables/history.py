"""What was changed: operations as a table, and one of them with what it did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lcm_core.base.text import counted
from lcm_core.base.values import Record
from lcm_core.change.journal import BRIEF_BATCH, DamagedRecordError, Operation
from lcm_core.change.place import Step
from lcm_core.change.plan import Edit, title_of_several
from lcm_core.change.preview import words_of

from lcm_tui.tables.blocks import Cell, Facts, Prose, Table, When
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.blocks import OutputColumn as Column
from lcm_tui.tables.preview import rows_table, some

EMPTY = "lcm-tui has made no change in this database, as far as its history goes back."
IN_EFFECT: Final = "in effect"
UNDONE: Final = "undone"
IN_PART: Final = "in part"
#: Kinds of operations that end a batch for a focus brief (`lcm_core.operations.focus.FocusKind`).
BRIEF_KINDS: Final = frozenset(("focus", "refocus", "focus-failed"))
#: Kinds whose batches are pieces of one thing: no piece names the whole.
_IN_PIECES: Final = frozenset(("undo", "redo", "delete", "forget", "import", "backfill"))
NO_BRIEF: Final = "its focus brief is not made"


class ListedOperation(Record, frozen=True):
    """An operation in a list."""

    operation: Operation
    effective: bool | None  #: whether what it did holds now; None: the history does not tell any more
    undone_by: str | None  #: what undoes it now
    undone_batch: str | None = None  #: the batch of that


class HistoryLine(Record, frozen=True):
    """A line of the history: an operation, or those of a batch in the place of the newest."""

    listed: Sequence[ListedOperation]  #: at least one, the newest first
    whole: bool = True  #: not one of several of a batch

    @property
    def newest(self) -> Operation:
        """The newest operation of the line."""
        return self.listed[0].operation

    @property
    def name(self) -> str:
        """The id of the operation, or of the batch."""
        newest = self.newest
        return newest.id if len(self.listed) == 1 or newest.batch is None else newest.batch

    @property
    def what(self) -> str:
        """What was done."""
        many = len(self.listed)
        if self._without_brief:
            return f"{self.main.title}{f' and {many - 1:,} more' if many > 1 else ''}; {NO_BRIEF}"
        if many == 1:
            return self.newest.title
        kinds = {one.operation.kind for one in self.listed}
        if len(kinds) == 1 and kinds <= _IN_PIECES:
            operations = [one.operation for one in self.listed]
            owners = [one.conversation_id for one in operations]
            return title_of_several(
                kinds.pop(), many, owners, [row for one in operations for row in one.rows]
            )
        return f"{self.main.title} and {many - 1:,} more"

    @property
    def _without_brief(self) -> bool:
        """Whether it was begun for a focus brief and is that without one: the program was ended, or waits."""
        begun = self.whole and (self.newest.batch or "").startswith(BRIEF_BATCH)
        return begun and not any(one.operation.kind in BRIEF_KINDS for one in self.listed)

    @property
    def main(self) -> Operation:
        """The operation that changed contexts most, after which a batch is named; else the newest."""
        return max((one.operation for one in self.listed), key=lambda one: abs(one.tokens))

    @property
    def holding(self) -> Sequence[Operation]:
        """What of it is in effect, as far as the history tells."""
        return [one.operation for one in self.listed if one.effective]

    @property
    def is_undo(self) -> bool:
        """Whether it only takes other changes back, or makes them again."""
        return self.newest.undoes is not None

    @property
    def owner(self) -> int | None:
        """The conversation that it is about; None: several, or none."""
        owners = {one.operation.conversation_id for one in self.listed}
        return owners.pop() if len(owners) == 1 else None

    @property
    def tokens(self) -> int:
        """By how many tokens contexts grew."""
        return sum(one.operation.tokens for one in self.listed)

    @property
    def rows(self) -> int:
        """How many rows were touched."""
        counts = [count for one in self.listed for count in one.operation.rows]
        return sum(count.insert + count.update + count.delete for count in counts)

    @property
    def state(self) -> str | None:
        """Whether it holds; None: the history does not tell any more."""
        states = {one.effective for one in self.listed}
        if len(states) > 1:
            return IN_PART
        return {True: IN_EFFECT, False: UNDONE, None: None}[states.pop()]

    @property
    def undone_by(self) -> str | None:
        """What undoes it now: an operation or a batch; of several, their number."""
        by = {one.undone_by for one in self.listed}
        if len(by) == 1:
            return by.pop()
        batches = {one.undone_batch for one in self.listed}
        return (batches.pop() if len(batches) == 1 else None) or counted(len(by - {None}), "operation")


def lines_of(items: Sequence[ListedOperation], *, unfold: bool = False) -> list[HistoryLine]:
    """The lines of a history, the newest first; a batch is one line unless *unfold*."""
    lines: dict[str, list[ListedOperation]] = {}
    for one in items:
        key = one.operation.batch if one.operation.batch is not None and not unfold else one.operation.id
        lines.setdefault(key, []).append(one)
    return [HistoryLine(line, whole=not unfold) for line in lines.values()]


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
    rows = [_row(when, line) for line in lines_of(items, unfold=unfold)]
    return Table(columns, rows, empty=EMPTY)


def _row(when: When, line: HistoryLine) -> tuple[Cell, ...]:
    return (
        line.name,
        when(line.newest.created_at),
        None if line.owner is None else str(line.owner),
        f"{line.tokens:+,}",
        line.state,
        line.undone_by,
        line.what,
    )


class ShownOperation(Record, frozen=True):
    """An operation, what it did, and whether it can be taken back."""

    operation: Operation
    edits: Sequence[Edit] | None  #: None: they cannot be read
    undone_by: str | None  #: what undoes it now; None: it is in effect
    why_not: str | None  #: why it can be neither undone nor redone
    damaged: DamagedRecordError | None  #: its record is not one that a commit wrote

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
    held = IN_EFFECT if found.effective else UNDONE
    if found.why_not is not None:
        return f"{held}: {found.why_not}"
    return f"{held}, can be {'undone' if found.effective else 'redone'}"
