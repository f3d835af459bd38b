"""The head of a context: what it is made of, and how much of the budget it takes.

Three lines: a bar over the whole width, cut up by depth and role; its legend with tokens; and the numbers
with a gauge of the budget. The bar is to the scale of the context, the gauge to that of the budget: a
context of three thousand tokens would be a sliver of 128,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lcm_core.base.text import cell_width
from lcm_core.base.values import Record
from lcm_core.engine.rules import FreshTail
from lcm_core.store.context_view import Group, Totals

from lcm_tui.kit.spans import Line, Span, StyleName, depth_style, role_style, share_text, text_of

#: A gauge shorter than this says nothing.
LEAST_GAUGE = 8


class Measured(Record, frozen=True):
    """What the head of a context says; totals are None until they have been read."""

    budget: int  #: tokens
    totals: Totals | None = None
    tail: FreshTail | None = None
    findings: Line = ()  #: what is wrong with the context, in short


def share_out(amounts: Sequence[int], width: int) -> list[int]:
    """How many of *width* cells each amount gets: in proportion, and one at least while there is room.

    Amounts below 1 get none; the cells add up to *width* when any amount gets some.
    """
    taking = [place for place, amount in enumerate(amounts) if amount > 0]
    cells = [0] * len(amounts)
    if not taking or width <= 0:
        return cells
    taking = sorted(taking, key=lambda place: -amounts[place])[:width]
    total, spare = sum(amounts[place] for place in taking), width - len(taking)
    exact = {place: amounts[place] * spare / total for place in taking}
    for place in taking:
        cells[place] = 1 + int(exact[place])
    left = width - sum(cells)
    for place in sorted(taking, key=lambda place: int(exact[place]) - exact[place])[:left]:
        cells[place] += 1
    return cells


def bar_line(groups: Sequence[Group], width: int, *, plain: bool) -> Line:
    """The bar: deep summaries at the left, the fresh tail at the right."""
    cells = share_out([group.tokens for group in groups], width)
    return tuple(
        Span(glyph_of(group, plain=plain) * count, _style(group))
        for group, count in zip(groups, cells, strict=True)
        if count
    )


def before_and_after(
    before: Sequence[Group], after: Sequence[Group], width: int, *, plain: bool
) -> tuple[Line, Line]:
    """The bars of a context before a change and after it, to one scale: the larger one takes the width."""
    sums = [sum(group.tokens for group in groups) for groups in (before, after)]
    largest = max(*sums, 1)
    lines = []
    for groups, tokens in zip((before, after), sums, strict=True):
        cells = max(round(tokens / largest * width), 1) if tokens and width > 0 else 0
        lines.append((*bar_line(groups, cells, plain=plain), Span(" " * (max(width, 0) - cells))))
    return lines[0], lines[1]


def changes_line(before: Sequence[Group], after: Sequence[Group], *, plain: bool) -> Line:
    """What the colours of two bars mean, with the tokens of what changes before and after."""
    amounts = (_tokens_by_name(before), _tokens_by_name(after))
    shown = {group.name: group for group in (*after, *before)}
    spans: list[Span] = []
    for name, group in sorted(shown.items(), key=lambda one: (one[1].depth is None, -(one[1].depth or 0))):
        was, now = (found.get(name, 0) for found in amounts)
        said = Span(f"{now:,}", "dim") if was == now else Span(f"{was:,} → {now:,}")
        spans += [*_sign(group, plain=plain), said]
    return tuple(spans)


def legend_line(
    groups: Sequence[Group], tail: FreshTail | None, *, plain: bool, width: int | None = None
) -> Line:
    """What the colours of the bar (*plain*: its letters) mean, with tokens; then the fresh tail.

    Of the unit, only as much is written as fits in *width* cells; None: all of it.
    """
    tokens = _tokens_by_name(groups)
    shown = {group.name: group for group in groups}
    spans: list[Span] = []
    for name, group in shown.items():
        spans += [*_sign(group, plain=plain), Span(f"{tokens[name]:,}", "dim")]
    if tail is not None and tail.messages:
        sign = " capitals=" if plain else " ▓ "
        spans += [Span(sign, "tail"), Span("fresh tail "), Span(f"{tail.tokens:,}", "dim")]
        left = None if width is None else width - cell_width(text_of(spans))
        units = (unit for unit in (" tokens", " tok") if left is None or len(unit) <= left)
        spans.append(Span(next(units, ""), "dim"))
    return tuple(spans)


def numbers_line(measured: Measured, width: int) -> Line:
    """Items, tokens, the share of the budget, what is wrong, and a gauge in the rest of the line."""
    totals, budget = measured.totals, measured.budget
    if totals is None:
        return (Span(f" … of {budget:,} tokens", "dim"),)
    items = f" {totals.items:,} item{'s' if totals.items != 1 else ''} · "
    share = totals.share(budget)
    spans = [Span(items), Span(f"{totals.tokens:,} stored tokens of {budget:,} = {share_text(share)}")]
    over = totals.tokens - budget
    rest = Span(f" · over budget by {over:,}", "error") if over > 0 else Span(f" · {-over:,} free")
    if over > 0 or cell_width(text_of((*spans, rest, *measured.findings))) <= width:
        spans.append(rest)
    spans += measured.findings
    room = width - cell_width(text_of(spans)) - 3
    if room >= LEAST_GAUGE:
        spans += gauge(share, room)
    return tuple(spans)


def gauge(share: float, width: int) -> list[Span]:
    """How much of a budget is taken, *width* cells long; its ends take two more."""
    used = min(max(round(share * width), 1 if share > 0 else 0), width)
    style: StyleName = "error" if share > 1 else "warn" if share > 0.9 else "ok"
    return [Span(" ▕"), Span("█" * used, style), Span("░" * (width - used), "dim"), Span("▏")]


def glyph_of(group: Group, *, plain: bool) -> str:
    """What a cell of the bar is filled with; *plain*: a letter or digit, a capital within the fresh tail."""
    if not plain:
        return "▓" if group.protected else "█"
    letter = _letter(group)
    return letter.upper() if group.protected else letter


def _tokens_by_name(groups: Iterable[Group]) -> dict[str, int]:
    """Tokens of each depth and role; the fresh tail keeps groups of its own, of the same name."""
    tokens: dict[str, int] = {}
    for group in groups:
        tokens[group.name] = tokens.get(group.name, 0) + group.tokens
    return tokens


def _sign(group: Group, *, plain: bool) -> Line:
    """A name in a legend, behind its colour or letter."""
    return (Span(f" {_letter(group)}=" if plain else " █ ", _style(group)), Span(f"{group.name} "))


def _letter(group: Group) -> str:
    if group.depth is not None:
        return "L" if group.depth == 0 else str(group.depth)[-1]
    first = (group.role or "?")[0].lower()
    return first if first.isascii() and first.isalpha() else "?"


def _style(group: Group) -> StyleName:
    return depth_style(group.depth) if group.depth is not None else role_style(group.role)
