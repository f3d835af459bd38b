"""The app: one database, a stack of screens over it, and the watch that keeps them true."""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from lcm_core.base.errors import LcmError
from lcm_core.base.setting_values import Problem
from lcm_core.base.settings import Settings
from lcm_core.base.text import abridged, safe_text, sentence
from lcm_core.base.values import replace
from lcm_core.store.conversations import list_conversations
from lcm_core.store.database import Database
from lcm_core.store.opening import choose_access
from msgspec.structs import asdict
from textual import events
from textual.actions import ActionParseResult
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, Provider
from textual.dom import DOMNode
from textual.notifications import SeverityLevel
from textual.screen import Screen

from lcm_tui.kit import places, terminal
from lcm_tui.kit.bars import Notice, Notices, TitleBar, refresh_bars
from lcm_tui.kit.commands import key_problems, key_title, new_problems, textual_keys
from lcm_tui.kit.dialog import Dialog
from lcm_tui.kit.places import Place
from lcm_tui.kit.session import Remembered, Session, read_looks, remembered_path
from lcm_tui.kit.terminal import Handled, TerminalApp, TypedAhead
from lcm_tui.screens.frame import DONE_SECONDS, CommandScreen, all_keys

# -- screens of places -----------------------------------------------------------------------------------
# Which screen shows a place: the one module that knows all screens, and imports each when it is opened.

log = logging.getLogger(__name__)


#: The class that shows a place, in its module of `screens/`. It is made with the fields of the place.
SCREENS: Final[Mapping[type[places.Place], str]] = {
    places.Messages: "conversation.ConversationScreen",
    places.Search: "search.SearchScreen",
    places.Context: "context.ContextScreen",
    places.Item: "context_items.ItemScreen",
    places.Sent: "context_items.SentScreen",
    places.Summaries: "dag.DagScreen",
    places.Expansion: "expansion.ExpansionScreen",
    places.Previous: "previous.PreviousScreen",
    places.Trace: "trace.TraceScreen",
    places.MessageTrace: "trace.MessageTraceScreen",
    places.Files: "files.FilesScreen",
    places.FileText: "files.FileScreen",
    places.Briefs: "briefs.BriefsScreen",
    places.Snapshots: "snapshots.SnapshotsScreen",
    places.OneSnapshot: "snapshots.SnapshotScreen",
    places.Health: "health.HealthScreen",
    places.History: "history.HistoryScreen",
    places.OneOperation: "history.OperationScreen",
    places.Engine: "engine.EngineScreen",
    places.Disk: "disk.DiskScreen",
    places.DiskSessionText: "disk_session.DiskSessionScreen",
    places.Preview: "preview.PlanScreen",
    places.TransplantTarget: "transplanting.TargetScreen",
    places.Compaction: "compacting.CompactingScreen",
    places.BriefDraft: "brief_draft.BriefDraftScreen",
    places.Drafting: "drafting.DraftingScreen",
    places.Review: "review.ReviewScreen",
    places.Editor: "editor.EditScreen",
    places.Source: "previous.SourceScreen",
}


def screen_for(place: places.Place, session: Session) -> Screen[None]:
    """The screen that shows *place*, not mounted yet."""
    match place:
        case places.Import():
            from lcm_tui.flows.changes import HostImport

            change = HostImport(place.session, session.settings, place.then)
            return screen_for(places.Preview(change), session)
        case places.Deletion():
            from lcm_tui.flows.prune import deleting

            deletion = deleting(place.conversations, session.database.path, place.then)
            return screen_for(places.Preview(deletion), session)
        case places.Earlier():
            screen = screen_for(place.place, session)
            if isinstance(screen, CommandScreen):
                screen.look_at(session, place.place.conversation.conversation_id, place.point)
            return screen
        case places.Comparison():
            from lcm_tui.screens.comparison import CompareScreen, Contexts

            return CompareScreen(Contexts(place.left, place.right))
        case places.CodexComparison():
            from lcm_tui.screens.comparison import CodexSession, CompareScreen

            return CompareScreen(CodexSession(place.conversation))
        case places.PreviousComparison():
            from lcm_tui.screens.comparison import CompareScreen, PreviousTexts

            return CompareScreen(PreviousTexts(place.summary_id))
        case _:
            module, name = SCREENS[type(place)].split(".")
            screen_type = getattr(importlib.import_module(f"lcm_tui.screens.{module}"), name)
            made: Screen[None] = screen_type(**asdict(place))
            return made


