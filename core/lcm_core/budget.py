"""The token budget that a context is measured against: how people write it, and the steps it goes in."""

from __future__ import annotations

import re
from typing import Final

#: Context windows that models have, in tokens.
STEPS: Final = (
    4_000,
    8_000,
    16_000,
    32_000,
    64_000,
    100_000,
    128_000,
    200_000,
    256_000,
    400_000,
    1_000_000,
)
_WRITTEN: Final = re.compile(r"([0-9][0-9_,' ]{0,30})(?:\.([0-9]{1,3}))?\s*([kKmM]?)")
_UNITS: Final = {"": 1, "k": 1_000, "m": 1_000_000}
#: No model reads more, and no count of ours can overflow below it.
LARGEST: Final = 1_000_000_000


def step(budget: int, direction: int) -> int:
    """The next larger step (*direction* 1) or smaller one (-1); *budget* itself beyond the last."""
    if direction > 0:
        return next((size for size in STEPS if size > budget), budget)
    return next((size for size in reversed(STEPS) if size < budget), budget)


def parse_budget(text: str) -> int | None:
    """A number of tokens as people write it (``128000``, ``128,000``, ``128k``, ``1.5m``), else None."""
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        return None
    unit = _UNITS[match[3].lower()]
    if match[2] and unit == 1:
        return None
    whole = int(re.sub(r"[^0-9]", "", match[1]))
    budget = whole * unit + (int(match[2]) * unit // 10 ** len(match[2]) if match[2] else 0)
    return budget if 0 < budget <= LARGEST else None
