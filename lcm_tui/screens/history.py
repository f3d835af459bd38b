"""What lcm-tui changed in this database: every operation, newest first, to look at, to undo and to redo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lcm_core.change.journal import Operation, edits_of, operations, undone_now
from lcm_core.change.plan import Edit, Plan
from lcm_core.change.undo import (
    NotUndoableError,
    named,
    plan_redo,
    plan_redo_batch,
    plan_undo,
    plan_undo_batch,
    plan_undo_with_later,
    undone_by,
)
from lcm_core.errors import LcmError, RefusedError
from lcm_core.records import Conversation
from lcm_core.store.database import Reader
from lcm_core.times import format_local, parse_utc
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.changes.change import Change, Choice
from lcm_tui.commands import bindings
from lcm_tui.screens.listing import PAGE, PagedScreen
from lcm_tui.screens.plan_lines import Shown, rows_text, shown_edits
from lcm_tui.screens.plan_view import HELP_VIEW, PlanView
from lcm_tui.session import Session
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.spans import Column, Line, Span

COLUMNS = (
    Column("sign", "", 1, keep=99),
    Column("when", "when", 16, keep=95),
    Column("conversation", "conv", 5, right=True, keep=80),
    Column("tokens", "tokens", 9, right=True, keep=70),
    Column("rows", "rows", 6, right=True, keep=60),
    Column("what", "what", 26, grows=True, keep=98),
    Column("undone", "", 7, keep=90),
    Column("id", "id", 19, keep=30),
)


@dataclass(frozen=True, slots=True)
class History:
    """Operations, newest first."""

    operations: tuple[Operation, ...]
    undone: Mapping[str, str | None]  #: what undoes each now
    more: bool  #: there are older ones


async def load_history(reader: Reader, limit: int, conversation_id: int | None) -> History:
    """The newest operations, in one transaction."""
    found = await reader.run(operations, limit=limit + 1, conversation_id=conversation_id)
    return History(tuple(found[:limit]), undone_now(found), len(found) > limit)


async def plan_back(
    reader: Reader, one: Operation, *, whole: bool, with_later: bool = False
) -> Sequence[Plan]:
    """Take an operation back, or make it again when it has been undone.

    *whole*: all of its batch that is in the same state; *with_later*: what depends on it too.
    """
    undone = await undone_by(reader, one.id) is not None
    if whole and one.batch is not None:
        return await (plan_redo_batch if undone else plan_undo_batch)(reader, one.batch)
    if with_later and not undone:
        return await plan_undo_with_later(reader, one.id)
    return (await (plan_redo if undone else plan_undo)(reader, one.id),)


class HistoryScreen(PagedScreen[str, History]):
    """The operations of this database, newest first."""

    HELP = """
Everything that lcm-tui changed in this database, newest first: when, in which conversation, by how many
tokens the context grew, how many rows were touched, and what was done. The list lies in the database itself,
in a table of our own that the engine does not mind; browsing never makes it.

enter shows an operation in full, edit by edit; what was committed together as a batch is one line (▸), which
enter unfolds, and u there is about all of it. u previews taking it back, whichever it is in the list, and a
applies that; an undo is an operation as well, and can be undone. ↶ marks what was undone and no longer holds.
When a later operation depends on it, the preview names that one, and a choice there takes both back. When
somebody else has changed its rows since, undoing it is refused, and the reason is shown.

