"""What `:` finds for the words of people who do not know ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.command import CommandList, Hits
from textual.screen import ModalScreen

from lcm_tui.kit.lines import LineView
from lcm_tui.screens.anywhere import ELSEWHERE, VIEWS, Anywhere, CommandSource, match_phrases
from lcm_tui.screens.frame import CommandScreen, all_keys
from tests.app.screens import walk_to
from tests.app.support import NARROW, at, open_app, settled, strips, wait_for, wait_for_text
from tests.conftest import DatabaseFactory

EXACT = 0.85

#: What a stranger types on the first screen, and the titles of which one has to be among the first three.
PHRASES = {
    "what was said": "Search",
    "who said that": "Search",
    "where was it said": "Search",
    "search": "Search",
    "grep": "Search",
    "find text": "Search",
    "recall": "Search",
    "left out": "Context",
    "what was left out": "Context",
    "why full": "Context",
    "why is the context full": "Context",
    "why is my context so full": "Context",
    "what did the model see": "Context",
    "what does the model see": "Context",
    "context window": "Context",
    "dropped messages": "Context",
    "token usage": "Context",
    "shrink": "Compact",
    "smaller": "Compact",
    "make it smaller": "Compact",
    "compress": "Compact",
    "reduce tokens": "Compact",
    "too big": "Compact",
    "summarize now": "Compact",
    "disk": "Sort",
    "disk usage": "Disk",
    "what eats the disk": "Sort",
    "biggest conversation": "Sort",
    "undo last": "Undo",
    "undo last change": "Undo",
    "revert": "Undo",
    "rollback": "Undo",
    "take back": "Undo",
    "oops": "Undo",
    "what changed": "History",
    "log": "History",
    "audit": "History",
    "backup": "Backup (command line)",
    "back up the database": "Backup (command line)",
    "restore": "Restore (command line)",
    "broken summaries": "Repair",
    "fix summaries": "Repair",
    "truncated": "Repair",
    "is the database ok": "Health",
    "doctor": "Health",
    "check database": "Health",
    "integrity": "Health",
    "errors": "Health",
    "tree": "Summaries",
    "dag": "Summaries",
    "new session": "Transplant",
    "carry over": "Transplant",
    "copy memory": "Transplant",
    "join sessions": "Merge",
    "hide conversation": "Archive",
    "forget": "Delete",
    "free disk space": "Delete",
    "attachments": "Files",
    "import session": "Import",
    "missing session": "Import",
    "regenerate": "Rewrite",
    "better summary": "Rewrite",
    "give back details": "Dissolve",
    "uncondense": "Dissolve",
    "coverage": "Coverage map",
    "diff of rows": "Diff of rows",
    "raw request": "Messages as sent",
    "exit": "Quit",
    "refresh": "Reload",
    "shortcuts": "Help",
    "filter": "Filter",
    "bug report": "Report (command line)",
    "dark mode": "Theme: ansi-dark",
    "theme": "Themes",  # their list
    "light": "Theme: ansi-light",
    "colour": "Theme: ansi-dark",
    "key": "Give an action another key",
    "rebind": "Give an action another key",
    "shortcuts of my own": "Give an action another key",
    "worst": "Sort",
    "worst agent": "Sort",
    "bad": "Sort",
    "score": "Sort",
    "trouble": "Sort",
    "lost": "Context",
    "lost messages": "Health",
    "broken": "Repair",
    "cost": "Models (command line)",
    "tokens": "Compact",
    "trim": "Compact",
    "space": "Disk",
    "vacuum": "Disk",
    "delete": "Delete",
    "export markdown": "Export",
    "json": "Export",
    "time": "As it was",
    "past": "As it was",
    "before": "As it was",
    "older": "As it was",
    "redo": "Undo",
    "session": "Merge",
    "agent": "Sort",
    "model": "Models (command line)",
    "prompt": "Context",
    "quit": "Quit",
    "settings": "Settings",
    "which model": "Models (command line)",
    "token limit": "Budget",
    "shrnk": "Compact",
    "bakup": "Backup (command line)",
    "healt": "Health",
}


@pytest.mark.long
async def test_a_stranger_finds_what_is_meant_among_the_first_three(openclaw_home: Path) -> None:
    assert len(PHRASES) >= 60
    missed: dict[str, list[str]] = {}
    async with open_app(openclaw_home / "lcm.db", size=NARROW, state_dir=openclaw_home) as pilot:
        await settled(pilot)
        sources = [CommandSource(pilot.app.screen), Anywhere(pilot.app.screen)]
        for source in sources:
            await source.startup()
        for phrase, wanted in PHRASES.items():
            hits = [hit for source in sources async for hit in source.search(phrase)]
            hits.sort(key=lambda hit: -hit.score)
            first = [str(hit.text) for hit in hits[:3]]
            if not any(one == wanted or one.startswith(f"{wanted} (") for one in first):
                missed[phrase] = [wanted, *first]
        back = [hit for source in sources async for hit in source.search("back")]
        assert str(max(back, key=lambda hit: hit.score).text).startswith("Back (")
        settings = [str(hit.text) async for hit in sources[1].search("settings")]
        assert settings.count("Settings") == 1, "a goal found by its words is not found again by its name"
        themes = {hit.score: str(hit.text) async for hit in sources[1].search("theme nord")}
        assert themes[max(themes)] == "Theme: nord"
    assert not missed


def test_a_key_and_a_goal_have_each_phrase_once() -> None:
    for phrases in (
        *(one.phrases for one in all_keys().values()),
        *(words.split("; ") for *_, words in ELSEWHERE),
    ):
        assert len(phrases) == len(set(phrases))
        assert all(phrase == phrase.casefold().strip() and phrase for phrase in phrases)


def test_the_words_themselves_count_more_than_words_that_are_alike() -> None:
    words = ("back up", "why is the context full")
    assert match_phrases("why full context", words) >= EXACT
    assert match_phrases("back up", words) == 1.0
    assert 0 < match_phrases("bakc up", words) < EXACT
    assert match_phrases("space", words) == 0.0
    assert match_phrases("", words) == 0.0
    assert match_phrases("the", words) == 0.0


@pytest.mark.long
async def test_enter_waits_for_what_the_typed_words_find(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = CommandSource.search

    async def slowly(self: CommandSource, query: str) -> Hits:
        await asyncio.sleep(0.2)
        async for one in real(self, query):
            yield one

    monkeypatch.setattr(CommandSource, "search", slowly)
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        home = pilot.app.screen
        await pilot.press("colon")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen))
        await wait_for_text(pilot, "Open (enter)")  # what is listed before anything is typed
        await pilot.press(*"9" * 30, "enter")
        await wait_for_text(pilot, "No matches found")
        assert isinstance(pilot.app.screen, ModalScreen), "the first of the list before was not run"
        await pilot.press("ctrl+u", *"history", "enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "History"), "the history")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is home, "the first screen again")


async def test_the_other_view_is_listed_by_the_name_of_what_it_shows(openclaw_home: Path) -> None:
    """In the key bar too; the view of another screen says whose key it is."""
    async with open_app(openclaw_home / "lcm.db", size=NARROW, state_dir=openclaw_home) as pilot:
        for name, word, title in (
            ("DagScreen", "Map", "Coverage map (m)"),
            ("ContextScreen", "As sent", "Messages as sent (m)"),
        ):
            while len(pilot.app.screen_stack) > 2:
                pilot.app.pop_screen()
            screen = await walk_to(pilot, name)
            assert isinstance(screen, CommandScreen)
            assert screen.told("other-view").title == word
            source = CommandSource(screen)
            first = [hit async for hit in source.search(title.removesuffix(" (m)"))]
            assert str(max(first, key=lambda hit: hit.score).text) == title
            elsewhere = [str(hit.text) async for hit in source.search("diff of rows")]
            assert "Diff of rows (m) elsewhere" in elsewhere
        assert {view.word for view in VIEWS} >= {
            one.ALL_KEYS["other-view"].title for one in every_screen() if "other-view" in one.ALL_KEYS
        }


def every_screen(of: type[CommandScreen] = CommandScreen) -> Iterator[type[CommandScreen]]:
    """The classes of screens that were imported."""
    for one in of.__subclasses__():
        yield one
        yield from every_screen(one)


async def test_its_cursor_and_scroll_bar_look_like_those_of_a_list(database_file: DatabaseFactory) -> None:
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        listed = pilot.app.screen.query(LineView).first()
        await pilot.press("colon")
        await wait_for_text(pilot, "Open (enter)")
        found = pilot.app.screen.query_one(CommandList)
        cursor = next(one.style for line in strips(pilot) for one in line if "Open (enter)" in one.text)
        assert cursor.bgcolor == listed.style_of("cursor").bgcolor
        for name in ("scrollbar_color", "scrollbar_background", "scrollbar_size_vertical"):
            assert getattr(found.styles, name) == getattr(listed.styles, name)
