"""The ids that a call may name (docs/engine/recall.md, "Ids")."""

from __future__ import annotations

import re
from typing import Final

from lcm_core.javascript import trimmed
from lcm_core.recall.answer import ToolError

_BARE: Final = re.compile(r"(?:sum|file)_[a-z0-9_-]+")
_ANY_CASE: Final = re.compile(r"(?:sum|file)_\S*", re.IGNORECASE)
_INSIDE: Final = re.compile(r"(?<![A-Za-z0-9_])(?:sum|file)_[a-z0-9_-]+")
_EMPTY: Final = re.compile(r"(?:sum|file)_0*")
_REFERENCE: Final = re.compile(r"\[LCM (?:Tool Output|File|Raw Payload):\s*((?:sum|file)_[a-z0-9_-]+)")
_HINT: Final = (
    "Provide a bare ID or a single copied reference string such as [LCM Tool Output: file_xxx | ...]."
)


def id_in(text: str) -> str:
    """The id that a text is, or that the reference names with which it begins.

    Raises:
        ToolError: it is none, holds several, or something else beside it.
    """
    given = trimmed(text)
    if _EMPTY.fullmatch(given):
        raise ToolError(f"LCM ID cannot be a zero/empty ID: {given}")
    if _BARE.fullmatch(given):
        return given
    reference = _REFERENCE.match(given)
    if reference is not None:
        if _EMPTY.fullmatch(reference[1]):
            raise ToolError(f"LCM ID cannot be a zero/empty ID: {reference[1]}")
        return reference[1]
    if _ANY_CASE.fullmatch(given):
        raise ToolError(
            f"Malformed LCM ID: {given}. IDs must be lowercase and contain only letters, digits, "
            "underscores, and hyphens after the prefix."
        )
    found = list(dict.fromkeys(_INSIDE.findall(given)))
    if len(found) > 1:
        raise ToolError(
            f"Input contains multiple LCM IDs ({', '.join(found)}). "
            "Provide a bare ID or a single reference string."
        )
    if found:
        raise ToolError(f"Not a recognized LCM ID format: {given}", _HINT)
    raise ToolError(f"Not a recognized LCM ID: {given}")
