"""The help of a screen: what it shows, and its keys as a menu that runs them and gives them other keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from lcm_core.base.text import cell_width, clip, fold, safe_line, wrap
from lcm_core.base.values import Record
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from lcm_tui.kit.bars import KeyBar
from lcm_tui.kit.commands import Key, free_keys, key_title, new_problems, swapped
from lcm_tui.kit.dialog import BESIDE, Dialog, HelpScreen, Keyed, key_row
from lcm_tui.kit.dialogs import PARTS, Explained, Question, help_document, reflowed
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.spans import Block, Document, Line, Span, StyleName, WrappedBlock
from lcm_tui.kit.text import TextView

#: Cells of the first columns, before title and sentence; and of the last, which a narrow list does not have.
_GROUP, _KEY, _NAME, _NAMED_FROM = 7, 7, 18, 94
_GROUPS: Final = ("Look", "Change", "Go")
#: Keys that lead on, or back, in what is shown.
_GOING: Final = frozenset(
    {
        *("search", "search-everywhere", "next", "previous-match", "hunk-previous", "hunk-next", "pane"),
        *("divider-back", "divider-on", "reload", "help", "palette", "back", "quit"),
        *("history", "engine", "disk"),
    }
)


class HelpRow(Record, frozen=True):
    """A key of the screen."""

    name: str
    key: str  #: as people write it, remapped or not
    title: str
    sentence: str
    group: str
    reason: str  #: why it cannot be used now; empty: it can


def help_rows(screen: Explained) -> list[HelpRow]:
    """The keys of a screen, grouped."""
    rows = []
    for name in screen.commands:
        told = screen.told(name)
        keys = screen.session.settings.keys.get(name, told.key)
        reason = screen.why_not(name) or ""
        rows.append(HelpRow(name, _titles_of(keys), told.title, told.help, group_of(told), reason))
    return sorted(rows, key=lambda row: _GROUPS.index(row.group))


def _titles_of(keys: str) -> str:
    return ", ".join(key_title(key) for key in keys.split(","))


def group_of(key: Key[object]) -> str:
    """Whether a key looks, changes or goes."""
    if key.changes or key.decides:
        return "Change"
    return "Go" if key.id in _GOING else "Look"


class KeyList(LineView[str]):
    """The keys. While the list has the focus, letters are no filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "screen.give_key", "Rebind", show=False, id="help-key-in-list"),
    ]


