"""A change as something to look at: its head, ordinals side by side, edits and SQL as lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from lcm_core.base.text import cell_width, counted
from lcm_core.base.values import Record, field
from lcm_core.change.place import Step
from lcm_core.change.plan import (
    Cells,
    Edit,
    Moved,
    Ref,
    RowChange,
    RowCount,
    Splice,
    Symbol,
    listed,
    ref_of,
    touched_rows,
)
from lcm_core.change.preview import (
    ContextTokens,
    Planned,
    Preview,
    Shifted,
    Tokens,
    sql_of,
    titles_of,
    words_of,
)
from lcm_core.engine.markers import beginning
from lcm_core.store.context import ContextEntry
from lcm_core.store.focus import BRIEFS

from lcm_tui.kit.spans import (
    Block,
    Column,
    Layout,
    Line,
    Span,
    StyleName,
    WrappedBlock,
    depth_style,
    lay_out,
    role_style,
    row_of,
    share_text,
    text_of,
)
from lcm_tui.tables.blocks import kind_name
from lcm_tui.tables.composition import before_and_after, changes_line
from lcm_tui.tables.context import NO_VALUE, PENDING, number
from lcm_tui.tables.preview import each_context, effect_text, items_text, owner_text, rows_text

#: Of the titles of a batch this many are said in the head.
TITLES = 3
#: Cells of a bar, at most.
CHANGE_BAR = 60

COLUMNS = (
    Column("sign", "", 1, keep=99),
    Column("what", "", 7, keep=98),
    Column("old", "old #", 6, right=True, keep=97),
    Column("new", "new #", 6, right=True, keep=96),
    Column("kind", "kind", 9, keep=80),
    Column("id", "id", 20, keep=95),
    Column("tokens", "tokens", 8, right=True, keep=85),
    Column("preview", "begins", 12, grows=True, keep=50),
)


class Held(Record, frozen=True):
    """What is known of an item without the database: its row is in the edits."""

    kind: str
    tokens: int | None
    text: str
    depth: int | None = None
    role: str | None = None


#: A line of the ordinals: an item that comes, goes or moves, or words between.
ShiftRow = Shifted | str


class Shown(Record, frozen=True):
    """A change as the screen shows it."""

    titles: tuple[str, ...]
    shift: tuple[ShiftRow, ...]
    steps: tuple[Step, ...]
    words: tuple[str, ...]  #: of the edits, one line each
    rows: tuple[RowCount, ...]
    tokens: Tokens | None  #: None: only the change is known
    change: int  #: tokens
    contexts: int  #: how many it touches
    entering: int  #: items that come into a context
    leaving: int  #: items that go out of one
    moving: int  #: items that only change their ordinal
    warnings: tuple[str, ...] = ()
    moved: tuple[Moved, ...] = ()
    held: dict[Ref, Held] = field(default_factory=dict)  #: rows that the edits make or delete
    planned: Preview | None = None  #: None: it was done

    @property
    def brief(self) -> str:
        """The text of the brief that it puts in force; empty: there is none."""
        rows = (
            row
            for step in self.steps
            for table, is_there, row in touched_rows(step.edit)
            if is_there and table == BRIEFS
        )
        return next(
            (str(row["content"]) for row in rows if row.get("status") == "active" and row.get("content")), ""
        )

    @property
    def items(self) -> int:
        """Items that come, go or move."""
        return self.entering + self.leaving + self.moving

    def sql(self) -> Iterator[str]:
        """A script that leaves the same rows; of an operation of the history, its statements."""
        return sql_of(self.steps) if self.planned is None else self.planned.sql()


def shown_of(planned: Planned) -> Shown:
    """What is planned, for the screen."""
    seen = planned.preview
    return Shown(
        titles=(seen.plan.title, *(titles_of(planned.plans) if len(planned.plans) > 1 else ())),
        shift=tuple(_with_headings(seen.shift)),
        steps=seen.steps,
        words=tuple(word for step in seen.steps for word in words_of(step)),
        rows=seen.different_rows,
        tokens=seen.tokens,
        change=seen.tokens.change,
        contexts=len({one.conversation_id for one in seen.shift}),
        entering=len(seen.entering),
        leaving=len(seen.leaving),
        moving=len(seen.moving),
        warnings=seen.warnings,
        moved=planned.moved,
        held=held_by(step.edit for step in seen.steps),
        planned=seen,
    )


def shown_edits(title: str, edits: Sequence[Edit], rows: tuple[RowCount, ...], change: int) -> Shown:
    """What an operation did, from what the history kept of it."""
    steps = tuple(Step(edit) for edit in edits)
    shift = tuple(_shift_of(edits))
    return Shown(
        titles=(title,),
        shift=shift,
        steps=steps,
        words=tuple(word for step in steps for word in words_of(step)),
        rows=rows,
        tokens=None,
        change=change,
        contexts=len({edit.conversation_id for edit in edits if isinstance(edit, Splice)}),
        entering=sum(isinstance(row, Shifted) and row.old is None for row in shift),
        leaving=sum(isinstance(row, Shifted) and row.new is None for row in shift),
        moving=sum(isinstance(row, Shifted) and None not in (row.old, row.new) for row in shift),
        held=held_by(edits),
    )


#: Tables of what stands in contexts, and the columns of their ids.
_WITH_TEXT = {"messages": "message_id", "summaries": "summary_id"}


def held_by(edits: Iterable[Edit]) -> dict[Ref, Held]:
    """The summaries and messages that some edits make or delete."""
    found: dict[Ref, Held] = {}
    for edit in edits:
        if isinstance(edit, RowChange) and None in (edit.before, edit.after) and edit.table in _WITH_TEXT:
            ref = edit.row.get(_WITH_TEXT[edit.table])
            if isinstance(ref, int | str | Symbol):
                found[ref] = _held(edit.row)
    return found


def _held(row: Cells) -> Held:
    tokens, text, depth = row.get("token_count"), row.get("content"), row.get("depth")
    kind, role = row.get("kind"), row.get("role")
    depth = depth if isinstance(depth, int) else 0
    return Held(
        str(role) if role is not None else kind_name(str(kind), depth),
        tokens if isinstance(tokens, int) else None,
        text if isinstance(text, str) else "",
        None if role is not None else depth,
        None if role is None else str(role),
    )


# -- ordinals ----------------------------------------------------------------------------------------------


def _with_headings(shift: Sequence[Shifted]) -> Iterator[ShiftRow]:
    """Items under the conversation they belong to, when there is more than one."""
    several = len({one.conversation_id for one in shift}) > 1
    for owner, group in groupby(shift, key=lambda one: one.conversation_id):
        if several:
            yield f"context of {owner_name(owner)}"
        yield from group


def owner_name(owner: object) -> str:
    """A conversation in words; one that the plan makes has no number yet."""
    return "the new conversation" if isinstance(owner, Symbol) else f"conversation {owner}"


def _shift_of(edits: Iterable[Edit]) -> Iterator[ShiftRow]:
    """What committed splices took out and put in; what moved behind them is told in words."""
    for edit in edits:
        if isinstance(edit, Splice):
            for move in edit.moves:
                yield Shifted(edit.conversation_id, move.item.ref, move.old, move.new)
            for row in edit.removed:
                yield Shifted(edit.conversation_id, ref_of(row), _ordinal(row), None)
            for row in edit.inserted:
                yield Shifted(edit.conversation_id, ref_of(row), None, _ordinal(row))
            if edit.shift:
                yield f"every later item moves by {edit.shift:+,}"


def _ordinal(row: Cells) -> int | None:
    found = row.get("ordinal")
    return found if isinstance(found, int) else None


def columns(width: int) -> Layout:
    """The columns of the ordinals for a list of *width* cells."""
    return lay_out(COLUMNS, width)


def shift_line(
    row: ShiftRow, entry: ContextEntry | None, held: Held | None, width: int, *, broken: str = ""
) -> Line:
    """An item with its old and new ordinal side by side; *entry* is None while it has not been read.

    *broken*: why a summary is none; empty: it is one, or this is not known yet.
    """
    if isinstance(row, str):
        return (Span(f"── {row} ", "heading"),)
    sign, word, style = _standing(row)
    cells = {
        "sign": Span(sign, style),
        "what": Span(word, style),
        "old": Span(NO_VALUE if row.old is None else str(row.old), style if row.new is None else "text"),
        "new": Span(NO_VALUE if row.new is None else str(row.new), style if row.old is None else "text"),
        "id": Span(item_name(row.ref), "key"),
    }
    details = _details(row.ref, entry, held, width)
    if broken:
        begins = details.get("preview", Span("")).text
        cells["sign"] = Span("✗", "error")
        details["preview"] = Span(f"broken: {broken} · {begins}", "error")
    return row_of(columns(width), cells | details)


def _standing(row: Shifted) -> tuple[str, str, StyleName]:
    if row.old is None:
        return "+", "added", "ok"
    if row.new is None:
        return "-", "removed", "error"
    return "→", "moved", "dim"


def item_name(ref: Ref) -> str:
    """What an item stands for, by its id."""
    if isinstance(ref, Symbol):
        return "a new message"
    if ref is None:
        return "nothing"
    return ref if isinstance(ref, str) else f"m{ref}"


def _details(ref: Ref, entry: ContextEntry | None, held: Held | None, width: int) -> dict[str, Span]:
    """Kind, tokens and the beginning of the text: from the database, else from the edits."""
    if entry is not None and not entry.dangling:
        style = depth_style(entry.depth) if entry.is_summary else role_style(entry.role)
        kind = kind_name(entry.kind or "", entry.depth or 0) if entry.is_summary else entry.role or ""
        return _cells(kind, style, entry.tokens, entry.beginning, width)
    if held is not None:
        style = role_style(held.role) if held.role is not None else depth_style(held.depth)
        text = held.text if held.role is not None else beginning(held.text)
        return _cells(held.kind, style, held.tokens, text, width)
    if entry is not None and ref is not None:
        return {"kind": Span("no row", "error")}
    return {"kind": Span(PENDING if ref is not None else "", "dim")}


def _cells(kind: str, style: StyleName, tokens: int | None, text: str, width: int) -> dict[str, Span]:
    return {
        "kind": Span(kind, style),
        "tokens": Span(NO_VALUE if tokens is None else number(tokens, 8)),
        "preview": Span(" ".join(text[: 4 * width].split()), "dim"),
    }


# -- the head ----------------------------------------------------------------------------------------------


def head_lines(
    shown: Shown, budget: int, width: int, room: int | None = None, *, plain: bool = False
) -> list[Line]:
    """What happens in words: what it is, what that does to the context, warnings, tokens, rows.

    Where there is *room* for so many lines only, all titles but one are left out first, then the bars, then
    all but the first line of each and the rows, which the edits list; warnings are cut last, for they say
    what it costs.
    """
    warned = [warning_lines(text, width) for text in warnings_of(shown)]
    effect = _wrapped(_effect_text(shown, budget).replace(" %", "\N{NO-BREAK SPACE}%"), "text", width)
    rows = _wrapped(f"rows    {rows_text(shown.rows)}", "text", width)
    free = 0
    for most, bars, cut in ((TITLES, True, False), (1, True, False), (1, False, False), (1, False, True)):
        titles = _title_lines(shown, most, width)
        tokens = token_lines(shown, budget, width, bars=bars, plain=plain)
        if cut:
            titles, effect, rows = _first(titles), _first(effect), []
            tokens = tokens if shown.contexts > 1 else _first(tokens)
        needed = sum(map(len, warned))
        free = needed if room is None else room - len(titles) - len(effect) - len(tokens) - len(rows)
        if needed <= free:
            break
    return [*titles, *effect, *_fitted(warned, free, width), *tokens, *rows]


def warnings_of(shown: Shown) -> tuple[str, ...]:
    """What a change warns of, in sentences."""
    why = listed(moved.text for moved in shown.moved)
    again = (f"The database changed, so this was planned again: {why}.",) if shown.moved else ()
    return (*again, *(f"{one}." for one in shown.warnings))


def warning_lines(text: str, width: int) -> list[Line]:
    """A warning, whole."""
    return _wrapped(f"! {text}", "warn", width)


def _fitted(warned: Sequence[list[Line]], free: int, width: int) -> Iterator[Line]:
    """Warnings in the lines that are *free*, each with at least its first; those without room are counted."""
    shown = warned if len(warned) <= max(free, 1) else warned[: max(free - 1, 1)]
    more = len(warned) - len(shown)
    spare = free - len(shown) - bool(more)
    for lines in shown:
        yield from _first(lines, 1 + max(spare, 0))
        spare -= len(lines) - 1
    if more:
        yield from _wrapped(f"! and {counted(more, 'warning')} more (tab)", "warn", width)


def _title_lines(shown: Shown, most: int, width: int) -> list[Line]:
    whole, *parts = shown.titles
    lines = _wrapped(whole, "title", width)
    numbered = enumerate(parts, 1) if len(parts) < most else ()  # a few of them would look like all
    return [*lines, *(line for at, title in numbered for line in _wrapped(f"{at}. {title}", "text", width))]


def text_lines(text: str, width: int) -> Sequence[Line]:
    """A line of a text that a change brings, all of it."""
    return _wrapped(text, "text", width) if text.strip() else ((),)


def _first(lines: list[Line], most: int = 1) -> list[Line]:
    """So many lines at most; the last one says that the text goes on."""
    return lines if len(lines) <= most else [*lines[: most - 1], (*lines[most - 1], Span(" …", "dim"))]


def _wrapped(text: str, style: StyleName, width: int) -> list[Line]:
    """A text within the margins; what goes on stands under what it goes on from."""
    block = WrappedBlock(Block(spans=(Span(" "), Span(text, style)), indent=3), max(width - 1, 12))
    return [block.line(at) for at in range(len(block))]


def _effect_text(shown: Shown, budget: int) -> str:
    if shown.planned is not None:
        return effect_text(shown.planned.shift, shown.planned.tokens, budget)
    if not shown.shift:
        return "Ordinals do not change."
    where = f" in {shown.contexts} contexts" if shown.contexts > 1 else ""
    said = items_text(shown.entering, shown.leaving, shown.moving)
    if not shown.moving:  # the history keeps no more
        said = said.replace("0 moved", "later items moved")
    return f"Context items: {said}{where}."


def token_lines(
    shown: Shown, budget: int, width: int, *, bars: bool = True, plain: bool = False
) -> list[Line]:
    """Stored tokens before and after; of one context also what it is made of, or its part of the budget.

    The larger bar takes the width, whatever the budget is: a share beside it would read as its length.
    """
    tokens = shown.tokens
    if not shown.shift and tokens is not None and not (tokens.before or tokens.after):
        return []
    if tokens is not None and (several := each_context(tokens)):
        return [line for one in several for line in _context_lines(one, budget, width)]
    if tokens is None or shown.contexts != 1:
        return _wrapped(f"tokens  {_tokens_text(shown)}", "text", width)
    change: StyleName = "warn" if tokens.after > budget else "text"
    text = f"tokens  {_tokens_text(shown)}, budget {budget:,}"
    shares = tuple(share_text(amount / budget) for amount in (tokens.before, tokens.after))
    if not bars:
        return _wrapped(f"{text}, {' → '.join(shares)}", change, width)
    lines = _wrapped(f"{text}; the bars show the parts", change, width)
    drawn = before_and_after(
        tokens.made_of_before, tokens.made_of_after, min(width - 20, CHANGE_BAR), plain=plain
    )
    amounts = (tokens.before, tokens.after)
    for name, bar, amount in zip(("before", "after"), drawn, amounts, strict=True):
        lines.append((Span(f" {name:<7} ", "dim"), *bar, Span(f" {amount:,}")))
    changes = changes_line(tokens.made_of_before, tokens.made_of_after, plain=plain)
    return [*lines, changes] if cell_width(text_of(changes)) <= width else lines


def _context_lines(one: ContextTokens, budget: int, width: int) -> list[Line]:
    """Tokens of one of several contexts, and their part of the budget."""
    shares = f"{share_text(one.before / budget)} → {share_text(one.after / budget)}"
    text = (
        f"tokens of {owner_text(one)}  {one.before:,} → {one.after:,} stored "
        f"({one.after - one.before:+,}), budget {budget:,}, {shares}"
    )
    return _wrapped(text, "warn" if one.after > budget else "text", width)


def bar_part(line: Line, cell: int) -> tuple[bool, StyleName] | None:
    """Whose bar a line of the head draws (True: before), and the style of the part at a cell."""
    name = line[0].text.strip() if line else ""
    if name not in ("before", "after"):
        return None
    at = cell_width(line[0].text)
    for span in line[1:-1]:
        at += cell_width(span.text)
        if cell_width(line[0].text) <= cell < at:
            return (name == "before", span.style) if span.text.strip() else None
    return None


def _tokens_text(shown: Shown) -> str:
    if shown.tokens is None:
        return f"{shown.change:+,} in the context"
    return f"{shown.tokens.before:,} → {shown.tokens.after:,} stored ({shown.change:+,})"
