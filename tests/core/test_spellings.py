"""Composed, decomposed and bare spellings find each other (docs/spec/searching.md, "Spellings")."""

from __future__ import annotations

import asyncio
import sqlite3
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import Database
from lcm_core.base.text import fold, places_of, same_spelling, sought_as
from lcm_core.store.messages import find_text
from lcm_core.store.search import DocumentKind, Filter
from lcm_core.store.summaries import summaries_with
from lcm_recall.ask import Memory, terms_of
from lcm_recall.search import index_of, make_index, search_live
from lcm_recall.terms import Mode, parse

from lcm_tui.kit import listing as finding
from lcm_tui.kit.listing import Said
from tests.cli.support import run
from tests.core.recalling import settings_in
from tests.databases import building, new_database

#: Words as they are written, and as people type them who type no marks.
WORDS = {
    "déjà": "deja", "naïve": "naive", "coöperate": "cooperate", "Müller": "MULLER", "niño": "nino",
    "ação": "acao", "Nguyễn": "nguyen", "Trần": "Tran", "βαλβίδα": "βαλβιδα", "Ἀθῆναι": "αθηναι",
    "ΝΕΡΌΣ": "νερος", "Łódź": "lodz", "Ångström": "angstrom", "ёлка": "елка", "Київ": "Киів",
    "İstanbul": "istanbul",
    "ısı": "isi", "Straße": "strasse", "smørrebrød": "smorrebrod", "Đakovo": "dakovo", "Ħamrun": "hamrun",
    "がくせい": "かくせい", "パン": "ハン", "감사": "감사", "שָׁלוֹם": "שלום", "مُحَمَّد": "محمد", "ज़मीन": "जमीन",
    "čtvrtek": "ctvrtek", "ﬁlet": "filet", "K2": "k2",
}  # fmt: skip
FORMS = ("NFC", "NFD")
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("".join(WORDS) + "\u0301\u0308\u3099"))


