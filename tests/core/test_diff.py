"""The difference of two texts: what is shown leads from one to the other, whatever is taken and left."""

from __future__ import annotations

import difflib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base import diff as matching
from lcm_core.base.diff import (
    LineMark,
    compare_lines,
    compare_sentences,
    compare_texts,
    edits_between,
    emphasis,
    unified_text,
)

#: Few lines, so that they repeat: blank ones, near twins, other scripts, odd line ends.
LINES = st.sampled_from(
    [
        "",
        " ",
        "}",
        "a",
        "b",
        "the token expires",
        "the token expired",
        "ファイルを消す",
        "\r",
        "שלום",
        "e\u0301",
    ]
)
TEXTS = st.lists(LINES, max_size=30).map("\n".join) | st.text(max_size=40)


def applied(diff, old: str) -> str:
    """*old* with the edits done to it as a reader of the rows would do them."""
    lines = old.split("\n")
    for edit in reversed(diff.edits):
        if not edit.same:
            lines[edit.old_start : edit.old_end] = diff.new[edit.new_start : edit.new_end]
    return "\n".join(lines)


@pytest.mark.long
@given(TEXTS, TEXTS)
def test_the_edits_lead_from_the_old_text_to_the_new_one(old: str, new: str):
    diff = compare_texts(old, new)
    assert applied(diff, old) == new
    assert diff.text() == new
    assert diff.text(range(len(diff.hunks))) == old
    for edit in diff.edits:
        one, other = diff.old[edit.old_start : edit.old_end], diff.new[edit.new_start : edit.new_end]
        assert (one == other) is edit.same
    assert all(one.same != other.same for one, other in zip(diff.edits, diff.edits[1:], strict=False))


@pytest.mark.long
@given(TEXTS, TEXTS, st.sets(st.integers(0, 10)))
def test_any_choice_of_hunks_gives_the_text_that_the_rows_show(old: str, new: str, left: set[int]):
    diff = compare_texts(old, new)
    for rows in (diff.unified(), diff.side_by_side()):
        shown: list[str] = []
        for row in rows:
            if row.hunk is None or row.hunk in left:
                shown += [] if row.old is None else [diff.old[row.old]]
            else:
                shown += [] if row.new is None else [diff.new[row.new]]
        assert "\n".join(shown) == diff.text(left)


@given(TEXTS, TEXTS)
def test_every_line_stands_in_the_rows_once_and_in_order(old: str, new: str):
    diff = compare_texts(old, new)
    for rows in (list(diff.unified()), list(diff.side_by_side())):
        assert [row.old for row in rows if row.old is not None] == list(range(len(diff.old)))
        assert [row.new for row in rows if row.new is not None] == list(range(len(diff.new)))
    assert {row.mark for row in diff.side_by_side()} <= set(LineMark)


@pytest.mark.long
@given(TEXTS, TEXTS)
def test_emphasis_covers_what_differs_and_leaves_what_is_common(old: str, new: str):
    left, right = emphasis(old, new)
    if left or right:
        assert cut(old, left) == cut(new, right)


def cut(text: str, spans: tuple[tuple[int, int], ...]) -> str:
    """*text* without *spans*; blanks do not count, for those between changed words are marked with them."""
    kept, start = "", 0
    for first, last in (*spans, (len(text), len(text))):
        assert start <= first <= last
        kept, start = kept + text[start:first], last
    return "".join(kept.split())


def test_words_are_marked_and_single_ideographs_too():
    assert emphasis("the quick brown fox stays", "the quick red fox stays") == (((10, 15),), ((10, 13),))
    assert emphasis("編集したファイルは三つ", "編集したファイルは四つ") == (((9, 10),), ((9, 10),))
    assert emphasis("nothing is shared here", "completely other words") == ((), ())


def test_a_reworded_line_stands_beside_what_it_became():
    diff = compare_texts("keep\nthe port is 8080 now\ngone", "keep\nnew line\nthe port is 9090 now")
    marks = [(row.mark, row.old, row.new) for row in diff.side_by_side()]
    assert marks == [
        (" ", 0, 0),
        ("+", None, 1),
        ("~", 1, 2),
        ("-", 2, None),
    ]


def test_a_blank_line_that_stayed_by_chance_does_not_split_a_change():
    whole = compare_texts("one one one\n\ntwo two two", "drei drei\n\nvier vier")
    assert len(whole.hunks) == 1
    reworded = compare_texts(
        "the first port is 80\n\nthe second is 81", "the first port is 90\n\nthe second is 91"
    )
    assert len(reworded.hunks) == 2


