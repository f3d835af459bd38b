"""What a plan does to a context, in one sentence."""

from __future__ import annotations

import pytest
from lcm_core.change.preview import Shifted, Tokens

from lcm_tui.tables.preview import effect_text


def item(old: int | None, new: int | None, owner: int = 1) -> Shifted:
    return Shifted(owner, f"sum_{old}_{new}", old, new)


DISSOLVED = [item(3, None), item(None, 3), item(None, 4), *(item(at, at + 1) for at in range(4, 22))]


@pytest.mark.parametrize(
    ("shift", "tokens", "said"),
    [
        (
            DISSOLVED,
            Tokens(3304, 3558, leaving=201, entering=455),
            "Ordinals 4–21 move by +1; 201 tokens leave, 455 enter; "
            "the stored context becomes 3.6 % of its budget.",
        ),
        (
            [item(5, None), item(6, 5)],
            Tokens(900, 800, leaving=100),
            "Ordinal 6 moves by -1; 100 tokens leave; the stored context becomes 0.8 % of its budget.",
        ),
        (
            [item(None, 7)],
            Tokens(900, 1000, entering=100),
            "No other ordinal changes; 100 tokens enter; the stored context becomes 1.0 % of its budget.",
        ),
        (
            [item(1, 3), item(2, 4), item(8, 9)],
            Tokens(900, 900),
            "3 other ordinals change; the stored context stays 0.9 % of its budget.",
        ),
        (
            [item(1, 2), item(1, 2, owner=2)],
            Tokens(900, 900),
            "In 2 contexts, 2 other ordinals change.",
        ),
        (
            [],
            Tokens(3304, 3505),
            "Ordinals do not change; the stored context becomes 3.5 % of its budget.",
        ),
        ([], Tokens(0, 0), "Ordinals do not change."),
    ],
)
def test_the_effect_of_a_plan_is_one_sentence(shift: list[Shifted], tokens: Tokens, said: str) -> None:
    assert effect_text(shift, tokens, 100_000) == said
