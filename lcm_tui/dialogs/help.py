"""Help: the keys of a screen, from the registry of commands, and what it shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

from lcm_core.text import safe_line
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from lcm_tui.commands import Command, key_title
from lcm_tui.keymap import moving_keys
from lcm_tui.session import Session
from lcm_tui.widgets.spans import Span, StyleName
from lcm_tui.widgets.text import Block, Document, TextView, field, heading

#: Cells of the column of keys, and those before the sentences.
_KEY: Final = 9
_TEXT: Final = 26
#: Between the first sentence and what follows it.
_SENTENCE: Final = re.compile(r"(?<=\.)\s+")

#: The headings; tab goes to the second and the third.
KEYS: Final = heading("Keys of this screen")
MORE: Final = heading("What this screen shows")
EVERYWHERE: Final = heading("Moving and the mouse, on every screen")

#: Moving, by the ids of its actions.
MOVING = (
    (("up", "down"), "move by one"),
    (("page-up", "page-down"), "move by a page"),
    (("first", "last"), "first and last"),
    (("fold", "unfold"), "fold and unfold, or left and right"),
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
    HelpScreen Static { height: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter", "dismiss", "Back", id="help-back"),
        Binding("tab", "next_part", "Next part", id="help-next-part"),
    ]

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._document = document

    def on_click(self, event: events.Click) -> None:
        """A click beside the help closes it."""
        if not self.query_one(Vertical).region.contains(event.screen_x, event.screen_y):
            self.dismiss()

    def compose(self) -> ComposeResult:
        """One text to scroll, and the keys for it."""
        with Vertical():
            yield TextView(self._document)
            yield Static("tab next part · space next page · esc back", markup=False)

    def action_next_part(self) -> None:
        """Scroll to the next heading; after the last one, to the top."""
        parts = [at for at, block in enumerate(self._document) if block in (MORE, EVERYWHERE)]
        self.query_one(TextView).reveal_next(parts)


def help_document(screen: Explained) -> Document:
    """A sentence on the screen, its keys, the rest of what it shows, and how to move everywhere."""
    first, *rest = _SENTENCE.split(reflowed(screen.explained()), 1)
    blocks: list[Block] = [Block(text=first), Block(), KEYS]
    for name in screen.commands:
        command = screen.told(name)
        keys = screen.session.settings.keys.get(name, command.key)
        written = " ".join(key_title(key) for key in keys.split(","))
        reason = screen.why_not(name)
        blocks.append(_row(written, command.title, command.help, usable=reason is None))
        if reason:
            blocks.append(Block(text=f"Not now: {reason}", style="dim", indent=_TEXT))
    if rest:
        blocks += [Block(), MORE, Block(text=rest[0])]
    blocks += [Block(), EVERYWHERE]
    moving = {**moving_keys(), **screen.session.settings.keys}
    rows = [
        (" ".join(key_title(key) for name in names for key in moving[name].split(",")), what)
        for names, what in MOVING
    ]
    return (*blocks, *(field(f"{safe_line(keys)} ", what, width=_TEXT) for keys, what in (*rows, *MOUSE)))


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
