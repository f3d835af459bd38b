"""Help: the keys of a screen, from the registry of commands, and what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

from lcm_core.text import safe_line
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from lcm_tui.commands import Command, key_title
from lcm_tui.keymap import moving_keys
from lcm_tui.session import Session
from lcm_tui.widgets.spans import Span, StyleName
from lcm_tui.widgets.text import Block, Document, TextView, field, heading

#: Cells of the column of keys, and those before the sentences.
_KEY: Final = 9
_TEXT: Final = 26

#: Moving, by the ids of its actions.
MOVING = (
    (("up", "down"), "move by one"),
    (("page-up", "page-down"), "move by a page"),
    (("first", "last"), "first and last"),
    (("fold", "unfold"), "fold and unfold, or scroll left and right"),
)
MOUSE = (
    ("click", "select; again: open; a heading: sort; a key: run it; an answer: give it"),
    ("click", "a summary's id in a text: its place in the DAG; 3 of 42, 5 new ↓: the end of the list"),
    ("wheel", "scroll"),
    ("drag", "drag the line between two panes to move it; double click: put it back"),
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
    """The keys of the screen with a sentence each, how to move, then what the screen shows."""
    blocks: list[Block] = [heading("Keys of this screen")]
    for name in screen.commands:
        command = screen.told(name)
        keys = screen.session.settings.keys.get(name, command.key)
        written = " ".join(key_title(key) for key in keys.split(","))
        reason = screen.why_not(name)
        blocks.append(_row(written, command.title, command.help, usable=reason is None))
        if reason:
            blocks.append(Block(text=f"Not now: {reason}", style="dim", indent=_TEXT))
    blocks += [Block(), heading("Moving")]
    moving = {**moving_keys(), **screen.session.settings.keys}
    rows = [
        (" ".join(key_title(key) for name in names for key in moving[name].split(",")), what)
        for names, what in MOVING
    ]
    blocks += [field(f"{safe_line(keys)} ", what, width=_TEXT) for keys, what in (*rows, *MOUSE)]
    blocks += [Block(), heading("What this screen shows"), Block(text=reflowed(screen.explained()))]
    return tuple(blocks)


def _row(keys: str, title: str, sentence: str, *, usable: bool) -> Block:
    key = safe_line(f"{keys:<{_KEY - 1}} ")
    name = safe_line(f"{title:<{_TEXT - len(key) - 1}} ")
    style: StyleName = "text" if usable else "dim"
    return Block(
        spans=(Span(key, "key"), Span(name, "title" if usable else "dim"), Span(sentence, style)),
        indent=_TEXT,
    )


def reflowed(text: str) -> str:
    """Paragraphs of source text as paragraphs of prose: line breaks within one are spaces."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
