"""What was changed: operations as a table, and one of them with what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, Final

from lcm_core.base.text import counted
from lcm_core.base.times import format_zoned, parse_utc
from lcm_core.base.values import Record, replace
from lcm_core.change.journal import BRIEF_BATCH, DamagedRecordError, Operation
from lcm_core.change.plan import Edit, rows_json, title_of_several

from lcm_tui.kit.spans import Span
from lcm_tui.tables.blocks import Cell, Facts, ListColumn, Prose, When, json_of
from lcm_tui.tables.blocks import OutputBlock as Block

#: Cells of a time to the minute, and to the second.
MINUTE, SECOND = 16, 19
EMPTY = "lcm-tui has made no change in this database, as far as its history goes back."
IN_EFFECT: Final = "in effect"
UNDONE: Final = "undone"
IN_PART: Final = "in part"
#: Kinds of operations that end a batch for a focus brief (`lcm_core.operations.focus.FocusKind`).
BRIEF_KINDS: Final = frozenset(("focus", "refocus", "focus-failed"))
#: Kinds of operations each of which is about one summary.
_OF_A_SUMMARY: Final = frozenset(("rewrite", "repair"))
#: Kinds whose batches are pieces of one thing: the rows of all are counted.
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
        operations = [one.operation for one in self.listed]
        kinds = Counter(one.kind for one in operations)
        if len(kinds) > 1:
            of_kinds = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
            return f"{many:,} changes: {of_kinds}"
        kind, owners = operations[0].kind, [one.conversation_id for one in operations]
        if kind in _OF_A_SUMMARY:
            return f"{kind.capitalize()}: {many:,} summaries"
        made = [one for one in operations if kind == "compact" and any(row.insert for row in one.rows)]
        if made:  # the others bring in step what the engine notes
            return made[0].title if len(made) == 1 else f"Compact: {len(made):,} summaries"
        # A row that several of them change would count several times.
        rows = [replace(row, update=0) for one in operations for row in one.rows if kind in _IN_PIECES]
        return title_of_several(kind, many, owners, rows)

    @property
    def _without_brief(self) -> bool:
        """Whether it was begun for a focus brief and is that without one: the program was ended, or waits."""
        begun = self.whole and (self.newest.batch or "").startswith(BRIEF_BATCH)
        return begun and not any(one.operation.kind in BRIEF_KINDS for one in self.listed)

    @property
    def main(self) -> Operation:
        """The operation that changed contexts most; else the newest."""
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
    def undoable(self) -> bool:
        """Whether it is what an operator means by "the last change": it holds, at least in part."""
        return bool(self.holding) and not self.is_undo

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
    def state_text(self) -> str | None:
        """The state in words: of an undo that does not hold, what it took back was redone."""
        return "redone" if self.state == UNDONE and self.newest.kind == "undo" else self.state

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


def when_of(one: Operation, zone: tzinfo | None) -> str:
    """When an operation was committed, in the zone that is shown."""
    return format_zoned(parse_utc(one.created_at), zone) or one.created_at


class HistoryCells(Record, frozen=True):
    """What the cells of the app's history are drawn with."""

    zone: tzinfo | None
    seconds: bool  #: some were committed in the same minute
    sign: Span
    inner: str = ""  #: before what was done, where that is one of an unfolded batch


def _when_cell(_: str, line: HistoryLine, drawing: HistoryCells) -> Span:
    return Span(when_of(line.newest, drawing.zone)[: SECOND if drawing.seconds else MINUTE], "dim")


def _what_cell(what: str, line: HistoryLine, drawing: HistoryCells) -> Span:
    return Span(f"{drawing.inner}{what}", "dim" if line.state == UNDONE else "text")


# fmt: off
#: All that is said of a line of the history, in order. Programs get a line for each operation.
HISTORY_COLUMNS: Final[tuple[ListColumn[HistoryLine, HistoryCells], ...]] = (
    ListColumn("sign", "", 1, keep=99, value="state", cell=lambda _, __, drawing: drawing.sign),
    ListColumn("operation", heading="Operation", json="operationId", value="name"),
    ListColumn("kind", json="kind", value="newest.kind"),
    ListColumn("title", json="title", value="newest.title"),
    ListColumn("when", "when", MINUTE, keep=95, timed="at", heading="When", spare=1, time=True,
               value="newest.created_at", cell=_when_cell),
    ListColumn("conversation", "conv", 5, right=True, keep=80, heading="Conv.", spare=2,
               json="conversationId", value="owner", text=str,
               cell=lambda value, _, __: Span("" if value is None else str(value))),
    ListColumn("created", json="createdAt", value="newest.created_at"),
    ListColumn("tokens", "ctx tokens", 10, right=True, keep=70, heading="Tokens", spare=3, json="tokens",
               value="tokens", text="{:+,}".format,
               cell=lambda value, _, __: Span(f"{value:+,}" if value else "0")),
    ListColumn("rows", "rows", 6, right=True, keep=60, value="rows",
               cell=lambda value, _, __: Span(f"{value:,}", "dim")),
    ListColumn("counts", json="rows", value=lambda line: rows_json(line.newest.rows)),
    ListColumn("batch", json="batch", value="newest.batch"),
    ListColumn("undoes", json="undoes", value="newest.undoes"),
    ListColumn("now", heading="Now", value="state"),
    ListColumn("undone_by", heading="Undone by", spare=4, json="undoneBy", value="undone_by"),
    ListColumn("export", json="exportPath",
               value=lambda line: None if line.newest.export is None else str(line.newest.export.path)),
    ListColumn("version", json="toolVersion", value="newest.tool_version"),
    ListColumn("what", "what", 26, grows=True, keep=98, heading="What", value="what", cell=_what_cell),
    ListColumn("undone", "", 7, keep=90, value="state_text",
               cell=lambda value, _, __: Span("" if value == IN_EFFECT else value or "", "warn")),
    ListColumn("id", "id", 19, keep=30, value="name", cell=lambda value, _, __: Span(value, "key")),
)
LISTED_COLUMNS: Final = (
    *HISTORY_COLUMNS,
    ListColumn("effective", json="inEffect", value=lambda line: line.listed[0].effective),
)
# fmt: on


def operation_json(operation: Operation, undone_by: str | None) -> dict[str, Any]:
    """An operation for machines, with what undoes it now."""
    return json_of(HISTORY_COLUMNS, HistoryLine([ListedOperation(operation, undone_by is None, undone_by)]))


class ShownOperation(Record, frozen=True):
    """An operation, what it did, and whether it can be taken back."""

    operation: Operation
    edits: Sequence[Edit] | None  #: None: they cannot be read
    undone_by: str | None  #: what undoes it now; None: it is in effect
    why_not: str | None  #: why it can be neither undone nor redone
    damaged: DamagedRecordError | None  #: its record is not one that a commit wrote

    @property
    def in_effect(self) -> bool:
        """Whether what it did holds now."""
        return self.undone_by is None

    @property
    def undoable(self) -> bool:
        """Whether it can be undone now."""
        return self.in_effect and self.why_not is None

    @property
    def redoable(self) -> bool:
        """Whether it can be redone now."""
        return not self.in_effect and self.why_not is None


def operation_blocks(when: When, found: ShownOperation) -> list[Block]:
    """One operation: what it did, and how it stands."""
    from lcm_core.change.place import Step
    from lcm_core.change.preview import words_of

    from lcm_tui.tables.preview import rows_table, some

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
    held = IN_EFFECT if found.in_effect else UNDONE
    if found.why_not is not None:
        return f"{held}: {found.why_not}"
    return f"{held}, can be {'undone' if found.undoable else 'redone'}"