T switches between this conversation and all of them. / filters.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", "undo", "scope", "search"))
    FILTER = "words of what was done, its kind, time or id"

    def __init__(self, conversation: Conversation | None = None, *, only: bool = False) -> None:
        """The history of the database; with *only* at first that of *conversation*."""
        super().__init__()
        self.conversation = conversation
        self._only = only and conversation is not None
        self._undone: Mapping[str, str | None] = {}
        self._operations: dict[str, Operation] = {}
        self._batches: dict[str, list[str]] = {}  #: operations of those that are one line, newest first
        self._unfolded: set[str] = set()
        self._listed = False

    def where(self) -> str:
        """Whose history."""
        if self._only and self.conversation is not None:
            return f"History of {self.conversation.conversation_id}  {self.conversation.lane}"
        return "History"

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> History:
        """The operations, as many as were asked for."""
        scope = self.conversation.conversation_id if self._only and self.conversation is not None else None
        return await self.session.read(load_history, self.limit, scope)

    def show(self, data: History) -> None:
        """Show them; the cursor stays on its operation."""
        known, self._undone = self._operations, data.undone
        self._operations = {one.id: one for one in data.operations}
        batches: dict[str, list[str]] = {}
        for one in data.operations:
            if one.batch is not None:
                batches.setdefault(one.batch, []).append(one.id)
        self._batches = {name: ids for name, ids in batches.items() if len(ids) > 1}
        self.take(len(data.operations), more=data.more)
        self.relist()
        if self._listed:
            self.table.mark_fresh(self.appeared(self._operations, known))
        self._listed = True

    def matching(self, words: Sequence[str]) -> Sequence[str]:
        """The operations that hold the words, and the batches that hold one of them."""
        found: dict[str, None] = {}
        for key, one in self._operations.items():
            if not self._holds(one, words):
                continue
            if one.batch in self._batches:
                found[one.batch] = None
                if one.batch not in self._unfolded:
                    continue
            found[key] = None
        return list(found)

    def _holds(self, one: Operation, words: Sequence[str]) -> bool:
        text = f"{one.id} {one.kind} {one.title} {_when(one, self.session)} {one.batch or ''}".casefold()
        return all(word in text for word in words)

    def why_empty(self) -> str:
        """Nothing passes the filter, or nothing was changed."""
        if self._operations:
            return "No operation matches."
        if self._only:
            return "Nothing was changed in this conversation by lcm-tui. T shows all conversations."
        return "Nothing was changed by lcm-tui. Each change will stand here, and u takes it back."

    def note(self) -> str:
        """How many there are, if any."""
        return super().note() if self._operations else ""

    # -- drawing -----------------------------------------------------------------------------------------

    def columns(self) -> Sequence[Column]:
        """What is said of an operation."""
        return COLUMNS

    def cells(self, key: str) -> dict[str, Span]:
        """When, where, how much and what; in grey what does not hold any more."""
        if key in self._batches:
            return self._batch_cells(key)
        one = self._operations[key]
        holds = self._undone.get(key) is None
        touched = sum(count.insert + count.update + count.delete for count in one.rows)
        return {
            "sign": Span("" if holds else "↶", "warn"),
            "when": Span(_when(one, self.session)[:16], "dim"),
            "conversation": Span("" if one.conversation_id is None else str(one.conversation_id)),
            "tokens": Span(f"{one.tokens:+,}" if one.tokens else "0"),
            "rows": Span(f"{touched:,}", "dim"),
            "what": Span(
                f"{'  ' if one.batch in self._batches else ''}{one.title}", "text" if holds else "dim"
            ),
            "undone": Span("" if holds else "undone", "warn"),
            "id": Span(one.id, "key"),
        }

    def _batch_cells(self, batch: str) -> dict[str, Span]:
        """A batch in one line: its sums, and whether all, some or none of it holds."""
        found = [self._operations[one] for one in self._batches[batch]]
        holding = sum(self._undone.get(one.id) is None for one in found)
        owners = {one.conversation_id for one in found}
        tokens = sum(one.tokens for one in found)
        touched = sum(count.insert + count.update + count.delete for one in found for count in one.rows)
        sign = "▾" if batch in self._unfolded else "▸"
        state = "" if holding == len(found) else "undone" if not holding else "in part"
        return {
            "sign": Span(sign, "key"),
            "when": Span(_when(found[0], self.session)[:16], "dim"),
            "conversation": Span(str(owners.pop() or "") if len(owners) == 1 else ""),
            "tokens": Span(f"{tokens:+,}" if tokens else "0"),
            "rows": Span(f"{touched:,}", "dim"),
            "what": Span(f"{len(found):,} operations: {found[0].title}", "text" if holding else "dim"),
            "undone": Span(state, "warn"),
            "id": Span(batch, "key"),
        }

    # -- commands ----------------------------------------------------------------------------------------

    def _selected(self) -> Operation | None:
        """The operation; of a batch that is one line its newest."""
        key = self.table.selected
        if key in self._batches:
            return self._operations[self._batches[key][0]]
        return self._operations.get(key) if key is not None else None

    def selected_id(self) -> str | None:
        """The operation's id."""
        return self.table.selected

    def why_not(self, command: str) -> str | None:
        """Something must be selected; a scope needs a conversation."""
        if command in {"open", "undo"} and self._selected() is None:
            return "no operation is selected"
        if command == "scope" and self.conversation is None:
            return "no conversation was selected when this was opened"
        return super().why_not(command)

    def action_open(self) -> None:
        """Show the operation in full; unfold or fold a batch."""
        one, key = self._selected(), self.table.selected
        if key in self._batches:
            self._unfolded ^= {key}
            self.relist()
        elif one is not None:
            self.open(places.OneOperation(one))

    def action_undo(self) -> None:
        """Preview taking it back, or making it again."""
        one = self._selected()
        if one is None:
            return
        batch = self._batches.get(self.table.selected or "", [])
        holding = [each for each in batch or [one.id] if self._undone.get(each) is None]
        if batch and holding:  # of what holds in part, that part is undone
            one = self._operations[holding[0]]
        self.open(places.Preview(back_change(one, bool(holding), whole=bool(batch))))

    def action_scope(self) -> None:
        """Switch between this conversation and all."""
        self._only = not self._only
        self._limit = PAGE
        self._listed = False
        self.say_where()
        self.load()


