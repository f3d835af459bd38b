"""What becomes of the 1.x engine's prepared work when a change deletes what it was made from.

Ended batches are deleted too, so undo restores them with the rest; an active one is left to the engine.
Source: docs/engine/prepared.md, "What our changes do with it".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lcm_core.change.plan import Edit
from lcm_core.errors import RefusedError
from lcm_core.operations.rows import delete
from lcm_core.store.state import PreparedBatch


def refuse_active(batches: Iterable[PreparedBatch], what: str) -> None:
    """Check that the engine works on none of some batches; *what* cannot be done else ("... cannot ...").

    Raises:
        RefusedError: it does.
    """
    for batch in batches:
        if batch.active:
            raise RefusedError(
                f"{what[0].upper()}{what[1:]}: the engine is preparing a compaction with it "
                f"(batch {batch.batch_id}, {batch.status}). Let the host run "
                "until it has published the batch or given it up, then try again. Nothing was changed.",
                code="BATCH_ACTIVE",
            )


def delete_ended(batches: Sequence[PreparedBatch], what: str) -> list[Edit]:
    """The deletion of ended batches, each row before every row that it refers to.

    Raises:
        RefusedError: the engine works on one of them; *what* as for `refuse_active`.
    """
    refuse_active(batches, what)
    return [edit for batch in batches for table, row in batch.rows for edit in delete(table, [row])]
