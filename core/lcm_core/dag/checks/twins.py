"""Neighbouring messages that differ only in form (check E5 of docs/engine/doctor.md)."""

from __future__ import annotations

import re
from typing import Final

#: What a host or a log filter puts in place of a secret.
_REDACTED: Final = re.compile(r"\[REDACTED[^\]]{0,40}\]|\*{3,}|<redacted>", re.IGNORECASE)
#: How the metadata begins that a host puts in front of what a user wrote.
_DECORATION: Final = re.compile(
    r"(?:Conversation info|Sender|Thread starter|Replied message|Forwarded message) ?"
    r"\((?:untrusted|metadata)"
    r"|\[[A-Z][\w .-]{1,30} [^\]\n]{1,200}\]",
)
_MAX_DECORATION: Final = 4_000
_MAX_LENGTH: Final = 20_000
_MIN_LENGTH: Final = 24


def are_twins(one: str, other: str) -> bool:
    """Whether two different texts say the same, but for form or what a host put in front."""
    if one == other or max(len(one), len(other)) > _MAX_LENGTH or min(len(one), len(other)) < _MIN_LENGTH:
        return False
    short, long = sorted((" ".join(one.split()), " ".join(other.split())), key=len)
    return short == long or _is_decorated(short, long) or _is_redacted(one, other) or _is_redacted(other, one)


def _is_decorated(bare: str, decorated: str) -> bool:
    if len(bare) < _MIN_LENGTH or not decorated.endswith(bare):
        return False
    front = decorated[: -len(bare)]
    return 0 < len(front) <= _MAX_DECORATION and _DECORATION.match(front) is not None


def _is_redacted(redacted: str, whole: str) -> bool:
    """Whether *redacted* is *whole* with some runs of characters replaced by a mark."""
    kept = _REDACTED.split(redacted)
    if (
        len(kept) < 2
        or len("".join(kept)) < _MIN_LENGTH
        or not (whole.startswith(kept[0]) and whole.endswith(kept[-1]))
    ):
        return False
    at = 0
    for piece in kept:
        at = whole.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True
