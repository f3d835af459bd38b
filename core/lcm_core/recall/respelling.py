"""A search that found nothing, with the words that look like those that are nowhere.

Source: docs/recall.md, "Answers".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Final

from lcm_core.recall.find import Near

#: Queries that are suggested.
_MOST: Final = 9


def respelled(text: str, near: Sequence[Near]) -> Iterator[str]:
    """The query *text* with known words in place of terms that are nowhere, those most alike first.

    They are suggestions: what they find is not what was asked for. None where nothing looks alike.
    """
    missing = [one for one in near if not one.found]
    if not missing or not all(one.spellings for one in missing):
        return
    for choice in islice(product(*(one.spellings for one in missing)), _MOST):
        words = {one.term.casefold(): word for one, word in zip(missing, choice, strict=True)}
        pattern = "|".join(re.escape(one.term) for one in missing)
        yield re.sub(
            rf"(?<!\S)({pattern})(?!\S)",
            lambda found, words=words: words[found[0].casefold()],  # type: ignore[misc]
            text,
            flags=re.IGNORECASE,
        )
