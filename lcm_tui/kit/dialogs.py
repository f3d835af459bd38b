"""The dialogs: a text in full, the help, a question with a key for each answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

from lcm_core.base.text import safe_line
from lcm_core.base.values import replace
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from lcm_tui.kit.commands import Key, key_title
from lcm_tui.kit.dialog import TEXT, TYPING, Answers, Dialog, key_row, reading_keys
from lcm_tui.kit.lines import Moves
from lcm_tui.kit.listing import Filter, Finder
from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import Block, Document, Span, heading, text_field
from lcm_tui.kit.terminal import Decision
from lcm_tui.kit.text import TextView

# -- a text in full --------------------------------------------------------------------------------------


class WholeScreen(Dialog[None]):
    """A text over the screen."""

    ABOUT = "The whole text, to read. Nothing changes here."
    DEFAULT_CSS = """
    WholeScreen .box { width: 122; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Back", tooltip="Close the text.", id="whole-back"),
    ]

    def __init__(self, text: Document) -> None:
        super().__init__()
        self._document = text

    def compose_box(self) -> ComposeResult:
        """One text to scroll."""
        yield TextView(self._document)

    def more_keys(self) -> Document:
        """Those that scroll."""
        return reading_keys()


# -- help of the prompt ----------------------------------------------------------------------------------
# What a typed line asks for, and its keys.


_PICKED: Final = key_row(
    "↑ ↓",
    "Pick",
    "Select in the list below the line; enter takes what is selected. What you type filters it.",
)


def prompt_document(
    label: str, explained: str, finder: Finder | None, keys: tuple[str, str], *, picks: bool
) -> Document:
    """*label* is shown above the line, *explained* only here; *keys* go through the matches of *finder*.

    *picks*: a list stands below the line.
    """
    through = f"{keys[0]} and {keys[1]} go through the matches"
    if finder is None:
        about = "A line to fill in. Nothing happens before enter; the line above says what is wrong with it."
        enter = key_row("enter", "Done", "Take what is typed. As long as something is wrong, the line stays.")
        escape = key_row("esc", "Cancel", "Close the line; nothing is done.")
    elif isinstance(finder, Filter):
        about = "A filter of the list: it shows only the rows that contain every word typed."
        enter = key_row("enter", "Keep", "Keep the filter, and go to the list.")
        escape = key_row("esc", "Clear", "Show all rows again.")
    else:
        about = "Finds as you type, and ignores case."
        enter = key_row("enter", "Keep", f"Keep what was found; {through}.")
        escape = key_row("esc", "Clear", "End the search.")
    return (
        Block(about),
        Block(),
        heading("What it asks for"),
        Block(label),
        *((Block(" ".join(explained.split())),) if explained else ()),
        Block(),
        heading("Keys while you type"),
        *((_PICKED,) if picks else ()),
        enter,
        key_row("F1", "Help", "This help; what you typed stays."),
        escape,
        *TYPING,
        key_row("^q ^c", "Quit", "Quit lcm-tui immediately, without asking."),
    )


# -- a question ------------------------------------------------------------------------------------------
# A few answers, each a key; nothing happens until one is given.

#: A key and what it means.
Answer = tuple[str, str]


