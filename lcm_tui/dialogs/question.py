"""A question with a few answers, each a key; nothing happens until one is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lcm_tui.dialogs.dialog import READING, Dialog, key_row
from lcm_tui.typed_ahead import Decision
from lcm_tui.widgets.spans import Span
from lcm_tui.widgets.text import Block, Document, TextView, heading

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
        enter: str = "",
    ) -> None:
        """*answers*: keys and words; ``esc`` is added and does what *leave* says, which is nothing.

        ``enter`` gives the answer *enter*; where it gives none it says which key the first answer has.
        Without *decides* an answer only leads to another screen, so it may be typed ahead.
        """
        super().__init__()
        self.decides = decides
        self._title = title
        self._body = body
        self._answers = (*answers, ("esc", leave))
        self._enter = enter

    def compose_box(self) -> ComposeResult:
        """The question and its keys."""
        lines = [
            Block(spans=(Span(f"{key:<7}", "key"), Span(words)), indent=7) for key, words in self._answers
        ]
        yield TextView((heading(self._title), *self._body, Block(), *lines))

    def explained(self) -> Document:
        """The question itself."""
        return (Block(), heading(self._title))

    def more_keys(self) -> Document:
        """The answers, and what scrolls a long question."""
        return (
            *(
                key_row(key, "Answer", f"{words.rstrip('…')[:1].upper()}{words.rstrip('…')[1:]}.")
                for key, words in self._answers[:-1]
            ),
            *READING,
        )

    def keys_here(self) -> Sequence[str]:
        """The answers, too."""
        return (*(key for key, _ in self._answers[:-1]), *super().keys_here())

    def on_key(self, event: events.Key) -> None:
        """A key that is an answer."""
        for key, _ in self._answers[:-1]:
            if event.key == key or event.character == key:
                event.stop()
                self.dismiss(key)
                return
        if event.key == "enter":
            event.stop()
            if self._enter:
                self.dismiss(self._enter)
            else:
                key, words = self._answers[0]
                self.app.notify(f"Press {key} for: {words.rstrip('…')}.", timeout=4)

    @on(TextView.Clicked)
    def _clicked(self, event: TextView.Clicked) -> None:
        """A click on an answer gives it."""
        at = event.block - (len(event.view.document) - len(self._answers))
        if at >= 0:
            self.dismiss("" if at == len(self._answers) - 1 else self._answers[at][0])

    def action_leave(self) -> None:
        """Leave."""
        self.dismiss("")
