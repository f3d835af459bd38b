"""Help: the keys of a screen, from the registry of commands, and what it shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from lcm_core.text import safe_line
from textual.binding import Binding
from textual.widget import Widget

from lcm_tui.commands import Command, key_title
from lcm_tui.dialogs.dialog import TEXT, key_row
from lcm_tui.session import Session
from lcm_tui.widgets.scrolling import Moves
from lcm_tui.widgets.text import Block, Document, field, heading

#: Between the first sentence and what follows it.
_SENTENCE: Final = re.compile(r"(?<=\.)\s+")

#: The headings; tab goes to all but the first.
KEYS: Final = heading("Keys of this screen")
MORE: Final = heading("What this screen shows")
MOVING: Final = heading("Moving on this screen")
EVERYWHERE: Final = heading("The mouse, on every screen")
PARTS: Final = (MORE, MOVING, EVERYWHERE)

MOUSE = (
    ("click", "select; again: open; a heading: sort; a key: run it; an answer: give it"),
    ("click", "an id in a text or a row: what it names; 3 of 42, 5 new ↓: the end of the list"),
    ("click", "the name of the place in the title: back; a part of a bar: the first item of that sort"),
    ("wheel", "scroll"),
    ("drag", "drag the line between two panes to move it; double click: put it back"),
    ("^q ^c", "quit immediately"),
    ("^z", "stop; the shell’s command fg continues"),
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

    def moved_in(self) -> Sequence[Widget]:
        """What takes the keys that move, the one with the keys first."""


def help_document(screen: Explained) -> Document:
    """A sentence on the screen, its keys, the rest of what it shows, and how to move everywhere."""
    first, *rest = _SENTENCE.split(reflowed(screen.explained()), 1)
    blocks: list[Block] = [Block(text=first), Block(), KEYS]
    for name in screen.commands:
        command = screen.told(name)
        keys = screen.session.settings.keys.get(name, command.key)
        written = " ".join(key_title(key) for key in keys.split(","))
        reason = screen.why_not(name)
        blocks.append(key_row(written, command.title, command.help, usable=reason is None))
        if reason:
            blocks.append(Block(text=f"Not now: {reason}", style="dim", indent=TEXT))
    if rest:
        blocks += [Block(), MORE, Block(text=rest[0])]
    blocks += [Block(), MOVING, *moving_rows(screen.moved_in(), screen.session.settings.keys)]
    blocks += [Block(), EVERYWHERE]
    return (*blocks, *(field(f"{keys} ", what, width=TEXT) for keys, what in MOUSE))


def moving_rows(widgets: Iterable[Widget], remapped: Mapping[str, str]) -> Document:
    """What the moving keys do in each of some widgets; what two of them have in common is said once."""
    blocks: list[Block] = []
    told: set[Moves] = set()
    for widget in widgets:
        moves: Moves = getattr(widget, "moves", ())
        if not moves or moves in told:
            continue
        if told:
            blocks.append(Block("in the next pane (tab):", "dim", indent=2))
        told.add(moves)
        keys = {**bound_keys(widget), **remapped}
        for names, what in moves:
            written = " ".join(key_title(key) for name in names for key in keys[name].split(","))
            blocks.append(field(f"{safe_line(written)} ", what, width=TEXT))
    return tuple(blocks)


def bound_keys(widget: Widget) -> Mapping[str, str]:
    """The keys of a widget, by the ids of their bindings."""
    bound = [one for kind in reversed(type(widget).__mro__) for one in vars(kind).get("BINDINGS", ())]
    return {one.id: one.key for one in bound if isinstance(one, Binding) and one.id}


def reflowed(text: str) -> str:
    """Paragraphs of source text as paragraphs of prose: line breaks within one are spaces."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
