"""What moved between a plan and its commit, in words."""

from __future__ import annotations

from collections.abc import Iterable

from lcm_core.change.errors import WIDTH, Moved
from lcm_core.change.plan import Cell, Cells, Item, Owner, Ref, Symbol
from lcm_core.text import clip, safe_line


def differences(what: str, before: Cells, standing: Cells) -> Iterable[Moved]:
    """The columns that do not hold what was recorded: by value and by type, as ``IS`` and ``typeof`` tell."""
    held = standing.as_dict()
    for column, expected in before.values:
        if column not in held:
            yield Moved(f"{what}: column {column}", "there", "gone")
        elif (found := held[column]) != expected or type(found) is not type(expected):
            yield Moved(f"{what}: {column}", _shown(expected), _shown(found))


def _shown(value: Cell) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, str) and len(value) > WIDTH:
        return (
            f"a text of {len(value):,} characters beginning with {clip(safe_line(value[:WIDTH]), WIDTH // 2)}"
        )
    return safe_line(value) if isinstance(value, str) else str(value)


def row_name(table: str, key: Cells) -> str:
    """A row by its table and key."""
    return f"{table} {' '.join(_shown(value) for _, value in key.values)}"


def item_name(ref: Ref) -> str:
    """What a context item refers to."""
    return f"{Item(ref).item_type} {ref.name if isinstance(ref, Symbol) else ref}"


def context_name(owner: Owner) -> str:
    """The context of a conversation, which may be one that the plan makes."""
    return f"the context of conversation {owner.name if isinstance(owner, Symbol) else owner}"
