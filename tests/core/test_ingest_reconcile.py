"""From where on a transcript is new: by entry ids, by texts, and when nothing proves it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from lcm_core.engine.sessions import matches_any
from lcm_host.reconciling import (
    Anchor,
    anchor_by_content,
    anchor_by_entry,
    comparable,
    import_cap,
)


def test_entry_ids_prove_the_place_and_tell_of_holes() -> None:
    assert anchor_by_entry(["a", "b", None, "c", "d"], {"a", "c"}) == Anchor(4, "entry ids", 2)
    assert anchor_by_entry(["a", "b"], {"a", "b"}) == Anchor(2, "entry ids")
    assert anchor_by_entry(["a"], {"x"}) is None
    assert anchor_by_entry([], {"x"}) is None


def test_texts_prove_it_with_their_predecessors() -> None:
    assert anchor_by_content("abcdefg", "bcd") == Anchor(4, "role and text")
    assert anchor_by_content("abcabcx", "abc") is None  # twice the same run
    assert anchor_by_content("xabcabc", "xabc") == Anchor(4, "role and text")
    assert anchor_by_content("abcd", "zzd") is None  # one agreeing message is not enough
    assert anchor_by_content("ab", "b") == Anchor(2, "role and text")  # but all that there is
    assert anchor_by_content("ab", "") is None


@given(st.lists(st.integers(0, 10_000), unique=True, min_size=1, max_size=40), st.data())
def test_a_prefix_that_is_stored_is_found(transcript: list[int], data: st.DataObject) -> None:
    names = [str(number) for number in transcript]
    stored = data.draw(st.integers(1, len(names)))
    tail = data.draw(st.integers(1, stored))
    assert anchor_by_content(names, names[stored - tail : stored]) == Anchor(stored, "role and text")


def test_ids_of_files_are_no_difference() -> None:
    one, other = (f"[LCM File: file_{digit * 16} | a | b | 1 bytes]" for digit in "ab")
    assert comparable("user", one) == comparable("user", other)
    assert comparable("user", one) != comparable("tool", one)


def test_the_engines_own_cap() -> None:
    assert (import_cap(10), import_cap(1000)) == (50, 200)


def test_patterns_of_session_keys() -> None:
    assert matches_any(["agent:*:cron:*"], "agent:main:cron:nightly")
    assert not matches_any(["agent:*:cron:*"], "agent:main:cron:nightly:run:0")
    assert matches_any(["agent:*:cron:**"], "agent:main:cron:nightly:run:0")
    assert not matches_any(["agent:main"], "agent:main:main")
    assert not matches_any([], "x")
