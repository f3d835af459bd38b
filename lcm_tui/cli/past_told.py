"""What an answer says of the point in time that it is about."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.base.setting_values import JsonObject
from lcm_core.operations.past import Found

from lcm_tui.cli.documents import Document, some_of
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.blocks import When
from lcm_tui.tables.past import past_blocks


def told(
    when: When, found: Found, data: JsonObject, blocks: Sequence[Block]
) -> tuple[JsonObject, Sequence[Block]]:
    """An answer, for machines and for people, with what is to be said of the point it is about."""
    return {**data, "past": past_document(found)}, [*past_blocks(when, found), *blocks]


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
