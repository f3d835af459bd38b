"""Patterns of session keys: ``*`` stays within one part of a key, ``**`` does not.

Source: docs/engine/settings.md, "Session patterns".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


def matches_any(patterns: Iterable[str], name: str) -> bool:
    """Whether a session's key (or id) fits one of the patterns, as a whole."""
    return any(_compiled(pattern).fullmatch(name) for pattern in patterns)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    pieces = {"**": ".*", "*": "[^:]*", "?": "[^:]"}
    return re.compile(
        "".join(pieces.get(piece, re.escape(piece)) for piece in re.split(r"(\*\*|\*|\?)", pattern)),
        re.DOTALL,
    )
