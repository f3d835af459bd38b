"""Which conversation, or which summary, a command is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lcm_core.errors import NotFoundError, UsageError
from lcm_core.records import Conversation, SummaryId
from lcm_core.store.conversations import find_by_session_key, get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.listing import summary_ids_beginning

from lcm_tui.cli.options import (
    ByConversationId,
    BySessionKey,
    ConversationArgument,
    invalid,
    stored_text,
    whole_number,
)
from lcm_tui.cli.stored import as_text

#: Ids that an ambiguous beginning names in its refusal.
CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Selector:
    """A conversation by one of its names."""

    conversation_id: int | None
    session_key: str | None

    @property
    def given(self) -> bool:
        """Whether a conversation was named at all."""
        return self.conversation_id is not None or self.session_key is not None


@dataclass(frozen=True, slots=True)
class ConversationOptions:
    """How the commands about a conversation are told which; an argument and two options."""

    conversation: ConversationArgument = None
    conversation_id: ByConversationId = None
    session_key: BySessionKey = None

    @property
    def given(self) -> bool:
        """Whether a conversation was named at all."""
        return any((self.conversation, self.conversation_id, self.session_key))

    def selector(self, command: str, *, needed: bool = True) -> Selector:
        """The conversation that is named; argument and options exclude each other.

        Raises:
            UsageError: it is named twice, by what is no id, or not at all though it is *needed*.
        """
        if self.conversation is not None and (
            self.conversation_id is not None or self.session_key is not None
        ):
            raise UsageError(
                f"{command} takes the conversation once: as an argument or as an option.",
                details={"command": command},
            )
        if self.conversation_id is not None and self.session_key is not None:
            raise invalid("conversation-id", "cannot be combined with --session-key")
        if self.session_key is not None:
            if not self.session_key:
                raise invalid("session-key", "is empty")
            return Selector(None, stored_text(self.session_key))
        if self.conversation is not None:
            return Selector(whole_number("CONVERSATION_ID", self.conversation, 1), None)
        if self.conversation_id is not None:
            return Selector(whole_number("conversation-id", self.conversation_id, 1), None)
        if needed:
            raise UsageError(
                f"{command} needs a conversation: --conversation-id ID or --session-key KEY.",
                details={"command": command},
            )
        return Selector(None, None)


async def chosen(reader: Reader, named: Selector) -> Conversation:
    """The conversation that was named.

    Raises:
        NotFoundError: there is none of that name.
    """
    if named.session_key is not None:
        return as_text(await find_by_session_key(reader, named.session_key))
    return as_text(await get_conversation(reader, named.conversation_id or 0))


async def summary_beginning(reader: Reader, wanted: str) -> SummaryId:
    """The summary whose id is *wanted*, or the only one whose id begins so.

    Raises:
        NotFoundError: there is none.
        UsageError: there are several.
    """
    if not wanted:
        raise UsageError("The id of a summary is empty. Give it, or its beginning.", code="EMPTY_ID")
    found = await summary_ids_beginning(reader, wanted, CANDIDATES + 1)
    if not found:
        raise NotFoundError(
            f"No summary matched id {wanted}.", code="SUMMARY_NOT_FOUND", details={"summaryId": wanted}
        )
    return SummaryId(the_one(wanted, found, "summaries", "summaryId"))


def the_one(wanted: str, found: Sequence[str], kind: str, name: str) -> str:
    """The id that is *wanted*, or the only one *found* that begins so.

    *kind* is what they are, for people, *name* what machines call the id.

    Raises:
        UsageError: there are several.
    """
    if wanted in found or len(found) == 1:
        return wanted if wanted in found else found[0]
    listed = ", ".join(found[:CANDIDATES]) + (", ..." if len(found) > CANDIDATES else "")
    raise UsageError(
        f"Several {kind} begin with {wanted}: {listed}. Give more of the id.",
        code="AMBIGUOUS_ID",
        details={name: wanted, "candidates": listed},
    )