#: What most operators open first, each behind the largest parts of it. A key may wait for one of these, never
#: for several.
FIRST: Final = (
    *("lcm_tui.screens.conversation", "lcm_tui.screens.coverage", "lcm_tui.screens.dag"),
    *("lcm_core.engine.sent", "lcm_core.store.context_view", "lcm_tui.screens.context"),
    *("lcm_core.engine.sessions", "lcm_core.operations.assembly", "lcm_core.operations.stale"),
)
#: What comes after that, and what drafts need; model libraries come only with a call.
LATER: Final = (
    *("lcm_tui.screens.context_items", "lcm_tui.screens.files"),
    *("lcm_tui.screens.previous", "lcm_tui.flows.drafts", "lcm_tui.screens.search"),
    *("lcm_host.checks", "lcm_core.change.commit", "lcm_core.change.preview", "lcm_tui.screens.change_pane"),
    *("lcm_tui.screens.preview", "lcm_tui.screens.history", "lcm_tui.screens.health"),
    *("lcm_tui.screens.context_items", "lcm_recall.search", "lcm_core.writers.identifiers"),
    *("lcm_core.operations.compact", "lcm_core.writers.writer", "lcm_recall.ask"),
    *("lcm_tui.screens.expansion", "lcm_tui.screens.comparison"),
    *("lcm_tui.screens.review", "lcm_tui.screens.drafting", "lcm_tui.screens.editor"),
)


def import_ahead(name: str) -> None:
    """Import a module before a screen needs it; an error is reported when such a screen is opened."""
    try:
        importlib.import_module(name)
    except Exception:
        log.exception("%s cannot be imported", name)


# -- pauses ----------------------------------------------------------------------------------------------
# What is done in them once the first rows are shown: the other screens are imported, garbage is collected.

#: So long behind a key the screens that are opened most may be imported; all others wait for a rest.
WARM_UP_SECONDS = 0.15
#: Without a key for so long, the operator reads.
REST_SECONDS = 1.5
#: How often it is looked whether one came.
CALM_SECONDS = 5.0
#: Collections of the middle generation, one in some 7,000 objects, before Python looks through all objects.
RARELY = 200


class WarmUp:
    """Works while no key comes and the screen in front has its rows."""

    def __init__(self, app: App[int], key_at: Callable[[], float], loaded: Callable[[], bool]) -> None:
        """*key_at*: when a key was last pressed, monotonic; *loaded*: the screen in front has its rows."""
        self._app = app
        self._key_at = key_at
        self._loaded = loaded
        self._front_news = asyncio.Event()

    def tell_front_news(self) -> None:
        """Another screen has come to the front, or the one there has read its rows."""
        self._front_news.set()

    async def run(self) -> None:
        """Once the first rows stand, import the other screens; keys come first, and screens that open.

        An opening would else pay for it. What lives on is kept out of the collector's way, together with some
        6,000 objects (1 MB) of garbage: to look for those takes up to 150 ms, in which no key is answered.
        """
        painted = asyncio.Event()
        # Textual calls back before it has painted what is mounted in one batch.
        self._app.call_later(self._app.screen.call_after_refresh, painted.set)
        await painted.wait()
        gc.freeze()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, RARELY)
        gc.enable()  # the launch had disabled it
        for name in FIRST:
            await self._without_keys(WARM_UP_SECONDS)
            await asyncio.to_thread(import_ahead, name)
        while not self._key_at():  # noqa: ASYNC110 - who presses no key opens no screen; no event says so
            await asyncio.sleep(CALM_SECONDS)
        for name in LATER:
            await self._without_keys(REST_SECONDS)
            await asyncio.to_thread(import_ahead, name)
        gc.freeze()
        await self._collect_at_rest()

    async def _collect_at_rest(self) -> None:
        """Look through all objects for garbage when no key has come for a while, and hardly ever else."""
        collected = time.monotonic()
        while True:
            await asyncio.sleep(REST_SECONDS if collected < self._key_at() else CALM_SECONDS)
            pressed = self._key_at()
            if collected < pressed < time.monotonic() - REST_SECONDS:
                gc.collect()
                collected = time.monotonic()

    async def _without_keys(self, seconds: float) -> None:
        """Wait until the screen in front has its rows, and no key has come for so many *seconds*."""
        await self._rows_in_front()
        while (left := self._key_at() + seconds - time.monotonic()) > 0:
            await asyncio.sleep(left)
            await self._rows_in_front()

    async def _rows_in_front(self) -> None:
        while not self._loaded():
            self._front_news.clear()
            await self._front_news.wait()


