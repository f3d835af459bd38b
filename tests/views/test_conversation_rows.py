"""The filter of the list of conversations, without a list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lcm_tui.tables.conversation_rows import Row, RowFilter

NAMES = {
    number: f"{number} {name}" for number, name in enumerate(("ab", "abc", "b c", "ca", "bca", "", "cab"))
}
ROWS = {number: Row(None) for number in NAMES}
KEYS = list(NAMES)


class Named(RowFilter):
    """A row says its name."""

    def learn(self, key, row, name, zone):
        return name


@given(st.lists(st.lists(st.text("abc", min_size=1, max_size=3), max_size=3), max_size=8))
def test_words_typed_one_after_the_other_pass_what_they_pass_alone(typed: list[list[str]]):
    kept = Named()
    for words in typed:
        alone = [key for key in KEYS if all(word in NAMES[key] for word in words)]
        assert list(kept.passing(KEYS, ROWS, NAMES, words, None)) == alone
