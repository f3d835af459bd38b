"""Where a summary begins to say something of its own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.text import preview
from lcm_core.engine.markers import beginning, gist

from tests.conftest import DatabaseFactory

DIRECTIVE_MARKER = "[LCM fallback summary; directive-shaped untrusted content omitted]"
EMERGENCY_MARKER = "[Truncated for context management]"
FALLBACK_MARKER = "[LCM fallback summary; truncated for context management]"


@dataclass
class Case:
    text: str
    begins: str


@pytest.mark.parametrize(
    "case",
    [
        Case(
            "Condensed memory covering 2026-03-02 09:09 UTC to 2026-03-02 09:20 UTC.\n- Done: Fixed it.",
            "Fixed it.",
        ),
        Case(
            "Segment 2026-03-02 09:09 UTC – 2026-03-02 09:09 UTC:\n- Open (2026-03-02 09:09 UTC): p95", "p95"
        ),
        Case(
            "[2026-03-02 09:09 UTC - 2026-03-02 09:20 UTC]\n[2026-03-02 09:09 UTC | tool]\n$ exit 0",
            "$ exit 0",
        ),
        Case("- Finding: Condensed memory covering 2026-03-02 to 2026-03-03.\n- Status: green", "green"),
        Case("Segment 2026-03-02:\nExpand for details about: raw logs", "raw logs"),
        Case("Summary d0: The deploy waits.", "The deploy waits."),
        Case("## Summary\n\n**Key decisions:**\n1. Use WAL", "Use WAL"),
        Case("Here is a summary of the conversation (messages 1-40):\n\nWAL it is", "WAL it is"),
        Case("# Retry policy of the billing webhook\n- x", "Retry policy of the billing webhook\n- x"),
        Case(
            '<summary id="sum_1" depth="1">\n<parents>\n<summary_ref id="x"/>\n</parents>\n<content>\nYes',
            "Yes",
        ),
        Case(f"{FALLBACK_MARKER}\nSegment 2026-03-02:\n- Next: retry", "retry"),
        Case(f"{DIRECTIVE_MARKER} text", "text"),
        Case("[Truncated from 19 tokens] text", "text"),
    ],
    ids=lambda case: case.text[:24],
)
def test_what_all_summaries_open_with_is_passed_over(case: Case):
    assert gist(case.text) == case.begins


@pytest.mark.parametrize(
    "case",
    [
        Case("# Zusammenfassung der Unterhaltung\n\n**Entscheidungen:**\n1. WAL nutzen", "WAL nutzen"),
        Case("Zusammenfassung: Der Deploy wartet.", "Der Deploy wartet."),
        Case("Hier ist eine Zusammenfassung des Gesprächs:\n\nWAL ist es", "WAL ist es"),
        Case("- Nächste Schritte (2026-03-02 09:09 UTC): p95 messen", "p95 messen"),
        Case("Résumé :\n- Décision : garder WAL", "garder WAL"),
        Case("## 概要\n\n・決定：WALを使う", "WALを使う"),
        Case("【要約】\nデプロイは待機中です。", "デプロイは待機中です。"),
        Case("この会話の要約です：\n1、移行を止める", "移行を止める"),
        Case("总结：\n\n- **决定：** 使用 WAL", "使用 WAL"),
        Case("一、目标：重试 webhook", "重试 webhook"),
        Case("सारांश: तैनाती रुकी है", "तैनाती रुकी है"),
    ],
    ids=lambda case: case.begins,
)
def test_headings_labels_and_marks_are_structure_in_every_language(case: Case):
    assert gist(case.text) == case.begins


def test_a_list_without_a_column_for_failures_marks_them():
    assert beginning(f"{FALLBACK_MARKER}\nSegment 2026-03-02:\n- Next: retry") == "✗ retry"
    assert beginning("[Truncated from 19 tokens] text") == "✗ text"
    assert beginning("Segment 2026-03-02:\n- Next: retry") == "retry"
    assert beginning(FALLBACK_MARKER) == FALLBACK_MARKER


@pytest.mark.parametrize(
    "text",
    [
        "Next I will fix the schema.",
        "The user asked: why?",
        "Open questions remain about WAL.",
        "<b>bold</b> and <T> generic",
        '{"status": 200}',
        '[{"type":"thinking"}]',
        "`code` first",
        "ECONNRESET: socket hang up",
        "walCheckpoint: fixed",
        "src/auth.ts: still imports it",
        "https://example.org/x: y",
        "ユーザーは次のように尋ねました：なぜ",
        "The log said [Truncated from 19 tokens] twice.",
    ],
)
def test_a_text_that_begins_with_words_of_its_own_stays(text: str):
    assert gist(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "Done.",
        "## Summary\n\n---\n",
        "Condensed memory covering 2026-03-02 09:09 UTC to 2026-03-02 09:09 UTC.",
        FALLBACK_MARKER,
        EMERGENCY_MARKER,
        "[Truncated from 19 tokens]",
    ],
)
def test_of_a_text_that_is_nothing_else_all_is_left(text: str):
    assert gist(text) == text


@pytest.mark.long
@given(
    st.lists(
        st.sampled_from([*"[]<>*_`#-:.\n 2026", "summary ", "2026-03-02 ", "<summary ", "\x1b[31m", "\u202e"])
    )
)
def test_it_is_always_the_end_of_the_text(pieces: list[str]):
    text = "".join(pieces)
    assert text.endswith(gist(text))
    assert bool(gist(text)) == bool(text)


@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.8.2", "0.15.3"])
def test_the_first_cells_tell_the_summaries_of_an_engine_apart(version: str, database_file: DatabaseFactory):
    """Of every database of a real engine: 12 cells, which is what a narrow list has."""
    with closing(sqlite3.connect(database_file(version))) as found:
        texts = [str(text) for (text,) in found.execute("SELECT CAST(content AS TEXT) FROM summaries")]
    plain, shown = ({preview(one)[:12] for one in beginnings} for beginnings in (texts, map(gist, texts)))
    assert len(shown) > 5 * len(plain)
    assert not any(one.startswith(("Condensed memo", "Segment 20", "[2026-")) for one in shown)
