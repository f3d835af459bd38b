"""What forgetting a conversation takes besides its rows, and what it cannot reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lcm_core.change.backup import known_backups
from lcm_core.change.copying import Stop
from lcm_core.change.forgetting import forget_history
from lcm_core.errors import LcmError
from lcm_core.operations.briefing import forget_brief_drafts
from lcm_core.operations.conversation_file import default_folder, known_exports
from lcm_core.operations.drafting.saved import forget_drafts as forget_drafts
from lcm_core.private_files import drafts_folder
from lcm_core.records import ConversationId
from lcm_core.wording import counted


@dataclass(frozen=True, slots=True)
class Traces:
    """What was noted about conversations and is gone."""

    operations: int = 0  #: that are no longer in the history
    drafts: tuple[Path, ...] = ()  #: files that held drafts of their summaries or briefs

    def __add__(self, other: Traces) -> Traces:
        """Both together."""
        return Traces(self.operations + other.operations, (*self.drafts, *other.drafts))

    def add_to(self, error: LcmError) -> None:
        """Say in the error of a change that was not made what is gone all the same."""
        if self.operations:
            error.message += (
                f" Only the history lost {counted(self.operations, 'operation')} that touched it."
            )
            error.args = (error.message,)


def forgetting_means(database: Path, conversations: Sequence[ConversationId]) -> tuple[str, ...]:
    """What has to be known before it is agreed to, and where copies are left; sentences without an end.

    Looks into folders, so call it in a thread.
    """
    return (
        "This cannot be undone: every row and all records of lcm-tui about it are deleted, nothing is "
        "exported, and the file is rewritten (VACUUM)",
        "Large files, transcripts of the host, copies in other conversations and backups are not touched",
        *(f"An export is at {path}" for path in known_exports(default_folder(), conversations)),
        *(f"A backup is at {one.path}" for one in known_backups(database)),
    )


def forget_traces(
    database: Path, conversation: ConversationId, *, wait: float = 5.0, stopped: Stop | None = None
) -> Traces:
    """Remove what our own history and drafts hold of a conversation, while its rows are still there; blocks.

    Raises:
        CancelledError: *stopped* said so before the lock was ours.
        BusyError, ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: as a commit does.
    """
    operations = forget_history(database, conversation, wait=wait, stopped=stopped)
    drafts = forget_drafts(drafts_folder(), database, [conversation])
    return Traces(operations, (*drafts, *forget_brief_drafts(database, [conversation])))
