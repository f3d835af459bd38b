"""The question before search tables are brought in step when no row has to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lcm_tui.dialogs.dialog import Dialog
from lcm_tui.typed_ahead import Decision
from lcm_tui.widgets.spans import Span
from lcm_tui.widgets.text import Block, Document, TextView, heading


class SearchOnly(Dialog[bool], Decision[bool]):
    """What is done when no row has to change, only search tables; the answer is whether to do it."""

    ABOUT = """
    The fix changes no row of a conversation. It rebuilds search tables, which only help to find messages and
    summaries: a search that missed some finds them again.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "dismiss(True)", "Apply", tooltip="Rebuild the search tables.", id="search-apply"),
        Binding("escape,q", "dismiss(False)", "Cancel", tooltip="Leave them as they are.", id="search-leave"),
    ]

    def __init__(self, tables: Sequence[str], left: Sequence[str]) -> None:
        """*tables* are brought in step; *left*: what is left as it is, in sentences without their dot."""
        super().__init__()
        self._tables = tuple(tables)
        self._left = tuple(left)

    def compose_box(self) -> ComposeResult:
        """What is done, and the keys."""
        yield TextView(self._document())

    def _document(self) -> Document:
        return (
            heading("Rebuild search tables"),
            Block("No conversation row changes. These search tables will be rebuilt where they are wrong:"),
            Block(", ".join(self._tables), "key", indent=2),
            Block("A few hundred rows at a time, so a host hardly waits. Nothing to undo: search tables are"),
            Block("built from messages and summaries and contain nothing else."),
            *(Block(f"Left: {one}.", "warn") for one in self._left),
            Block(),
            Block(spans=(Span("a    ", "key"), Span("apply")), indent=5),
            Block(spans=(Span("esc  ", "key"), Span("cancel")), indent=5),
        )
