"""The prompt above the key bar, and the base of every dialog over a screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import ClassVar, Final, Protocol, TypeVar, cast

from lcm_core.base.errors import LcmError
from lcm_core.base.text import abridged, cell_width, clip, safe_line, wrap
from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Vertical
from textual.reactive import reactive
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea

from lcm_tui.kit.bars import KeyBar, KeyHint, Notices, TitleBar, Undoes
from lcm_tui.kit.commands import key_title
from lcm_tui.kit.drawn import Drawn, Still, strip_of
from lcm_tui.kit.pick import Pick, PickList, matching
from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import Block, Document, Line, Span, WrappedBlock, heading
from lcm_tui.kit.text import TextView

# -- the prompt ------------------------------------------------------------------------------------------
# One line of input above the key bar, above it the line that says what to enter, and below it what can be
# picked instead.
#
# A screen mounts both when it first asks. The prompt belongs to whoever asked last: it passes on what is
# typed, says what is wrong with it, and answers once.


class PromptLine(Drawn):
    """The line above the prompt: what it asks for, and what is wrong with what was typed so far."""

    DEFAULT_CSS = """
    PromptLine { height: 1; width: 1fr; background: $panel; }
    """
    label: reactive[str] = reactive("", layout=False)
    problem: reactive[str] = reactive("", layout=False)
    awaited: reactive[str] = reactive("", layout=False)  #: what is being read for the list below

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
        awaited = Span(safe_line(self.awaited), "dim")
        if not problem or cell_width(label) + cell_width(problem) + 4 <= width:
            label = clip(label, max(width - cell_width(problem) - 4, 0))
            return ((Span(" "), Span(label, "title"), Span("  "), Span(problem, "error"), awaited),)
        told = wrap(problem, width - 2)[: self.app.size.height // 3 or 1]
        said = (Span(" "), Span(clip(label, width - 2), "title"))
        return (said, *((Span(" "), Span(line, "error")) for line in told))

    def render_line(self, y: int) -> Strip:
        """One of its lines."""
        lines = self._lines()
        return strip_of(lines[y] if y < len(lines) else (), self.style_of, self.size.width)


class Prompt(Input, Still):
    """One line of input; the screen gives it the keys, and takes them back when it is left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "pick(-1)", "Up", show=False, id="pick-up"),
        Binding("down", "pick(1)", "Down", show=False, id="pick-down"),
        Binding("pageup", "pick_page(-1)", "Page up", show=False, id="pick-page-up"),
        Binding("pagedown", "pick_page(1)", "Page down", show=False, id="pick-page-down"),
    ]
    DEFAULT_CSS = """
    Prompt { height: 1; border: none; padding: 0 1; background: $panel; display: none; }
    Prompt:focus { border: none; }
    """

    def __init__(self) -> None:
        super().__init__(id="prompt", select_on_focus=True)
        self.line = PromptLine(id="prompt-line")
        self.list = PickList(self.action_submit)
        self.explained = ""  #: what its help says besides the label
        self.asked_from: Widget | None = None  #: had the keys before
        self._answer: asyncio.Future[str | None] | None = None
        self._typed: Callable[[str], None] | None = None
        self._check: Callable[[str], object] | None = None
        self._picks: Sequence[Pick] = ()
        self._awaits_picks = False  #: they are being read
        self._submits = False  #: as soon as they are there

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
        check: Callable[[str], object] | None,
        explained: str,
        problem: str,
        picks: Sequence[Pick] | None,
        asked_from: Widget | None,
    ) -> asyncio.Future[str | None]:
        """Ask for something else from now on, as `CommandScreen.ask` says; whoever waits gets None.

        *picks* that are None are being read: `offer` is called with them.
        """
        self._settle(None)
        self.asked_from, self.explained = asked_from, explained
        self._typed, self._check = typed, check
        self._answer = asyncio.get_running_loop().create_future()
        self.line.label, self.line.problem = label, problem
        self.line.awaited = "the list below is being read …" if picks is None else ""
        self.line.display = self.display = True
        with self.prevent(Input.Changed):
            self.value = value
        self._picks, self._awaits_picks, self._submits = picks or (), picks is None, False
        self._list_picks("")
        return self._answer

    def offer(self, asked: asyncio.Future[str | None], picks: Sequence[Pick]) -> None:
        """List what can be picked, unless it was answered or asks for something else by now."""
        if asked is not self._answer or not self._awaits_picks:
            return
        self._picks, self._awaits_picks, self.line.awaited = picks, False, ""
        self._list_picks(self.value)
        if self._submits:
            self.call_later(self.action_submit)

    def _list_picks(self, typed: str) -> None:
        """List what fits to what is *typed*, below the line itself, where that is an answer."""
        own = self.value.strip()
        own = "" if self._problem_of(own) else own
        self.list.offer(matching(self._picks, typed, own) if self._picks else ())

    async def action_submit(self) -> None:
        """Answer with what is selected in the list, else with what is typed."""
        self._submits = self._awaits_picks and bool(not self.value.strip() or self._problem_of(self.value))
        if self._submits:
            return
        picked = self.list.selected if self.list.display else None
        self.post_message(self.Submitted(self, self.value if picked is None else picked.text))

    def action_pick(self, step: int) -> None:
        """Select the entry above or below."""
        self.list.action_move(step)

    def action_pick_page(self, direction: int) -> None:
        """Select a page up or down."""
        self.list.action_page(direction)

    def leave(self) -> Widget | None:
        """Take it out of sight; whoever waits gets None. Returns what had the keys before it."""
        self.line.display = self.display = self.list.display = False
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
        self._awaits_picks = False
        if waiting is not None and not waiting.done():
            waiting.set_result(text)

    def _problem_of(self, text: str) -> str:
        try:
            problem = None if self._check is None else self._check(text)
        except LcmError as error:
            return error.message
        return problem if isinstance(problem, str) else ""

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        if self._typed is not None:
            self._typed(event.value)
        self._list_picks(event.value)
        if self._check is not None:
            wrong = event.value.strip() and not self.list.display and not self._awaits_picks
            self.line.problem = self._problem_of(event.value) if wrong else ""