ABOUT: Final = """
An undo puts back what an operation replaced, a redo makes it again, whichever it is in the history. Every row
is compared first: when one has changed since, it is refused with the reason. Both are operations as well.
"""


def back_change(one: Operation, holds: bool, *, whole: bool = False) -> Change:
    """The preview of an undo, or of a redo; *whole*: of all its batch, unless that is chosen otherwise."""
    where = "" if one.conversation_id is None else f", conversation {one.conversation_id}"

    of_batch = Choice("with all of its batch", ("no", "yes"), chosen="yes" if whole else "no")
    later = Choice.switch("with later operations that depend on it")
    choices = [*([of_batch] if one.batch is not None else []), *([later] if holds else [])]

    async def plan(reader: Reader) -> Sequence[Plan]:
        try:
            return await plan_back(reader, one, whole=of_batch.on, with_later=later.on)
        except NotUndoableError as error:
            if not error.dependents or of_batch.on:
                raise
            raise _depended_on(error, choices.index(later) + 1) from error

    return Change(plan, f"{'Undo' if holds else 'Redo'}{where}", ABOUT, tuple(choices))


def _depended_on(error: NotUndoableError, digit: int) -> RefusedError:
    """What stands on an operation, and the choice that takes all of it back."""
    names = "; ".join(named(one) for one in error.dependents)
    if len(error.dependents) == 1:
        return RefusedError(
            f"Blocked by a later operation that depends on it: {names}. Press {digit} to undo both together."
        )
    number = len(error.dependents)
    return RefusedError(
        f"Blocked by {number} later operations that depend on it: {names}. Press {digit} to undo all "
        f"{number + 1} together."
    )


@dataclass(frozen=True, slots=True)
class Recorded:
    """An operation with what it did; the sentence that says why it cannot be read."""

    operation: Operation
    shown: Shown | None
    undone_by: str | None  #: what undoes it now; None: what it did holds
    problem: str = ""


async def load_operation(reader: Reader, one: Operation) -> tuple[tuple[Edit, ...], str | None]:
    """The edits of an operation and what undoes it now."""
    return await reader.run(edits_of, one), await undone_by(reader, one.id)


class OperationScreen(PlanView[Recorded]):
    """One operation in full; `u` previews taking it back."""

    HELP = f"""
An operation as it was committed, with the ordinals of that moment. u previews taking it back, or making it
again when it was undone.

{HELP_VIEW}
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("undo", "open"))

    def __init__(self, operation: Operation) -> None:
        super().__init__()
        self._operation = operation
        self._recorded: Recorded | None = None

    def on_mount(self) -> None:
        """Say where this is."""
        self.query_one(TitleBar).where = f"Operation {self._operation.id}"
        self.main_widget().focus()

    async def fetch(self) -> Recorded:
        """What the history kept; its edits never change."""
        one, held = self._operation, self.shown
        try:
            edits, by = await self.session.read(load_operation, one)
        except LcmError as error:
            return Recorded(one, None, None, error.message)
        return Recorded(one, held or shown_edits(one.title, edits, one.rows, one.tokens), by)

    def show(self, data: Recorded) -> None:
        """Show it."""
        self._recorded = data
        self.query_one(TitleBar).note = "" if data.undone_by is None else "undone"
        self.show_change(data.shown, empty=data.problem)

    def lines_above(self, width: int) -> list[Line]:
        """When, by what, and whether it holds."""
        one, found = self._operation, self._recorded
        when = _when(one, self.session)
        said = f" {one.kind}, {when}, by lcm-tui {one.tool_version}"
        lines: list[Line] = [(Span(said, "dim"),)]
        if one.batch is not None:
            lines.append((Span(f" one of batch {one.batch}", "dim"),))
        if one.undoes is not None:
            lines.append((Span(f" takes back {one.undoes}", "dim"),))
        if found is not None and found.undone_by is not None:
            lines.append((Span(f" ↶ undone by {found.undone_by}", "warn"),))
        if found is not None and found.problem:
            lines += [(Span(f" {found.problem}", "error"),), (Span(f" {rows_text(one.rows)}"),)]
        return lines

    def why_not(self, command: str) -> str | None:
        """What cannot be read cannot be taken back."""
        if command == "undo" and (self._recorded is None or self._recorded.problem):
            return "it could not be read"
        return super().why_not(command)

    def action_undo(self) -> None:
        """Preview taking it back, or making it again."""
        if self._recorded is not None:
            self.open(places.Preview(back_change(self._operation, self._recorded.undone_by is None)))


def _when(one: Operation, session: Session) -> str:
    return format_local(parse_utc(one.created_at), session.zone) or one.created_at
