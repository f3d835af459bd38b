"""The files of a backfill: written right before the plan that names them, taken back when it was not made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lcm_core.change.plan import Plan
from lcm_core.ingest.payloads import remove_payloads, write_payloads
from lcm_core.operations.appending import Append
from lcm_core.store.database import Database
from lcm_core.store.ingested import without_row


@dataclass(slots=True)
class BackfillFiles:
    """What one run has written. Its plans may be made again; then `expect` takes the new ones."""

    folder: Path  #: for large files
    appends: tuple[Append, ...] = ()
    written: dict[str, Path] = field(default_factory=dict)  #: by file id

    def expect(self, appends: Iterable[Append]) -> None:
        """Take the appends that are going to be committed."""
        self.appends = tuple(appends)

    def write(self, plan: Plan) -> None:
        """Write the payloads of a plan; blocks.

        Raises:
            PayloadError: the folder cannot be written.
        """
        append = next(one for one in self.appends if one.plan.edits is plan.edits)
        paths = write_payloads(self.folder, append.conversation_id, append.payloads)
        ids = (payload.file_id for payload in append.payloads)
        self.written |= dict(zip(ids, paths, strict=True))

    async def take_back(self, database: Database) -> None:
        """Remove the files whose rows were not committed after all."""
        if self.written:
            lost = await database.read(without_row, list(self.written))
            remove_payloads(self.written.pop(file_id) for file_id in lost)
