"""The head of a comparison, and going from line to line of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import ClassVar

from lcm_core.assemble.compare import ContextDiff, SentContext, SnapshotOrigin
from lcm_core.text import clip, safe_line
from lcm_core.times import format_local, parse_utc
from textual.strip import Strip

from lcm_tui.places import Side
from lcm_tui.views.sent import fitted
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, Span, strip_of


class ComparisonHead(Drawn):
    """Both contexts in a line each, and the difference in one more."""

    SPEAKS: ClassVar[bool] = True
    DEFAULT_CSS = """
    ComparisonHead { height: 3; width: 1fr; background: $surface; }
    """

    def __init__(self, left: Side, right: Side) -> None:
        super().__init__(id="head")
        self._left, self._right = left, right
        self._diff: ContextDiff | None = None
        self._zone: tzinfo | None = None

    def show_diff(self, diff: ContextDiff, zone: tzinfo | None) -> None:
        """Say how the two differ, with times in a *zone*."""
        self._diff, self._zone = diff, zone
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One of the lines: as many of its parts as have room, the first ones first."""
        lines, width = self._lines(), self.size.width
        return strip_of(fitted(lines[y], width) if y < len(lines) else (), self.style_of, width)

    def _lines(self) -> Sequence[Sequence[Line]]:
        diff = self._diff
        left = self._side(self._left, None if diff is None else diff.old)
        right = self._side(self._right, None if diff is None else diff.new)
        first: Line = (Span("- ", "warn"), *left[0])
        second: Line = (Span("+ ", "ok"), *right[0])
        sides = [[first, *left[1:]], [second, *right[1:]]]
        return sides if diff is None else [*sides, _difference(diff)]

    def _side(self, side: Side, one: SentContext | None) -> list[Line]:
        """A side in parts, the most telling first."""
        parts: list[Line] = []
        if self._left.conversation_id != self._right.conversation_id:
            parts.append((Span(f"conversation {side.conversation_id}"),))
        taken = None if one is None else one.taken
        if side.snapshot_id is not None:
            parts.append((Span(safe_line(side.snapshot_id if taken is None else taken.snapshot_id), "key"),))
        if side.when:
            parts.append((Span(side.when),))
        if self._left.prompt != self._right.prompt:
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
            time = format_local(parse_utc(taken.created_at), self._zone) or taken.created_at
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