# -- dialogs ---------------------------------------------------------------------------------------------
# A box over a screen, its keys in the last line, and a help that explains them.
#
# The lines beside the box are covered; whole lines above and below it stay in sight, faded. The key bar of
# the screen below would name keys that do nothing meanwhile: the dialog's own replaces it.

T = TypeVar("T")

#: Cells of the column of keys in a help, and those before the sentences.
KEY: Final = 9
TEXT: Final = 26
KEYS: Final = heading("Keys of this dialog")
#: The lines of a dialog around what it holds: its border, the key bar, and the title of the screen.
AROUND: Final = 4
#: The cells of a line around a text: border, padding, scroll bar.
BESIDE: Final = 5


class Keyed(Protocol):
    """What a dialog needs from its app."""

    @property
    def session(self) -> Session:
        """Whose settings say which keys are remapped."""

    @property
    def notices(self) -> Notices:
        """What was said in passing."""

    def tell_front_news(self) -> None:
        """Another screen has come to the front."""


class Faded(BackgroundScreen):
    """The screen below, so faint that nobody takes it for a part of the dialog."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterable[Segment]:
        """Faded towards the background; dim where there are no colours to blend."""
        faint = Style(bold=False, reverse=False, underline=False, dim=color.a == 0)
        for segment in super().process_segments(segments, color):
            yield segment if segment.control else Segment(segment.text, (segment.style or Style()) + faint)


def faded(below: RenderableType) -> RenderableType:
    """What a screen shows of the one below it, faded."""
    return Faded(below.screen, below.color) if isinstance(below, BackgroundScreen) else below


class Answers(TextView):
    """The answers of a question: in sight, however long the text above them is."""

    def __init__(self, answers: Iterable[tuple[str, str]]) -> None:
        super().__init__(answer_rows(answers), id="answers")


def answer_rows(answers: Iterable[tuple[str, str]]) -> Document:
    """Keys, and what each does."""
    return tuple(Block(spans=(Span(f"{keys:<9}", "key"), Span(what)), indent=9) for keys, what in answers)


class Dialog(ModalScreen[T]):
    """A box over a screen."""

    #: What the help says above the keys.
    ABOUT: ClassVar[str] = ""
    #: Lines of the box besides its first text, which is as tall as what it says if there is room below the
    #: title. None: the box takes that room.
    FIXED: ClassVar[int | None] = 0
    DEFAULT_CSS = """
    Dialog {
        align: center middle; background: $background 80%;
        &:ansi { background: transparent; }
        & > KeyBar { dock: bottom; }
        & > TitleBar { dock: top; visibility: hidden; }
        & > TitleBar.-notice { visibility: visible; }
        & > .beside { width: 100%; height: auto; align: center middle; }
        & > .beside { background: $background; }
        & > .whole { height: 1fr; }
        & .box { width: 78; max-width: 100%; height: auto; background: $surface; }
        & .box { border: round $primary; padding: 0 1; }
        & .whole > .box { height: 100%; }
        & TextView { background: $surface; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "question_mark,f1", "help", "Help", tooltip="Explain this dialog and list its keys.", id="help"
        ),
    ]

    def compose(self) -> ComposeResult:
        """The box between what covers the lines beside it, and the keys; above it, what is said."""
        yield TitleBar()
        with Vertical(classes="beside whole" if self.FIXED is None else "beside"), Vertical(classes="box"):
            yield from self.compose_box()
        yield KeyBar(self.key_hints)

    def compose_box(self) -> ComposeResult:
        """What the box holds."""
        yield from ()

    def render(self) -> RenderableType:
        """The screen below, faded."""
        return faded(super().render())

    def on_mount(self) -> None:
        """As tall as what it says."""
        self.fit()

    @on(events.ScreenResume)
    def _is_in_front(self) -> None:
        """A notice stands beside the title of the screen below."""
        own = self.query_one(TitleBar)
        for bar in self.app.screen_stack[-2].query(TitleBar):
            own.where, own.note, own.live = bar.where, bar.note, bar.live
        cast(Keyed, self.app).tell_front_news()

    def keys_back(self, kind: str, conversation_id: int | None) -> str:
        """Those of the screen below, to which it leads back."""
        stack = self.app.screen_stack
        below = stack[stack.index(self) - 1]
        return below.keys_back(kind, conversation_id) if isinstance(below, Undoes) else ""

    @on(TitleBar.Clicked)
    def _clicked_notice(self) -> None:
        cast(Keyed, self.app).notices.clear()

    @on(events.ScreenSuspend)
    @on(events.Unmount)
    def _take_notes_along(self) -> None:
        cast(Keyed, self.app).notices.leave(self, self.app.screen_stack)

    def on_resize(self) -> None:
        """As tall as what it says in lines of another width, as far as there is room."""
        self.fit()

    def fit(self) -> None:
        """Make answers and the first text as tall as what they say, as far as there is room."""
        texts = list(self.query(TextView).results())
        if self.FIXED is None or not texts:
            return
        box, room = texts[0].parent, self.app.size.height - AROUND - self.FIXED
        assert isinstance(box, Vertical)
        cells = box.styles.width.cells if box.styles.width is not None else None
        width = min(cells or self.app.size.width, self.app.size.width) - BESIDE
        for text in (*self.query(Answers).results(), texts[0]):
            lines = sum(len(WrappedBlock(block, max(width, 1))) for block in text.document)
            text.styles.height = max(min(lines, room - isinstance(text, Answers)), 1)
            room -= lines

    # -- keys ------------------------------------------------------------------------------------------------

    def own_keys(self) -> Sequence[Binding]:
        """Its keys, in the order of the key bar: help and leaving are the last."""
        own = [one for one in type(self).BINDINGS if isinstance(one, Binding) and one.show]
        leaves = [one for one in own if "escape" in one.key.split(",")]
        explains = [one for one in Dialog.BINDINGS if isinstance(one, Binding)]
        return (*(one for one in own if one not in leaves), *self.own_help(explains), *leaves)

    def own_help(self, usual: Sequence[Binding]) -> Sequence[Binding]:
        """The keys that open the help."""
        return usual

    def keys_of(self, binding: Binding) -> str:
        """The keys of a binding, remapped or not, as Textual names them."""
        return cast(Keyed, self.app).session.settings.keys.get(binding.id or "", binding.key)

    def key_hints(self) -> list[KeyHint]:
        """What the key bar shows."""
        return [
            KeyHint(key_title(self.keys_of(one)), one.description, command_of(one), True)
            for one in self.own_keys()
        ]

    async def action_run(self, command: str) -> None:
        """A key of the bar was clicked."""
        found = next((one for one in self.own_keys() if command_of(one) == command), None)
        if found is not None:
            await self.run_action(found.action)

    def keys_here(self) -> Sequence[str]:
        """Its keys, as they are called: the first of each, and ``enter``."""
        keys = (self.keys_of(one).split(",") for one in self.own_keys())
        return [key_title(key) for own in keys for key in own if key in (own[0], "enter")]

    def say_unknown_key(self, key: str) -> None:
        """Say that a key is none here, and which are; what is typed into a line is text."""
        sign, keys = key_title(key), self.keys_here()
        if sign not in keys and not isinstance(self.focused, Input | TextArea):
            self.app.notify(f"{sign} is not a key here: {', '.join(keys)}.", timeout=3)

    # -- help ------------------------------------------------------------------------------------------------

    def action_help(self) -> None:
        """Explain this dialog; what was typed into it stays."""
        self.app.push_screen(HelpScreen(self.help_document()))

    def help_document(self) -> Document:
        """What it is about, and its keys."""
        return (
            Block(" ".join(self.ABOUT.split())),
            *self.explained(),
            Block(),
            KEYS,
            *self.first_keys(),
            *(
                key_row(" ".join(map(key_title, self.keys_of(one).split(","))), one.description, one.tooltip)
                for one in self.own_keys()
            ),
            *self.more_keys(),
            key_row("^q ^c", "Quit", "Quit lcm-tui immediately, without asking."),
        )

    def explained(self) -> Document:
        """What else is to be explained."""
        return ()

    def first_keys(self) -> Document:
        """Keys that stand above those of the key bar."""
        return ()

    def more_keys(self) -> Document:
        """Keys that no key bar shows."""
        return ()


