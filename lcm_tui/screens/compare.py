"""Two contexts beside each other: what one sends and the other does not, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from lcm_core.assemble.compare import ContextDiff, SentContext, SnapshotOrigin
from lcm_core.diff import Diff
from lcm_core.errors import NotFoundError, UsageError
from lcm_core.text import clip, safe_line
from lcm_core.times import format_local, parse_utc
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.strip import Strip

from lcm_tui.commands import bindings
from lcm_tui.frame import DataScreen
from lcm_tui.places import Side
from lcm_tui.views.sent import fitted
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.diff_rows import Naming, Piece
from lcm_tui.widgets.diff_view import DiffView
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line, Span, strip_of

#: What a line that names a message begins with.
HEADING = "== "


def is_heading(text: str) -> bool:
    """Whether a line names a message."""
    return text.startswith(HEADING)


class CompareHead(Drawn):
    """Both contexts in a line each, and the difference in one more."""

    DEFAULT_CSS = """
    CompareHead { height: 3; width: 1fr; background: $surface; }
    """

    def __init__(self, owner: CompareScreen) -> None:
        super().__init__(id="head")
        self._owner = owner

    def render_line(self, y: int) -> Strip:
        """One of them."""
        lines = self._owner.head_lines()
        width = self.size.width
        return strip_of(fitted(lines[y], width) if y < len(lines) else (), self.style_of, width)


class ContextLines(DiffView):
    """The lines of two contexts that were compared already; the cursor stays where it is when they change."""

    def __init__(self) -> None:
        super().__init__(empty="Assembling …", id="list", changes=False)
        self._keeps = False
        self._anchor: tuple[bool, int] | None = None  #: a line of the old text (True) or of the new one

    def show_diff(self, diff: Diff, naming: Naming) -> None:
        """Show a diff in place of the one before."""
        self._keeps = self.laid is not None
        self._texts, self._diff, self._naming = ("", ""), diff, naming
        self._open.clear()
        self._again()

    def replace(
        self,
        keys: Sequence[Piece],
        *,
        select: Piece | None = None,
        changed: bool = True,
        alike: Iterable[Piece] = (),
    ) -> None:
        """Show other lines: of a new diff those where the cursor stands, of the same one the same line."""
        stay = None if self._keeps else self._at_anchor() or select
        super().replace(keys, select=stay, changed=changed, alike=alike)
        self._keeps = False

    def line_held(self) -> tuple[bool, int] | None:
        """The line under the cursor, as line of the old text (True) or of the new one; it is kept in mind.

        In another layout it may share its row with a line of the other text; it is still that line.
        """
        key, laid = self.selected, self.laid
        if key is None or laid is None or key.row >= len(laid.rows):
            return None
        row = laid.rows[key.row]
        if self._anchor not in ((True, row.old), (False, row.new)):
            self._anchor = (False, row.new or 0) if row.old is None else (True, row.old)
        return self._anchor

    def _at_anchor(self) -> Piece | None:
        """The first line of the row that holds the line on which the cursor stood."""
        laid, anchor = self.laid, self._anchor
        if laid is None or anchor is None:
            return None
        is_old, line = anchor
        found = (at for at, row in enumerate(laid.rows) if (row.old if is_old else row.new) == line)
        place = next(found, None)
        within = (
            piece for piece in laid.pieces if piece.row <= (place or 0) < piece.row + max(1, piece.hidden)
        )
        return None if place is None else next(within, None)


class CompareScreen(DataScreen[ContextDiff]):
    """What two contexts send, compared."""

    HELP = """
Two contexts as the model gets them, compared message by message and line by line: the first (-) against the
second (+). A line that begins with == names a message; what follows is what it says, blocks as JSON. Lines
that are alike are folded; enter unfolds them.

v puts both side by side, ~ marks lines that changed, and the words that did are marked. [ and ] go to the
change before and the next one. / searches.

