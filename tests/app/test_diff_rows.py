"""The lines of a diff at a width, and what stands in for characters that an editor could not hold."""

from __future__ import annotations

import random

import pytest
from lcm_core.base.diff import compare_texts
from lcm_core.base.text import cell_width

from lcm_tui.kit.diff import Naming, draw, lay_out
from lcm_tui.kit.spans import text_of
from lcm_tui.tables.compaction import put_back, stand_ins
from lcm_tui.tables.review import facts

OLD = "\n".join(["first", *(f"line {n} stays" for n in range(20)), "the port is 8080 now", "last"])
NEW = "\n".join(["first", *(f"line {n} stays" for n in range(20)), "the port is 9090 now", "more", "last"])


def drawn(old: str, new: str, width: int = 40, *, beside: bool = False, left: frozenset[int] = frozenset()):
    laid = lay_out(compare_texts(old, new), width, side_by_side=beside)
    return [text_of(draw(laid, piece, left)) for piece in laid.pieces]


def test_alike_lines_are_folded_and_changes_wear_marks():
    assert drawn(OLD, NEW) == [
        "── 18 unchanged lines ──────────────────",
        "  line 17 stays",
        "  line 18 stays",
        "  line 19 stays",
        "- the port is 8080 now",
        "+ the port is 9090 now",
        "+ more",
        "  last",
    ]


def test_side_by_side_both_lines_of_a_pair_stand_in_one_row():
    rows = drawn(OLD, NEW, 61, beside=True)
    assert "~ the port is 8080 now        │ ~ the port is 9090 now" in rows
    assert "                              │ + more" in rows


def test_only_the_words_that_changed_are_marked():
    laid = lay_out(compare_texts(OLD, NEW), 40, side_by_side=False)
    new = draw(laid, laid.pieces[5])
    assert [span.text for span in new if span.style == "match"] == ["9090"]


def test_what_is_left_out_says_so_without_colour():
    assert drawn(OLD, NEW, left=frozenset({0}))[4:7] == [
        "= the port is 8080 now",
        "· the port is 9090 now",
        "· more",
    ]


def test_a_fold_names_what_follows_it():
    laid = lay_out(
        compare_texts(OLD, NEW),
        60,
        side_by_side=False,
        naming=Naming(lambda line: f"at {line}", lambda text: False),
    )
    assert text_of(draw(laid, laid.pieces[0])).startswith("── 18 unchanged lines · at 17 ─")


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("width", [20, 33, 80])
def test_no_line_is_wider_than_the_screen_whatever_it_says(width: int, beside: bool):
    old = "short\n" + "漢字 " * 60 + "\n\x1b[31mred\x1b[0m \u202edlrow\n" + "x" * 300
    new = "short\n" + "漢字 " * 59 + "🙂\nplain\n" + "x" * 290 + "y"
    for line in drawn(old, new, width, beside=beside):
        assert cell_width(line) <= width + 1
        assert "\x1b" not in line
        assert "\u202e" not in line


def test_a_change_in_parts_gives_the_same_text_and_every_choice_of_them():
    chance = random.Random(7)
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
    for _ in range(200):
        old, new = (
            "\n".join(" ".join(chance.choices(words, k=3)) for _ in range(chance.randrange(8))) for _ in "on"
        )
        diff = compare_texts(old, new)
        for hunk in reversed(range(len(diff.hunks))):
            diff = diff.split(hunk)
        assert diff.text() == new
        assert diff.text(range(len(diff.hunks))) == old
        assert all(hunk.old_size <= 1 and hunk.new_size <= 1 for hunk in diff.hunks)
        shown = [row.new for row in diff.unified() if row.new is not None]
        assert shown == list(range(len(diff.new)))


def test_a_draft_comes_back_from_the_editor_byte_for_byte():
    text = "a\tb\x1b[2J\x00 ␛ \x85 \u2028 \u202e \udc80\ue000 é 漢 🙂\u200d🙂\r\nend\x0b\x0c"
    table = stand_ins(text)
    shown = text.translate(table)
    assert put_back(shown, table) == text
    assert len(shown.splitlines()) == 2
    for unsafe in "\x1b\x00\x85\u2028\u202e\udc80\r\x0b\x0c":
        assert unsafe not in shown
    assert "\t" in shown
    assert "漢" in shown


def test_lost_items_lead_into_the_source_and_invented_ones_into_the_draft():
    from lcm_core.writers.retention import measure, read_retention_source

    text = "[2026-03-02 10:00 UTC] user: never touch src/app/main.py, commit 3a1fd2a2 broke 4117 rows"
    source = read_retention_source(text)
    draft = "Commit 3a1fd2a2 was reverted in lib/other.py."
    found = facts(measure(source, ""), measure(source, draft))
    spots = {
        (fact.spot.side, (text if fact.spot.side == "source" else draft)[fact.spot.start : fact.spot.end])
        for fact in found
        if fact.spot is not None
    }
    assert ("source", "src/app/main.py") in spots
    assert ("draft", "lib/other.py") in spots
    assert not any("3a1fd2a2" in word for _, word in spots)
    said = [text_of(fact.line) for fact in found]
    assert any(line.split() == ["hash", "0/1", "1/1", "+"] for line in said)


def test_rules_in_another_language_are_said_to_be_not_checked():
    from lcm_core.writers.retention import measure, read_retention_source

    source = read_retention_source("Нельзя удалять таблицу заказов. Тесты должны пройти.")
    found = facts(measure(source, ""), measure(source, "Таблица заказов удалена."))
    said = [text_of(fact.line) for fact in found]
    assert any(line.split() == ["rules", "kept", "not", "checked", "not", "checked"] for line in said)
    assert "rules: not checked (text in another language)" in said
