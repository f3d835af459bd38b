"""Search everywhere, in the app: hits as you type, each in its place, and back."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import UsageError
from lcm_core.base.files import cache_folder, forget_cache
from lcm_core.base.text import cell_width
from lcm_core.base.values import replace
from lcm_core.engine.markers import FALLBACK_MARKER
from lcm_core.store.search import WINDOW, DocumentKind
from lcm_recall.ask import Inquiry
from lcm_recall.search import Hit, Span, index_of, recent, search_live
from textual.pilot import Pilot
from textual.screen import ModalScreen

from lcm_tui.kit.drawn import Lines
from lcm_tui.kit.spans import text_of
from lcm_tui.screens.editor import EditScreen
from lcm_tui.screens.narrowing import CHOICES, parse_narrowing
from lcm_tui.tables.search import hit_lines
from lcm_tui.tables.summaries import ShortIds
from tests.app.host import Host
from tests.app.screens import EVERY, walk_to
from tests.app.snapshots import keep
from tests.app.support import (
    NARROW,
    at,
    open_app,
    resize,
    said,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.app.test_mouse import click_text
from tests.cli.support import run as command
from tests.conftest import DatabaseFactory
from tests.databases import building, new_database
from tests.support import sampled

NEEDLE = "zinnober-4711"


def plant(path: Path) -> None:
    """A word in an old message of conversation 3, and one in a summary of it."""
    with closing(sqlite3.connect(path)) as database, database:
        [(message,)] = database.execute(
            "SELECT message_id FROM messages WHERE conversation_id = 3 ORDER BY seq LIMIT 1 OFFSET 4"
        )
        database.execute(
            "UPDATE messages SET content = ? WHERE message_id = ?",
            (f"the code is {NEEDLE} \x1b[31mred\x1b[0m and qqq", message),
        )
        [(summary,)] = database.execute(
            "SELECT summary_id FROM summaries WHERE conversation_id = 3 AND kind = 'condensed' LIMIT 1"
        )
        database.execute(
            "UPDATE summaries SET content = ? WHERE summary_id = ?", (f"says {NEEDLE} too", summary)
        )


async def searching(pilot: Pilot[int], *keys: str):
    await settled(pilot)
    await pilot.press("F", *keys)
    screen = pilot.app.screen
    assert at(screen, "Search")
    await wait_for(pilot, lambda: not screen._searching and screen._found is not None, "the answer")
    return screen


@pytest.mark.long
async def test_a_word_said_anywhere_is_found_in_three_keys_and_the_word(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    plant(path)
    async with open_app(path, size=NARROW) as pilot:
        screen = await searching(pilot, *NEEDLE)
        assert "2 hits, best first  998 texts searched" in shown(pilot)
        assert "\x1b" not in shown(pilot)
        assert "Conversation 3" in shown(pilot)
        kinds = [key.kind.value for key in screen.hits.keys if not isinstance(key, int)]
        assert sorted(kinds) == ["message", "summary"]
        if screen.hits.hit is not None and screen.hits.hit.kind.value != "message":
            await pilot.press("down")
        found = screen.hits.hit
        assert found is not None
        assert found.snippet[found.spans[0].start : found.spans[0].end] == NEEDLE
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation "), "the message")
        await wait_for_text(pilot, "Conversation 3  research main", " #5 ")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the hits again")
        assert screen.query_input.value == NEEDLE
        await pilot.press("up" if screen.hits.cursor == len(screen.hits.keys) - 1 else "down", "enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"), "the summary")


@pytest.mark.long
async def test_a_hit_says_which_message_it_is_and_whether_the_model_sees_it(tmp_path: Path):
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        rows.message(owner, "x" * 300 + " needle " + "y" * 300, in_context=False)
        rows.message(owner, "red \x1b[31m needle\x9b", in_context=True)
        covered = rows.message(owner, "a needle needles", in_context=False)
        rows.summary(owner, "sum_1", "Of the lease.", messages=[covered], in_context=True)
    async with open_app(path, size=NARROW) as pilot:
        await searching(pilot, *"needle")
        lines = [line.strip() for line in shown_lines(pilot)]
        assert any(line.startswith("3 hits, best first  3 messages, 1 summary searched, ") for line in lines)
        hits = {line.split()[3]: (line, below) for line, below in pairwise(lines) if line.startswith("user ")}
        assert hits["m1"][0].endswith("m1 #1  not in a context")
        assert hits["m1"][1].startswith("…needle yy")
        assert hits["m2"][0].endswith("m2 #2  in the context")
        assert hits["m2"][1] == "red ␛[31m needle‹U+009B›"
        assert hits["m3"][0].endswith("m3 #3  in the context as sum_1")
        await pilot.press("ctrl+u", *"leese needle")
        await wait_for_text(
            pilot, 'Nothing found. "leese" was not found; similar words: lease. "needle" alone: 3'
        )
        await pilot.press("enter")
        await wait_until_said(pilot, "Nothing was found for these words")


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "column", "key", "place"),
    [
        ("summaries", "content", "conversation_id = 3 AND kind = 'condensed'", "Summary DAG"),
        ("focus_briefs", "content", "status = 'active'", "Focus briefs"),
        ("large_files", "exploration_summary", "conversation_id = 3", ""),
    ],
)
async def test_a_hit_opens_at_what_was_found_which_is_the_word_of_n(
    database_copy: DatabaseFactory, table: str, column: str, key: str, place: str
) -> None:
    path = database_copy("0.15.3")
    text = "\n".join([*(f"line {at}" for at in range(90)), f"and {NEEDLE} at the end", *"below"])
    with closing(sqlite3.connect(path)) as database, database:
        where = f"rowid = (SELECT min(rowid) FROM {table} WHERE {key})"
        database.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (text,))
    async with open_app(path, size=NARROW) as pilot:
        searched = await searching(pilot, *NEEDLE)
        assert table == "summaries" or "not in a context" not in shown(pilot), "it is no item of one"
        await pilot.press("enter")
        await wait_for(
            pilot, lambda: pilot.app.screen is not searched and at(pilot.app.screen, place), "its place"
        )
        await wait_for_text(pilot, f"and {NEEDLE} at the end")
        screen = pilot.app.screen
        await wait_for(pilot, lambda: screen.why_not("next") is None, "n can be used")
        await pilot.press("n")
        await settled(pilot)
        assert f"and {NEEDLE} at the end" in shown(pilot)
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is searched, "the hits again, after one key")


@pytest.mark.long
async def test_a_hit_in_a_folded_result_opens_unfolded_marked_and_is_the_word_of_n(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    with closing(sqlite3.connect(path)) as database, database:
        [(message,)] = database.execute(
            "SELECT m.message_id FROM messages AS m JOIN message_parts AS p USING (message_id)"
            " WHERE m.role = 'tool' AND json_type(p.metadata, '$.raw.text') = 'text' LIMIT 1"
        )
        output = "\n".join([*(f"line {at}" for at in range(90)), f"and {NEEDLE} at the end"])
        database.execute(
            "UPDATE message_parts SET text_content = ?1, metadata = json_set(metadata, '$.raw.text', ?1)"
            " WHERE message_id = ?2",
            (output, message),
        )
        database.execute("UPDATE messages SET content = ? WHERE message_id = ?", (output, message))
    async with open_app(path, size=NARROW) as pilot:
        await searching(pilot, *NEEDLE)
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation "), "the message")
        screen = pilot.app.screen
        assert at(screen, "Conversation ")
        await wait_for_text(pilot, f"and {NEEDLE} at the end")
        number = screen.messages.selected
        assert screen.messages.needle == NEEDLE
        await pilot.press("n")
        await wait_for(pilot, lambda: f"Only this message contains “{NEEDLE}”." in said(pilot))
        assert screen.messages.selected == number


@pytest.mark.long
async def test_letters_are_text_and_what_is_typed_over_is_given_up(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    plant(path)
    async with open_app(path, size=NARROW) as pilot:
        screen = await searching(pilot, *"qqq")
        assert screen.query_input.value == "qqq", "q is a letter here, and quits nothing"
        assert screen._number == 3, "each letter begins a search, and gives up the one before"
        late = screen._found
        assert late is not None
        await pilot.press("x")
        screen._show(3, late, 1.0)
        assert screen._found is not late, "what comes late replaces nothing newer"
        await wait_for_text(pilot, "Nothing found.", '"qqqx" was not found')
        await pilot.press("enter")
        assert pilot.app.screen is screen


async def test_enter_before_the_hits_opens_the_best_of_what_was_typed_and_of_nothing_before(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database_copy("0.15.3")
    plant(path)

    async def slowly(*args: Any, **more: Any):
        await asyncio.sleep(0.3)
        return await search_live(*args, **more)

    async with open_app(path, size=NARROW) as pilot:
        screen = await searching(pilot, *"the")
        assert screen.hits.hit is not None, "a hit of the search before"
        assert screen.hits.hit.conversation_id != 3
        monkeypatch.setattr("lcm_tui.screens.search.search_live", slowly)
        screen.query_input.value = NEEDLE
        await pilot.pause()
        await pilot.press("enter")
        assert pilot.app.screen is screen
        await wait_for(pilot, lambda: pilot.app.screen is not screen, "the place of the best hit")
        await wait_until_said(pilot, "hits; ] shows the next.")
        place = pilot.app.screen
        assert place.position().startswith(f"hit 1 of {screen.hits.counted_keys()[1]}")
        assert at(place, "Conversation ", "Summary DAG")
        assert place.conversation_id == 3
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the hits again")
        await settled(pilot)
        assert pilot.app.screen is screen, "it is opened once"


@pytest.mark.long
async def test_a_search_is_narrowed_to_a_kind_a_conversation_and_a_time(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("0.15.3")
    plant(path)
    async with open_app(path, size=NARROW) as pilot:
        screen = await searching(pilot, *NEEDLE)
        await pilot.press("ctrl+t", *"mess", "enter")
        await wait_for_text(pilot, "Search mess", "1 of 2 hits  865 messages searched")
        await pilot.press("ctrl+t", *"mess", "space", "1", "enter")
        await wait_for_text(pilot, "Search mess 1", "0 hits")
        await pilot.press("ctrl+t", *"someday", "enter")
        await wait_for_text(pilot, "someday is not one of messages, summaries")
        await pilot.press("ctrl+u", "3", "space", *"..2100-01-01", "enter")
        await wait_for_text(pilot, "Search 3 ..2100-01-01", "2 hits")
        await pilot.press("tab", "F")
        assert screen.query_input.has_focus
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is not screen, "the screen before")


@pytest.mark.long
async def test_a_search_that_led_somewhere_is_offered_again_until_it_is_forgotten(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("0.15.3")
    plant(path)
    async with open_app(path, size=NARROW) as pilot:
        screen = await searching(pilot, *NEEDLE)
        await pilot.press("enter")
        await wait_for(pilot, lambda: pilot.app.screen is not screen, "the place")
        assert recent(path) == [NEEDLE]
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the hits again")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is not screen, "the first screen")
        await pilot.press("F")
        await wait_for_text(pilot, f"recent  {NEEDLE}")
        await pilot.press("enter")
        await wait_for_text(pilot, "2 hits")
        kept = [one for one in cache_folder().rglob("*") if one.is_file()]
        assert any(NEEDLE.encode() in one.read_bytes() for one in kept)
        forget_cache(path)
        assert not any(NEEDLE.encode() in one.read_bytes() for one in kept if one.exists())


@pytest.mark.long
async def test_a_file_without_search_tables_gets_its_index_beside_the_typing(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("0.15.3")
    plant(path)
    async with open_app(path, size=NARROW) as pilot:
        await searching(pilot, *NEEDLE)
    assert not index_of(path).path.exists(), "its own search tables are used"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE messages_fts")
    async with open_app(path, size=NARROW) as pilot:
        screen = await searching(pilot, *NEEDLE)
        await wait_for(pilot, lambda: screen._indexed is None and index_of(path).path.exists(), "the index")
        assert NEEDLE.partition("-")[0].encode() in index_of(path).path.read_bytes()
        assert screen._found is not None
        assert screen._found.total == 2


@pytest.mark.long
async def test_a_question_without_a_model_is_answered_with_its_evidence(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("0.15.3")
    plant(path)
    async with open_app(path, size=NARROW) as pilot:
        await searching(pilot, *NEEDLE)
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen), "the evidence")
        await wait_for_text(pilot, "No model was called", "Evidence: 2 passages", "msg#")
        assert "\x1b" not in shown(pilot)
        for key in ("enter", "2"):
            await pilot.press(key)
            await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation ", "Summary DAG"), "the passage")
            await settled(pilot)
            await pilot.press("escape")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen), "the evidence again")
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Search"), "the hits again")


@pytest.mark.long
async def test_a_model_is_asked_only_after_the_operator_agreed(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database_copy("0.15.3")
    plant(path)
    monkeypatch.setenv("LCM_TUI_SUMMARY_PROVIDER", "ollama")
    monkeypatch.setenv("LCM_TUI_SUMMARY_MODEL", "small")
    monkeypatch.setenv("LCM_TUI_SUMMARY_BASE_URL", "http://127.0.0.1:9/v1")
    asked: list[str] = []

    async def ask(self: Inquiry, model, progress: object):
        asked.append(model.name)
        return replace(self.evidence, answer="It is there \x1b[31m.", model=model.name)

    monkeypatch.setattr(Inquiry, "ask", ask)
    async with open_app(path, size=NARROW) as pilot:
        await searching(pilot, *NEEDLE)
        await pilot.press("ctrl+g")
        await wait_for_text(pilot, "Call this model?")
        assert not asked
        await pilot.press("escape")
        await wait_for_text(pilot, "nothing was sent")
        assert not asked
        await pilot.press("escape", "ctrl+g")
        await wait_for_text(pilot, "Call this model?")
        await pilot.press("a")
        await wait_for_text(pilot, "It is there", "No citation could be verified")
        assert len(asked) == 1
        assert "\x1b" not in shown(pilot)


@pytest.mark.long
async def test_a_hit_is_expanded_level_by_level_with_what_each_level_costs(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("0.15.3")
    plant(path)
    async with open_app(path, size=NARROW) as pilot:
        screen = await searching(pilot, *NEEDLE)
        assert screen.hits.selected == screen.hits.keys[1], "the best hit, whatever was found first"
        for hit in ("a summary", "the message"):
            await wait_for_text(pilot, "^o Expand")
            await pilot.press("ctrl+o")
            await wait_for(pilot, lambda: at(pilot.app.screen, "Expand "), hit)
            expansion = pilot.app.screen
            assert at(expansion, "Expand ")
            await settled(pilot)
            levels = expansion.list.levels
            assert levels[0].summaries == (expansion.selected_id(),)
            total = sum(one.tokens for one in levels)
            await wait_for_text(pilot, f"{levels[-1].tokens:,}  {total:>10,}", "Expand sum_")
            await pilot.press("G")
            first = f"msg#{levels[-1].messages[0]}@"
            await wait_for_text(pilot, first)
            before = len(expansion.text.document)
            await pilot.press("enter", "enter")
            await settled(pilot)
            assert len(expansion.text.document) > before or "enter reads the next" not in expansion.text.text
            assert "\x1b" not in shown(pilot)
            await pilot.press("escape", "escape")
            await wait_for(pilot, lambda: pilot.app.screen is screen, "the hits again")
            await pilot.press("down")
        await pilot.press("tab", "y", "escape")


@pytest.mark.long
async def test_without_the_cache_nothing_is_kept_on_disk(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = database_copy("0.15.3")
    plant(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE messages_fts")  # else no index would be made anyway
    config = tmp_path / "config.toml"
    monkeypatch.setenv("LCM_TUI_CONFIG", str(config))
    for setting, kept in (("search_cache = false", False), ("", True)):
        config.write_text(setting)
        async with open_app(path, size=NARROW) as pilot:
            await searching(pilot, *NEEDLE)
            await wait_for_text(pilot, "2 hits")
            await pilot.press("enter")
            await wait_for(pilot, lambda: not at(pilot.app.screen, "Search"), "the place")
            await pilot.press("escape", "ctrl+u")
            await wait_for_text(pilot, f"recent  {NEEDLE}")
            await settled(pilot)
        assert any(cache_folder().rglob("*")) is kept, setting


@pytest.mark.parametrize("name", sampled(EVERY, ["ContextScreen"]))
async def test_a_word_is_three_keys_away_from_every_screen(name: str, openclaw_home: Path) -> None:
    path = openclaw_home / "lcm.db"
    plant(path)
    if name == "OperationScreen":
        words = ("dissolve", "1", "--summary", "sum_4c4bd5292abfa225", "--apply", "--yes", "--json")
        assert (await asyncio.to_thread(command, *words, "--db", path)).code == 0
    elif name == "SnapshotScreen":
        await keep(path, 1, [6_000])
    async with open_app(path, size=NARROW, state_dir=openclaw_home) as pilot:
        before = await walk_to(pilot, name)
        if isinstance(before, EditScreen):  # where F is a letter, too: its third key
            await pilot.press("escape")
            before = pilot.app.screen
        await pilot.press("ctrl+u" if at(before, "Search") else "F", *NEEDLE)
        screen = pilot.app.screen
        assert at(screen, "Search")
        assert screen.query_input.value == NEEDLE, "letters are text, from the first one on"
        await wait_for_text(pilot, "2 hits", "Conversation 3")
        hit = screen.hits.hit
        assert hit is not None
        assert NEEDLE in hit.snippet
        await pilot.press("enter")
        await wait_for(pilot, lambda: pilot.app.screen is not screen, "the place of the hit")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the hits again")
        if screen is not before:
            await pilot.press("escape")
            await wait_for(pilot, lambda: pilot.app.screen is before, "where one was")


DIALOGS = {"ContextScreen": "question_mark", "ConversationsScreen": "R"}


@pytest.mark.long
@pytest.mark.parametrize("before", sampled(DIALOGS, ["ConversationsScreen"]))
async def test_a_word_is_three_keys_away_from_a_dialog(before: str, database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    plant(path)
    async with open_app(path, size=NARROW) as pilot:
        below = await walk_to(pilot, before)
        await pilot.press(DIALOGS[before])
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen), "the dialog")
        await pilot.press("escape", "F", *NEEDLE)
        screen = pilot.app.screen
        assert at(screen, "Search")
        assert screen.query_input.value == NEEDLE
        await wait_for_text(pilot, "2 hits")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is below, "where one was")


@pytest.mark.long
async def test_the_key_of_each_choice_lists_as_many_hits_as_it_promised(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await searching(pilot, *"upload")
        await wait_for_text(
            pilot, "1 tool 92  2 user 45  3 assistant 119  4 summaries 67", "8 briefs 2  9 files 2"
        )
        await wait_for_text(pilot, "327 hits", "5 in context 46", "6 not in it 277", "7 broken 12")
        await resize(pilot, 60, 24)
        assert "hits, best first, 200 shown" in shown(pilot), "also where the line is short"
        await pilot.press("tab")
        await wait_for_text(pilot, " enter Open hit  ")
        for (key, word, title), count in zip(CHOICES, (92, 45, 119, 67, 46, 277, 12, 2, 2), strict=True):
            await pilot.press(key)
            await wait_for_text(pilot, f"Search {word}", f"{count} of 327 hits", f"{key} ●{title} {count}")
            await pilot.press("0")
        await pilot.press("1")
        await wait_for_text(pilot, "1 ●tool 92  2 user 45", "5 in context 17", "6 not in it 75")


async def test_a_count_has_a_plus_only_where_there_may_be_more_hits_of_its_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = tmp_path / "config.toml"
    config.write_text("search_cache = false")  # an index would count them all
    monkeypatch.setenv("LCM_TUI_CONFIG", str(config))
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        for _ in range(3):
            rows.message(owner, "an old needle", role="tool", in_context=False)
        for _ in range(WINDOW):
            rows.message(owner, "a needle", in_context=False)
        rows.summary(owner, "sum_one", "A needle.")
    async with open_app(path, size=NARROW) as pilot:
        await searching(pilot, *"needle")
        await wait_for_text(pilot, "at least 2,001 hits", "1 tool 0+  2 user 2,000+", "4 summaries 1\n")
        await pilot.press("tab", "1")
        await wait_for_text(pilot, "3 of at least 2,001 hits", "1 ●tool 3  2 user 2,000+", "6 not in it 3 ")


@pytest.mark.long
async def test_one_key_each_narrows_the_hits_and_one_takes_it_all_away(tmp_path: Path):
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        rows.message(owner, "the needle is asked for", in_context=False)
        rows.message(owner, "needle out", role="tool", in_context=True)
        rows.message(owner, "needle old", role="tool", in_context=False)
        rows.summary(owner, "sum_bad", f"{FALLBACK_MARKER}\nneedle", in_context=True)
        rows.summary(owner, "sum_good", "A needle.")
    async with open_app(path, size=NARROW) as pilot:
        await searching(pilot, *"needle")
        await wait_for_text(pilot, "5 hits, best first  3 messages, 2 summaries searched")
        offered = "tab then 1 tool 2  2 user 1  4 summaries 2  5 in context 2  6 not in it 3"
        await wait_for_text(pilot, offered, "7 broken 1")
        await pilot.press("tab", "1")
        await wait_for_text(
            pilot,
            "Search tool",
            "2 of 5 hits, best first  2 messages searched,",
            " 1 ●tool 2  2 user 1  4 summaries 2  5 in context 1  6 not in it 1  7 broken 1",
            "0 all",
        )
        assert "needle out" in shown(pilot)
        await pilot.press("5")
        await wait_for_text(
            pilot, "Search tool in-context", "1 of 5 hits  1 message searched,", "5 ●in context 1"
        )
        await wait_for_text(pilot, " 1 ●tool 1  4 summaries 1  5 ●in context 1  6 not in it 1  7 broken 1")
        await pilot.press("6")
        await wait_for_text(
            pilot, "Search tool out-of-context", "1 of 5 hits  1 message searched,", "6 ●not in it 1"
        )
        assert "needle old" in shown(pilot)
        await pilot.press("2")
        await wait_for_text(
            pilot, "Search tool out-of-context user", "2 of 5 hits, best first  2 messages searched,"
        )
        await wait_for_text(pilot, " 1 ●tool 1  2 ●user 1  4 summaries 1  5 in context 1  6 ●not in it 2")
        await pilot.press("7")
        await wait_for_text(
            pilot, "Search out-of-context broken", "0 of 5 hits: not in it, broken. 0 shows all."
        )
        await pilot.press("0")
        await wait_for_text(pilot, "5 hits, best first  3 messages, 2 summaries searched")
        assert "tool" not in shown_lines(pilot)[0]
        await pilot.press("7")
        await wait_for_text(pilot, "Search broken", "1 of 5 hits  1 summary searched,")
        assert "sum_bad" in shown(pilot)
        await pilot.press("7")
        await wait_for_text(pilot, "5 hits, best first  3 messages, 2 summaries searched")
        await pilot.press("0")
        await wait_until_said(pilot, "Nothing limits the search")
        await click_text(pilot, "4 summaries", Lines)
        await wait_for_text(pilot, "Search summaries", "2 of 5 hits, best first  2 summaries searched,")


@pytest.mark.long
async def test_a_search_without_words_shows_its_choices_and_counts_nothing(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        screen = await searching(pilot, *"the")
        await pilot.press("enter")
        await wait_for(pilot, lambda: pilot.app.screen is not screen)
        await pilot.press("escape", "ctrl+u", "tab", "5", "1")
        await wait_for_text(pilot, "recent  the", "1 ●tool", "5 ●in context")
        assert " of " not in shown_lines(pilot)[0]


@pytest.mark.long
async def test_counts_are_known_where_the_search_was_narrowed_before_it_was_typed(tmp_path: Path):
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        rows.message(owner, "a needle", in_context=False)
        rows.message(owner, "a needle", role="tool", in_context=True)
    async with open_app(path, size=(60, 15)) as pilot:
        await settled(pilot)
        await pilot.press("F", "ctrl+t", *"broken", "enter")
        await pilot.press(*"needle")
        await wait_for_text(
            pilot, "0 of 2 hits: broken. tab, then 0 shows all.", "tab then 7 ●broken 0  0 all"
        )
        await pilot.press("tab", "0")
        await wait_for_text(pilot, "2 hits", " 1 tool 1  2 user 1  5 in context 1  6 not in it 1")


@pytest.mark.long
async def test_what_is_picked_is_added_to_what_narrows_the_search(tmp_path: Path):
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        rows.message(rows.conversation(), "a needle", role="tool", in_context=True)
    async with open_app(path, size=NARROW) as pilot:
        await searching(pilot, *"needle")
        await pilot.press("ctrl+t", *"outputs")
        await wait_for_text(pilot, " tool outputs")
        await pilot.press("enter")
        await wait_for_text(pilot, "Search tool")
        await pilot.press("ctrl+t")
        await wait_for_text(
            pilot, "tool  as typed", "tool outputs  → everything", "in the context  → tool in-context"
        )
        await pilot.press("down", "down", "down", "down", "down", "enter")
        await wait_for_text(pilot, "Search tool in-context", "1 hit")


@pytest.mark.long
async def test_hits_of_before_a_change_say_so(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    plant(path)
    with Host(path) as host:
        async with open_app(path, size=NARROW) as pilot:
            await searching(pilot, *NEEDLE)
            host.say(1, f"{NEEDLE} again")
            await wait_for_text(pilot, "of before a change: ^r searches again")
            await pilot.press("ctrl+r")
            await wait_for_text(pilot, "3 hits")
            assert "of before a change" not in shown(pilot)


def test_what_a_search_is_narrowed_to_is_read_from_words() -> None:
    now = datetime(2026, 3, 9, tzinfo=UTC)
    asked = parse_narrowing(" s  #12 7d ", UTC, now)
    assert asked.text == "s #12 7d"
    assert asked.filter.kinds == (DocumentKind.SUMMARY,)
    assert asked.filter.conversations == (12,)
    assert (asked.filter.since, asked.filter.before) == ("2026-03-02T00:00:00.000Z", None)
    assert parse_narrowing("mess  last  3h 2", UTC, now).filter.since == "2026-03-08T21:00:00.000Z"
    between = parse_narrowing("2026-03-01..2026-03-02", UTC, now).filter
    assert (between.since, between.before) == ("2026-03-01T00:00:00.000Z", "2026-03-02T00:00:00.000Z")
    assert parse_narrowing("", UTC).filter.kinds == tuple(DocumentKind)
    several = parse_narrowing("user 3 Tool out", UTC)
    assert (several.filter.roles, several.filter.in_context) == (("tool", "user"), False)
    assert several.turned("tool") == "user 3 out", "it is in it"
    assert several.turned("assistant") == "user 3 Tool out assistant"
    assert several.turned("in-context") == "user 3 Tool in-context"
    assert several.turned("broken") == "3 out broken"
    assert several.turned("#7") == "user Tool out #7"
    assert parse_narrowing("7d user 3", UTC).turned("24h") == "user 3 24h"
    assert several.rest == "3"
    assert parse_narrowing("in out", UTC).filter.in_context is None
    for wrong in (
        "..",
        "7x",
        "1 2",
        "7d 8d",
        "9" * 19,
        "999999999w",
        "\x1b[31m",
        "last",
        "last x",
        "2026-03-09..2026-03-02",
        "broken messages",
        "in files",
    ):
        with pytest.raises(UsageError):
            parse_narrowing(wrong, UTC, now)


@pytest.mark.parametrize("width", [24, 60, 100, 160])
@pytest.mark.parametrize("begin", [0, 150, 380])
def test_the_text_of_a_hit_gets_all_of_the_width_with_its_match_in_sight(width: int, begin: int):
    text = f"{'word ' * 80}"[:begin] + "zebra " + "word " * 80
    found = (Span(begin, begin + 5),)
    hit = Hit(DocumentKind.MESSAGE, "7", 1, "user", None, "content", text, found, (), (), in_context=True)
    _, drawn = hit_lines(hit, width, None, ShortIds())
    assert cell_width(text_of(drawn)) > width - 6, "but the beginning of a word"
    assert cell_width(text_of(drawn)) <= width
    assert [span.text for span in drawn if span.style == "match"] == ["zebra"]