class Question(Dialog[str], Decision[str]):
    """Ask something; the result is the key of the answer, or empty when it was left."""

    ABOUT = "A question with a key for each answer. Nothing happens before you press one of them."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Cancel", tooltip="Close the question.", id="question-leave"),
    ]

    def __init__(
        self,
        title: str,
        body: Document,
        answers: Sequence[Answer],
        *,
        leave: str = "cancel",
        decides: bool = True,
    ) -> None:
        """*answers*: keys and words; ``esc`` is added and does what *leave* says, which is nothing.

        ``enter`` gives the first answer too. Without *decides* an answer only leads to another screen, so it
        may be typed ahead.
        """
        super().__init__()
        self.decides = decides
        self._title = title
        self._body = body
        (key, words), *others = answers
        first = f"enter {key}" if key != "enter" else key
        self._answers = ((first, words), *others, ("esc", leave))

    def compose_box(self) -> ComposeResult:
        """The question and its keys."""
        yield TextView(self._document())
        yield Answers(self._answers)

    def _document(self) -> Document:
        return (heading(self._title), *self._body, Block())

    def say(self, body: Document) -> None:
        """Ask the same with another *body*, as more becomes known."""
        self._body = body
        for view in self.query(TextView)[:1]:  # none before it is mounted, nor after its answer
            view.show(self._document())
            self.fit()

    def explained(self) -> Document:
        """The question itself."""
        return (Block(), heading(self._title))

    def first_keys(self) -> Document:
        """The answers."""
        return tuple(
            key_row(key, f"{words.rstrip('…')[:1].upper()}{words.rstrip('…')[1:]}.", "")
            for key, words in self._answers[:-1]
        )

    def keys_of(self, binding: Binding) -> str:
        """Without those that are answers."""
        answers = self._letters
        return ",".join(key for key in super().keys_of(binding).split(",") if key not in answers)

    def more_keys(self) -> Document:
        """What scrolls a long question."""
        return reading_keys(self._letters)

    @property
    def _letters(self) -> Sequence[str]:
        return [key for keys, _ in self._answers[:-1] for key in keys.split()]

    def keys_here(self) -> Sequence[str]:
        """The answers, too."""
        return (*self._letters, *super().keys_here())

    def on_key(self, event: events.Key) -> None:
        """A key that is an answer."""
        for keys, _ in self._answers[:-1]:
            if {event.key, event.character} & {*keys.split()}:
                event.stop()
                self.dismiss(keys.split()[-1])
                return

    @on(TextView.Clicked, "#answers")
    def _clicked(self, event: TextView.Clicked) -> None:
        """A click on an answer gives it."""
        at = event.block
        self.dismiss("" if at == len(self._answers) - 1 else self._answers[at][0].split()[-1])

    def action_leave(self) -> None:
        """Leave."""
        self.dismiss("")


# -- help ------------------------------------------------------------------------------------------------
# What a screen shows, and how to move there; its keys are a menu of their own (`kit/help.py`).

#: The headings; tab goes to each.
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
        """The names of its keys."""

    def explained(self) -> str:
        """What it shows."""

    def told(self, command: str) -> Key[Any]:
        """A key in its words."""

    def why_not(self, command: str) -> str | None:
        """Why a command cannot be used now."""

    def moved_in(self) -> Sequence[Widget]:
        """What takes the keys that move, the one with the keys first."""


def help_document(screen: Explained) -> Document:
    """What a screen shows, and how to move there and everywhere."""
    paragraphs = reflowed(screen.explained()).split("\n\n")
    return (
        MORE,
        *(block for text in paragraphs for block in (Block(text), Block())),
        MOVING,
        *moving_rows(screen.moved_in(), screen.session.settings.keys),
        Block(),
        EVERYWHERE,
        *(text_field(f"{keys} ", what, width=TEXT) for keys, what in MOUSE),
    )


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
            row = text_field(f"{safe_line(written)} ", what, width=TEXT)
            named = Span(f" ({' '.join(names)})", "dim")  # for [keys] in the config file
            blocks.append(replace(row, spans=(*(row.spans or ()), named)))
    return tuple(blocks)


def bound_keys(widget: Widget) -> Mapping[str, str]:
    """The keys of a widget, by the ids of their bindings."""
    bound = [one for kind in reversed(type(widget).__mro__) for one in vars(kind).get("BINDINGS", ())]
    return {one.id: one.key for one in bound if isinstance(one, Binding) and one.id}


def reflowed(text: str) -> str:
    """Paragraphs of source text as paragraphs of prose: line breaks within one are spaces."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
