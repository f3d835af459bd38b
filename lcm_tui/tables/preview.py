"""What a plan would do: in words, as the ordinals that change, by the rows of each table, as two texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Final

from lcm_core.base.text import counted
from lcm_core.change.plan import CONTEXT, Cells, Edit, RowCount, Splice, Symbol, touched_rows
from lcm_core.change.preview import ContextTokens, Preview, Shifted, Tokens

from lcm_tui.kit.spans import share_text, text_of
from lcm_tui.tables.blocks import Cell, Facts, Note, OutputBlock, OutputColumn, Prose, Table
from lcm_tui.tables.composition import before_and_after, changes_line

#: Cells of a bar that shows what a context is made of.
BAR = 48
#: Lines of one list that people are shown; the rest is counted.
LINES = 40
#: Lines of a run that are shown when it is longer than `RUN`.
_OF_A_RUN = 2
RUN = 12
#: So many contexts at most get a line of tokens each; more are summed.
MOST_CONTEXTS = 6


def preview_blocks(shown: Preview, budget: int) -> list[OutputBlock]:
    """What a plan would do, for people."""
    effect = effect_text(shown.shift, shown.tokens, budget)
    blocks: list[OutputBlock] = [Prose(effect, title=shown.plan.title)]
    if facts := list(_facts(shown, budget)):
        blocks.append(Facts(facts))
    if words := list(_in_runs(shown.words())):
        blocks.append(Prose("\n".join(some(words)), title="What happens"))
    blocks += _ordinals(shown)
    if shown.different_rows:
        blocks.append(rows_table(shown.different_rows))
    return [*blocks, *warning_notes(shown)]


def done_text(titles: Sequence[str], other: str) -> str:
    """That plans were committed, by their titles; *other* says so of what is no undo or redo."""
    kind, _, what = titles[-1].partition(": ")
    done = {"Undo": "Undone", "Redo": "Redone"}.get(kind)
    if len(titles) == 1:
        return f"{done}: {what}" if done and what else f"{other}: {titles[0]}"
    if done and all(title.startswith(f"{kind}: ") for title in titles):
        return f"{done}: {len(titles):,} changes"
    return f"{other}: {len(titles):,} changes, the last one “{titles[-1]}”"


def warning_notes(shown: Preview) -> list[Note]:
    """What a plan warns of."""
    return [Note(f"Warning: {warning}.") for warning in shown.warnings]


def _facts(shown: Preview, budget: int) -> Iterator[tuple[str, Cell]]:
    if shown.plan.conversation_id is not None:
        yield "Conversation", str(shown.plan.conversation_id)
    if shown.shift or shown.tokens.change:
        for one in each_context(shown.tokens):
            yield f"Tokens of {owner_text(one)}", tokens_text(one.before, one.after, budget)
        if not each_context(shown.tokens):
            yield "Tokens", tokens_text(shown.tokens.before, shown.tokens.after, budget)
        yield from _composition(shown.tokens)


def _composition(tokens: Tokens) -> Iterator[tuple[str, Cell]]:
    """What the context is made of before and after, in the letters that the screens use without colours."""
    before, after = tokens.made_of_before, tokens.made_of_after
    if before != after:
        bars = before_and_after(before, after, BAR, plain=True)
        yield from zip(("Before", "After"), map(text_of, bars), strict=True)
        yield "Made of", text_of(changes_line(before, after, plain=True)).strip().replace("→", "->")


def each_context(tokens: Tokens) -> tuple[ContextTokens, ...]:
    """The contexts that get a line each; none where there is one, or too many."""
    return tokens.contexts if len(tokens.contexts) <= MOST_CONTEXTS else ()


def owner_text(one: ContextTokens) -> str:
    """Whose context it is: the conversation's number, or the name of one that is yet to be made."""
    owner = one.conversation_id
    return str(owner) if isinstance(owner, int) else owner.name


