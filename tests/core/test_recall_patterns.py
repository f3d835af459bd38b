"""Patterns as the engine's language matches them, and what becomes of queries: generated shapes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import Options, resolve
from lcm_core.base.tokens import utf16_length
from lcm_recall.answer import Parameters, ToolError
from lcm_recall.queries import (
    EnginePattern,
    compiled,
    like_plan,
    match_expression,
    pair_plan,
    recall_settings,
    snippet_around,
    syntax_in,
    trigram_plan,
)

from tests.support import recorded


def matches(pattern: str, text: str) -> list[list[object]] | None:
    try:
        return [[found.start, found.text] for found in EnginePattern(pattern).all(text, 5)]
    except ValueError:
        return None


@pytest.mark.long
def test_patterns_match_what_a_javascript_engine_matches() -> None:
    for pattern, text, expected in recorded("recall-patterns.json.xz"):
        assert matches(pattern, text) == expected, (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "accepted"),
    [
        ("a" * 500, True),
        ("🚀" * 251, False),  # two units each
        ("(a*)*", False),
        ("(a{2}){3}", False),
        ("(a{2})b{3}", True),
        ("(x|y)?", False),
        ("(x|y){2}", False),
        ("(x|y){", True),
        ("((a|b)c)+", True),  # the group that is repeated holds no alternative up to its end
        (r"(\.\d+)?", False),
        ("(?:(?:a{99}b){99}c){99}", False),  # too large to compile
        ("[^]{0,90000}x", True),
        ("[(]{2}[{5}]", True),
    ],
)
def test_patterns_that_can_take_long_are_not_tried(pattern: str, accepted: bool) -> None:
    assert (compiled(pattern) is not None) is accepted


def test_a_pattern_that_passes_the_guard_and_takes_long_is_given_up() -> None:
    pattern = "^(.*?,){14}P"
    assert compiled(pattern)
    with pytest.raises(TimeoutError):
        next(EnginePattern(pattern).all("," * 40 + "x", 0.05))


WORDS = st.text(st.sampled_from("ab \t\n\"'*-:(){}^$.\\|%_é語ß🚀\x00\ud800"), max_size=30)


@pytest.mark.long
@given(WORDS)
def test_every_query_is_an_expression_that_fts5_reads(query: str) -> None:
    expression = match_expression(query)
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE found USING fts5(content, tokenize = 'porter unicode61')")
    sendable = expression.encode("utf-8", "replace").decode().replace("\0", "")
    connection.execute("SELECT * FROM found WHERE found MATCH ?", (sendable,)).fetchall()
    connection.close()
    assert expression.count('"') % 2 == 0


@given(WORDS)
def test_terms_are_lower_case_and_each_once_and_what_they_hold_is_found(query: str) -> None:
    plan = like_plan(query)
    assert list(plan.terms) == list(dict.fromkeys(term.lower() for term in plan.terms))
    assert plan.holds(" ".join(plan.terms))
    assert len(plan.where) == len(plan.arguments) == len(plan.terms)


IDEOGRAPHS = "語文字列検索漢あア가"


@given(st.text(st.sampled_from(f"{IDEOGRAPHS}ab. "), max_size=12))
def test_runs_are_cut_into_pieces_that_stand_in_them(query: str) -> None:
    plan = trigram_plan(query)
    pairs = pair_plan(query)
    assert (plan is None) or set(query) & set(IDEOGRAPHS)
    for group in pairs.conditions:
        assert all(term in query.lower() for term in group)
        assert all(len(term) <= 2 for term in group if set(term) & set(IDEOGRAPHS))
    if plan is not None:
        assert all(3 <= len(piece) <= 4 for piece in plan.match.split('"')[1::2])
        assert plan.filters.holds(query)


@pytest.mark.long
@given(st.text(max_size=200), st.lists(st.text(min_size=1, max_size=4), max_size=3))
def test_a_snippet_holds_the_term_that_comes_first(text: str, terms: list[str]) -> None:
    snippet = snippet_around(text, terms)
    assert utf16_length(snippet) <= max(80, 24 + 40 + 8 + 6)
    inside = [term for term in terms if term.strip() and term in text and term == term.lower()]
    if inside and text == text.lower():
        assert any(term.strip() in snippet for term in terms)


@pytest.mark.parametrize(
    ("written", "in_utc", "in_new_york"),
    [  # as a JavaScript engine reads them where it is the one or the other time
        ("2026-03-02", "2026-03-02T00:00", "2026-03-02T00:00"),
        ("2026-03", "2026-03-01T00:00", "2026-03-01T00:00"),
        ("2026", "2026-01-01T00:00", "2026-01-01T00:00"),
        ("2026-3-2", "2026-03-02T00:00", "2026-03-02T05:00"),
        ("2026-03-02T10:00", "2026-03-02T10:00", "2026-03-02T15:00"),
        ("2026-03-02 10:00:00", "2026-03-02T10:00", "2026-03-02T15:00"),
        ("2026-03-02 10:00:00 UTC", "2026-03-02T10:00", "2026-03-02T10:00"),
        ("2026-03-02T10:00:00+0200", "2026-03-02T08:00", "2026-03-02T08:00"),
        ("2026-02-30", "2026-03-02T00:00", "2026-03-02T00:00"),
        ("2026-03-02t10:00:00z", "2026-03-02T10:00", "2026-03-02T10:00"),
        ("2026-03-02T24:00:00Z", "2026-03-03T00:00", "2026-03-03T00:00"),
        ("March 2, 2026", "2026-03-02T00:00", "2026-03-02T05:00"),
        ("2 March 2026", "2026-03-02T00:00", "2026-03-02T05:00"),
        ("Mon, 02 Mar 2026 10:00:00 GMT", "2026-03-02T10:00", "2026-03-02T10:00"),
        ("2026/03/02", "2026-03-02T00:00", "2026-03-02T05:00"),
        ("3/2/2026 10:00 PM", "2026-03-02T22:00", "2026-03-03T03:00"),
        ("2026-13-01", None, None),
        ("2026-03-02T25:00:00Z", None, None),
        ("7d", None, None),
        ("now", None, None),
        ("1772445600000", None, None),
        ("Foo 2, 2026", None, None),
    ],
)
def test_times_are_read_as_a_javascript_engine_reads_them(
    written: str, in_utc: str | None, in_new_york: str | None
) -> None:
    for zone, expected in (("UTC", in_utc), ("America/New_York", in_new_york)):
        asked = Parameters({"since": written})
        if expected is None:
            with pytest.raises(ToolError, match=r"since must be a valid ISO timestamp\."):
                asked.moment("since", ZoneInfo(zone))
        else:
            found = asked.moment("since", ZoneInfo(zone))
            assert found is not None
            assert f"{found:%Y-%m-%dT%H:%M}" == expected, written


@pytest.mark.parametrize(
    ("variables", "shown", "read"),
    [({"TZ": "Asia/Tokyo"}, "Asia/Tokyo", "Asia/Tokyo"), ({}, "America/New_York", None)],
)
def test_the_plugins_zone_shows_times_and_reads_none(
    variables: dict[str, str], shown: str, read: str | None, tmp_path: Path
) -> None:
    config = tmp_path / "openclaw.json"
    block = {"timezone": "America/New_York"}
    config.write_text(json.dumps({"plugins": {"entries": {"lossless-claw": {"config": block}}}}))
    found = recall_settings(resolve(Options(config=str(config)), variables, home=tmp_path))
    assert found.zone == ZoneInfo(shown)
    assert found.local == (None if read is None else ZoneInfo(read))


@pytest.mark.parametrize(
    ("query", "syntax"),
    [
        ("^foo", "anchor"),
        ("foo ^bar", "anchor"),
        ("foo$", "anchor"),
        ("price$ 5", "anchor"),
        ("x^2", None),
        ("C++", None),
        ("why?", None),
        ("a.*b", "wildcard"),
        (r"\d", "regex character escape"),
        (r"a|b \d", "alternation"),
        (r"\w a|b", "regex character escape"),
        (r"x[ab] ^c \d", "character class"),
        (r"end$ a.*", "anchor"),
        ("a.* end$", "wildcard"),
        (r'"\d" a|b', "alternation"),
        ("修改|服务 ^x", "alternation"),
        (r"a\.b", None),
        ("a|b", "alternation"),
        ('"a|b"', None),
        ("[ab]", "character class"),
        ("[]", None),
    ],
)
def test_words_that_are_a_pattern_are_recognised(query: str, syntax: str | None) -> None:
    assert syntax_in(query) == syntax


#: Syntax by its name, with what may stand around it.
_PIECES = {
    "regex character escape": ["\\d", "x\\Wy", "\\b"],
    "alternation": ["a|b", "|"],
    "wildcard": [".*", "x.+y", ".?"],
    "character class": ["[ab]", "x[^c]"],
    "anchor": ["^a", "b$"],
    "": ["word", "修改", "x^2", "C++", "[]", '"a|b"', '"\\d .*"', "why?"],
}


@pytest.mark.long
@given(st.lists(st.sampled_from([(name, one) for name, some in _PIECES.items() for one in some]), max_size=6))
def test_the_refusal_names_what_comes_first(pieces: list[tuple[str, str]]) -> None:
    first = next((name for name, _ in pieces if name), None)
    assert syntax_in(" ".join(text for _, text in pieces)) == first
