"""JSON and blanks as the engine's language has them (docs/spec/words.md)."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.javascript import js_json, read_json, trimmed
from lcm_core.base.text import BLANKS

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**14), 10**14),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(), max_size=8),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(st.characters(), max_size=4), inner, max_size=4)
    ),
    max_leaves=30,
)
#: Deep enough that no parser that calls itself reads it.
WRAPS = 1_500
NO_JSON = [
    "", " ", "{", "]", "[1,]", '{"a":1,}', "[,1]", "{,}", "[1 2]", '{"a" 1}', '{"a":}', "{1:2}", "{a:1}",
    "01", "-", "1.", ".5", "+1", "1e", "0x10", "NaN", "-Infinity", "nul", "tru", '"a\nb"', '"\\x41"',
    "[1]/**/", "\ufeff[1]", "\xa0[1]", "[1]\v", "[1][2]", '{"a":1]', "[1}", '"', "[\x001]", '"\\u12"',
]  # fmt: skip


def test_blanks_are_these_alone() -> None:
    named = [*range(0x9, 0xE), 0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F]
    assert sorted(map(ord, BLANKS)) == [*named, 0x3000, 0xFEFF]
    assert trimmed(f"{BLANKS}\x85{BLANKS}") == "\x85"
    assert not re.search(f"[{BLANKS}]", "\x1c\x1d\x1e\x1f\x85\u180e\u200b")


@pytest.mark.long
@given(VALUES, st.sampled_from([None, 1]))
def test_what_is_written_is_read(value: Any, indent: int | None) -> None:
    assert read_json(json.dumps(value, indent=indent)) == value
    assert read_json(js_json(value)) == value


@pytest.mark.long
@given(VALUES, st.booleans())
def test_however_deep_it_stands(value: Any, in_objects: bool) -> None:
    opening, closing = ('{"a":', "}") if in_objects else ("[0, ", " ] ")
    found = read_json(opening * WRAPS + json.dumps(value) + closing * WRAPS)
    for _ in range(WRAPS):
        assert isinstance(found, dict | list)
        found = found["a"] if isinstance(found, dict) else found[1]
    assert found == value


@pytest.mark.cases(13)
@pytest.mark.parametrize("text", NO_JSON)
def test_no_json(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        read_json(text)
    with pytest.raises(ValueError):  # noqa: PT011
        read_json("[" * WRAPS + text + "]" * WRAPS if text.strip(" ") else "[" * WRAPS)


def test_numbers_are_doubles_and_keys_keep_the_place_of_the_first() -> None:
    assert js_json(read_json("[9007199254740993, 1e400, -0, 1.0, 1e21, 0.0000001]")) == (
        "[9007199254740992,null,0,1,1e+21,1e-7]"
    )
    assert read_json("9" * 5_000) == math.inf
    assert js_json(read_json('{"b":1,"a":2,"b":3,"10":4,"9":5}')) == '{"9":5,"10":4,"b":3,"a":2}'
    assert read_json('"\\ud83d"') == "\ud83d"
    assert read_json('"\\ud83d\\ude00"') == "😀"
