"""Records as JSON objects, named and ordered as in docs/spec/command.md, "Commands".

A field of a column that this file does not have is null; the answer's ``notRecorded`` names those fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from lcm_core.base.records import Conversation, FocusBrief
from lcm_core.base.setting_values import Json
from lcm_core.base.values import Struct, to_json
from lcm_core.store.conversations import ConversationEntry

from lcm_tui.tables.blocks import json_of
from lcm_tui.tables.conversation_rows import ROW_COLUMNS, Row

if TYPE_CHECKING:
    from lcm_core.operations.past import Found

Document = dict[str, Json]
R = TypeVar("R")


class MadeList(Sequence[Json], Generic[R]):
    """A long list of which each value is made when it is written, so that not all are there at once."""

    def __init__(self, rows: Sequence[R], make: Callable[[R], Json]) -> None:
        self._rows = rows
        self._make = make

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Json: ...
    @overload
    def __getitem__(self, at: slice) -> list[Json]: ...
    def __getitem__(self, at: int | slice) -> Json | list[Json]:
        """The value at a place, or those of several."""
        return (
            [self._make(row) for row in self._rows[at]]
            if isinstance(at, slice)
            else self._make(self._rows[at])
        )


def conversation(record: Conversation) -> Document:
    """The row of a conversation."""
    return json_of(ROW_COLUMNS, Row(ConversationEntry(record, None)))


def active_brief(record: FocusBrief) -> Document:
    """The focus brief in force, without its text."""
    found = some_of(
        record,
        "brief_id prompt tokens target_tokens covered_latest_at covered_message_seq generator_run_id "
        "generator_session_key created_at updated_at",
    )
    return {**found, "createdAt": record.created_at or None, "updatedAt": record.updated_at or None}


def some_of(record: Struct, fields: str) -> Document:
    """Some fields and properties of a record, under their names in JSON."""
    ours, names = _chosen(type(record), fields)
    return dict(zip(names, to_json([getattr(record, one) for one in ours]), strict=True))


@cache
def _chosen(kind: type[Struct], fields: str) -> tuple[list[str], list[str]]:
    """Names of a record, and the same in JSON."""
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    ours = fields.split()
    return ours, [names.get(one) or camel(one) for one in ours]


def camel(name: str) -> str:
    """A name as JSON has it."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def scalar(value: object) -> Json:
    """Any stored value as JSON has it: numbers as JavaScript writes them, bytes as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value if isinstance(value, bool | int | str) else None


def past_document(found: Found) -> Document:
    """A point, and what is said of it, for machines."""
    beside = found.cut.beside
    return {
        "point": found.cut.point.text,
        "operationId": None if beside is None else beside.id,
        "reversed": [one.id for one in found.cut.taken],
        "older": None if found.older is None else found.older.text,
        "newer": None if found.newer is None else found.newer.text,
        "snapshotId": None if found.snapshot is None else found.snapshot[0],
        "statements": [{"kind": one.doubt, **some_of(one, "text operation_id")} for one in found.statements],
    }
