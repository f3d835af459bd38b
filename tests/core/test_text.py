"""What text of a database may become on a screen."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.text import (
    WIDE,
    ZERO_WIDTH,
    clip,
    counted,
    preview,
    ranges,
    safe_line,
    safe_text,
    sentence,
    width_of,
    without_commands,
    wrap,
    wrap_spans,
)
from rich.cells import cell_len, get_character_cell_size

from tests.databases import query
from tests.support import recorded

#: Default_Ignorable_Code_Point of Unicode 16, and the controls of Egyptian writing
IGNORABLE = ranges(
    "ad 34f 61c 115f-1160 17b4-17b5 180b-180f 200b-200f 202a-202e 2060-206f 3164 fe00-fe0f feff ffa0 "
    "fff0-fff8 1bca0-1bca3 1d173-1d17a e0000-e0fff 13430-1343f"
)
#: characters that make trouble, mixed with harmless ones, so that short examples combine them
NASTY = st.text(
    st.one_of(
        st.sampled_from(
            "\x1b\x9b\x00\x7f\u202e\u2066\u200d\u200b\ufeff\ufe0f\ufe0e\U0001f3fd\U0001f1e9\U0001f1ea\u0301\u0489"
            "\u20e3\u1160\u1161\u093f\u2028\x85\ud83d\ude00\udc9b\U000e0041\uffff\t\n\r\v"
            " 1a#é数한🎉❤👩️◌‹›…\u3000\xa0"
        ),
        st.characters(exclude_categories=()),
    ),
    max_size=60,
)


CODES = range(0x110000)


@cache
def unsafe() -> frozenset[str]:
    """Every character that a terminal obeys or hides."""
    found = {chr(code) for first, last in IGNORABLE for code in range(first, last + 1)}
    found.update(chr(code) for code in CODES if code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF)
    found.update(chr(code) for code in range(0x1F3FB, 0x1F400))
    for character in map(chr, CODES):
        category = unicodedata.category(character)
        if category in {"Cc", "Cs", "Zl", "Zp"} or (
            category == "Cf" and not get_character_cell_size(character)
        ):
            found.add(character)
    return frozenset(found)


@pytest.mark.long
def test_no_code_point_that_a_terminal_obeys_or_hides_survives() -> None:
    survivors = [hex(ord(one)) for one in unsafe() if safe_line(f"a{one}a") == f"a{one}a"]
    assert survivors == []


@pytest.mark.long
def test_every_harmless_code_point_is_left_alone() -> None:
    flags = {chr(code) for code in range(0x1F1E6, 0x1F200)}
    harmless = [one for one in map(chr, CODES) if one not in unsafe() and one not in flags]
    text = f"a{'a'.join(harmless)}a"
    safe = safe_line(text)
    first = next((at for at, (one, other) in enumerate(zip(text, safe, strict=False)) if one != other), None)
    assert first is None, f"{hex(ord(text[first]))} became {safe[first : first + 8]!r}"
    assert len(safe) == len(text)


def test_no_zero_width_character_stands_alone() -> None:
    alone = [first for pair in ranges(ZERO_WIDTH) for first in range(pair[0], pair[1] + 1)]
    shown = [safe_text(f"\n{chr(code)}") for code in alone if chr(code) not in "\t\n\r"]
    assert [text for text in shown if width_of(text[1]) == 0] == []


@pytest.mark.long
@pytest.mark.parametrize("make_safe", [safe_line, safe_text])
@given(text=NASTY)
def test_safe_text_holds_nothing_unsafe_and_is_stable(make_safe, text) -> None:
    safe = make_safe(text)
    assert [hex(ord(c)) for c in safe if c in unsafe() and not (c == "\n" and make_safe is safe_text)] == []
    assert make_safe(safe) == safe
    safe.encode()
    assert not re.search(
        "(?<![\U0001f1e6-\U0001f1ff])[\U0001f1e6-\U0001f1ff](?![\U0001f1e6-\U0001f1ff])", safe
    )
    bare = [w for w in safe.split() if width_of(w[0]) == 0]
    assert bare == []
    zero = "".join("0" if width_of(c) == 0 and c != "\n" else "1" for c in safe)
    assert "00000" not in zero


@given(text=NASTY)
def test_width_is_what_textual_draws(text) -> None:
    safe = safe_line(text)
    assert sum(map(width_of, safe)) == cell_len(safe)


@pytest.mark.long
def test_width_of_every_code_point_is_that_of_rich() -> None:
    found: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    for code in CODES:
        runs = found[get_character_cell_size(chr(code), "latest")]
        if runs and runs[-1][1] == code - 1:
            runs[-1] = (runs[-1][0], code)
        else:
            runs.append((code, code))

    def written(runs: list[tuple[int, int]]) -> str:
        return " ".join(f"{first:x}-{last:x}" if first != last else f"{first:x}" for first, last in runs)

    assert " ".join(WIDE.split()) == written(found[2])
    assert " ".join(ZERO_WIDTH.split()) == written(found[0])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x9b2J\x00\x7f", "‹U+009B›2J␀␡"),
        ("a\u202eb\u2069", "a‹U+202E›b‹U+2069›"),
        ("two\r\n\tlines", "two lines"),
        ("byte \udc9b, half \ud83d", "byte ‹0x9B›, half ‹U+D83D›"),
        ("\U000e0041", "‹U+E0041›"),
        ("👨\u200d👩\u200d👧!", "👨👩👧!"),
        ("🏳\ufe0f\u200d🌈 👩\u200d❤\ufe0f\u200d👨", "🏳🌈 👩❤👨"),
        ("👍\U0001f3fd 🧑\U0001f3fe\u200d🚀", "👍 🧑🚀"),
        ("👍\U0001f3fd\U0001f3fd", "👍‹U+1F3FD›"),
        ("👨\u200d \u200d👩 👨\u200da a\u200d👩", "👨‹U+200D› ‹U+200D›👩 👨‹U+200D›a a‹U+200D›👩"),
        ("👨\u200d\u200d👩 1\u200d2 a\U0001f3fd", "👨‹U+200D›‹U+200D›👩 1‹U+200D›2 a‹U+1F3FD›"),
        ("🏴\U000e0067\U000e007f", "🏴‹U+E0067›‹U+E007F›"),
        ("❤\ufe0f ☀\ufe0e 1\ufe0f\u20e3", "❤ ☀ 1\u20e3"),
        ("❤\ufe0f\ufe0f a\ufe0f", "❤‹U+FE0F› a‹U+FE0F›"),
        ("🇩🇪🇫", "🇩🇪‹U+1F1EB›"),
        ("\u0301 \u0302", "◌\u0301 ◌\u0302"),
        ("Z" + "\u0301" * 16 + "!", "Z" + "\u0301" * 4 + "‹+12 marks›!"),
        ("ế 한국어 हिन्दी ภาษาไทย שָׁלוֹם [/] [red]", "ế 한국어 हिन्दी ภาษาไทย שָׁלוֹם [/] [red]"),
    ],
)
def test_what_one_line_shows(text: str, shown: str) -> None:
    assert safe_line(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\rc\n", "a\nb\nc\n"),
        ("a\tb\nabcd\tx", "a   b\nabcd    x"),
        ("数\tx\té", "数  x   é"),
        ("\x1b\tx", "␛   x"),
        ("form\ffeed", "form␌feed"),
    ],
)
def test_what_several_lines_show(text: str, shown: str) -> None:
    assert safe_text(text) == shown


@pytest.mark.parametrize("text", ["plain [/] text", "naïve 数据 🎉"])
def test_clean_text_is_the_same_object(text: str) -> None:
    assert safe_line(text) is text
    assert safe_text(text) is text


@given(text=NASTY, width=st.integers(-1, 30), ellipsis=st.sampled_from(["…", "...", ""]))
def test_clip_fits_and_keeps_a_beginning(text, width, ellipsis) -> None:
    line = safe_line(text)
    clipped = clip(line, width, ellipsis)
    assert cell_len(clipped) <= max(width, 0)
    if cell_len(line) <= width:
        assert clipped == line
    elif clipped:
        kept = clipped[: len(clipped) - len(ellipsis)]
        assert clipped == kept + ellipsis
        assert line.startswith(kept)
        assert width_of(line[len(kept)]) > 0
        assert (
            width - cell_len(clipped) < 2
            or line[len(kept)] in "\U0001f1e9\U0001f1ea"
            or width_of(line[len(kept)])
        )


def test_clip_does_not_tear_flags_marks_or_wide_characters() -> None:
    assert clip("🇩🇪🇫🇷", 4) == "🇩🇪🇫🇷"
    assert clip("🇩🇪🇫🇷x", 4) == "🇩🇪…"
    assert clip("e\u0301e\u0301e\u0301", 2) == "e\u0301…"
    assert clip("数据库", 4) == "数…"


def test_clip_ends_once_what_was_clipped_before() -> None:
    assert clip("“is waiting. The d…” and more", 20) == "“is waiting. The d…"


@given(text=st.one_of(NASTY, st.text("ab 数🇩\u0301\n", max_size=80)), width=st.integers(1, 20))
def test_wrap_bounds_every_line_and_loses_only_the_space_broken_at(text, width) -> None:
    safe = safe_text(text)
    shown: list[str] = []
    for line in safe.split("\n"):
        spans = list(wrap_spans(line, width))
        shown += [line[start:end] for start, end in spans]
        gaps = [(0, spans[0][0]), *((end, start) for (_, end), (start, _) in pairwise(spans))]
        assert {line[end:start] for end, start in gaps} <= {"", " "}
        assert line[spans[-1][1] :] in ("", " ")
    assert wrap(safe, width) == shown
    assert all(cell_len(piece) <= max(width, 2) for piece in shown)
    assert all(width_of(piece[0]) for piece in shown if piece)


@given(line=NASTY, width=st.integers(-1, 9))
def test_wrap_spans_end_on_any_text(line, width) -> None:
    spans = list(wrap_spans(line, width))
    assert spans[0][0] == 0
    assert all(start < end for start, end in spans) or spans == [(0, 0)]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 5, [""]),
        ("one two three", 8, ["one two", "three"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("    indented", 6, ["    in", "dented"]),
        ("a\n\nb", 5, ["a", "", "b"]),
        ("数据库 会话", 4, ["数据", "库", "会话"]),
        ("abc ", 3, ["abc"]),
        ("🇩🇪🇫🇷", 3, ["🇩🇪", "🇫🇷"]),
    ],
)
def test_where_lines_break(text: str, width: int, lines: list[str]) -> None:
    assert wrap(text, width) == lines


@pytest.mark.long
def test_a_megabyte_without_spaces_wraps_whole() -> None:
    for character in "x数":
        pieces = wrap(character * 1_000_000, 100)
        assert "".join(pieces) == character * 1_000_000
        assert {cell_len(piece) for piece in pieces} == {100}


def test_preview_folds_and_counts_as_javascript_does() -> None:
    assert preview(" a \n\t b\u2003c\ufeff ") == "a b c"
    assert preview("a\x1fb\x85c") == "a\x1fb\x85c"
    assert preview("x" * 240) == "x" * 240
    assert preview("x" * 241) == "x" * 239 + "…"
    assert preview("🎉" * 120) == "🎉" * 120
    assert preview("🎉" * 121) == "🎉" * 119 + "\ud83c…"
    assert preview(" \n") == ""


@given(text=st.text(" \n\ufeffab🎉é", max_size=40), limit=st.integers(1, 20))
def test_preview_is_the_plain_rule(text, limit) -> None:
    folded = re.sub("[\\s\ufeff]+", " ", text).strip()
    units = folded.encode("utf-16-le")
    whole = len(units) // 2 <= limit
    expected = folded if whole else units[: 2 * (limit - 1)].decode("utf-16-le", "surrogatepass") + "…"
    assert preview(text, limit) == expected


def previews(value: object) -> Iterator[tuple[object, str]]:
    """Every id with its preview in a recorded answer."""
    if isinstance(value, dict):
        if "preview" in value:
            yield value.get("messageId", value.get("summaryId")), value["preview"]
        for inner in value.values():
            yield from previews(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from previews(inner)


def test_previews_are_those_that_the_engine_printed(database_file) -> None:
    answers = [call["stdout"] for call in recorded("lcm-0.15.3.cli.json.gz")]
    seen = [entry for answer in answers if answer.startswith("{") for entry in previews(json.loads(answer))]
    path = database_file("0.15.3")
    contents = dict(query(path, "SELECT message_id, content FROM messages"))
    contents.update(query(path, "SELECT summary_id, content FROM summaries"))
    assert [printed for row, printed in seen if preview(contents[row]) != printed] == []
    assert len(seen) == 115
    assert sum(printed.endswith("…") for _, printed in seen) > 80


@pytest.mark.cases(30)
@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)])
def test_no_control_of_an_answer_is_stored(code: int):
    stored = without_commands(f"a{chr(code)}[31mé\u202e漢")
    assert stored.startswith("a")
    assert stored.endswith("[31mé\u202e漢")
    assert not any(unicodedata.category(one) == "Cc" and one not in "\n\t" for one in stored)
    assert len(stored) > len("a[31mé\u202e漢")


def test_lines_and_tabs_of_an_answer_stay():
    assert without_commands("a\r\n\tb\rc\n\n日本 🙂‍↕️ \u200c\u200d") == "a\n\tb\nc\n\n日本 🙂‍↕️ \u200c\u200d"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("the file has no free pages", "The file has no free pages."),
        ("a wider terminal shows two panes", "A wider terminal shows two panes."),
        ("u is not a key here", "u is not a key here."),
        ("enter (Open) is not a key here; : lists all.", "enter (Open) is not a key here; : lists all."),
        ("sum_gone is not in this context.", "sum_gone is not in this context."),
        ("ctrl+r reads it again", "ctrl+r reads it again."),
        ("Searching …", "Searching …"),
        ("", ""),
    ],
)
def test_a_reason_becomes_a_sentence_and_a_key_or_an_id_in_front_stays(written: str, expected: str):
    assert sentence(written) == expected


@pytest.mark.parametrize(
    ("number", "noun", "expected"),
    [
        (1, "stale summary", "1 stale summary"),
        (4, "stale summary", "4 stale summaries"),
        (2, "key", "2 keys"),
        (2, "leaf", "2 leaves"),
        (12_000, "message", "12,000 messages"),
    ],
)
def test_what_is_counted_has_its_plural(number: int, noun: str, expected: str):
    assert counted(number, noun) == expected