def tokens_text(before: int, after: int, budget: int) -> str:
    """Stored tokens of contexts before and after, and what part of the budget that is."""
    return (
        f"{before:,} -> {after:,} stored ({after - before:+,}), "
        f"{before / budget:.1%} -> {after / budget:.1%} of {budget:,}"
    )


def rows_table(rows: Sequence[RowCount]) -> Table:
    """The rows that change, by table."""
    counts = (OutputColumn(name, right=True) for name in ("Insert", "Update", "Delete"))
    lines = [(one.table, one.insert, one.update, one.delete) for one in rows]
    return Table([OutputColumn("Table"), *counts], lines, title="Rows")


def some(lines: Sequence[str]) -> list[str]:
    """The first of many lines, and how many more there are."""
    if len(lines) <= LINES:
        return list(lines)
    return [*lines[:LINES], f"... and {len(lines) - LINES:,} more; --json lists all"]


def _in_runs(words: Iterable[str]) -> Iterator[str]:
    """Lines that say the same of many rows of one table, as the first of them and a count."""
    for what, group in groupby(words, key=lambda line: line.partition(":")[0]):
        run = list(group)
        if len(run) <= RUN or what.startswith("context of"):
            yield from run
        else:
            yield from run[:_OF_A_RUN]
            yield f"{what}: and {len(run) - _OF_A_RUN:,} more"


def effect_text(shift: Sequence[Shifted], tokens: Tokens, budget: int) -> str:
    """What a plan does to the contexts that it touches, in one sentence; the budget is in tokens."""
    contexts = len({one.conversation_id for one in shift}) or len(tokens.contexts)
    said = [_moves_text(shift), *_weights_text(tokens)]
    if contexts < 2 and tokens.after:
        becomes = "becomes" if tokens.change else "stays"
        said.append(f"the stored context {becomes} {share_text(tokens.after / budget)} of its budget")
    sentence = "; ".join(said)
    return f"In {contexts} contexts, {sentence}." if contexts > 1 else f"{sentence[0].upper()}{sentence[1:]}."


def _moves_text(shift: Sequence[Shifted]) -> str:
    if not shift:
        return "ordinals do not change"
    moving = [one for one in shift if _distance(one) is not None]
    if not moving:
        return "no other ordinal changes"
    runs = [(distance, list(run)) for distance, run in groupby(moving, key=_distance)]
    if len(runs) > 1 or len({one.conversation_id for one in moving}) > 1:
        return counted(len(moving), "other ordinal changes", "other ordinals change")
    [(distance, run)] = runs
    first, last = run[0].old, run[-1].old
    return (
        f"ordinal {first} moves by {distance:+,}"
        if first == last
        else f"ordinals {first}–{last} move by {distance:+,}"
    )


def _weights_text(tokens: Tokens) -> Iterator[str]:
    leaving, entering = tokens.leaving, tokens.entering
    if leaving or entering:
        said = [f"{leaving:,} tokens leave"] if leaving else []
        said += [f"{entering:,} {'' if leaving else 'tokens '}enter"] if entering else []
        yield ", ".join(said)


# -- ordinals --------------------------------------------------------------------------------------------


def _ordinals(shown: Preview) -> Iterator[OutputBlock]:
    """Both ordinals of everything that comes, goes or moves; neighbours that move alike are one line."""
    columns = (
        OutputColumn(""),
        OutputColumn("Old", right=True),
        OutputColumn("New", right=True),
        OutputColumn("Item", grows=True),
    )
    for owner, shifts in groupby(shown.shift, key=lambda one: one.conversation_id):
        rows = list(_shift_rows(list(shifts)))
        name = owner.name if isinstance(owner, Symbol) else str(owner)
        more = len(rows) - LINES
        yield Table(columns, rows[:LINES], title=f"Ordinals in conversation {name}")
        if more > 0:
            yield Note(f"And {counted(more, 'line')} more; --json lists all.")