def command_of(binding: Binding) -> str:
    """How the key bar names what a key does: what it never leaves out has names of its own."""
    return "back" if "escape" in binding.key.split(",") else binding.id or binding.action


def key_row(keys: str, title: str, sentence: str) -> Block:
    """A key in a help: its title and what it does."""
    key = safe_line(f"{keys:<{KEY - 1}} ")
    name = safe_line(f"{title:<{TEXT - len(key) - 1}} ")
    return Block(spans=(Span(key, "key"), Span(name, "title"), Span(sentence)), indent=TEXT)


def reading_keys(taken: Collection[str] = ()) -> Document:
    """How a text is read, for the helps of dialogs that hold one; keys that are *taken* do something else."""
    lines = " ".join(("↑ ↓", *(key for key in "kj" if key not in taken)))
    ends = "" if {"g", "G"} & {*taken} else "; g and G do the same"
    return (
        key_row(lines, "Scroll", "Scroll by a line."),
        key_row("PgUp PgDn", "Page", "Scroll by a page; space pages on."),
        key_row("Home End", "Ends", f"Go to the beginning or the end{ends}."),
    )


#: What helps where a line is typed.
TYPING: Final = (
    key_row("Home End", "Ends", "Go to the beginning or the end of the line."),
    key_row("^u ^k", "Delete", "Delete to the beginning, or to the end, of the line."),
    key_row("^w", "Word", "Delete the word before the cursor."),
    key_row("^v", "Paste", "Paste what lcm-tui copied; the terminal's own paste key works, too."),
)


