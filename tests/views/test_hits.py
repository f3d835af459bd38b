"""Hits as lines, without a terminal."""

from __future__ import annotations

from lcm_core.base.records import ContextItem, ConversationId, MessageId, SummaryId, Timestamp
from lcm_core.base.values import replace
from lcm_core.store.context import ContextEntry
from lcm_core.store.search import DocumentKind
from lcm_recall.search import Coverage, Found, Hit, Near, Span

from lcm_tui.kit.spans import text_of
from lcm_tui.tables.context import id_cell
from lcm_tui.tables.search import coverage_line, covered_text, hit_lines, name_of, nothing_text, snippet_spans


def hit(snippet: str, *spans: Span, way: tuple[str, ...] = (), in_context: bool = False) -> Hit:
    return Hit(
        kind=DocumentKind.MESSAGE,
        id="7",
        conversation_id=ConversationId(1),
        label="user\x1b[2J",
        at=Timestamp("2026-03-02 10:00:00"),
        place="content",
        snippet=snippet,
        spans=spans,
        found_by=(("words", 1),),
        way=tuple(map(SummaryId, way)),
        in_context=in_context,
    )


def test_what_was_found_is_in_sight_and_marked_however_far_behind_it_stands() -> None:
    text = "x" * 300 + "needle" + "y" * 300
    spans = snippet_spans(hit(text, Span(300, 306)), 60)
    assert [one.text for one in spans if one.style == "match"] == ["needle"]
    assert len(text_of(spans)) <= 60
    assert (
        text_of(snippet_spans(hit("one two " * 20 + "needle end", Span(160, 166)), 20)) == "…two needle end"
    )


def test_a_message_is_named_by_its_id_and_its_place_as_in_the_context() -> None:
    found = replace(hit("a"), seq=12)
    item = ContextItem(0, "message", MessageId(7), None, Timestamp(""))
    entry = ContextEntry(item, 1, "user", 12, None, None, None, None, "a")
    assert id_cell(entry).text == name_of(found) == "m7 #12"
    assert "  m7 #12  " in text_of(hit_lines(found, 80, None)[0])


def test_matches_that_overlap_are_marked_once() -> None:
    spans = snippet_spans(hit("abcdef", Span(0, 4), Span(2, 6)), 40)
    assert text_of(spans) == "abcdef"
    assert [one.text for one in spans if one.style == "match"] == ["abcd", "ef"]


def test_hostile_text_reaches_no_line() -> None:
    for one in hit_lines(hit("a\x1b[31mb\x9b", Span(0, 1)), 80, None):
        assert not {"\x1b", "\x9b", "\n"} & set(text_of(one))


def test_it_says_whether_the_model_sees_it() -> None:
    assert covered_text(hit("a", in_context=True)) == "in the context"
    assert covered_text(hit("a", way=("sum_1", "sum_2"))) == "covered by sum_1"
    assert covered_text(hit("a")) == "not in a context"


def test_nothing_found_says_which_word_is_nowhere() -> None:
    near = (Near("leese", 0, ("lease",)), Near("table", 3, ()))
    found = Found(
        (),
        0,
        None,
        Coverage(((DocumentKind.MESSAGE, 5),), ("large files that are not on this machine",), 0.2),
        near,
    )
    assert nothing_text(found) == (
        "Nothing found. “leese” was not found; similar words: lease. “table” alone: 3 hits."
    )
    said = text_of(coverage_line(found, None))
    assert "0 hits  in 5 messages" in said
    assert "not searched: large files that are not on this machine" in said
    assert text_of(coverage_line(None, 0.0)) == " searching …"