def _shift_rows(shifts: Sequence[Shifted]) -> Iterator[tuple[Cell, ...]]:
    for distance, group in groupby(shifts, key=_distance):
        run = list(group)
        if distance is None or len(run) == 1:
            yield from (_shift_row(one) for one in run)
            continue
        first, last = run[0], run[-1]
        yield (
            "",
            f"{first.old}..{last.old}",
            f"{first.new}..{last.new}",
            f"{len(run):,} items move by {distance:+,}",
        )


def _distance(one: Shifted) -> int | None:
    """By how much an item moves; None: it comes or goes."""
    return None if one.old is None or one.new is None else one.new - one.old


def _shift_row(one: Shifted) -> tuple[Cell, ...]:
    mark = "+" if one.old is None else "-" if one.new is None else ""
    return (mark, _text(one.old), _text(one.new), one.identity.replace(":", " ", 1))


def _text(ordinal: int | None) -> str:
    return "" if ordinal is None else str(ordinal)


def rows_text(rows: Sequence[RowCount]) -> str:
    """Rows per table in a line: added, changed, deleted."""
    return "; ".join(map(_row_text, rows)) or "none"


def _row_text(one: RowCount) -> str:
    counts = (("+", one.insert), ("~", one.update), ("-", one.delete))
    return " ".join([one.table, *(f"{sign}{count:,}" for sign, count in counts if count)])


def items_text(entering: int, leaving: int, moving: int) -> str:
    """How many items of a context a change touches."""
    return f"{leaving:,} removed, {entering:,} added, {moving:,} moved"


# -- rows as two texts -----------------------------------------------------------------------------------
# The rows that a change touches, to compare: as they were, and as they are afterwards.

#: Rows that are written out; the edits list all of them.
MOST_ROWS: Final = 2_000
#: Of one value.
MOST_CHARACTERS: Final = 200_000
#: What names a row, in the order of preference.
_NAMES: Final = ("summary_id", "message_id", "brief_id", "file_id", "conversation_id")
HEADING: Final = "== "
#: Tables whose rows a change is made for come first, the others as they are edited.
_FIRST: Final = (CONTEXT, "summaries", "messages", "summary_messages", "summary_parents")


def row_texts(edits: Iterable[Edit]) -> tuple[str, str]:
    """The rows before and after, a line for each column; those of a context are one line each, and first."""
    context: tuple[list[str], list[str]] = [], []
    others: tuple[list[str], list[str]] = [], []
    rows = (row for edit in sorted(edits, key=_place) for row in touched_rows(edit))
    for table, is_there, row in islice(rows, MOST_ROWS):
        if table == CONTEXT:
            context[is_there].extend(_context_line(row))
        else:
            others[is_there].extend(_lines(table, row))
    if next(rows, None) is not None:
        for side in others:
            side.append(f"{HEADING}more rows: the edits list all")
    # A line that both have, so that what leaves the context is beside what enters it.
    between = [f"{HEADING}other rows"] if all(context) and any(others) else []
    before, after = ("\n".join([*context[side], *between, *others[side]]) for side in (False, True))
    return before, after


def _place(edit: Edit) -> int:
    table = CONTEXT if isinstance(edit, Splice) else edit.table
    return _FIRST.index(table) if table in _FIRST else len(_FIRST)


def _context_line(row: Cells) -> Iterator[str]:
    held = row.as_dict()
    item = held.get("summary_id") or held.get("message_id")
    yield f"{HEADING}context of {_row_texts_text(held.get('conversation_id'))}: {_row_texts_text(item)}"


def _lines(table: str, row: Cells) -> Iterator[str]:
    held = row.as_dict()
    name = next((held[name] for name in _NAMES if held.get(name) is not None), "")
    yield f"{HEADING}{table} {_row_texts_text(name)}".rstrip()
    for column, value in held.items():
        if value is None:
            continue
        text = _row_texts_text(value)[:MOST_CHARACTERS]
        if "\n" in text:
            yield f"{column}:"
            yield from text.split("\n")
        else:
            yield f"{column}: {text}"


def _row_texts_text(value: object) -> str:
    return repr(value) if isinstance(value, bytes) else str(value)
