"""Our own search against a plain look at every text, and reading down against the texts themselves."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import Database, UsageError
from lcm_core.engine.markers import FALLBACK_MARKER
from lcm_core.store.search import DocumentKind, Filter
from lcm_recall import program
from lcm_recall.search import search
from lcm_recall.terms import KnownWords, Mode, parse

from tests.core.recalling import settings_in
from tests.databases import building, new_database, run

WORDS = [
    "lease",
    "Lease",
    "leases",
    "retry_policy",
    "host-19",
    "修改",
    "youer",
    "修改youer服务",
    "Größe",
    "ok",
    "a",
]
EVERYTHING = Filter()
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


async def found(path: Path, query: str, mode: Mode = Mode.WORDS, wanted: Filter = EVERYTHING, **more: int):
    asked, known = parse(query, mode), settings_in(path.parent)

    async def load(reader):
        return await reader.run(search, reader.schema, asked, wanted, known, **more)

    async with await Database.open(path) as database:
        return await database.read(load)


async def test_hits_that_weigh_the_same_are_newest_first(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    times = [3, 1, 2, 2, 5, 4, 1, 3]
    with building(path) as rows:
        owner = rows.conversation()
        ids = [rows.message(owner, "the lease", created_at=f"2026-03-0{day} 10:00:00") for day in times]
    newest = sorted(zip(times, ids, strict=True), reverse=True)
    for mode, query in ((Mode.WORDS, "lease"), (Mode.WORDS, "eas"), (Mode.REGEX, "l.ase")):
        hits = (await found(path, query, mode)).hits
        assert [int(hit.id) for hit in hits] == [number for _, number in newest]


@pytest.mark.long
@given(
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8),
    st.lists(
        st.sampled_from(["lease", "LEASE", "retry*", "host", "改", "youer", "größe", '"ok a"']),
        min_size=1,
        max_size=2,
    ),
)
@settings(max_examples=40)
def test_what_is_found_is_what_holds_every_term(messages: list[tuple[str, str]], terms: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = new_database(Path(folder) / "lcm.db")
        texts: dict[str, str] = {}
        with building(path) as rows:
            owner = rows.conversation()
            for content, called in messages:
                number = rows.message(owner, content)
                rows.part(number, "tool", None, tool_name="exec", tool_input=called)
                texts[str(number)] = f"{content}\n{called}"
        parts = [term.strip('"').rstrip("*").lower() for term in terms]
        expected = {one for one, text in texts.items() if all(part in text.lower() for part in parts)}
        answer = asyncio.run(found(path, " ".join(terms), limit=100))
        assert {hit.id for hit in answer.hits} == expected
        assert answer.coverage.full
        assert answer.coverage.searched[DocumentKind.MESSAGE] == len(messages)
        paged = [
            hit.id
            for start in range(0, answer.total, 2)
            for hit in asyncio.run(found(path, " ".join(terms), limit=2, offset=start)).hits
        ]
        assert paged == [hit.id for hit in answer.hits]
        for hit in answer.hits:
            assert hit.spans
            assert all(hit.snippet[span.start : span.end].lower() in parts for span in hit.spans)


async def test_whole_words_come_before_parts_of_words(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        whole = rows.message(owner, "the lease is over", created_at="2026-03-01 10:00:00")
        part = rows.message(owner, "subleases abound", created_at="2026-03-01 10:00:01")
    answer = await found(path, "lease")
    assert [hit.id for hit in answer.hits] == [str(whole), str(part)]
    assert [name for name, _ in answer.hits[0].found_by] == ["words", "part of a word", "recency"]
    assert [name for name, _ in answer.hits[1].found_by] == ["part of a word", "recency"]


async def test_every_kind_is_searched_and_filters_narrow(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    (tmp_path / "lcm-files").mkdir()
    (tmp_path / "lcm-files" / "f.txt").write_text("needle in a file")
    with building(path) as rows:
        one = rows.conversation(session_key="agent:a:main")
        two = rows.conversation(session_key="agent:b:main", session_id="other")
        first = rows.message(one, "needle said", role="user")
        output = rows.message(one, "", role="tool", created_at="2026-01-01 00:00:00")
        rows.part(output, "tool", None, tool_name="exec", tool_output="the needle came out")
        rows.message(two, "needle", role="assistant")
        rows.summary(one, "sum_leaf", "needle of a leaf", messages=[first], in_context=False)
        rows.summary(one, "sum_top", "nothing", sources=["sum_leaf"], in_context=True)
        rows.file(one, "file_a", str(tmp_path / "lcm-files" / "f.txt"), file_name="f.txt")
        rows.insert(
            "focus_briefs",
            brief_id="b1",
            conversation_id=one,
            prompt="needle?",
            content="it is there",
            status="active",
            token_count=1,
            target_tokens=1,
            created_at="2026-01-01",
            updated_at="2026-01-01",
        )
    answer = await found(path, "needle")
    assert {hit.citation for hit in answer.hits} == {
        f"msg#{first}",
        f"msg#{output}",
        "msg#3",
        "sum_leaf",
        "file_a",
        "b1",
    }
    places = {hit.citation: hit.place for hit in answer.hits}
    assert places[f"msg#{output}"] == "tool output"
    assert places["file_a"] == "file"
    ways = {hit.citation: hit.way for hit in answer.hits}
    assert ways[f"msg#{first}"] == ("sum_top", "sum_leaf")
    assert ways["sum_leaf"] == ("sum_top", "sum_leaf")
    assert ways["msg#3"] == ()

    async def ids(**conditions: object) -> set[str]:
        hits = (await found(path, "needle", wanted=Filter(**conditions))).hits
        return {hit.citation for hit in hits}

    assert await ids(conversations=(two,)) == {"msg#3"}
    assert await ids(roles=("tool",)) == {f"msg#{output}"}
    assert await ids(tools=("exec",)) == {f"msg#{output}"}
    assert await ids(summary_kinds=("leaf",)) == await ids(depths=(0,)) == {"sum_leaf"}
    assert await ids(kinds=(DocumentKind.FILE, DocumentKind.BRIEF)) == {"file_a", "b1"}
    assert await ids(broken=True) == set()
    assert f"msg#{output}" not in await ids(since="2026-01-02T00:00:00Z")
    assert await ids(before="2026-01-01T00:00:01Z", kinds=(DocumentKind.MESSAGE,)) == {f"msg#{output}"}


async def test_only_broken_summaries_are_searched_and_counted(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        rows.message(owner, f"needle {FALLBACK_MARKER}")
        rows.summary(owner, "sum_broken", f"{FALLBACK_MARKER}\nneedle")
        rows.summary(owner, "sum_other", f"{FALLBACK_MARKER}\nelse")
        rows.summary(owner, "sum_quotes", f"A needle; it quotes {FALLBACK_MARKER} here. {'and more ' * 20}")
        rows.summary(owner, "sum_sound", "A needle.")
    answer = await found(path, "needle", wanted=Filter(broken=True))
    assert [hit.citation for hit in answer.hits] == ["sum_broken"]
    assert answer.coverage.searched == {DocumentKind.SUMMARY: 2}
    assert answer.coverage.full


async def test_what_stands_behind_a_nul_is_found(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        rows.message(owner, "before\0the needle")
        rows.part(rows.message(owner, ""), "tool", None, tool_input="\0needle")
        rows.message(owner, "nothing\0here")
    assert {hit.id for hit in (await found(path, "needle")).hits} == {"1", "2"}


async def test_a_search_without_time_says_that_nothing_was_searched(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        rows.message(rows.conversation(), "needle")
    answer = await found(path, "needle", seconds=0)
    assert answer.total == 0
    assert answer.coverage.searched[DocumentKind.MESSAGE] == 0
    assert any(gap.startswith("messages before") for gap in answer.coverage.not_searched)


async def test_of_many_hits_the_newest_are_ranked_and_those_that_the_search_table_ranks_highest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_core.store.search.WINDOW", 5)
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        rows.message(owner, "lease lease lease")
        for number in range(40):
            rows.message(owner, f"one lease among many words {number}")
        rows.summary(owner, "sum_a", "about the lease")
    run(path, "DELETE FROM messages_fts")
    run(path, "INSERT INTO messages_fts (rowid, content) SELECT message_id, content FROM messages LIMIT 1")
    answer = await found(path, "lease", ranked=10, limit=10)
    assert (answer.total, answer.at_least) == (12, True)
    assert answer.coverage.not_ranked == ("messages before the newest 10 hits",)
    assert answer.coverage.searched[DocumentKind.MESSAGE] == 10
    assert {hit.id for hit in answer.hits} >= {"1", "sum_a"}  # no kind is left out


@pytest.mark.long
@pytest.mark.parametrize("text", ["lease", "src/main.py", "a b", "k", "größe", "修改", "aa", "x-x"])
@given(
    st.lists(
        st.sampled_from(
            ["lease", "Leases", "leaſe \u212a", "aaa", "a b a b", "x-x-x", "修改a", "src/main.py", " ", "-"]
        )
    )
)
def test_a_term_is_counted_as_its_patterns_count_it(text: str, pieces: list[str]) -> None:
    [term] = parse(text, Mode.SUBSTRING).terms
    written = "".join(pieces)
    anywhere, as_word = term.counted(written)
    assert anywhere == len(term.part.findall(written))
    assert (as_word > 0) == (term.word.search(written) is not None)


async def test_no_hit_says_which_term_is_nowhere_and_what_looks_like_it(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        rows.message(rows.conversation(), "compactSegments moved to the lease table")
    answer = await found(path, "compactSegmnts table")
    assert answer.total == 0
    assert [(one.term, one.found) for one in answer.near] == [("compactSegmnts", 0), ("table", 1)]
    assert answer.near[0].spellings == ("compactsegments",)
    assert answer.near[1].spellings == ()


@pytest.mark.long
async def test_a_pattern_that_takes_too_long_ends_and_is_said(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        rows.message(owner, "," * 60 + "x")
        rows.message(owner, "match: P")
    answer = await found(path, "^(.*?,){14}P|: P", Mode.REGEX)
    assert [hit.id for hit in answer.hits] == ["2"]
    assert not answer.coverage.full
    assert any("took too long" in gap for gap in answer.coverage.not_searched)


@pytest.mark.parametrize("query", ["", " ", '""', '" "', "x" * 1001])
def test_a_query_for_nothing_is_refused(query: str) -> None:
    with pytest.raises(UsageError):
        parse(query)


@pytest.mark.parametrize(
    "pattern", ["", "(", "[", "(?P<a>x)(?P<a", "\\", "a{2,1}", "(?<=", "*", "((a{999}){999}){999}"]
)
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        parse(pattern, Mode.REGEX)


@pytest.mark.long
@given(st.lists(st.text(max_size=120), min_size=1, max_size=5), st.integers(1, 60))
@settings(max_examples=25)
def test_pages_put_together_are_every_text_whole(texts: list[str], tokens: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = new_database(Path(folder) / "lcm.db")
        clean = [re.sub("[\0\ud800-\udfff]", "?", text) for text in texts]
        with building(path) as rows:
            owner = rows.conversation()
            first = rows.message(owner, clean[0])
            rows.summary(owner, "sum_leaf", "a leaf " + clean[-1], messages=[first])
            rows.summary(
                owner, "sum_other", "another leaf", messages=[rows.message(owner, one) for one in clean[1:]]
            )
            rows.summary(owner, "sum_top", "the top", sources=["sum_leaf", "sum_other"])
        expected = ["the top", "a leaf " + clean[-1], clean[0], "another leaf", *clean[1:]]

        async def read() -> list[str]:
            async with await Database.open(path) as database:
                return await pages(database)

        async def pages(database: Database) -> list[str]:
            joined, cursor = dict[str, str](), None
            order: list[str] = []
            for _ in range(2_000):
                page = await program.expand(database, "sum_top", tokens=tokens, cursor=cursor)
                assert page.tokens <= tokens or tokens < 2
                for one in page.passages:
                    if one.citation not in joined:
                        order.append(one.citation)
                    before = joined.get(one.citation, "")
                    assert len(before) == one.start or one.start == 0
                    joined[one.citation] = before[: one.start] + one.text
                if page.next is None:
                    return [joined[one] for one in order]
                assert page.next != cursor or tokens < 2
                if page.next == cursor:  # one character can have more tokens than the page
                    return []
                cursor = page.next
            raise AssertionError("the pages do not end")

        found_texts = asyncio.run(read())
        assert found_texts == expected or tokens < 2


async def test_a_citation_holds_until_the_text_changes(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        number = rows.message(rows.conversation(), "as it was")
        rows.part(number, "tool", None, tool_name="exec", tool_input="ls")
    verdicts = []
    async with await Database.open(path) as database:
        [passage] = (await program.expand(database, f"msg#{number}")).passages
        assert passage.text == "as it was\n[tool name] exec\n[tool input] ls"
        for change in ("SELECT 1", "UPDATE message_parts SET tool_input = 'rm'", "DELETE FROM messages"):
            run(path, change)
            verdicts.append(await program.verify(database, passage.citation))
    assert verdicts == ["holds", "changed", "gone"]


async def test_a_circle_of_summaries_ends(tmp_path: Path) -> None:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation()
        rows.summary(owner, "sum_a", "needle a", depth=1)
        rows.summary(owner, "sum_b", "needle b", depth=1)
        rows.links("sum_a", sources=["sum_b", "sum_a"])
        rows.links("sum_b", sources=["sum_a"])
    async with await Database.open(path) as database:
        page = await program.expand(database, "sum_a")
    assert [one.text for one in page.passages] == ["needle a", "needle b"]
    assert (await found(path, "needle")).total == 2


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.8.2", "0.15.3", "0.15.3-damaged", "1.0-next"])
async def test_files_of_every_version_are_searched_whole(
    version: str, database_file: Callable[[str], Path]
) -> None:
    answer = await found(
        database_file(version), "the", wanted=Filter(kinds=(DocumentKind.MESSAGE, DocumentKind.SUMMARY))
    )
    assert answer.coverage.full
    assert answer.total > 10


def test_known_words_are_those_of_their_scope_and_are_read_again_after_a_minute() -> None:
    now = [0.0]
    known, reads = KnownWords(lambda: now[0]), list[str]()

    def words(scope: str) -> Sequence[str]:
        def read() -> Sequence[str]:
            reads.append(scope)
            return [f"{scope}{len(reads)}"]

        return known.of(scope, read)

    assert (words("a"), words("b"), words("a")) == (["a1"], ["b2"], ["a1"])
    now[0] = 61.0
    assert words("a") == ["a3"]
    for other in "cdefg":
        words(other)
    assert words("a") == ["a9"]  # of the scopes few are kept
