"""What lcm-tui changed in this database: every operation, newest first, to look at, to undo and to redo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lcm_core.change.asking import answer
from lcm_core.change.journal import Operation, edits_of, operations, undone_now
from lcm_core.change.plan import Edit, Plan
from lcm_core.change.undo import plan_redo, plan_redo_batch, plan_undo, plan_undo_batch, undone_by
from lcm_core.errors import LcmError
from lcm_core.records import Conversation
from lcm_core.store.database import Reader
from lcm_core.times import format_local, parse_utc
from textual.binding import BindingType

from lcm_tui.commands import bindings
from lcm_tui.screens.listing import PAGE, PagedScreen
from lcm_tui.screens.plan import Choice, PlanScreen
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
    found = await answer(reader, operations(limit=limit + 1, conversation_id=conversation_id))
    return History(tuple(found[:limit]), undone_now(found), len(found) > limit)


async def plan_back(reader: Reader, one: Operation, *, whole: bool) -> Sequence[Plan]:
    """Take an operation back, or make it again when it has been undone; *whole*: all of its batch."""
    undone = await undone_by(reader, one.id) is not None
    if whole and one.batch is not None:
        return await (plan_redo_batch if undone else plan_undo_batch)(reader, one.batch)
    return (await (plan_redo if undone else plan_undo)(reader, one.id),)


class HistoryScreen(PagedScreen[str, History]):
    """The operations of this database, newest first."""

    HELP = """
Everything that lcm-tui changed in this database, newest first: when, in which conversation, by how many
tokens the context grew, how many rows were touched, and what was done. The list lies in the database itself,
in a table of our own that the engine does not mind; browsing never makes it.

enter shows an operation in full, edit by edit. u previews taking it back, whichever it is in the list, and a
applies that; an undo is an operation as well, and can be undone. ↶ marks what was undone and no longer holds.
When rows of an operation have changed since, undoing it is refused, and the reason is shown.

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
        self.take(len(data.operations), more=data.more)
        self.relist()
        if self._listed:
            self.table.mark_fresh(self.appeared(self._operations, known))
        self._listed = True

    def matching(self, words: Sequence[str]) -> Sequence[str]:
        """The operations that hold the words."""
        return [key for key, one in self._operations.items() if self._holds(one, words)]

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
        one = self._operations[key]
        holds = self._undone.get(key) is None
        touched = sum(count.insert + count.update + count.delete for count in one.rows)
        return {
            "sign": Span("" if holds else "↶", "warn"),
            "when": Span(_when(one, self.session)[:16], "dim"),
            "conversation": Span("" if one.conversation_id is None else str(one.conversation_id)),
            "tokens": Span(f"{one.tokens:+,}" if one.tokens else "0"),
            "rows": Span(f"{touched:,}", "dim"),
            "what": Span(one.title, "text" if holds else "dim"),
            "undone": Span("" if holds else "undone", "warn"),
            "id": Span(one.id, "key"),
        }

    # -- commands ----------------------------------------------------------------------------------------

    def _selected(self) -> Operation | None:
        key = self.table.selected
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
        """Show the operation in full."""
        one = self._selected()
        if one is not None:
            self.app.push_screen(OperationScreen(one))

    def action_undo(self) -> None:
        """Preview taking it back, or making it again."""
        one = self._selected()
        if one is not None:
            self.app.push_screen(back_screen(one, self._undone.get(one.id) is None))

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


def back_screen(one: Operation, holds: bool) -> PlanScreen:
    """The preview of an undo, or of a redo."""
    where = "" if one.conversation_id is None else f", conversation {one.conversation_id}"

    whole = Choice.switch("with all of its batch")

    async def plan(reader: Reader) -> Sequence[Plan]:
        return await plan_back(reader, one, whole=whole.on)

    return PlanScreen(
        plan,
        title=f"{'Undo' if holds else 'Redo'}{where}",
        about=ABOUT,
        choices=(whole,) if one.batch is not None else (),
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
    return await answer(reader, edits_of(one)), await undone_by(reader, one.id)


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
            self.app.push_screen(back_screen(self._operation, self._recorded.undone_by is None))


def _when(one: Operation, session: Session) -> str:
    return format_local(parse_utc(one.created_at), session.zone) or one.created_at
