"""The prompt: one line of input above the key bar, and above it the line that says what is asked for.

A screen mounts both when it first asks. The prompt belongs to whoever asked last: it hands on what is typed,
says what is wrong with it, and answers once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from lcm_core.text import abridged, cell_width, clip, safe_line, wrap
from textual import on
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from lcm_tui.widgets.drawn import Drawn, Still
from lcm_tui.widgets.spans import Line, Span, strip_of


class PromptLine(Drawn):
    """The line above the prompt: what it asks for, and what is wrong with what was typed so far."""

    DEFAULT_CSS = """
    PromptLine { height: 1; width: 1fr; background: $panel; }
    """
    label: reactive[str] = reactive("", layout=False)
    problem: reactive[str] = reactive("", layout=False)

    def watch_problem(self) -> None:
        """As tall as what it says."""
        self._fit()

    def watch_label(self) -> None:
        """As tall as what it says."""
        self._fit()

    def on_resize(self) -> None:
        """As tall as what it says in lines of another width."""
        self._fit()

    def _fit(self) -> None:
        lines = len(self._lines())
        if self.styles.height is None or self.styles.height.value != lines:
            self.styles.height = lines

    def _lines(self) -> Sequence[Line]:
        """The label, and the problem behind it; one that has no room there is wrapped below it."""
        width = max(self.size.width or self.app.size.width, 12)
        problem, label = safe_line(abridged(self.problem)), safe_line(self.label)
        if not problem or cell_width(label) + cell_width(problem) + 4 <= width:
            label = clip(label, max(width - cell_width(problem) - 4, 0))
            return ((Span(" "), Span(label, "title"), Span("  "), Span(problem, "error")),)
        told = wrap(problem, width - 2)[: self.app.size.height // 3 or 1]
        said = (Span(" "), Span(clip(label, width - 2), "title"))
        return (said, *((Span(" "), Span(line, "error")) for line in told))

    def render_line(self, y: int) -> Strip:
        """One of its lines."""
        lines = self._lines()
        return strip_of(lines[y] if y < len(lines) else (), self.style_of, self.size.width)


class Prompt(Input, Still):
    """One line of input; the screen gives it the keys, and takes them back when it is left."""

    DEFAULT_CSS = """
    Prompt { height: 1; border: none; padding: 0 1; background: $panel; display: none; }
    Prompt:focus { border: none; }
    """

    def __init__(self) -> None:
        super().__init__(id="prompt", select_on_focus=True)
        self.line = PromptLine(id="prompt-line")
        self.explained = ""  #: what its help says besides the label
        self.asked_from: Widget | None = None  #: had the keys before
        self._answer: asyncio.Future[str | None] | None = None
        self._typed: Callable[[str], None] | None = None
        self._check: Callable[[str], str | None] | None = None

    @property
    def asking(self) -> bool:
        """Whether it is open."""
        return self.is_attached and self.display

    @property
    def lists(self) -> bool:
        """Whether each letter has an effect as it is typed."""
        return self._typed is not None

    def ask(
        self,
        label: str,
        value: str,
        *,
        typed: Callable[[str], None] | None,
        check: Callable[[str], str | None] | None,
        explained: str,
        problem: str,
        asked_from: Widget | None,
    ) -> asyncio.Future[str | None]:
        """Ask for something else from now on, as `CommandScreen.ask` says; whoever waits gets None."""
        self._settle(None)
        self.asked_from, self.explained = asked_from, explained
        self._typed, self._check = typed, check
        self._answer = asyncio.get_running_loop().create_future()
        self.line.label, self.line.problem = label, problem
        self.line.display = self.display = True
        with self.prevent(Input.Changed):
            self.value = value
        return self._answer

    def leave(self) -> Widget | None:
        """Take it out of sight; whoever waits gets None. Returns what had the keys before it."""
        self.line.display = self.display = False
        before, self.asked_from = self.asked_from, None
        self._settle(None)
        return before

    def accept(self, text: str) -> bool:
        """Answer with a text, unless something is wrong with it, which is said then."""
        if problem := self._problem_of(text):
            self.line.problem = problem
            return False
        self._settle(text)
        return True

    def _settle(self, text: str | None) -> None:
        waiting, self._answer, self._typed, self._check = self._answer, None, None, None
        if waiting is not None and not waiting.done():
            waiting.set_result(text)

    def _problem_of(self, text: str) -> str:
        return (self._check(text) if self._check is not None else None) or ""

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        if self._typed is not None:
            self._typed(event.value)
        if self._check is not None:
            self.line.problem = self._problem_of(event.value) if event.value.strip() else ""