def written(word: str) -> list[str]:
    return [unicodedata.normalize(form, word) for form in FORMS]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each word composed and decomposed: in a message, in the output of a tool, in a summary."""
    path = new_database(tmp_path_factory.mktemp("spellings") / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation(1, session_key="agent:main:main")
        for number, word in enumerate(WORDS):
            for form, text in zip(FORMS, written(word), strict=True):
                rows.message(owner, f"One says {text} — {form}.")
                rows.summary(owner, f"sum_{number:02}_{form}", f"It says “{text}” there.", in_context=True)
                said = rows.message(owner, f"result {number}", role="tool")
                rows.insert(
                    "message_parts",
                    part_id=f"p{said}",
                    message_id=said,
                    session_id="session-1",
                    part_type="tool",
                    ordinal=0,
                    tool_output=f"prints {text} here",
                )

    async def index() -> None:
        async with await Database.open(path) as database:
            assert await make_index(database, folder=path.parent / "cache")

    asyncio.run(index())
    return path


def searched(path: Path, query: str, mode: Mode, *, by_index: bool):
    return asyncio.run(_searched(path, query, mode, by_index=by_index))


async def _searched(path: Path, query: str, mode: Mode, *, by_index: bool):
    index = index_of(path, path.parent / "cache") if by_index else None
    async with await Database.open(path) as database:
        return await search_live(
            database,
            parse(query, mode),
            Filter(),
            settings_in(path.parent),
            lambda _: None,
            index=index,
            limit=99,
        )


@pytest.mark.long
@pytest.mark.parametrize("by_index", [False, True])
@pytest.mark.parametrize("mode", [Mode.WORDS, Mode.SUBSTRING])
def test_every_spelling_of_a_word_finds_every_other(path: Path, mode: Mode, by_index: bool) -> None:
    for word, bare in WORDS.items():
        typed = [
            *written(word),
            word.upper(),
            *([word[1:]] if mode is Mode.SUBSTRING and len(word) > 3 else []),
        ]
        for query in dict.fromkeys([*typed, *written(bare), bare.lower()]):
            found = searched(path, query, mode, by_index=by_index)
            places = [(hit.kind, hit.place) for hit in found.hits]
            for wanted in (
                (DocumentKind.MESSAGE, "content"),
                (DocumentKind.MESSAGE, "tool output"),
                (DocumentKind.SUMMARY, "content"),
            ):
                assert places.count(wanted) >= 2, (query, places)
            assert found.coverage.full
            for hit in found.hits:
                for one in hit.spans:
                    assert fold(query) in fold(hit.snippet[one.start : one.end])


@pytest.mark.long
def test_it_finds_at_least_what_the_index_of_the_engine_finds(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for word, bare in WORDS.items():
            for query in (*written(word), bare):
                sql = "SELECT rowid FROM messages_fts WHERE messages_fts MATCH ?"
                theirs = {str(row[0]) for row in connection.execute(sql, (f'"{query}"',))}
                found = searched(path, query, Mode.WORDS, by_index=False)
                assert theirs <= {hit.id for hit in found.hits if hit.kind is DocumentKind.MESSAGE}, query


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("typed", "others"),
    [
        ("résumé", ["resume", "Resumé", "rèsume"]),
        ("resume", ["résumé", "resumé"]),
        ("Łódź", ["Lodz", "Łodz"]),
        ("всё", ["все"]),
        ("Άννα", ["Αννα"]),
        ("が", ["か"]),
    ],
)
def test_the_spelling_that_was_typed_comes_first_and_others_say_so(
    typed: str, others: list[str], tmp_path: Path
) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation(1, session_key="agent:main:main")
        for text in written(typed):
            rows.message(owner, f"once {text.upper()} only, in a text that is long {'and longer ' * 90}")
        for other in others * 3:
            rows.message(owner, f"{other} {other} {other}")  # newer, shorter, and more of it
    for query in written(typed):
        found = searched(path, query, Mode.WORDS, by_index=False)
        assert [hit.spelled for hit in found.hits] == [True] * 2 + [False] * 3 * len(others)
    shown = run("grep", typed, "--index", "off", "--db", path)
    assert shown.out.count("in another spelling") == 3 * len(others)
    hits = run("grep", typed, "--index", "off", "--json", "--db", path).data["hits"]
    assert [hit["otherSpelling"] for hit in hits] == [not hit.spelled for hit in found.hits]


@pytest.mark.long
def test_a_question_finds_every_spelling(path: Path) -> None:
    def find(rows, schema, question: str) -> list[tuple[str, bool]]:
        gathered = Memory(rows, schema, settings_in(path.parent), None).find(question, 8_000)
        assert gathered.unfound == ()
        return [(one.text, not one.other_spelling) for one in gathered.passages]

    async def load(reader, question: str) -> list[tuple[str, bool]]:
        return await reader.run(lambda rows: find(rows, reader.schema, question))

    async def ask() -> None:
        async with await Database.open(path) as database:
            for word, bare in WORDS.items():
                if terms_of(bare) != [bare]:
                    continue
                passages = await database.read(load, bare)
                assert all(fold(bare) in fold(text) for text, _ in passages)
                for text in written(word):
                    [spelled] = {spelled for said, spelled in passages if f" {text} —" in said}
                    assert spelled == (same_spelling(bare) in same_spelling(text)), word

    asyncio.run(ask())


def test_places_are_those_of_the_text_itself() -> None:
    text = "Ça ﬁnira 🇩🇪 à Łódź… ISTANBUL, İstanbul; \u1112\u1161\u11ab한, STRASSE Straße, e\u0301te\u0301!"
    for query, places in (
        ("lodz", ["Łódź"]),
        ("istanbul", ["ISTANBUL", "İstanbul"]),
        ("한", ["\u1112\u1161\u11ab", "한"]),
        ("strasse", ["STRASSE", "Straße"]),
        ("été", ["e\u0301te\u0301"]),
        ("ca finira", ["Ça ﬁnira"]),
    ):
        [term] = parse(query, Mode.SUBSTRING).terms
        assert [text[start:end] for start, end in term.places(text)] == places


@pytest.mark.cases(2)
@pytest.mark.parametrize("query", ["\u0301", "\u0301\u0308", '"\u3099"', "\u0301*"])
def test_marks_alone_find_nothing_and_are_no_error(query: str, path: Path) -> None:
    assert run("grep", query, "--index", "off", "--json", "--db", path).data["total"] == 0
    assert run("grep", query, "--substring", "--index", "off", "--json", "--db", path).data["total"] == 0


@pytest.mark.long
@given(TEXTS)
def test_folding_is_one_rule(text: str) -> None:
    folded = fold(text)
    assert fold(folded) == folded
    for form in FORMS:
        assert fold(unicodedata.normalize(form, text)) == folded
        assert same_spelling(unicodedata.normalize(form, text)) == same_spelling(text)
    if "\u0345" not in unicodedata.normalize("NFD", text):  # the iota below, of which case makes a letter
        assert fold(text.casefold()) == folded
        assert fold(same_spelling(text)) == folded


@pytest.mark.long
@given(TEXTS, st.integers(0, 30), st.integers(1, 8))
def test_a_piece_of_a_text_is_found_where_it_is(text: str, start: int, length: int) -> None:
    piece = text[start : start + length].strip()
    if not fold(piece).strip():
        return
    [term] = parse(piece, Mode.SUBSTRING).terms
    for first, last in term.places(text):
        assert 0 <= first < last <= len(text)
        assert fold(text[first:last]).strip()


def test_filters_of_lists_find_every_spelling() -> None:
    rows = [text for word in WORDS for text in written(word)]
    said = Said[int](lambda key: f"row {rows[key]}")
    for number, (word, bare) in enumerate(WORDS.items()):
        for typed in (*written(word), word.upper(), bare):
            words = finding.Filter("a word", lambda: None)
            words.typed(f"row {typed}")
            assert {2 * number, 2 * number + 1} <= {*said.passing(range(len(rows)), words.words)}, typed


async def _walked(database: Database, typed: str, *, forward: bool) -> list[int]:
    found: list[int] = []
    at = -1 if forward else 10**6
    while (seq := await database.read(find_text, 1, typed, start=at, forward=forward)) is not None:
        found.append(seq)
        at = seq
    return found


@pytest.mark.cases(1)
@pytest.mark.parametrize("word", WORDS)
def test_every_spelling_is_found_in_a_conversation_and_a_tree(path: Path, word: str) -> None:
    number = [*WORDS].index(word)

    async def look() -> None:
        async with await Database.open(path) as database:
            for typed in (*written(word), word.upper(), WORDS[word]):
                found = await _walked(database, typed, forward=True)
                assert found == [*reversed(await _walked(database, typed, forward=False))]
                said = [await database.read(_content, seq) for seq in found]
                mine = {*(f"One says {text}" for text in written(word))}
                assert mine <= {text.partition(" —")[0] for text in said}
                assert sum(text == f"result {number}" for text in said) == 2, "the output of its tool"
                summaries = await database.read(summaries_with, 1, typed)
                assert {f"sum_{number:02}_{form}" for form in FORMS} <= set(summaries)

    asyncio.run(look())


async def _content(reader, seq: int) -> str:
    return str(await reader.value("SELECT content FROM messages WHERE seq = ?", seq))


def test_marks_alone_are_in_no_conversation_and_no_tree(path: Path) -> None:
    async def look() -> None:
        async with await Database.open(path) as database:
            for typed in ("\u0301", "\u0301\u0308", "\u3099"):
                assert await _walked(database, typed, forward=True) == []
                assert await database.read(summaries_with, 1, typed) == []

    asyncio.run(look())


def test_texts_behind_a_nul_and_in_blobs_of_bad_bytes_are_found(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation(1, session_key="agent:main:main")
        for text in ("plain", "zero \0 caf\u00e9", "nothing here", "e\u0301te\u0301"):
            rows.message(owner, text)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE messages SET content = CAST(x'ff20436166c3a9' AS TEXT) WHERE content = 'plain'"
        )
        first = [seq for (seq,) in connection.execute("SELECT seq FROM messages ORDER BY seq")]

    async def look() -> None:
        async with await Database.open(path) as database:
            assert await _walked(database, "CAFE", forward=True) == [first[0], first[1]]
            assert await _walked(database, "\u00e9t\u00e9", forward=True) == [first[3]]

    asyncio.run(look())


@pytest.mark.long
@given(TEXTS, st.integers(0, 30), st.integers(1, 8))
def test_what_is_marked_is_what_was_found(text: str, start: int, length: int) -> None:
    sought = sought_as(text[start : start + length].partition("\n")[0])
    places = places_of(sought, text)
    assert bool(places) == (bool(sought) and sought in fold(text))
    before = 0
    for first, last in places:
        assert 0 <= first < last <= len(text)
        assert first >= before or len(fold(text[first:last])) > len(sought), "two in one letter"
        before = last
        assert sought in fold(text[first:last])


def test_places_of_lines_are_those_of_the_whole() -> None:
    text = "Straße\nİ ﬁn\n\n第一 Łódź, де Киї\u0308в\r\nLO\u0301DZ e\u0301 STRASSE"
    for typed, wanted in (
        ("lodz", ["Łódź", "LO\u0301DZ"]),
        ("strasse", ["Straße", "STRASSE"]),
        ("fin", ["ﬁn"]),
        ("i", ["İ", "ﬁ"]),
        ("Київ", ["Киї\u0308в"]),
    ):
        assert [text[first:last] for first, last in places_of(sought_as(typed), text)] == wanted