def test_an_added_paragraph_begins_where_a_paragraph_begins():
    diff = compare_texts("a\n\nb\n\nc", "a\n\nb\n\nx\n\nc")
    (hunk,) = diff.hunks
    assert diff.new[hunk.new_start : hunk.new_end] == ("x", "")


def test_no_more_lines_change_than_with_difflib():
    chooser = random.Random(7)
    old = [f"line {chooser.randrange(400)}" for _ in range(600)]
    new = [line if chooser.random() > 0.2 else f"other {chooser.randrange(50)}" for line in old]
    ours = sum(edit.old_size + edit.new_size for edit in edits_between(old, new) if not edit.same)
    theirs = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    assert ours <= sum(i2 - i1 + j2 - j1 for tag, i1, i2, j1, j2 in theirs if tag != "equal")


@pytest.mark.parametrize("cells", [0, 30])
def test_texts_cut_at_unique_lines_come_out_whole_too(monkeypatch: pytest.MonkeyPatch, cells: int):
    monkeypatch.setattr(matching, "_CELLS", cells)
    monkeypatch.setattr(matching, "_WHOLE_CELLS", cells)
    chooser = random.Random(3)
    for _ in range(100):
        old = tuple(chooser.choice("abcdefghij") for _ in range(chooser.randrange(30)))
        new = tuple(chooser.choice("abcdefghijk") for _ in range(chooser.randrange(30)))
        diff = compare_lines(old, new)
        assert diff.text() == "\n".join(new)
        assert diff.text(range(len(diff.hunks))) == "\n".join(old)


def test_a_unified_diff_is_grouped_as_difflib_groups_it():
    old = [f"line {number}" for number in range(40)]
    new = [line for line in old if line != "line 3"] + ["end"]
    new[20] = "changed altogether"
    ours = list(unified_text(compare_lines(tuple(old), tuple(new))))
    theirs = list(difflib.unified_diff(old, new, lineterm=""))[2:]
    assert ours == theirs


def test_equal_texts_have_no_hunks():
    diff = compare_texts("a\nb", "a\nb")
    assert not diff.hunks
    assert not list(unified_text(diff))
    assert diff.added == diff.removed == 0


SENTENCES = st.sampled_from(
    [
        "",
        "The token expires.",
        "The token expired!",
        "Next: restart (host-3).",
        "- Décision : garder.",
        "1. First.",
        "v1.2 is out",
        "ファイルを消す。それだけ。",
        "“Why?”",
    ]
)
PROSE = st.lists(st.lists(SENTENCES, max_size=4).map(" ".join), max_size=6).map("\n".join) | TEXTS


@pytest.mark.long
@given(PROSE, PROSE, st.sets(st.integers(0, 8)))
def test_sentences_give_both_texts_back_and_any_choice_of_changes_holds_what_was_chosen(
    old: str, new: str, left: set[int]
):
    diff = compare_sentences(old, new)
    assert diff.text() == new
    assert diff.text(range(len(diff.hunks))) == old
    mixed = diff.text(left)
    at = 0
    for number, hunk in enumerate(diff.hunks):
        lines, start, end = (
            (diff.old, hunk.old_start, hunk.old_end)
            if number in left
            else (diff.new, hunk.new_start, hunk.new_end)
        )
        for sentence in lines[start:end]:
            at = mixed.index(sentence, at) + len(sentence)


def test_a_rewrite_is_paired_sentence_by_sentence_within_its_lines():
    old = "We chose Postgres. The job runs at 03:00. Ask Mira first.\n- Open: the lease table\n- Old news"
    new = "We chose Postgres now. It is nightly. The job runs at 04:00.\n- Open: the lease table of e.g. ops"
    diff = compare_sentences(old, new)
    assert [
        (diff.old[one.old_start : one.old_end], diff.new[one.new_start : one.new_end]) for one in diff.hunks
    ] == [
        (("We chose Postgres.",), ("We chose Postgres now.",)),
        ((), ("It is nightly.",)),
        (("The job runs at 03:00.",), ("The job runs at 04:00.",)),
        (("Ask Mira first.",), ()),
        (("- Open: the lease table",), ("- Open: the lease table of e.g. ops",)),
        (("- Old news",), ()),
    ]
    assert diff.text({1, 3, 4}) == (
        "We chose Postgres now. The job runs at 04:00. Ask Mira first.\n- Open: the lease table"
    )
