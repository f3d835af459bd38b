"""Broken summaries, told by the position of the engine's markers."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.text import BLANKS
from lcm_core.engine.markers import MARKER_LIKE, classify, is_capped

from tests.databases import reading
from tests.support import recorded

DIRECTIVE_MARKER = "[LCM fallback summary; directive-shaped untrusted content omitted]"
EMERGENCY_MARKER = "[Truncated for context management]"
EMERGENCY_MODEL = "emergency-fallback"
FALLBACK_MARKER = "[LCM fallback summary; truncated for context management]"

#: What the engine's own doctor listed in the database of 0.15.3, for the conversations it was asked about.
DOCTORED = (1, 2, 3, 4, 7, 8)
DOCTOR_SAID = {
    "sum_19fde986b7a46f59": "fallback",
    "sum_6c18661f50d6fc7f": "fallback",
    "sum_a0df37c8bbd557d4": "fallback",
    "sum_e2c12a356775e203": "fallback",
    "sum_3adda824deff0468": "new",
    "sum_499ea0821f77ace8": "new",
    "sum_1adc47547c6a1acc": "fallback",
    "sum_44daa6d198f1c59a": "fallback",
    "sum_6f8593fdaa1a418d": "fallback",
    "sum_cb7f5b72ce258002": "fallback",
    "sum_cc7a115ea76fd980": "fallback",
    "sum_d94d57300972cf97": "fallback",
    "sum_e3abe9b12886b92b": "new",
    "sum_36766ebd0c4a75a5": "fallback",
    "sum_cdd694296abd757c": "new",
}
#: The kind that each deliberate change of the damaged database makes; three are decoys.
CHANGED = {
    "old: marker at the START": "old",
    "old: marker only": "old",
    "emergency: bare marker + model=unknown (v0.1-v0.8 style)": "emergency",
    "bare marker but model set (not emergency)": None,
    "false positive: marker quoted mid-text far from the end": None,
    "false positive: [Truncated from outside the 40-char window": None,
    "new: truncated marker at end": "truncated",
    "fallback: marker near the end with trailing whitespace": "fallback",
    "empty content": "empty",
    "new: degenerate": "truncated",
}


def summaries(path) -> Iterator[tuple[str, int, str, str | None]]:
    with reading(path) as connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(summaries)")}
        model = "model" if "model" in columns else "NULL"
        yield from connection.execute(f"SELECT summary_id, conversation_id, content, {model} FROM summaries")


def test_the_engines_doctor_says_the_same(database_file) -> None:
    found = {
        summary_id: {"truncated": "new"}.get(kind, str(kind))
        for summary_id, conversation_id, content, model in summaries(database_file("0.15.3"))
        if conversation_id in DOCTORED and (kind := classify(content, model))
    }
    assert found == DOCTOR_SAID


def test_every_deliberate_change_is_classified_as_it_says(database_file) -> None:
    rows = {row[0]: row[2:] for row in summaries(database_file("0.15.3-damaged"))}
    changes = [c for c in recorded("lcm-0.15.3-damaged.changes.json") if "summary_id" in c]
    assert {c["change"]: classify(*rows[c["summary_id"]]) for c in changes} == CHANGED


@pytest.mark.parametrize(
    ("version", "counts", "capped"),
    [
        ("0.1.2", {"fallback": 7, "truncated": 9, "emergency": 2}, 0),
        ("0.3.0", {"fallback": 6, "truncated": 8, "emergency": 4}, 0),
        ("0.8.2", {"fallback": 8, "truncated": 5}, 5),
        ("0.15.3", {"fallback": 12, "truncated": 4}, 1),
        ("0.15.3-damaged", {"fallback": 13, "truncated": 6, "old": 2, "emergency": 1, "empty": 1}, 1),
    ],
)
def test_how_many_each_recorded_database_holds(database_file, version, counts, capped) -> None:
    rows = list(summaries(database_file(version)))
    assert Counter(kind for *_, content, model in rows if (kind := classify(content, model))) == counts
    assert sum(is_capped(content) for *_, content, _ in rows) == capped


@pytest.mark.parametrize(
    ("content", "model", "kind"),
    [
        ("[Truncated from 0 tokens]", "m", "truncated"),
        ("text\n[Truncated from 9 tokens]" + " " * 15, "m", "truncated"),
        ("text\n[Truncated from 9 tokens]" + " " * 16, "m", None),
        ("[Truncated from 9 tokens] " + "x" * 40 + " [Truncated from 9 tokens]", "m", None),
        ("x" * 99 + FALLBACK_MARKER + " " * 24, "m", "fallback"),
        ("x" * 99 + FALLBACK_MARKER + " " * 25, "m", None),
        ("x" * 99 + FALLBACK_MARKER + "🎉" * 12, "m", "fallback"),
        ("x" * 99 + FALLBACK_MARKER + "🎉" * 13, "m", None),
        ("🎉" * 99 + "[Truncated from 9 tokens]", "m", "truncated"),
        ("x" + DIRECTIVE_MARKER + "x" * 500, "m", "fallback"),
        (FALLBACK_MARKER + DIRECTIVE_MARKER, "m", "old"),
        (DIRECTIVE_MARKER + FALLBACK_MARKER, "m", "fallback"),
        (" " + FALLBACK_MARKER + "x" * 99, "m", None),
        (f"{EMERGENCY_MARKER} and more", "unknown", "emergency"),
        (f"{EMERGENCY_MARKER} and more", None, "emergency"),
        (f"{EMERGENCY_MARKER} and more", "m", None),
        ("a good summary", EMERGENCY_MODEL, "emergency"),
        ("a good summary", "unknown", None),
        ("", "m", "empty"),
        (" \n\ufeff\u2003", "m", "empty"),
        ("\x1f", "m", None),
        ("long text\n[Capped from 920 tokens to ~600]", "m", None),
    ],
)
def test_rules_and_their_order(content: str, model: str | None, kind) -> None:
    assert classify(content, model) == kind


@pytest.mark.parametrize(
    ("content", "capped"),
    [
        ("text\n[Capped from 920 tokens to ~600]", True),
        ("text\n[Capped to ~600]\n", True),
        ("text\n[Capped]", True),
        ("[Capped] was quoted", False),
        ("text\n[Capped from tokens]", False),
    ],
)
def test_hard_caps(content: str, capped: bool) -> None:
    assert is_capped(content) is capped


PIECES = [*MARKER_LIKE, "[Truncated from 5 tokens]", "x", " ", "\n", "🎉", "tail " * 9, "[truncated from "]
CONTENTS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
WINDOWS = st.sampled_from([("[Truncated from ", 40, "truncated"), (FALLBACK_MARKER, 80, "fallback")])


@pytest.mark.long
@given(CONTENTS, st.sampled_from(["m", "unknown", EMERGENCY_MODEL, None]))
def test_the_prefilter_misses_nothing(content: str, model: str | None) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        like = " OR ".join(["instr(?, ?) > 0"] * len(MARKER_LIKE))
        values = [value for marker in MARKER_LIKE for value in (content, marker)]
        query = f"SELECT {like} OR trim(?, ?) = '' OR ifnull(? = ?, 0)"
        (candidate,) = connection.execute(
            query, [*values, content, BLANKS, model, EMERGENCY_MODEL]
        ).fetchone()
    assert candidate or classify(content, model) is None


@pytest.mark.long
@given(CONTENTS, CONTENTS, WINDOWS)
def test_windows_count_utf16_units_of_the_first_marker(before: str, after: str, rule) -> None:
    marker, window, kind = rule
    content = before + marker + after
    units = content[content.index(marker) :].encode("utf-16-le")
    if DIRECTIVE_MARKER in content or content.startswith(FALLBACK_MARKER):
        return
    if len(units) // 2 <= window and (kind == "truncated" or "[Truncated from " not in content):
        assert classify(content, "m") == kind
    elif kind == "truncated":
        assert classify(content, "m") != kind