class HelpScreen(Dialog[None]):
    """A text that explains what is below it."""

    DEFAULT_CSS = """
    HelpScreen .box { width: 94; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "next_part", "Next part", tooltip="Go to the next heading.", id="help-next-part"),
        Binding("space", "page", "Next page", tooltip="Go to the next page.", id="help-page"),
        Binding(
            "escape,q,question_mark,f1,enter", "dismiss", "Back", tooltip="Close the help.", id="help-back"
        ),
    ]

    def __init__(self, document: Document, parts: Sequence[Block] = ()) -> None:
        """*parts*: the headings that tab goes to, after the top."""
        super().__init__()
        self._document = document
        self._parts = tuple(parts)

    def own_help(self, usual: Sequence[Binding]) -> Sequence[Binding]:
        """It is the help: its keys are all in the bar."""
        return ()

    def own_keys(self) -> Sequence[Binding]:
        """Where there are no parts, nothing leads to the next one."""
        return [one for one in super().own_keys() if self._parts or one.id != "help-next-part"]

    def on_click(self, event: events.Click) -> None:
        """A click beside the help closes it."""
        inside = (self.query_one(".box").region, self.query_one(KeyBar).region)
        if not any(one.contains(event.screen_x, event.screen_y) for one in inside):
            self.dismiss()

    def compose_box(self) -> ComposeResult:
        """The last notice, and one text to scroll."""
        if said := cast(Keyed, self.app).notices.latest(self.app.screen_stack[-2]):
            self._document = (*said, Block(), *self._document)
        yield TextView(self._document)

    def action_next_part(self) -> None:
        """Scroll to the next heading; after the last one, to the top."""
        parts = [at for at, block in enumerate(self._document) if block in self._parts]
        self.query_one(TextView).reveal_next(parts)

    def action_page(self) -> None:
        """Scroll by a page."""
        self.query_one(TextView).action_page(1)