class HelpMenu(Dialog[str]):
    """The keys of a screen; the result is the name of the one to run, or empty."""

    ABOUT = "The keys of the screen below. What is typed filters them."
    FIXED: ClassVar[int | None] = None
    DEFAULT_CSS = """
    HelpMenu .box { width: 118; }
    HelpMenu Input { height: 1; border: none; padding: 0; background: $panel; }
    HelpMenu Input:focus { border: none; }
    HelpMenu LineView { height: 1fr; }
    HelpMenu #help-more { height: 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Run", tooltip="Run the selected key.", id="help-run"),
        Binding("f2", "give_key", "Rebind", tooltip="Give it another key, and keep that.", id="help-key"),
        Binding("tab", "whole", "All help", tooltip="Read all about this screen.", id="help-whole"),
        Binding("escape,f1", "leave", "Back", tooltip="Close the help.", id="help-back"),
        Binding("shift+tab", "switch", "List", show=False, id="help-switch"),
        Binding("up", "move(-1)", "Up", show=False, id="help-up"),
        Binding("down", "move(1)", "Down", show=False, id="help-down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="help-page-up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="help-page-down"),
    ]

    def __init__(
        self,
        screen: Explained,
        give_keys: Callable[[Mapping[str, str]], Awaitable[str]],
        all_keys: Callable[[], Mapping[str, Key[Any]]],
    ) -> None:
        """*give_keys* gives keys to commands by their names, and says what is wrong with it; empty: nothing.

        *all_keys* are those of all screens by name; the first call takes its time.
        """
        super().__init__()
        self._explained = screen
        self._give_keys = give_keys
        self._all_keys = all_keys
        self._most = 4  #: lines of the text about the screen
        self._rows: dict[str, HelpRow] = {}
        self._titled = 0  #: cells of the titles
        self._list = KeyList(self._draw, tall=True, empty="No key of this screen says that.", id="keys")
        self._more = TextView(id="help-more")

    def compose_box(self) -> ComposeResult:
        """The last notice and what the screen shows, the filter, the keys, and the selected one whole."""
        paragraphs = reflowed(self._explained.explained()).split("\n\n")
        if said := cast(Keyed, self.app).notices.latest(self.app.screen_stack[-2]):
            self._most = max(self._most, self.app.size.height // 3)
        yield TextView((*said, *map(Block, paragraphs[: 1 if said else 2])))
        yield Input(placeholder="type to filter", id="help-filter")
        yield self._list
        yield self._more

    def fit(self) -> None:
        """The text about the screen is as tall as what it says, up to some lines."""
        text = self.query(TextView).first()
        width = max(min(118, self.app.size.width) - BESIDE, 1)
        lines = sum(len(WrappedBlock(block, width)) for block in text.document)
        text.styles.height = min(lines, self._most)

    def own_help(self, usual: Sequence[Binding]) -> Sequence[Binding]:
        """It is the help: its keys are all in the bar."""
        return ()

    def on_mount(self) -> None:
        """List the keys."""
        super().on_mount()
        self.query_one(Input).focus()
        self._list_rows()

    @on(Input.Changed)
    def _list_rows(self) -> None:
        """List the keys that hold every word; those that are called so come first.

        Who types `:theme` here means the command palette, so its key is offered.
        """
        words = fold(self.query_one(Input).value).split()
        self._rows = {row.name: row for row in help_rows(self._explained)}
        self._titled = 1 + max(cell_width(row.title) for row in self._rows.values())
        called = {name: fold(f"{row.key} {row.title} {name}") for name, row in self._rows.items()}
        said = {
            name: fold(" ".join((called[name], row.sentence, *self._explained.told(name).phrases)))
            for name, row in self._rows.items()
        }
        found = [name for name, text in said.items() if all(word in text for word in words)]
        if not found and words[0].startswith(":"):
            found = ["palette"]
        found.sort(key=lambda name: not all(word in called[name] for word in words))
        self._list.replace(found, select=next(iter(found), None))

    def _draw(self, name: str, width: int) -> Sequence[Line]:
        row = self._rows[name]
        keys = list(self._list.keys)
        at = keys.index(name)
        first = at == 0 or self._rows[keys[at - 1]].group != row.group
        named = row.name if width >= _NAMED_FROM else ""
        room = max(width - _GROUP - _KEY - self._titled - (_NAME if named else 0), 10)
        dim = bool(row.reason)
        said, *rest = wrap(safe_line(f"Not now: {row.reason}" if dim else row.sentence), room)
        style: StyleName = "dim" if dim else "text"
        before = Span(" " * (_GROUP + _KEY + self._titled))
        return (
            (
                Span(f"{row.group if first else '':<{_GROUP}}", "heading"),
                Span(f"{clip(row.key, _KEY - 1):<{_KEY}}", "key"),
                Span(f"{row.title:<{self._titled}}", "dim" if dim else "title"),
                Span(f"{said:<{room}}" if named else said, style),
                Span(f"{named:>{_NAME}}" if named else "", "dim"),
            ),
            *((before, Span(line, style)) for line in rest),
        )

    @on(LineView.Highlighted)
    def _show_whole(self) -> None:
        row = self._rows.get(self._list.selected or "")
        if row is None:
            self._more.show(())
            return
        # The row itself says why it cannot be used now, and where it is wide, what its key is called.
        named = f"  [keys] {row.name}" if self._list.size.width < _NAMED_FROM else ""
        said = Span(f"{row.key}  ", "key"), Span(row.sentence), Span(named, "dim")
        self._more.show((Block(spans=said),))

    @on(LineView.Opened)
    @on(Input.Submitted)
    def action_choose(self) -> None:
        """Run what is selected, or say why that cannot be done now."""
        row = self._rows.get(self._list.selected or "")
        if row is not None and row.reason:
            self.app.notify(row.reason, severity="warning", timeout=4)
        elif row is not None and self.is_current:
            self.dismiss(row.name)

    def on_click(self, event: events.Click) -> None:
        """A click on a row runs it; one beside the help closes it."""
        at = event.screen_x, event.screen_y
        if self._list.region.contains(*at):
            self.call_after_refresh(self.action_choose)
        elif not any(one.region.contains(*at) for one in (self.query_one(".box"), self.query_one(KeyBar))):
            self.dismiss("")

    def action_leave(self) -> None:
        """Close it."""
        self.dismiss("")

    def action_switch(self) -> None:
        """Let letters be keys of the list, or filter it again."""
        (self.query_one(Input) if self._list.has_focus else self._list).focus()

    def action_move(self, step: int) -> None:
        """Select the row above or below."""
        self._list.action_move(step)

    def action_page(self, direction: int) -> None:
        """Select a page up or down."""
        self._list.action_page(direction)

    def action_whole(self) -> None:
        """Everything about the screen, to read."""
        self.app.push_screen(HelpScreen(help_document(self._explained), PARTS))

    def action_give_key(self) -> None:
        """Wait for the key that the selected command is to have."""
        row = self._rows.get(self._list.selected or "")
        if row is not None:
            self.run_worker(self._ask_for_key(row), exclusive=True)

    async def _ask_for_key(self, row: HelpRow) -> None:
        given = self._explained.session.settings.keys
        key = await self.app.push_screen_wait(
            PressKey(row, lambda: free_keys(given, self._all_keys().values(), row.name))
        )
        if not key:
            return
        known = await asyncio.to_thread(self._all_keys)
        keys = known.values()
        new = swapped(given, keys, row.name, key)
        titles = {name: known[name].title if name in known else name for name in new}
        said = " and ".join(f"{titles[name]} is {_titles_of(held)}" for name, held in new.items())
        problem, taken = "", f"{key_title(key)} is the key of {' and '.join([*titles.values()][1:])}"
        if len(new) > 1 and new_problems(given, new, keys):
            problem = f"Not done: {taken}, which cannot have {row.key} instead. Choose a free key."
        elif len(new) > 1:
            swap = (("s", f"swap: {said}"),)
            question = Question(taken, (), swap, leave="leave the keys as they are", decides=False)
            if not await self.app.push_screen_wait(question):
                return
        if problem := problem or await self._give_keys(new):
            self._more.show((Block(problem, "warn"),))
            return
        self.app.notify(f"{said} now; config.toml keeps it.", timeout=4)
        self._list_rows()
        self._list.select(row.name)

    def more_keys(self) -> Document:
        """Those that move."""
        return (key_row("↑ ↓", "Select", "Select a key."),)


class PressKey(Dialog[str]):
    """Wait for a key; the result is that key, or empty."""

    ABOUT = "The next key that you press is given to the command. esc leaves it as it is."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel", tooltip="Leave the key as it is.", id="press-leave"),
    ]

    def __init__(self, row: HelpRow, free: Callable[[], Sequence[str]]) -> None:
        """*free*: the keys that no other command has, which are listed as soon as they are known."""
        super().__init__()
        self._row = row
        self._free = free

    def compose_box(self) -> ComposeResult:
        """What it is for."""
        yield TextView(self._said("…"))

    def _said(self, free: str) -> Document:
        said = f"Press the key for “{self._row.title}” (now {self._row.key}); esc leaves it."
        return Block(said), Block(spans=(Span("Free: ", "dim"), Span(free, "key")), indent=6)

    def on_mount(self) -> None:
        """Any key is taken from now on; which are free is worked out behind."""
        super().on_mount()
        self.run_worker(self._list_free())

    async def _list_free(self) -> None:
        free = await asyncio.to_thread(self._free)
        self.query_one(TextView).show(self._said(" ".join(free)))
        self.fit()

    def own_help(self, usual: Sequence[Binding]) -> Sequence[Binding]:
        """Every key but esc is the answer."""
        return ()

    def action_leave(self) -> None:
        """Leave it."""
        self.dismiss("")

    def action_help(self) -> None:
        """A question mark is a key like any other."""
        self.dismiss("question_mark")

    def on_key(self, event: events.Key) -> None:
        """The key."""
        if event.key != "escape":
            event.stop()
            event.prevent_default()
            self.dismiss(event.key)