# -- the app ---------------------------------------------------------------------------------------------

#: Threads that read give way to a key after so long. Two programs were given the same keys in turns, in a
#: conversation of the tiny benchmark database (88 keys each, a busy machine): with Python's own 5 ms
#: half of the keys took more than 1.10 times as long, and one in ten 70 ms in place of 41.
SWITCH_SECONDS = 0.0005
#: How long a notice stands that says nothing of it.
NOTICE_SECONDS = 5.0


def _commands() -> type[Provider]:
    """What the palette asks first, imported when it opens: the first rows need none of it."""
    from lcm_tui.screens.anywhere import CommandSource

    return CommandSource


def _anywhere() -> type[Provider]:
    from lcm_tui.screens.anywhere import Anywhere

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
    CommandScreen > KeyBar { dock: bottom; }
    """

    def __init__(self, settings: Settings, *, demo: bool = False) -> None:
        monochrome = "NO_COLOR" in os.environ
        super().__init__(ansi_color=True if monochrome else None)
        self._mistakes: list[str] = []  #: in the config file
        self._given_keys = settings.keys  #: as the config file writes them
        keys = {action: textual_keys(written) for action, written in settings.keys.items()}
        self._settings = settings = replace(settings, keys=keys)
        self._demo = demo
        self.notices = Notices(self._show_notice)
        self._session: Session | None = None
        self._acted = False  #: the key that came last is bound to something
        self._warm_up = WarmUp(self, lambda: self.session.key_at, self._front_loaded)
        self._typed = TypedAhead(self, super().on_event, self._front_loaded, self._front_opening)
        if monochrome:
            # Only an ANSI theme is legible without colours: others become grey on grey
            # (docs/spec/decisions.md, "Monochrome").
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
        self.push_screen(screen)
        return screen

    def open_instead(self, place: Place) -> Screen[None]:
        """Put the screen that shows a place where the one in front is, which is left."""
        screen = screen_for(place, self.session)
        self.switch_screen(screen)
        return screen

    async def on_mount(self) -> None:
        """Open the database, show its conversations, and follow the file."""
        from lcm_tui.screens.conversations import ConversationsScreen

        try:
            path = remembered_path()
            looks = asyncio.create_task(asyncio.to_thread(read_looks, path))
            database = await Database.open(self._settings.database.value)
            remembered = Remembered(path, *await looks)
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
            self._tell_mistakes(mistakes)
        if self._given_keys:
            self.run_worker(self._check_keys(), exit_on_error=False)

    def _tell_mistakes(self, mistakes: Sequence[str]) -> None:
        self.notify("\n".join(mistakes), title="Configuration", severity="warning", timeout=DONE_SECONDS)

    async def _check_keys(self) -> None:
        """Say which keys of the config file cannot be given: every screen is asked for its own."""
        keys = await asyncio.to_thread(all_keys)
        if mistakes := key_problems(self._given_keys, keys.values()):
            self._tell_mistakes(mistakes)

    async def give_keys(self, new: Mapping[str, str]) -> str:
        """Give keys, as people write them, to commands, and keep that; what is wrong with it, or nothing."""
        keys = (await asyncio.to_thread(all_keys)).values()
        if problems := new_problems(self._given_keys, new, keys):
            return problems[0]
        for name, written in new.items():
            if problem := await self._keep("keys", name, written):
                return problem
            self._given_keys = {**self._given_keys, name: written}
        remapped = {action: textual_keys(one) for action, one in self._given_keys.items()}
        self._settings = self.session.settings = replace(self.session.settings, keys=remapped)
        self.set_keymap(dict(remapped))
        for screen in self.screen_stack:  # those behind the help name keys too
            refresh_bars(screen)
        return ""

    async def _keep(self, table: str, name: str, value: str) -> str:
        """Write a choice into our config file; what is wrong, or nothing."""
        from lcm_core.base.settings_listed import write_setting

        try:
            path = self._settings.user_config_file.value
            await asyncio.to_thread(write_setting, path, table, name, value)
        except (LcmError, OSError) as error:
            return error.message if isinstance(error, LcmError) else str(error)
        return ""

    def watch_theme(self, theme: str) -> None:
        """Another theme was chosen: it is kept."""
        if self.is_running and self._session is not None and theme != self._settings.theme.value:
            self.run_worker(self._keep_theme(theme), exit_on_error=False)

    async def _keep_theme(self, theme: str) -> None:
        if problem := await self._keep("", "theme", theme):
            self.notify(problem, severity="warning")
        else:
            self.notify(f"Theme {theme} now; config.toml keeps it.", timeout=4)

    async def on_unmount(self) -> None:
        """Close every connection: an open one would keep the process alive."""
        if self._session is not None:
            await self._session.database.close()
            if self._session.remembered.unwritten:
                await asyncio.to_thread(self._session.remembered.write)

    def tell_front_news(self) -> None:
        """Another screen has come to the front, or the one there has read its rows."""
        self._warm_up.tell_front_news()
        self._show_notice()

    async def on_event(self, event: events.Event) -> None:
        """Let keys act in turn, and note when one was pressed: what can wait waits until keys have paused."""
        if not isinstance(event, events.Key):
            await super().on_event(event)
            return
        if self._session is not None:
            self._session.key_at = time.monotonic()
            self.notices.note_key()
        if not event.is_forwarded:
            await self._typed.take(event)
            return
        # It comes back from the widget: what it is bound to is done now.
        session = self._session
        if session is not None:
            session.pressed_at = event.time
        self._acted = False
        try:
            await super().on_event(event)
            if not self._acted and isinstance(screen := self.screen, CommandScreen | Dialog):
                screen.say_unknown_key(event.key)
            elif self._acted:
                self.notices.step(event.time)
        finally:
            if session is not None:
                session.pressed_at = None
            self._typed.dealt_with()

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key is bound to."""
        done = await super().run_action(action, default_namespace, namespaces)
        self._acted = self._acted or done
        return done

    def on_handled(self, message: Handled) -> None:
        """A widget has kept a key, as a prompt does."""
        self._typed.dealt_with(message.number)

    def _front_loaded(self) -> bool:
        """Whether the screen in front has read what it shows; none of ours stands there before the first."""
        screen = self.screen
        return screen.loaded if isinstance(screen, CommandScreen) else self._session is not None

    def _front_opening(self) -> bool:
        """Whether the screen in front is about to open another."""
        screen = self.screen
        return isinstance(screen, CommandScreen) and screen.opening

    async def _follow(self) -> None:
        """Tell the screens when another process wrote."""
        session, told = self.session, False
        async for change in session.database.watch():
            if change.content:
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
        """Say a sentence in the line of the title. Foreign text is made safe and never read as markup."""
        del markup
        text = safe_text(abridged(f"{title}: {sentence(message)}" if title else sentence(message)))
        front = self.screen if self.screen_stack else None
        seconds = NOTICE_SECONDS if timeout is None else timeout
        self.notices.add(Notice(text, severity, seconds, front, time.monotonic()))
        self.set_timer(seconds + 0.05, self._show_notice)

    def _show_notice(self) -> None:
        """Show in the title of the screen in front what stands now."""
        if self.screen_stack:
            key, standing = key_title(self._settings.keys.get("help", "f1")), self.notices.standing
            for bar in self.screen.query(TitleBar):
                bar.show_notice(None if standing is None else standing.read_on(self.screen), key)

    def action_command_palette(self) -> None:
        """Go anywhere."""
        from lcm_tui.screens.anywhere import GoTo

        if not isinstance(self.screen, GoTo):
            self.push_screen(GoTo())

    def action_quit_now(self) -> None:
        """Leave at once."""
        self.exit(0)


def run_app(settings: Settings, *, demo: bool = False) -> int:
    """Run the app until the operator leaves it.

    Returns:
        The exit code (docs/configuration.md, "Exit codes").

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
