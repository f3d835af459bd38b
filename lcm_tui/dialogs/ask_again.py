"""How drafts are asked for: who writes it, where, by which prompts, with which instructions."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from lcm_tui.drafts import CUT, Asked
from lcm_tui.widgets.spans import Span
from lcm_tui.widgets.text import Block, TextView, heading

_FIELDS: Final = (
    ("whom", "Writer: provider/model, or extractive"),
    ("address", "Server address, if not the default"),
    ("prompts", "Prompt: a file, or a folder of prompts"),
    ("instructions", "Instructions"),
)


class AskAgain(ModalScreen[Asked | None]):
    """Four lines to fill in; the result is None when it was left."""

    DEFAULT_CSS = """
    AskAgain { align: center middle; }
    AskAgain > Vertical {
        width: 76; max-width: 100%; height: auto; max-height: 100%; background: $surface; padding: 1 2;
    }
    AskAgain TextView { background: $surface; height: 4; }
    AskAgain Input { height: 1; border: none; padding: 0 1; margin-bottom: 1; background: $panel; }
    AskAgain Input:focus { border: none; background: $primary 30%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", id="ask-leave"),
        # At once, or what is typed right after would still go to the line before.
        Binding("tab,down", "app.focus_next", "Next", priority=True, id="ask-next"),
        Binding("shift+tab,up", "app.focus_previous", "Previous", priority=True, id="ask-previous"),
    ]

    def __init__(self, title: str, before: str, last: Asked, *, cut: bool = False) -> None:
        """*before* names who is asked when nobody is named; *last* is filled in; *cut*: a cut will do."""
        super().__init__()
        self._title = title
        self._cut = f", or '{CUT}' (truncate the source)" if cut else ""
        self._before = before
        self._last = last

    def compose(self) -> ComposeResult:
        """What can be said, and the keys."""
        keys = (Span("enter", "key"), Span(" start   "), Span("tab", "key"), Span(" next field   "))
        with Vertical():
            said = TextView(
                (
                    heading(self._title),
                    Block(f"Empty fields keep the last writer: {self._before}."),
                    Block(spans=(*keys, Span("esc", "key"), Span(" cancel"))),
                )
            )
            said.can_focus = False
            yield said
            for name, words in _FIELDS:
                yield Static(words + (self._cut if name == "whom" else ""), markup=False)
                yield Input(getattr(self._last, name), id=name)

    def on_mount(self) -> None:
        """Begin with who writes."""
        self.query_one("#whom", Input).focus()

    @on(Input.Submitted)
    def _done(self) -> None:
        said = {name: self.query_one(f"#{name}", Input).value.strip() for name, _ in _FIELDS}
        self.dismiss(Asked(**said))

    def action_leave(self) -> None:
        """Leave."""
        self.dismiss(None)
