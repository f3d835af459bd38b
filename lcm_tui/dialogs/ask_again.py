"""How drafts are asked for: who writes it, where, by which prompts, with which instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from lcm_tui.dialogs.dialog import TEXT, TYPING, Dialog, key_row
from lcm_tui.drafts import CUT, Asked
from lcm_tui.widgets.text import Block, Document, TextView, field, heading

_FIELDS: Final = (
    ("whom", "Writer: provider/model, or extractive"),
    ("address", "Server address, if not the default"),
    ("prompts", "Prompt: a file, or a folder of prompts"),
    ("instructions", "Instructions"),
)
#: What the help says of them.
_EXPLAINED: Final = (
    (
        "Writer",
        "who writes: openai/gpt-5-mini, for example, or extractive, which is offline and costs nothing",
    ),
    ("Server address", "of a server that is not the provider's own, such as http://localhost:11434"),
    ("Prompt", "a file with a prompt, or a folder with one for each depth"),
    ("Instructions", "a sentence for the writer, such as: keep every path and ticket number"),
)


class AskAgain(Dialog[Asked | None]):
    """Four lines to fill in; the result is None when it was left."""

    ABOUT = """
    Who writes the drafts, and how. Nothing is sent before you start; drafts change nothing before you preview
    and apply them.
    """
    FIXED = 12
    DEFAULT_CSS = """
    AskAgain .box { overflow-y: auto; scrollbar-size-vertical: 1; }
    AskAgain Input { height: 1; border: none; padding: 0 1; margin-bottom: 1; background: $panel; }
    AskAgain Input:focus { border: none; background: $primary 30%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", "Start", tooltip="Draft with what is filled in.", id="ask-start"),
        # At once, or what is typed right after would still go to the line before.
        Binding(
            "tab,down",
            "app.focus_next",
            "Next field",
            tooltip="Go to the next field.",
            priority=True,
            id="ask-next",
        ),
        Binding(
            "shift+tab,up",
            "app.focus_previous",
            "Previous",
            tooltip="Go to the previous field.",
            priority=True,
            show=False,
            id="ask-previous",
        ),
        Binding("escape", "leave", "Cancel", tooltip="Close without drafting.", id="ask-leave"),
    ]

    def __init__(self, title: str, before: str, last: Asked, *, cut: bool = False) -> None:
        """*before* names who is asked when nobody is named; *last* is filled in; *cut*: a cut will do."""
        super().__init__()
        self._title = title
        self._cut = f", or '{CUT}' (truncate the source)" if cut else ""
        self._before = before
        self._last = last

    def compose_box(self) -> ComposeResult:
        """What can be said."""
        said = TextView((heading(self._title), Block(f"Empty fields keep the last writer: {self._before}.")))
        said.can_focus = False
        yield said
        for name, words in _FIELDS:
            yield Static(words + (self._cut if name == "whom" else ""), markup=False)
            yield Input(getattr(self._last, name), id=name)

    def own_help(self, usual: Sequence[Binding]) -> Sequence[Binding]:
        """A question mark is text here."""
        return [replace(one, key="f1", id="help-while-typing") for one in usual]

    def explained(self) -> Document:
        """What each field takes."""
        rows = (field(f"{name} ", what, width=TEXT) for name, what in _EXPLAINED)
        return (Block(), heading(self._title), *rows)

    def more_keys(self) -> Document:
        """Those that edit a field."""
        return (key_row("shift+tab", "Previous", "Go to the previous field."), *TYPING)

    def on_mount(self) -> None:
        """Begin with who writes."""
        self.query_one("#whom", Input).focus()

    @on(Input.Submitted)
    def action_start(self) -> None:
        """Draft with what is filled in."""
        said = {name: self.query_one(f"#{name}", Input).value.strip() for name, _ in _FIELDS}
        self.dismiss(Asked(**said))

    def action_leave(self) -> None:
        """Leave."""
        self.dismiss(None)
