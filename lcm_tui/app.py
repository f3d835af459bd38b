"""The app: one database, a stack of screens over it, and the watch that keeps them true."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from lcm_core.errors import LcmError
from lcm_core.settings import Problem, Settings
from lcm_core.store.conversations import list_conversations
from lcm_core.store.database import Database
from lcm_core.store.opening import choose_access
from lcm_core.text import abridged, safe_text
from textual import events
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, Provider
from textual.notifications import Notification, Notify, SeverityLevel
from textual.screen import Screen

from lcm_tui import terminal
from lcm_tui.dialogs.dialog import Dialog
from lcm_tui.frame import DONE_SECONDS, CommandScreen
from lcm_tui.keymap import key_problems, textual_keys
from lcm_tui.places import Place
from lcm_tui.registry import screen_for
from lcm_tui.remembered import Remembered, read_shares, remembered_path
from lcm_tui.session import Session
from lcm_tui.terminal import TerminalApp
from lcm_tui.typed_ahead import Handled, TypedAhead
from lcm_tui.warm_up import WarmUp

log = logging.getLogger(__name__)

#: Threads that read give way to a key after so long. Two programs were given the same keys in turns, in a
#: conversation of the tiny benchmark database (88 keys each, a busy machine): with Python's own 5 ms
#: half of the keys took more than 1.10 times as long, and one in ten 70 ms in place of 41.
SWITCH_SECONDS = 0.0005
#: Notifications that stand at a time: of three lines of text each, they take less than half of 24 lines.
MOST_NOTIFICATIONS = 3
#: Who presses a key when a notification has stood for so long has read it.
READ_SECONDS = 2.5


def _commands() -> type[Provider]:
    """What the palette asks first, imported when it opens: the first rows need none of it."""
    from lcm_tui.anywhere import CommandSource

    return CommandSource


def _anywhere() -> type[Provider]:
    from lcm_tui.anywhere import Anywhere

    return Anywhere


class LcmApp(TerminalApp):
    """The operator's app."""

    TITLE = "lcm-tui"
    COMMANDS: ClassVar = {_commands, _anywhere}
    COMMAND_PALETTE_BINDING = "ctrl+p"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "quit_now", "Quit", show=False, system=True, priority=True),
        Binding("ctrl+z", "suspend_process", "Stop", show=False, system=True),
    ]
    CSS = """
    Screen { layers: base; }
    #body { height: 1fr; }
    ToastRack { margin-bottom: 1; max-height: 50%; }
    Screen.-asking ToastRack { margin-bottom: 3; }
    Toast { width: auto; max-width: 100%; padding: 0 1; margin-top: 0; }
    """

    def __init__(self, settings: Settings, *, demo: bool = False) -> None:
        monochrome = "NO_COLOR" in os.environ
        super().__init__(ansi_color=True if monochrome else None)
        self._mistakes = key_problems(settings.keys)  #: in the config file
        keys = {action: textual_keys(written) for action, written in settings.keys.items()}
        self._settings = settings = replace(settings, keys=keys)
        self._demo = demo
        self._standing: list[Notification] = []  #: what is shown above the keys, oldest first
        self._said_by: dict[str, Screen[Any]] = {}  #: which screen was in front, by text
        self._session: Session | None = None
        self._warm_up = WarmUp(self, lambda: self.session.key_at, self._front_loaded)
        self._typed = TypedAhead(self, super().on_event, self._front_loaded)
        if monochrome:
            # Only an ANSI theme is legible without colours: others become grey on grey (docs/decisions.md,
            # "Monochrome").
            self.theme = "ansi-dark"
        elif settings.theme.value in self.available_themes:
            self.theme = str(settings.theme.value)
        elif settings.theme.value is not None:
            self._mistakes.append(
                f"There is no theme {str(settings.theme.value)!r}; choose one of "
                f"{', '.join(sorted(self.available_themes))}."
            )
        self.set_keymap(dict(settings.keys))

    @property
    def session(self) -> Session:
        """The open database and its settings."""
        if self._session is None:
            raise RuntimeError("the database is not open yet")
        return self._session

    def open_place(self, place: Place) -> Screen[None]:
        """Put the screen that shows a place in front."""
        screen = screen_for(place, self.session)
        if isinstance(front := self.screen, CommandScreen):
            self.put_away_notes_of(front)
        self.push_screen(screen)
        return screen

    def open_instead(self, place: Place) -> Screen[None]:
        """Put the screen that shows a place where the one in front is, which is left."""
        screen = screen_for(place, self.session)
        self.switch_screen(screen)
        return screen

    @property
    def _background_screens(self) -> list[Screen[Any]]:
        """The screens that can be seen below the one in front: none, but below a question.

        Textual takes the next one for visible below any other, lays it out again with each that is opened,
        and paints all of the one in front when it changes, as the first list does while it is counted.
        """
        return super()._background_screens if self._screen_stack and self.screen.is_modal else []

    async def on_mount(self) -> None:
        """Open the database, show its conversations, and follow the file."""
        from lcm_tui.screens.conversations.screen import ConversationsScreen

        try:
            path = remembered_path()
            shares = asyncio.create_task(asyncio.to_thread(read_shares, path))
            database = await Database.open(self._settings.database.value)
            remembered = Remembered(path, await shares)
            self._session = Session(self._settings, database, demo=self._demo, remembered=remembered)
            listed = await database.read(list_conversations)
        except LcmError as error:
            self.failure = error
            self.exit(int(error.exit_code))
            return
        await self.push_screen(ConversationsScreen(listed))
        if not self.is_headless:
            self.live_with_terminal()
            self.run_worker(self._warm_up.run(), group="watch", exit_on_error=False)
        self.run_worker(self._follow(), group="watch", exit_on_error=False)
        notes = [one for one in self._settings.diagnostics if one.problem is not Problem.LOGIN_SHELL]
        mistakes = [*(one.message for one in notes[:3]), *self._mistakes]
        if mistakes:
            self.notify("\n".join(mistakes), title="Configuration", severity="warning", timeout=DONE_SECONDS)

    async def on_unmount(self) -> None:
        """Close every connection: an open one would keep the process alive."""
        if self._session is not None:
            await self._session.database.close()
            if self._session.remembered.unwritten:
                await asyncio.to_thread(self._session.remembered.write)

    def tell_front_news(self) -> None:
        """Another screen has come to the front, or the one there has read its rows."""
        self._warm_up.tell_front_news()

    async def on_event(self, event: events.Event) -> None:
        """Let keys act in turn, and note when one was pressed: what can wait waits until keys have paused."""
        if not isinstance(event, events.Key):
            await super().on_event(event)
            return
        if self._session is not None:
            self._session.key_at = time.monotonic()
            self._put_away_what_was_read()
        if not event.is_forwarded:
            await self._typed.take(event)
            return
        # It comes back from the widget: what it is bound to is done now.
        session = self._session
        if session is not None:
            session.acted_at, session.pressed_at = session.key_at, event.time
        try:
            await super().on_event(event)
        finally:
            if session is not None:
                session.pressed_at = None
            self._typed.dealt_with()

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """Do what a key is bound to; say so when it means something elsewhere but not on this screen."""
        done = await super()._check_bindings(key, priority)
        if not (done or priority) and isinstance(screen := self.screen, CommandScreen | Dialog):
            screen.say_unknown_key(key)
        return done

    def on_handled(self, message: Handled) -> None:
        """A widget has kept a key, as a prompt does."""
        self._typed.dealt_with(message.number)

    def _front_loaded(self) -> bool:
        """Whether the screen in front has read what it shows; none of ours stands there before the first."""
        screen = self.screen
        return screen.loaded if isinstance(screen, CommandScreen) else self._session is not None

    async def _follow(self) -> None:
        """Tell the screens when another process wrote."""
        session, told = self.session, False
        async for change in session.database.watch():
            session.changed_at = change.at
            session.missing = change.state is None
            try:
                for screen in self.screen_stack:
                    if isinstance(screen, CommandScreen):
                        screen.data_changed()
            except Exception:
                log.exception("a change of the file could not be followed")
                if not told:
                    told = True
                    self.notify(
                        "Following a change of the database failed; the screen may be out of date. "
                        "ctrl+r reads it again. The log has the details.",
                        severity="error",
                    )

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a message above the keys, which stay readable; most take the end of one line.

        The newest few are shown, each text once. Foreign text is made safe and never read as markup.
        """
        del markup
        text = safe_text(abridged(f"{title}: {message}" if title else message))
        if self.screen_stack:
            self._said_by[text] = self.screen
        super().notify(text, severity=severity, timeout=timeout, markup=False)

    def put_away_notes_of(self, screen: Screen[Any]) -> None:
        """The screen is left: what it said would be read as said by the next one.

        What tells of finished work, or of trouble, stays.
        """
        passing = [
            one
            for one in self._standing
            if self._said_by.get(one.message) is screen
            and one.severity != "error"
            and one.timeout < DONE_SECONDS
        ]
        self._take_away(passing)
        self._said_by = {text: by for text, by in self._said_by.items() if by is not screen}

    def on_notify(self, event: Notify) -> None:
        """Make room for a notification, which Textual shows next, without those whose time is over."""
        new = event.notification
        if new in self._standing:
            return
        others = [one for one in self._standing if not one.has_expired and one.message != new.message]
        kept = others[-MOST_NOTIFICATIONS + 1 :]
        for one in self._standing:
            if one not in kept:
                one.timeout = 0
        self._standing = [*kept, new]

    def _put_away_what_was_read(self) -> None:
        """With a key, a notification that stood a while and tells no trouble frees the lines behind it."""
        now = time.time()
        self._standing = [one for one in self._standing if not one.has_expired]
        read = [
            one
            for one in self._standing
            if one.severity == "information" and one.raised_at < now - READ_SECONDS
        ]
        self._take_away(read)

    def _take_away(self, notes: Sequence[Notification]) -> None:
        if not notes:
            return
        for one in notes:
            one.timeout = 0
        self._standing = [one for one in self._standing if one not in notes]
        if self._standing:
            self.post_message(Notify(self._standing[-1]))  # Textual looks through what it shows
        else:
            self.clear_notifications()

    def action_command_palette(self) -> None:
        """Go anywhere."""
        from lcm_tui.anywhere import GoTo

        if not isinstance(self.screen, GoTo):
            self.push_screen(GoTo())

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Besides the screen's own commands: the theme."""
        for command in super().get_system_commands(screen):
            if command.title in {"Theme", "Quit"}:
                yield command

    def action_quit_now(self) -> None:
        """Leave at once."""
        self.exit(0)


def run_app(settings: Settings, *, demo: bool = False) -> int:
    """Run the app until the operator leaves it.

    Returns:
        The exit code (docs/decisions.md, "Exit codes").

    Raises:
        LcmError: the database could not be opened, or the app failed.
    """
    choose_access(settings.database.value)  # most of what is wrong with a path is told without a screen
    sys.setswitchinterval(SWITCH_SECONDS)
    app = LcmApp(settings, demo=demo)
    with terminal.that_may_go_away(), terminal.whose_threads_may_fail(app.fail_with):
        code = app.run()
    if app.failure is not None:
        raise app.failure
    return int(code or 0)


__all__ = ["CommandPalette", "LcmApp", "run_app"]
