"""What a context is made of, as a bar that is cut up by depth and role, with its legend; and gauges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lcm_core.engine.rules import FreshTail
from lcm_core.store.context_view import Group

from lcm_tui.kit.spans import Line, Span, StyleName, depth_style, role_style


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


def legend_line(groups: Sequence[Group], tail: FreshTail | None, *, plain: bool) -> Line:
    """What the colours of the bar (*plain*: its letters) mean, with tokens; then the fresh tail."""
    tokens = _tokens_by_name(groups)
    shown = {group.name: group for group in groups}
    spans: list[Span] = []
    for name, group in shown.items():
        spans += [*_sign(group, plain=plain), Span(f"{tokens[name]:,}", "dim")]
    if tail is not None and tail.messages:
        sign = " capitals=" if plain else " ▓ "
        spans += [Span(sign, "tail"), Span("fresh tail "), Span(f"{tail.tokens:,} tokens", "dim")]
    return tuple(spans)


def gauge(share: float, width: int) -> list[Span]:
    """How much of a budget is taken, *width* cells long; its ends take two more."""
    used = cells_taken(share, width)
    style: StyleName = "error" if share > 1 else "warn" if share > 0.9 else "ok"
    return [Span(" ▕"), Span("█" * used, style), Span("░" * (width - used), "dim"), Span("▏")]


def cells_taken(share: float, width: int) -> int:
    """How many cells of a gauge a share takes: one at least where it is anything."""
    return min(max(round(share * width), 1 if share > 0 else 0), width)


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