A side is a context as it is now under a budget, and then it is read again when the file changes; or a
snapshot that an engine kept when it sent it (asm_…): numbers and references, whose texts are those that stand
in the database today. "rows changed" and "gone" say that what was sent then was not quite what is shown.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", "hunk-previous", "hunk-next", "layout"))
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {"open": ("Unfold", "Show the lines that are alike, where they are folded.")}
    )

    def __init__(self, left: Side, right: Side) -> None:
        super().__init__()
        self.left, self.right = left, right
        self.head = CompareHead(self)
        self.table = ContextLines()
        self._data: ContextDiff | None = None
        self._needle = ""

    def compose_body(self) -> ComposeResult:
        """The head and the lines."""
        yield self.head
        yield self.table

    def main_widget(self) -> ContextLines:
        """The lines."""
        return self.table

    def on_mount(self) -> None:
        """Say what this is."""
        left, right = self.left, self.right
        bar = self.query_one(TitleBar)
        if left.conversation_id == right.conversation_id:
            bar.where = f"Compare  conversation {left.conversation_id}"
        else:
            bar.where = f"Compare  {left.conversation_id} with {right.conversation_id}"
        self.table.focus()

    # -- data ------------------------------------------------------------------------------------------------

    async def fetch(self) -> ContextDiff:
        """Assemble what is not assembled yet, and compare."""
        from lcm_core import snapshots
        from lcm_core.assembly import settings_for

        engine = self.session.settings.engine
        left, right = (
            snapshots.ComparedContext(
                side.conversation_id,
                settings_for(engine, side.budget, side.prompt or None, clamp=side.clamps),
                assembled=side.assembled,
                snapshot_id=side.snapshot_id,
                budget_of_snapshot=side.budget_of_snapshot,
            )
            for side in (self.left, self.right)
        )
        try:
            return await self.session.read(snapshots.read_comparison, left, right, self.session.zone)
        except (NotFoundError, UsageError) as error:
            self.table.empty = error.message
            raise

    def show(self, data: ContextDiff) -> None:
        """Show it; lines that are as they were stay where they are."""
        before, self._data = self._data, data
        if before is None or (before.diff.old, before.diff.new) != (data.diff.old, data.diff.new):
            written = data.new_text
            self.table.show_diff(
                data.diff,
                Naming(lambda line: written.heading_at(line).removeprefix(HEADING), is_heading),
            )
        self.head.refresh()

    def head_lines(self) -> Sequence[Sequence[Line]]:
        """Both contexts, and how they differ: each line in parts, the first of which are shown first."""
        data = self._data
        left = self._side_parts(self.left, None if data is None else data.old)
        right = self._side_parts(self.right, None if data is None else data.new)
        first: Line = (Span("- ", "warn"), *left[0])
        second: Line = (Span("+ ", "ok"), *right[0])
        if data is None:
            return [first, *left[1:]], [second, *right[1:]], []
        return (
            [first, *left[1:]],
            [second, *right[1:]],
            [
                (Span(f"messages: {len(data.only_old):,} only in the first", "warn"),),
                (Span(f"{len(data.only_new):,} only in the second", "ok"),),
                (Span(f"{len(data.changed):,} changed"),),
                (Span(f"{data.same:,} alike"),),
                (Span(f"lines -{data.diff.removed:,} +{data.diff.added:,}", "dim"),),
            ],
        )

    def _side_parts(self, side: Side, one: SentContext | None) -> list[Line]:
        """A side in parts, the most telling first."""
        parts: list[Line] = []
        if self.left.conversation_id != self.right.conversation_id:
            parts.append((Span(f"conversation {side.conversation_id}"),))
        taken = None if one is None else one.taken
        if side.snapshot_id is not None:
            parts.append((Span(safe_line(side.snapshot_id if taken is None else taken.snapshot_id), "key"),))
        if side.when:
            parts.append((Span(side.when),))
        if self.left.prompt != self.right.prompt:
            said = f"“{clip(safe_line(side.prompt), 24)}”" if side.prompt else "no prompt"
            parts.append((Span(said, "match" if side.prompt else "text"),))
        if one is None:
            return [*parts, (Span(f"under {side.budget:,}"),)]
        parts.append((Span(f"under {one.budget:,}"),))
        parts.append((Span(f"{len(one.messages):,} messages, {one.sent_tokens:,} tokens"),))
        if taken is not None and (doubt := doubt_of(taken)):
            parts.append((Span(doubt, "warn"),))
        if not side.clamps:
            parts.append((Span("no final clamp", "warn"),))
        if one.evicted_items:
            parts.append((Span(f"{one.evicted_items:,} not sent", "dim"),))
        if taken is not None:
            time = format_local(parse_utc(taken.created_at), self.session.zone) or taken.created_at
            parts.append((Span(time[:16], "dim"),))
        return parts

    # -- changes ---------------------------------------------------------------------------------------------

    def why_not(self, command: str) -> str | None:
        """Nothing to go to, nothing to unfold."""
        laid, key = self.table.laid, self.table.selected
        if command in {"hunk-previous", "hunk-next"} and (laid is None or not laid.hunks):
            return "nothing is different" if laid is not None else "the contexts are still being compared"
        if command == "open" and (key is None or not key.hidden):
            return "only folded lines open"
        if command in {"next", "previous-match"} and not self._needle:
            return "nothing has been searched for yet"
        return super().why_not(command)

    @on(LineView.Highlighted, "#list")
    @on(DiffView.Laid)
    def _say_where(self) -> None:
        self.table.line_held()
        at, laid = self.table.hunk, self.table.laid
        count = len(laid.hunks) if laid is not None else 0
        note = "" if laid is None else "no difference" if not count else f"{count:,} changes"
        self.query_one(TitleBar).note = note if at is None or not count else f"change {at + 1:,} of {count:,}"
        self.refresh_bars()

    def action_hunk_next(self) -> None:
        """Go to the next change."""
        if not self.table.go(1):
            self.app.notify("That was the last change.", timeout=3)

    def action_hunk_previous(self) -> None:
        """Go to the change before."""
        if not self.table.go(-1):
            self.app.notify("That was the first change.", timeout=3)

    def action_layout(self) -> None:
        """Switch between one under the other and side by side."""
        self.table.switch()

    @on(LineView.Opened, "#list")
    async def _opened(self) -> None:
        await self.action_run("open")

    def action_open(self) -> None:
        """Unfold the lines that the cursor stands on."""
        self.table.unfold()

    # -- searching -------------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Ask what to search for among the lines that are shown."""
        self.open_prompt("search in the lines that are shown", self._needle)

    def answered(self, text: str, *, done: bool) -> None:
        """Mark what was typed; at the end go to the first match."""
        self._needle = text
        if done:
            self._find(1, first=True)

    def action_next(self) -> None:
        """Go to the next match."""
        self._find(1)

    def action_previous_match(self) -> None:
        """Go to the match before."""
        self._find(-1)

    def _find(self, direction: int, *, first: bool = False) -> None:
        if not self.table.find(self._needle, direction=direction, first=first) and self._needle:
            self.app.notify(f"“{self._needle}” does not stand in the lines that are shown.", timeout=3)

    def selected_id(self) -> str | None:
        """The message at the cursor, as its line names it."""
        held, data = self.table.line_held(), self._data
        if held is None or data is None:
            return None
        is_old, line = held
        named = (data.old_text if is_old else data.new_text).heading_at(line)
        return named.partition(" · ")[2].partition(" ")[0] or None


def doubt_of(taken: SnapshotOrigin) -> str:
    """Why what is shown of a snapshot is not quite what was sent; empty when it is."""
    lost = [
        f"{taken.gone:,} gone" if taken.gone else "",
        f"{taken.not_kept:,} not kept" if taken.not_kept else "",
    ]
    return ", ".join(filter(None, lost)) or ("" if taken.exact else "rows changed")
