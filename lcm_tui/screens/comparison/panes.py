"""The head of a comparison, and going from line to line of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import ClassVar, TypeAlias

from lcm_core.assemble.compare import ContextDiff, SentContext, SnapshotOrigin
from lcm_core.text import clip, safe_line
from lcm_core.times import format_local, parse_utc
from textual.strip import Strip

from lcm_tui.places import Side
from lcm_tui.views.sent import fitted
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, Span, strip_of

#: The lines of a head, each in parts of which the first are the most telling.
HeadLines: TypeAlias = Sequence[Sequence[Line]]


class ComparisonHead(Drawn):
    """Both sides in a line each, and below them how they differ; no line is longer than there is room for."""

    SPEAKS: ClassVar[bool] = True
    DEFAULT_CSS = """
    ComparisonHead { width: 1fr; background: $surface; }
    """

    def __init__(self, lines: HeadLines, height: int) -> None:
        super().__init__(id="head")
        self._lines = lines
        self.styles.height = height

    def show_lines(self, lines: HeadLines) -> None:
        """Show other lines, each in parts, the most telling first."""
        self._lines = lines
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One of the lines: as many of its parts as have room, the first ones first."""
        width = self.size.width
        return strip_of(fitted(self._lines[y], width) if y < len(self._lines) else (), self.style_of, width)


def context_lines(left: Side, right: Side, diff: ContextDiff | None, zone: tzinfo | None) -> HeadLines:
    """Two contexts, and once they are compared how they differ, with times in a *zone*."""
    of_two, by_prompt = left.conversation_id != right.conversation_id, left.prompt != right.prompt
    lines = []
    for sign, side, one in (
        (Span("- ", "warn"), left, None if diff is None else diff.old),
        (Span("+ ", "ok"), right, None if diff is None else diff.new),
    ):
        parts = _side(side, one, zone, of_two=of_two, by_prompt=by_prompt)
        lines.append([(sign, *parts[0]), *parts[1:]])
    return lines if diff is None else [*lines, _difference(diff)]


def _side(
    side: Side, one: SentContext | None, zone: tzinfo | None, *, of_two: bool, by_prompt: bool
) -> list[Line]:
    """A side in parts, the most telling first; its conversation and prompt where they differ."""
    parts: list[Line] = []
    if of_two:
        parts.append((Span(f"conversation {side.conversation_id}"),))
    taken = None if one is None else one.taken
    if side.snapshot_id is not None:
        parts.append((Span(safe_line(side.snapshot_id if taken is None else taken.snapshot_id), "key"),))
    if side.when:
        parts.append((Span(side.when),))
    if by_prompt:
        said = f"“{clip(safe_line(side.prompt), 24)}”" if side.prompt else "no prompt"
        parts.append((Span(said, "match" if side.prompt else "text"),))
    if one is None:
        return [*parts, (Span(f"under {side.budget:,}"),)]
    parts.append((Span(f"under {one.budget:,}"),))
    parts.append((Span(f"{len(one.messages):,} messages, {one.sent_tokens:,} tokens"),))
    if taken is not None and (doubt := doubt_of(taken)):
        parts.append((Span(doubt, "warn"),))
    if not side.clamps:
        parts.append((Span("no hard limit", "warn"),))
    if one.evicted_items:
        parts.append((Span(f"{one.evicted_items:,} not sent", "dim"),))
    if taken is not None:
        time = format_local(parse_utc(taken.created_at), zone) or taken.created_at
        parts.append((Span(time[:16], "dim"),))
    return parts


def _difference(diff: ContextDiff) -> Sequence[Line]:
    return [
        (Span(f"messages: {len(diff.only_old):,} only in the first", "warn"),),
        (Span(f"{len(diff.only_new):,} only in the second", "ok"),),
        (Span(f"{len(diff.changed):,} changed"),),
        (Span(f"{diff.same:,} unchanged"),),
        (Span(f"lines -{diff.diff.removed:,} +{diff.diff.added:,}", "dim"),),
    ]


def doubt_of(taken: SnapshotOrigin) -> str:
    """Why what is shown of a snapshot is not quite what was sent; empty when it is."""
    lost = [
        f"{taken.gone:,} missing" if taken.gone else "",
        f"{taken.not_kept:,} not stored" if taken.not_kept else "",
    ]
    return ", ".join(filter(None, lost)) or ("" if taken.exact else "rows changed")
