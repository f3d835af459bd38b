"""What a screen paints when some of its lines have changed: those lines, of the widgets that show there."""

from __future__ import annotations

from collections.abc import Iterable

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip


class Painter(Compositor):
    """Asks only the widgets that show in a changed region, and only for lines from its first to its last.

    Textual takes one box around all that has changed, and asks every widget whose parent meets it for every
    line: for a letter of the prompt the whole screen, each line of which it then looks at. It has no public
    way to change that (docs/speed.md, "Opening and typing").
    """

    _changed: frozenset[Region] | None = None  #: what is painted at the moment; None: everything

    def render_partial_update(self) -> ChopsUpdate | None:
        """Paint what has changed."""
        self._changed = frozenset(self._dirty_regions)
        try:
            return super().render_partial_update()
        finally:
            self._changed = None

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        """The lines that are painted: where each widget is, which part of it, and how that looks."""
        if self._changed is None:
            yield from super()._get_renders(crop)
            return
        left = self._changed  # regions that no widget in front covers
        for widget, (region, clip) in self.visible_widgets.items():
            shown = region.intersection(clip)
            met = [one for one in left if shown.overlaps(one)]
            if not met:
                continue
            left = left.difference(one for one in met if shown.contains_region(one))
            first = max(shown.y, min(one.y for one in met))
            last = min(shown.bottom, max(one.bottom for one in met))
            part = Region(shown.x, first, shown.width, last - first)
            lines = widget.render_lines(part.translate((-region.x, -region.y)))
            yield region, part, lines
            if not left:
                return
