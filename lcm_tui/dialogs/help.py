"""Help: what a screen shows, and its keys, from the registry of commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from lcm_core.text import safe_line
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from lcm_tui.commands import Command, key_title
from lcm_tui.keymap import moving_keys
from lcm_tui.session import Session
from lcm_tui.widgets.spans import Span
from lcm_tui.widgets.text import Block, Document, TextView, heading

#: Moving, by the ids of its actions.
MOVING = (
    (("up", "down"), "move by one"),
    (("page-up", "page-down"), "move by a page"),
    (("first", "last"), "first and last"),
    (("fold", "unfold"), "fold and unfold, or scroll left and right"),
)
MOUSE = (
    ("click", "click: select; click again: open; click a heading: sort; click a key: run it"),
    ("wheel", "scroll"),
    ("^q ^c", "quit immediately"),
)


class Explained(Protocol):
    """A screen, as far as its help needs it."""

    @property
    def session(self) -> Session:
        """Whose settings say which keys are remapped."""

    @property
    def commands(self) -> Sequence[str]:
        """The ids of its commands."""

    def explained(self) -> str:
        """What it shows."""

    def told(self, command: str) -> Command:
        """A command in its words."""

    def why_not(self, command: str) -> str | None:
        """Why a command cannot be used now."""


class HelpScreen(ModalScreen[None]):
    """The help of the screen below it."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > Vertical { width: 90%; max-width: 92; height: 90%; background: $surface; padding: 1 2; }
    HelpScreen TextView { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter", "dismiss", "Back", id="help-back"),
    ]

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._document = document

    def on_click(self, event: events.Click) -> None:
        """A click beside the help closes it."""
        if not self.query_one(Vertical).region.contains(event.screen_x, event.screen_y):
            self.dismiss()

    def compose(self) -> ComposeResult:
        """One text to scroll."""
        with Vertical():
            yield TextView(self._document)


def help_document(screen: Explained) -> Document:
    """What the screen shows, then its keys with a sentence each."""
    blocks = [Block(text=reflowed(screen.explained())), Block(), heading("Keys of this screen")]
    for name in screen.commands:
        command = screen.told(name)
        keys = screen.session.settings.keys.get(name, command.key)
        written = " ".join(key_title(key) for key in keys.split(","))
        reason = screen.why_not(name)
        blocks.append(
            Block(spans=(Span(f"{safe_line(written):<9}", "key"), Span(f"{command.title:<16}", "title")))
        )
        blocks.append(Block(text=command.help, indent=9))
        if reason:
            blocks.append(Block(text=f"Not now: {reason}", style="dim", indent=9))
    blocks += [Block(), heading("Moving")]
    moving = {**moving_keys(), **screen.session.settings.keys}
    rows = [
        (" ".join(key_title(key) for name in names for key in moving[name].split(",")), what)
        for names, what in MOVING
    ]
    blocks += [
        Block(spans=(Span(f"{safe_line(keys):<24} ", "key"), Span(what))) for keys, what in (*rows, *MOUSE)
    ]
    return tuple(blocks)


def reflowed(text: str) -> str:
    """Paragraphs of source text as paragraphs of prose: line breaks within one are spaces."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
